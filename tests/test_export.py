"""Exported models predict what the model predicts."""

import copy
import inspect
import json
import shutil
import sys

import pytest
import torch
from conftest import LABELS, make_dataset
from datasets import Dataset
from tiny_models import SENTENCES, TEXTS, collate, give_filter, give_opinions, make_encoder, make_model
from tokenizers_zoo import byte_level_bpe, llama_bpe, modernbert, wordpiece

from span_marker import OnnxSpanMarkerModel, SpanMarkerModel, classification
from span_marker.classification import classify_kept_spans, classify_spans, is_span
from span_marker.export import exporting, parity
from span_marker.loading import FILTER_GRAPH, MARKER_GRAPH, TEXT_GRAPH

LONG = " ".join(["Ada met Alan in Paris ."] * 50)
FAMILIES = {
    "roberta": (byte_level_bpe, {"num_hidden_layers": 1}),
    "distilbert": (wordpiece, {"num_hidden_layers": 1}),
    "electra": (wordpiece, {"num_hidden_layers": 1, "embedding_size": 16}),
    "albert": (wordpiece, {"num_hidden_layers": 2, "embedding_size": 16}),  # its layers share their weights
    "modernbert": (modernbert, {"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "local_attention": 4}),
    "eurobert": (llama_bpe, {"num_hidden_layers": 1, "num_key_value_heads": 2}),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A BERT with a span filter that keeps about half of the spans."""
    model = make_model(tmp_path_factory.mktemp("bert"), wordpiece())
    give_opinions(model)
    return give_filter(model, vote=0.5)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    model.export("onnx", folder)
    return folder


@pytest.fixture(scope="module")
def exported(folder):
    return OnnxSpanMarkerModel.from_pretrained(folder)


@pytest.fixture
def traced(folder, monkeypatch):
    """Take the graphs that are there instead of tracing them again."""

    def copy_graphs(_, target):
        for name in (TEXT_GRAPH, MARKER_GRAPH, FILTER_GRAPH):
            shutil.copy(folder / name, target / name)

    monkeypatch.setattr(exporting, "_write_graphs", copy_graphs)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for entities, others in zip(found, expected, strict=True):
        scores, other_scores = ([entity.pop("score") for entity in row] for row in (entities, others))
        assert entities == others
        assert scores == pytest.approx(other_scores, abs=1e-4)


def assert_same_logits(model, exported, sentences):
    batch = collate(model, sentences)
    with torch.no_grad():
        expected, found = model(**batch), exported(**batch)
    spans = is_span(batch)
    assert spans.any()
    torch.testing.assert_close(found.logits[spans], expected.logits[spans], rtol=1e-5, atol=1e-4)
    if model.span_filter is not None:
        torch.testing.assert_close(found.filter_logits[spans], expected.filter_logits[spans], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("span_filter", [None, False])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_entities_are_the_models(model, exported, batch_size, span_filter):
    for inputs in (TEXTS, SENTENCES):
        expected = model.predict(inputs, batch_size, span_filter=span_filter)
        assert any(expected)
        assert_same(exported.predict(inputs, batch_size, span_filter=span_filter), expected)


@pytest.mark.parametrize("settings", [{"decoding": "nested"}, {"decoding": "all", "threshold": 0.4, "top_k": 3}])
def test_decoding(model, exported, settings):
    expected = model.predict(SENTENCES, **settings)
    assert any(expected)
    assert_same(exported.predict(SENTENCES, **settings), expected)


@pytest.mark.parametrize("span_filter", [None, False])
def test_scores_of_all_labels(model, exported, span_filter):
    expected, found = (one.predict(SENTENCES, return_scores=True, span_filter=span_filter) for one in (model, exported))
    assert any(expected)
    for entities, others in zip(found, expected, strict=True):
        for entity, other in zip(entities, others, strict=True):
            assert entity["scores"] == pytest.approx(other["scores"], abs=1e-4)


@pytest.mark.parametrize("inputs", ["", " ", "Paris", LONG, ["Ada", "Lovelace"]])
def test_one_input(model, exported, inputs):
    assert_same([exported.predict(inputs)], [model.predict(inputs)])


@pytest.mark.parametrize(
    "inputs", [[], [[]], ["Paris"], ["", ""], [["Paris"], []], ["Paris", LONG, "", "Ada met Alan ."]]
)
def test_several_inputs(model, exported, inputs):
    assert_same(exported.predict(inputs), model.predict(inputs))


def test_document_context(model, exported):
    dataset = make_dataset(documents=True).remove_columns("ner_tags")
    expected = model.predict(dataset)
    assert [[entity["score"] for entity in row] for row in expected] != [
        [entity["score"] for entity in row] for row in model.predict(list(dataset["tokens"]))
    ]
    assert_same(exported.predict(dataset), expected)


@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1], [["Paris"]], [[], ["Paris"]]])
def test_logits_are_the_models(model, exported, sentences):
    assert_same_logits(model, exported, sentences)


def test_only_kept_spans_are_run(model, exported):
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        expected = classify_kept_spans(model, batch)
        found = classify_kept_spans(exported, batch)
    kept = expected[1] > 0
    assert 0 < kept.sum() < is_span(batch).sum()
    assert torch.equal(found[1] > 0, kept)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-4)


def test_spans_in_pieces(exported, model, monkeypatch):
    batch = collate(model, SENTENCES)
    expected = classify_kept_spans(exported, batch), classify_spans(exported, batch)
    monkeypatch.setattr(classification, "SPANS_PER_CALL", 15)
    found = classify_kept_spans(exported, batch), classify_spans(exported, batch)
    for (labels, scores), (other_labels, other_scores) in zip(found, expected, strict=True):
        spans = is_span(batch)
        assert torch.equal(labels[spans], other_labels[spans])
        torch.testing.assert_close(scores[spans], other_scores[spans], rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_families(tmp_path, family):
    make_tokenizer, settings = FAMILIES[family]
    model = make_model(tmp_path / "model", make_tokenizer(), family, **settings)
    report = model.export("onnx", tmp_path / "onnx")
    assert report["largest_logit_difference"] < 1e-4
    exported = OnnxSpanMarkerModel.from_pretrained(tmp_path / "onnx")
    assert exported.span_filter is None
    assert not (tmp_path / "onnx" / FILTER_GRAPH).exists()
    assert_same_logits(model, exported, SENTENCES)
    for inputs in (TEXTS, SENTENCES, ["Paris", LONG, ""]):
        assert_same(exported.predict(inputs), model.predict(inputs))


def test_predict_takes_the_same_arguments():
    def arguments(function):
        return [(name, p.kind, p.default) for name, p in list(inspect.signature(function).parameters.items())[1:]]

    assert arguments(OnnxSpanMarkerModel.predict) == arguments(SpanMarkerModel.predict)


def test_the_model_stays_as_it_is(model, traced, tmp_path):
    states = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train()
    model.export("onnx", tmp_path)
    assert model.training
    model.eval()
    assert model.encoder.config._attn_implementation == "span_marker"
    assert all(torch.equal(tensor, states[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_moved_folder(model, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    assert_same(OnnxSpanMarkerModel.from_pretrained(tmp_path / "second").predict(TEXTS), model.predict(TEXTS))


def test_threads_are_pytorchs(exported):
    assert exported._read_text._session.get_session_options().intra_op_num_threads == torch.get_num_threads()


@pytest.mark.parametrize("name", [TEXT_GRAPH, MARKER_GRAPH, FILTER_GRAPH])
def test_a_missing_graph(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    with pytest.raises(OSError, match=rf"There is no {name} in the folder .*copy'\. Export the model anew"):
        OnnxSpanMarkerModel.from_pretrained(tmp_path / "copy")


@pytest.mark.parametrize("keep", [0, 1000])
@pytest.mark.parametrize("name", [TEXT_GRAPH, MARKER_GRAPH, FILTER_GRAPH])
def test_a_damaged_graph(folder, tmp_path, name, keep):
    shutil.copytree(folder, tmp_path / "copy")
    file = tmp_path / "copy" / name
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(OSError, match=f"The graph {name} in .*copy' cannot be read, the file is damaged or incomplete"):
        OnnxSpanMarkerModel.from_pretrained(tmp_path / "copy")


def test_a_folder_of_another_kind(model, tmp_path):
    model.save_pretrained(tmp_path)
    with pytest.raises(OSError, match=rf"There is no {TEXT_GRAPH} in the folder"):
        OnnxSpanMarkerModel.from_pretrained(tmp_path)


def test_an_exported_folder_is_no_checkpoint(folder):
    with pytest.raises(OSError, match=r"exported to ONNX, and no weights\. Load it with OnnxSpanMarkerModel"):
        SpanMarkerModel.from_pretrained(folder)


def test_both_in_one_folder(model, traced, tmp_path):
    model.save_pretrained(tmp_path)
    model.export("onnx", tmp_path)
    expected = model.predict(TEXTS)
    assert_same(SpanMarkerModel.from_pretrained(tmp_path).predict(TEXTS), expected)
    assert_same(OnnxSpanMarkerModel.from_pretrained(tmp_path).predict(TEXTS), model.predict(TEXTS))


def test_parity(model, traced, tmp_path):
    dataset = make_dataset()
    report = model.export("onnx", tmp_path, dataset=dataset)
    assert json.loads((tmp_path / "parity.json").read_text()) == report
    assert report["quantize"] is None
    assert 0 < report["largest_logit_difference"] < 1e-4
    assert report["f1"]["torch"] == report["f1"]["onnx"]


def test_f1_is_that_of_the_tags(model, dataset):
    labels = list(LABELS)
    found = [
        [(entity["word_start_index"], entity["word_end_index"], entity["label"]) for entity in row]
        for row in model.predict(list(dataset["tokens"]))
    ]
    assert sum(map(len, found))
    tags = []
    for tokens, entities in zip(dataset["tokens"], found, strict=True):
        row = [0] * len(tokens)
        for start, end, label in entities:
            row[start:end] = [labels.index(f"I-{label}")] * (end - start)
            row[start] = labels.index(f"B-{label}")
        tags.append(row)
    features = dataset.features
    own = dataset.remove_columns("ner_tags").add_column("ner_tags", tags).cast(features)
    assert exporting.f1_score(model, own) == 1.0
    assert exporting.f1_score(model, dataset) < 1.0


def test_f1_is_that_of_the_spans(model, monkeypatch):
    monkeypatch.setattr(model.config, "decoding", "all")
    rows = [
        [{"start": e["word_start_index"], "end": e["word_end_index"], "label": e["label"]} for e in row]
        for row in model.predict(SENTENCES)
    ]
    dataset = parity.require_tagged(Dataset.from_dict({"tokens": SENTENCES, "spans": rows}), model.config)
    assert exporting.f1_score(model, dataset) == 1.0
    monkeypatch.setattr(model.config, "decoding", "flat")
    assert exporting.f1_score(model, dataset) < 1.0


def test_int8(model, folder, traced, tmp_path):
    report = model.export("onnx", tmp_path, quantize="int8", dataset=make_dataset())
    assert report["quantize"] == "int8"
    assert report["largest_logit_difference"] > 1e-4
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in folder.iterdir()}
    assert b"MatMulInteger" in (tmp_path / TEXT_GRAPH).read_bytes()
    assert b"MatMulInteger" in (tmp_path / MARKER_GRAPH).read_bytes()
    exported = OnnxSpanMarkerModel.from_pretrained(tmp_path)
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        expected, found = (each(**batch).logits[is_span(batch)] for each in (model, exported))
    assert torch.corrcoef(torch.stack([expected.flatten(), found.flatten()]))[0, 1] > 0.99
    assert len(exported.predict(TEXTS)) == len(TEXTS)


@pytest.mark.parametrize("name", ["classifier.bias", "span_filter.output.bias"])
def test_graphs_of_another_model_are_refused(model, traced, tmp_path, name):
    model = copy.deepcopy(model)
    model.get_parameter(name).data[0] += 1
    with pytest.raises(ValueError, match=r"The exported BertModel is not the model: their logits differ by [01]\.\d*"):
        model.export("onnx", tmp_path)
    assert not list(tmp_path.iterdir())


def test_encoders_that_cannot_be_traced(model, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a size is decided by data")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(
        ValueError, match=rf"{TEXT_GRAPH} cannot be traced\. Use the model with PyTorch\. a size is dec"
    ):
        model.export("onnx", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("openvino", "folder"), "exported to 'onnx', but the format is 'openvino'"),
        (("onnx", "folder", "int4"), "quantize must be 'int8' or None, but it is 'int4'"),
    ],
)
def test_unknown_arguments(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        exporting.export_model(model, *arguments[:2], quantize=(*arguments, None)[2])


def test_encoders_that_cannot_be_exported(tmp_path):
    model = make_model(tmp_path / "model", wordpiece(), "deberta-v2")
    with pytest.raises(ValueError, match="DebertaV2Model cannot be exported: only encoders that use transformers' att"):
        model.export("onnx", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("column", ["tokens", "ner_tags"])
def test_data_sets_without_a_column(model, tmp_path, dataset, column):
    with pytest.raises(ValueError, match=f"'{column}'"):
        model.export("onnx", tmp_path / "onnx", dataset=dataset.remove_columns(column))
    assert not (tmp_path / "onnx").exists()


def test_models_without_labels(tmp_path):
    model = SpanMarkerModel.from_pretrained(make_encoder(tmp_path / "model", wordpiece()))
    with pytest.raises(ValueError, match="no entity types yet"):
        model.export("onnx", tmp_path / "onnx")


@pytest.mark.parametrize("name", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_extra(model, folder, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"{name}.* not installed: pip install 'span_marker\[onnx\]'"):
        model.export("onnx", tmp_path)
    if name == "onnxruntime":
        with pytest.raises(ImportError, match=r"span_marker\[onnx\]"):
            OnnxSpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_devices_that_are_not_there(folder, monkeypatch, device):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ValueError, match=f"device='{device}', but the installed ONNX Runtime computes by CPUExec"):
        OnnxSpanMarkerModel.from_pretrained(folder, device=device)
