import gc
import inspect
import json
import logging
from itertools import chain
from types import SimpleNamespace

import pytest
import seqeval.metrics
import torch
from conftest import LABELS, SENTENCES, make_dataset
from datasets import Dataset, DatasetDict, load_from_disk
from tiny_models import give_opinions
from torch.nn.functional import cross_entropy
from transformers import AutoModel, TrainerCallback
from transformers.utils import logging as transformers_logging

import span_marker.inference
import span_marker.trainer
from span_marker import SpanMarkerDataCollator, SpanMarkerModel, Trainer, TrainingArguments
from span_marker.trainer_evaluation import flatten_metrics

COLUMNS = ["input_ids", "num_spans", "start_position_ids", "end_position_ids", "labels"]


@pytest.fixture(autouse=True)
def _quiet():
    transformers_logging.disable_progress_bar()


@pytest.fixture
def arguments(tmp_path):
    def make(**kwargs):
        settings = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "save_strategy": "no", "max_steps": 1}
        return TrainingArguments(tmp_path / "output", **(settings | kwargs))

    return make


@pytest.fixture
def make(model, arguments):
    """Make a Trainer of a model with opinions; settings of the arguments may be mixed in."""
    trainer_names = set(inspect.signature(Trainer.__init__).parameters)

    def make(**kwargs):
        own = {name: kwargs.pop(name) for name in trainer_names & set(kwargs)}
        if "model_init" not in own:
            own.setdefault("model", give_opinions(model))
        return Trainer(**({"args": arguments(**kwargs)} | own))

    return make


def strings(dataset):
    return Dataset.from_dict(
        {"tokens": list(dataset["tokens"]), "ner_tags": [[LABELS[tag] for tag in tags] for tags in dataset["ner_tags"]]}
    )


def unlabelled(tiny_encoder, **kwargs):
    return SpanMarkerModel.from_pretrained(tiny_encoder, model_max_length=32, **kwargs)


def plain(metrics):
    """Leave out what depends on the clock."""
    return {
        name: value
        for name, value in flatten_metrics(metrics).items()
        if not name.endswith(("_runtime", "_per_second", "_preparation_time", "epoch"))
    }


# ---- Construction ----


def test_signature():
    assert list(inspect.signature(Trainer).parameters) == [
        "model",
        "args",
        "train_dataset",
        "eval_dataset",
        "model_init",
        "compute_metrics",
        "callbacks",
        "optimizers",
        "preprocess_logits_for_metrics",
        "column",
        "num_proc",
        "negative_span_ratio",
        "compute_loss_func",
        "optimizer_cls_and_kwargs",
        "decoding",
    ]
    assert Trainer.REQUIRED_COLUMNS == ("tokens", "ner_tags")
    assert Trainer.OPTIONAL_COLUMNS == ("document_id", "sentence_id")


def test_without_arguments(model, dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    trainer = Trainer(model, train_dataset=dataset)
    assert trainer.processing_class is trainer.tokenizer is model.tokenizer
    assert trainer.callback_handler.processing_class is model.tokenizer


def test_the_collator_is_a_class_attribute(make):
    class Collator(SpanMarkerDataCollator):
        pass

    class Mine(Trainer):
        data_collator_class = Collator

    trainer = make()
    assert type(trainer.data_collator) is SpanMarkerDataCollator
    assert type(Mine(trainer.model, trainer.args).data_collator) is Collator


@pytest.mark.parametrize("split", ["train_dataset", "eval_dataset"])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_no_data_set_is_refused(make, dataset, split, streamed):
    with pytest.raises(TypeError, match="set is of type"):
        make(**{split: dataset.to_iterable_dataset() if streamed else [{"tokens": ["a"], "ner_tags": [0]}]})


@pytest.mark.parametrize("split", ["train_dataset", "eval_dataset"])
def test_regression_a_transform_is_dropped(make, dataset, split):
    rows = dataset.with_transform(lambda batch: batch)
    with pytest.raises(ValueError, match="set has a transform"):
        make(**{split: rows})
    for method in (make().evaluate, make().predict, make().preprocess_dataset):
        with pytest.raises(ValueError, match="set has a transform"):
            method(rows)


def test_a_dict_of_splits_is_no_training_set(make, dataset):
    with pytest.raises(TypeError, match="one of its splits: train"):
        make(train_dataset=DatasetDict(train=dataset))


def test_another_model_is_refused(tiny_encoder, arguments):
    encoder = AutoModel.from_pretrained(tiny_encoder)
    with pytest.raises(TypeError, match="The model is of type BertModel"):
        Trainer(encoder, arguments())
    with pytest.raises(TypeError, match="The model is of type BertModel"):
        Trainer(args=arguments(), model_init=lambda: encoder)


def test_a_model_without_tokenizer_is_refused(model, arguments):
    with pytest.raises(ValueError, match="The model has no tokenizer"):
        Trainer(SpanMarkerModel(model.config), arguments())


# ---- Labels ----


@pytest.mark.parametrize("split", ["train_dataset", "eval_dataset"])
def test_a_model_without_labels_takes_those_of_the_data(tiny_encoder, make, dataset, split):
    trainer = make(model=unlabelled(tiny_encoder), **{split: dataset})
    assert trainer.model.config.tags == LABELS
    assert trainer.model.config.labels == ["O", "LOC", "PER"]
    assert trainer.model.classifier.out_features == 3


def test_labels_of_strings(tiny_encoder, make, dataset):
    trainer = make(model=unlabelled(tiny_encoder), train_dataset=strings(dataset))
    assert trainer.model.config.tags == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def test_labels_of_a_set_that_comes_later(tiny_encoder, make, dataset):
    trainer = make(model=unlabelled(tiny_encoder))
    with pytest.raises(ValueError, match="The model has no labels"):
        trainer.evaluate(dataset)
    with pytest.raises(ValueError, match="The model has no labels"):
        trainer.predict(dataset.remove_columns("ner_tags"))
    trainer.train_dataset = dataset
    trainer.train()
    assert trainer.model.config.labels == ["O", "LOC", "PER"]
    trained = {id(parameter) for group in trainer.optimizer.param_groups for parameter in group["params"]}
    assert id(trainer.model.classifier.weight) in trained


def test_labels_keep_the_scheme_that_the_model_was_given(tiny_encoder, make, dataset):
    trainer = make(model=unlabelled(tiny_encoder, scheme="IOB1"), train_dataset=dataset)
    assert trainer.model.config.label_scheme.scheme.value == "IOB1"


def test_every_model_of_model_init_gets_labels(tiny_encoder, make, dataset):
    trainer = make(model_init=lambda: unlabelled(tiny_encoder), train_dataset=dataset)
    first = trainer.model
    trainer.train()
    assert trainer.model is not first
    assert first.config.labels == trainer.model.config.labels == ["O", "LOC", "PER"]
    assert trainer.data_collator.tokenizer is trainer.processing_class is trainer.model.tokenizer


def test_an_optimizer_that_does_not_know_the_classifier_is_refused(tiny_encoder, make, dataset):
    model = unlabelled(tiny_encoder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="a new classifier that the given optimizer does not know"):
        make(model=model, train_dataset=dataset, optimizers=(optimizer, None))


# ---- Preprocessing ----


def test_training_rows_have_the_reference_columns(make, dataset, document_dataset):
    trainer = make()
    assert trainer.preprocess_dataset(dataset).column_names == COLUMNS
    assert trainer.preprocess_dataset(dataset, is_evaluate=True).column_names == [*COLUMNS, "num_words"]
    rows = trainer.preprocess_dataset(document_dataset, is_evaluate=True)
    assert set(rows.column_names) == {*COLUMNS, "num_words", "document_id", "sentence_id"}


def test_training_rows_are_spread(make, dataset):
    trainer = make()
    trainer.model.config.marker_max_length = 1
    whole = trainer._prepare(dataset, "train", trainer.label_normalizer, trainer.tokenizer, truncate=True).sentences
    assert len(trainer.preprocess_dataset(dataset)) == len(whole)  # markers are only run for the hardest
    trainer.compute_loss_func = lambda *_, **__: None  # markers are run for all
    rows = trainer.preprocess_dataset(dataset)
    assert len(rows) > len(whole) == len(dataset)
    for name in ("start_position_ids", "end_position_ids", "labels"):
        assert list(chain(*rows[name])) == list(chain(*whole[name]))
    room = [(trainer.tokenizer.model_max_length + 2 - len(ids)) // 2 for ids in rows["input_ids"]]
    assert all(count <= most for count, most in zip(rows["num_spans"], room, strict=True))


def test_regression_preprocessing_twice(make, dataset):
    trainer = make()
    once = trainer.preprocess_dataset(dataset, trainer.label_normalizer, trainer.tokenizer, "train", False)
    assert trainer.preprocess_dataset(once).to_dict() == once.to_dict()
    trainer.train_dataset = once
    assert trainer.train().global_step == 1


@pytest.mark.reference
@pytest.mark.parametrize("case", ["bert", "roberta", "xlm_roberta", "bert_document_context"])
def test_rows_equal_those_of_the_reference(case, shared, arguments):
    folder = shared / "reference" / case
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["preprocessed"]
    trainer = Trainer(SpanMarkerModel.from_pretrained(folder / "model"), arguments())
    rows = trainer.preprocess_dataset(Dataset.from_dict(expected["rows"]), is_evaluate=True)
    assert rows.to_dict() == expected["columns"]


def test_static_methods_delegate(make, document_dataset):
    trainer = make()
    batch = {
        "input_ids": [[2, 3]],
        "num_spans": [3],
        "start_position_ids": [[1, 1, 2]],
        "end_position_ids": [[1, 2, 2]],
    }
    assert Trainer.spread_sample(batch, 2, 2)["start_position_ids"] == [[1, 1], [2]]
    rows = trainer.preprocess_dataset(document_dataset)
    context = Trainer.add_context(rows, 32, max_prev_context=0, max_next_context=0, show_progress_bar=False)
    assert context["input_ids"] != []


def test_sets_are_preprocessed_once(make, dataset, monkeypatch):
    names = []
    prepare = span_marker.trainer.prepare

    def count(*args, name, **kwargs):
        names.append(name)
        return prepare(*args, name=name, **kwargs)

    monkeypatch.setattr(span_marker.trainer, "prepare", count)
    other = make_dataset(repeat=2)
    trainer = make(train_dataset=dataset, eval_dataset=other)
    for _ in range(2):
        trainer.train()
        trainer.evaluate()
        trainer.predict(other)
    assert names == ["training", "evaluation"]
    trainer.model.config.entity_max_length = 2
    trainer.evaluate()
    assert names == ["training", "evaluation", "evaluation"]


def test_prepared_sets_are_forgotten_with_their_data_set(make):
    trainer = make()
    trainer.evaluate(make_dataset())
    trainer.predict(make_dataset().remove_columns("ner_tags"))
    gc.collect()
    assert len(trainer._prepared) == 0


def test_processes(make, dataset, tmp_path):
    dataset.save_to_disk(tmp_path / "data")
    rows = make(num_proc=2).preprocess_dataset(load_from_disk(tmp_path / "data"))
    assert rows.to_dict() == make().preprocess_dataset(dataset).to_dict()


def test_another_column(make, dataset):
    trainer = make(column="tags", train_dataset=dataset.rename_column("ner_tags", "tags"))
    assert trainer.preprocess_dataset(trainer.train_dataset).to_dict() == make().preprocess_dataset(dataset).to_dict()
    trainer.train()
    with pytest.raises(ValueError, match="lacks the column 'tags'; it has tokens, ner_tags"):
        trainer.evaluate(dataset)


def test_a_missing_column_is_named(make, dataset):
    trainer = make(train_dataset=dataset.rename_column("tokens", "words"))
    with pytest.raises(ValueError, match="The training set lacks the column 'tokens'; it has words, ner_tags"):
        trainer.train()


def test_preprocessed_rows_cannot_be_evaluated(make, dataset):
    trainer = make()
    with pytest.raises(ValueError, match="preprocessed already, so that its sentences are spread"):
        trainer.evaluate(trainer.preprocess_dataset(dataset))


# ---- What is logged before training ----


@pytest.fixture
def told():
    """What transformers' logger tells."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.add_handler(handler)
    yield messages
    transformers_logging.remove_handler(handler)
    transformers_logging.set_verbosity(verbosity)


def test_regression_labels_are_not_logged_before_training(make, dataset, told):
    make(train_dataset=dataset, log_level="info").train()
    (position,) = [index for index, message in enumerate(told) if message.startswith("The training set:")]
    assert "***** Running training *****" in told[position:]
    assert told[position].splitlines() == [
        "The training set:",
        "Tagging scheme: IOB2 (detected)",
        "6 sentences, 32 words, 10 entities",
        "Words per tag: O 17, B-PER 4, I-PER 3, B-LOC 6, I-LOC 2",
        "Entities per type: LOC 6, PER 4",
    ]


def test_nothing_is_logged_before_training_by_default(make, dataset, told):
    make(train_dataset=dataset).train()
    assert not any("training set" in message for message in told)


def test_a_training_set_without_entities_is_refused(make):
    trainer = make(train_dataset=Dataset.from_dict({"tokens": [["a", "b"]], "ner_tags": [[0, 0]]}))
    with pytest.raises(ValueError, match="The training set holds no entity"):
        trainer.train()


def test_a_training_set_without_entities_that_fit_is_refused(make):
    trainer = make(train_dataset=Dataset.from_dict({"tokens": [["a"] * 5], "ner_tags": [[1, 2, 2, 2, 2]]}))
    with pytest.raises(
        ValueError, match=r"(?s)There is nothing to learn. 1 of the 1 entities .* Raise entity_max_length"
    ):
        trainer.train()


def test_regression_a_training_set_without_rows_crashes(make, tiny_encoder, dataset):
    rows = Dataset.from_dict({"tokens": [], "ner_tags": []})
    for trainer in (
        make(train_dataset=rows),
        make(train_dataset=dataset.select([])),
        make(model=unlabelled(tiny_encoder), train_dataset=rows),
    ):
        with pytest.raises(ValueError, match="The training set has no rows"):
            trainer.train()


def test_training_needs_a_set(make):
    with pytest.raises(ValueError, match="Training needs sentences"):
        make().train()


def test_malformed_tags_are_reported(make, caplog):
    make().evaluate(Dataset.from_dict({"tokens": [["a", "b", "c"]], "ner_tags": [[1, 4, 0]]}))
    assert "evaluation" in caplog.text
    assert "I-LOC" in caplog.text


def test_regression_caching_swallows_warnings(make, tmp_path, caplog):
    rows = Dataset.from_dict({"tokens": [["a"] * 6], "ner_tags": [[1, 2, 2, 2, 2, 0]]})
    rows.save_to_disk(tmp_path / "data")
    counts = []
    for _ in range(2):
        caplog.clear()
        dataset = load_from_disk(tmp_path / "data")
        trainer = make()
        trainer.evaluate(dataset)
        trainer.evaluate(dataset)
        counts.append(caplog.text.count("1 of the 1 entities of the evaluation set"))
    assert counts == [1, 1]


def test_document_context_is_noted_and_missed(make, dataset, document_dataset, caplog):
    trainer = make(train_dataset=dataset)
    trainer.train()
    assert not trainer.model.config.trained_with_document_context
    trainer.train_dataset = document_dataset
    trainer.train()
    assert trainer.model.config.trained_with_document_context
    trainer.evaluate(document_dataset)
    assert "document-level context" not in caplog.text
    trainer.evaluate(dataset, metric_key_prefix="plain")
    assert "the evaluation set lacks 'document_id' or 'sentence_id'" in caplog.text


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (0, None)])
def test_regression_limits_of_zero_sentences_are_no_context(make, document_dataset, before, after):
    trainer = make(train_dataset=document_dataset)
    trainer.model.config.max_prev_context, trainer.model.config.max_next_context = before, after
    trainer.train()
    assert trainer.model.config.trained_with_document_context == ((before, after) != (0, 0))


@pytest.mark.parametrize("missing", ["document_id", "sentence_id"])
def test_regression_half_of_the_ids_is_no_context(make, document_dataset, missing, caplog):
    transformers_logging.warning_once.cache_clear()
    rows = document_dataset.remove_columns(missing)
    trainer = make(train_dataset=rows, eval_dataset=rows)
    trainer.train()
    trainer.evaluate()
    assert not trainer.model.config.trained_with_document_context
    assert caplog.text.count(f"but no '{missing}', so that") == 1
    trainer.model.config.trained_with_document_context = True
    trainer.evaluate()
    assert "the evaluation set lacks 'document_id' or 'sentence_id'" in caplog.text


# ---- Evaluation ----


def gold_and_found(dataset, found):
    """IOB2 tags of the data set and of what `model.predict` found."""
    tags = [["O"] * len(tokens) for tokens in dataset["tokens"]]
    for row, entities in zip(tags, found, strict=True):
        for entity in entities:
            start, end = entity["word_start_index"], entity["word_end_index"]
            row[start:end] = [f"B-{entity['label']}"] + [f"I-{entity['label']}"] * (end - start - 1)
    return [[LABELS[tag] for tag in row] for row in dataset["ner_tags"]], tags


@pytest.mark.parametrize("documents", [False, True])
def test_regression_evaluate_differs_from_predict(make, documents):
    # With so little room for markers, training rows of each sentence are spread over several.
    dataset = make_dataset(repeat=2, documents=documents)
    trainer = make(per_device_eval_batch_size=5)
    trainer.model.config.marker_max_length = 2
    found = trainer.model.predict(dataset, batch_size=5)
    metrics = trainer.evaluate(dataset)
    gold, tags = gold_and_found(dataset, found)
    assert sum(map(len, found)) > 5
    assert metrics["eval_overall_f1"] == metrics["eval_f1"] == seqeval.metrics.f1_score(gold, tags)
    assert metrics["eval_overall_precision"] == seqeval.metrics.precision_score(gold, tags)
    assert metrics["eval_overall_recall"] == seqeval.metrics.recall_score(gold, tags)
    assert metrics["eval_overall_accuracy"] == seqeval.metrics.accuracy_score(gold, tags)
    assert metrics["eval_macro_f1"] == seqeval.metrics.f1_score(gold, tags, average="macro")
    report = seqeval.metrics.classification_report(gold, tags, output_dict=True, zero_division=0)
    assert metrics["eval_PER"]["recall"] == report["PER"]["recall"]
    assert metrics["eval_PER"]["number"] == report["PER"]["support"]

    output = trainer.predict(dataset)
    assert [[(e["label"], e["start"], e["end"], e["score"]) for e in entities] for entities in output.predictions] == [
        [(e["label"], e["word_start_index"], e["word_end_index"], e["score"]) for e in entities] for entities in found
    ]
    assert plain(output.metrics) == {name.replace("eval_", "test_", 1): value for name, value in plain(metrics).items()}
    assert output.label_ids[0] == [{"label": "PER", "start": 0, "end": 2}, {"label": "LOC", "start": 4, "end": 5}]


def test_regression_entities_that_cannot_be_predicted_are_left_out(make):
    # The first is too long; the others are longer than the model.
    rows = Dataset.from_dict(
        {
            "tokens": [["a"] * 8, ["b"] * 40, ["c"] * 40],
            "ner_tags": [[1, 2, 2, 2, 2, 0, 3, 0], [3] + [0] * 39, [0] * 35 + [3] + [0] * 4],
        }
    )
    metrics = make().evaluate(rows)
    assert metrics["eval_PER"]["number"] == 1
    assert metrics["eval_LOC"]["number"] == 3
    gold, tags = gold_and_found(rows, make().model.predict(rows))
    assert metrics["eval_overall_recall"] == seqeval.metrics.recall_score(gold, tags)


def test_loss_is_that_of_the_spans(make, dataset):
    trainer = make(per_device_eval_batch_size=4)
    batches = list(trainer.get_eval_dataloader(dataset))
    total, count = 0.0, 0
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name in {"input_ids", "attention_mask", "num_spans"}}
        inputs |= {name: batch[name] for name in ("start_positions", "end_positions", "labels")}
        with torch.no_grad():
            logits = trainer.model.eval()(**inputs).logits
        total += float(cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"))
        count += int(batch["num_spans"].sum())
    assert trainer.evaluate(dataset)["eval_loss"] == pytest.approx(total / count)


def test_batches_and_chunks_do_not_matter(make, dataset, monkeypatch):
    expected = plain(make().evaluate(dataset))
    assert plain(make(per_device_eval_batch_size=1).evaluate(dataset)) == pytest.approx(expected)
    monkeypatch.setattr(span_marker.classification, "SPANS_PER_CALL", 12)
    assert plain(make().evaluate(dataset)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"eval_accumulation_steps": 1},
        {"eval_do_concat_batches": False},
        {"batch_eval_metrics": True},
        {"include_for_metrics": ["inputs", "loss"]},
        {"remove_unused_columns": False},
        {"train_sampling_strategy": "group_by_length"},
        {"dataloader_drop_last": True},
        {"dataloader_num_workers": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_arguments_of_evaluation(make, settings):
    dataset = make_dataset(repeat=2)
    expected = make().predict(dataset)
    trainer = make(per_device_eval_batch_size=5, **settings)
    output = trainer.predict(dataset)
    assert plain(output.metrics) == pytest.approx(plain(expected.metrics))
    assert output.label_ids == expected.label_ids
    for name, value in settings.items():
        assert getattr(trainer.args, name) == value


def test_loss_only(make, dataset):
    trainer = make(prediction_loss_only=True)
    assert list(plain(trainer.evaluate(dataset))) == ["eval_loss"]


def test_full_bf16(make, dataset):
    expected = make().evaluate(dataset)["eval_loss"]
    assert make(bf16_full_eval=True).evaluate(dataset)["eval_loss"] == pytest.approx(expected, rel=0.05)


def test_regression_persistent_workers_evaluate_another_set(make, dataset):
    settings = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    trainer = make(eval_dataset=dataset, **settings)
    expected = plain(trainer.evaluate())
    assert trainer.get_eval_dataloader() is trainer.get_eval_dataloader()
    assert len(trainer.predict(dataset.select([1])).predictions) == 1
    assert trainer.evaluate(dataset.select([1]))["eval_LOC"]["number"] == 1
    assert plain(trainer.evaluate()) == expected


def test_several_sets(make, dataset):
    sets = {"first": dataset, "second": dataset.select([1, 4])}
    trainer = make(eval_dataset=sets)
    metrics = trainer.evaluate()
    assert metrics["eval_first_LOC"]["number"] == 6
    assert metrics["eval_second_LOC"]["number"] == 3
    assert metrics["eval_second_f1"] == trainer.evaluate("second")["eval_f1"]
    assert plain(trainer.evaluate(sets)) == plain(metrics)
    with pytest.raises(ValueError, match="no evaluation set 'third', but 'first', 'second'"):
        trainer.evaluate("third")


def test_evaluation_needs_a_set(make):
    with pytest.raises(ValueError, match="Evaluation needs sentences"):
        make().evaluate()


def test_metrics_are_json(make, dataset, tmp_path):
    trainer = make(eval_dataset=dataset)
    metrics = trainer.evaluate()
    json.dumps(metrics, allow_nan=False)
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    trainer.save_state()
    saved = json.loads((tmp_path / "output" / "eval_results.json").read_text(encoding="utf-8"))
    assert saved["eval_PER"]["number"] == 4


def test_no_gold_scores_nothing(make):
    metrics = make().evaluate(Dataset.from_dict({"tokens": [["a", "b"]], "ner_tags": [[0, 0]]}))
    assert metrics["eval_f1"] == metrics["eval_overall_recall"] == metrics["eval_macro_f1"] == 0.0


def test_sentences_without_words(make):
    rows = Dataset.from_dict({"tokens": [[], ["Paris"], []], "ner_tags": [[], [3], []]})
    trainer = make(train_dataset=rows, eval_dataset=rows)
    assert trainer.train().training_loss > 0
    assert trainer.evaluate()["eval_LOC"]["number"] == 1
    assert [len(row) for row in trainer.predict(rows).label_ids] == [0, 1, 0]


def test_no_sentence(make, dataset):
    metrics = make().evaluate(dataset.select([]))
    assert metrics["eval_f1"] == metrics["eval_loss"] == 0.0


def test_regression_no_sentence_and_no_features(make):
    rows = Dataset.from_dict({"tokens": [], "ner_tags": [], "document_id": [], "sentence_id": []})
    metrics = make().evaluate(rows)
    assert metrics["eval_f1"] == metrics["eval_loss"] == 0.0
    assert make().predict(rows).predictions == []
    assert make().predict(rows.select_columns(["tokens"])).predictions == []


def test_logits_do_not_outlive_a_step(make, dataset):
    trainer = make()
    batch = next(iter(trainer.get_eval_dataloader(dataset)))
    loss, predicted, gold = trainer.prediction_step(trainer.model.eval(), batch, False)
    assert loss is None
    rows, entities, scores = predicted
    sentences, most = len(dataset), scores.shape[1]
    assert rows.shape == (sentences,)
    assert entities.shape == (sentences, most, 3)
    assert most <= max(len(tokens) for tokens, _ in SENTENCES)
    assert [tensor.shape[0] for tensor in gold] == [sentences] * 4
    assert gold[0].shape == (sentences, 3, 3)


# ---- Prediction ----


def test_predictions_without_tags(make, dataset):
    trainer = make()
    output = trainer.predict(dataset.remove_columns("ner_tags"))
    assert output.predictions == trainer.predict(dataset).predictions
    assert output.label_ids is None
    assert plain(output.metrics) == {}


def test_regression_tags_in_another_column_are_missed(make, dataset, caplog):
    output = make(column="tags").predict(dataset)
    assert output.label_ids is None
    assert "The test set has no column 'tags', so that its entities are found but not scored" in caplog.text
    assert "seem to be in 'ner_tags': pass dataset.rename_column('ner_tags', 'tags')" in caplog.text


def test_predictions_keep_the_order(make, dataset):
    trainer = make(per_device_eval_batch_size=2)
    order = [3, 0, 5, 1, 4, 2]
    expected = trainer.predict(dataset)
    output = trainer.predict(dataset.select(order))
    assert output.label_ids == [expected.label_ids[row] for row in order]
    assert [[e["start"] for e in row] for row in output.predictions] == [
        [e["start"] for e in expected.predictions[row]] for row in order
    ]


# ---- The user's metrics ----


def test_metrics_of_the_user_are_added(make, dataset):
    seen = []

    def compute(evaluated):
        seen.append(evaluated)
        predictions, references = evaluated
        return {"rows": len(predictions), "eval_gold": torch.tensor(sum(map(len, references)))}

    metrics = make(compute_metrics=compute).evaluate(dataset)
    assert (metrics["eval_rows"], metrics["eval_gold"]) == (6, 10)
    assert isinstance(metrics["eval_gold"], int)
    assert "eval_f1" in metrics
    (evaluated,) = seen
    assert evaluated.num_words.tolist() == [len(tokens) for tokens, _ in SENTENCES]
    assert evaluated.reference_tags == [[LABELS[tag] for tag in tags] for _, tags in SENTENCES]


def test_metrics_of_the_user_can_be_set_later(make, dataset):
    trainer = make(batch_eval_metrics=True)
    trainer.compute_metrics = lambda evaluated, compute_result: {"last": compute_result}
    assert trainer.evaluate(dataset)["eval_last"] is True


def test_metrics_of_the_user_cannot_replace_others(make, dataset):
    with pytest.raises(ValueError, match="compute_metrics returned 'f1'"):
        make(compute_metrics=lambda _: {"eval_f1": 1.0}).evaluate(dataset)


def test_logits_can_be_preprocessed(make, dataset):
    shapes = []

    def only_outside(logits, labels):
        shapes.append((logits.shape[:2], labels.shape))
        return torch.nn.functional.one_hot(torch.zeros_like(labels), logits.shape[2]).float()

    trainer = make(preprocess_logits_for_metrics=only_outside)
    expected = make().evaluate(dataset)
    metrics = trainer.evaluate(dataset)
    assert expected["eval_overall_recall"] > metrics["eval_overall_recall"] == 0.0
    assert metrics["eval_loss"] == expected["eval_loss"]
    assert all(logits == labels for logits, labels in shapes)
    assert trainer.preprocess_logits_for_metrics is only_outside


# ---- Model card ----


def test_model_card(make, dataset, tmp_path):
    trainer = make(train_dataset=dataset, eval_dataset=dataset, learning_rate=0.125)
    trainer.train()
    trainer.evaluate()
    trainer.predict(dataset)
    trainer.create_model_card(
        language=["en", "nl"],
        license="mit",
        tags="mine",
        model_name="My model",
        dataset="Six sentences",
        dataset_tags="me/six",
    )
    text = (tmp_path / "output" / "README.md").read_text(encoding="utf-8")
    for part in ("# My model", "license: mit", "- nl", "- mine", "Six sentences", "me/six", "0.125", "Ada Lovelace"):
        assert part in text
    card = trainer.model.model_card_data
    assert set(card.evaluations) == {"evaluation", "test"}
    assert (card.license, card.model_name, card.dataset_id) == (None, None, None)
    assert "mine" not in card.tags


def test_the_model_card_keeps_what_it_was_given(make, tmp_path):
    trainer = make()
    trainer.model.model_card_data.model_name = "Mine"
    trainer.create_model_card(model_name="output", tags=["a", "b"], tasks="ignored", dataset_args="ignored")
    text = (tmp_path / "output" / "README.md").read_text(encoding="utf-8")
    assert "# Mine" in text
    assert "output" not in text


def test_only_the_main_process_writes_the_model_card(make, tmp_path, monkeypatch):
    trainer = make()
    monkeypatch.setattr(trainer, "is_world_process_zero", lambda: False)
    trainer.create_model_card()
    assert not (tmp_path / "output" / "README.md").exists()


def test_the_model_card_forgets_evaluations_before_a_training(make, dataset):
    trainer = make(train_dataset=dataset, eval_dataset=dataset)
    trainer.evaluate()
    assert set(trainer.model.model_card_data.evaluations) == {"evaluation"}
    trainer.train()
    assert trainer.model.model_card_data.evaluations == {}


def test_an_edited_model_card_is_kept(make, dataset, tmp_path):
    trainer = make(train_dataset=dataset)
    trainer.create_model_card(license="mit")
    file = tmp_path / "output" / "README.md"
    file.write_text(file.read_text(encoding="utf-8").replace("# SpanMarker", "# Mine"), encoding="utf-8")
    trainer.create_model_card(language="en")
    trainer.save_model()
    text = file.read_text(encoding="utf-8")
    assert "# Mine" in text
    assert "license" not in text.split("---\n")[1]  # which was generated, and is no longer known
    assert "span-marker" in text


def test_emissions_are_recorded(make, dataset):
    class Measuring(TrainerCallback):
        tracker = SimpleNamespace(final_emissions_data=SimpleNamespace(emissions=0.5, duration=3600))

    trainer = make(train_dataset=dataset, callbacks=[Measuring()])
    trainer.train()
    assert trainer.model.model_card_data.emissions["emissions"] == 500.0
