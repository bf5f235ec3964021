import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from conftest import make_dataset
from datasets import DatasetDict
from huggingface_hub import ModelCard
from tiny_models import assert_close, give_opinions

import span_marker_cli
from span_marker import SpanMarkerModel, read_dataset, write_dataset
from span_marker.cli.configuration import Configuration
from span_marker.cli.search_report import save_plot, show_trials
from span_marker.cli.tables import plain_table, print_table
from span_marker_cli import main

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ["check", "convert", "train", "evaluate", "predict", "export", "push", "env"]


@pytest.fixture
def corpus(tmp_path):
    data = DatasetDict({split: make_dataset() for split in ("train", "validation", "test")})
    write_dataset(data, tmp_path / "corpus", "jsonl")
    return tmp_path / "corpus"


@pytest.fixture(scope="module")
def trained(tiny_encoder, tmp_path_factory):
    """A folder with an untrained model that has opinions."""
    folder = tmp_path_factory.mktemp("model")
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=32, entity_max_length=4)
    give_opinions(model, outside=-100.0).save_pretrained(folder)
    return folder


@pytest.fixture
def settings(tiny_encoder, corpus, tmp_path):
    """A complete configuration."""
    return {
        "model": {"name": tiny_encoder, "model_max_length": 32, "entity_max_length": 4},
        "data": {"path": str(corpus)},
        "training": {
            "output_dir": str(tmp_path / "model"),
            "num_train_epochs": 1,
            "learning_rate": "1e-3",
            "save_strategy": "no",
            "use_cpu": True,
        },
        "card": {"language": "en", "license": "cc0-1.0"},
    }


@pytest.fixture
def stdin(monkeypatch):
    def give(text):
        stream = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr(sys, "stdin", stream)

    return give


def write_settings(settings, path):
    path.write_text(json.dumps(settings) if path.suffix == ".json" else yaml.safe_dump(settings), encoding="utf-8")
    return str(path)


# ---- Usage ----


def test_without_a_command_the_usage_is_told(capsys):
    assert main([]) == 2
    assert "usage: span-marker" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"usage: span-marker {command}" in capsys.readouterr().out


def test_every_command_has_a_module_of_its_name():
    assert {path.stem for path in (ROOT / "span_marker" / "cli").glob("*.py")} >= set(COMMANDS)


def test_errors_are_one_message(capsys):
    assert main(["evaluate", "no/such/model", "nowhere.jsonl"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("span-marker evaluate: There is no file or folder 'nowhere.jsonl'")


def test_traceback_raises():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl"):
        main(["evaluate", "no/such/model", "nowhere.jsonl", "--traceback"])


def run_program(*words):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    begin = time.perf_counter()
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return time.perf_counter() - begin, done.stdout


def test_help_is_answered_at_once():
    # What an installed console script does; the least of some tries, because the machine may be busy.
    script = "import sys; from span_marker_cli import main; sys.exit(main(['train', '--help']))"
    bare = min(run_program("-c", "pass")[0] for _ in range(3))
    helped = min(run_program("-c", script)[0] for _ in range(3))
    assert helped < 6 * bare + 0.1
    loaded = run_program("-c", f"import atexit, sys; atexit.register(lambda: print(*sys.modules)); {script}")[1]
    assert {"torch", "transformers", "datasets", "numpy", "span_marker"} & {*loaded.split()} == set()


def test_the_script_and_the_modules_are_the_same_program(monkeypatch, capsys):
    declared = re.search(r'\[project\.scripts\]\nspan-marker = "(\S+):(\S+)"', (ROOT / "pyproject.toml").read_text())
    assert declared.groups() == ("span_marker_cli", "main")
    assert main is span_marker_cli.main
    monkeypatch.setattr(sys, "argv", ["span-marker", "train", "--help"])
    outputs = []
    for name in ("span_marker", "span_marker_cli"):
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_module(name, run_name="__main__")
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "usage: span-marker train" in outputs[0]


def test_plain_tables_are_aligned():
    assert plain_table("Title", ["type", "f1"], [["LOC", "5 %"], ["O", "10 %"]]) == (
        "Title\ntype    f1\n----  ----\nLOC    5 %\nO     10 %\n"
    )


# ---- Ends ----


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bars_are_left_out_where_errors_go_to_no_terminal(is_terminal, monkeypatch):
    names = ("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    given = []
    command = SimpleNamespace(run=lambda options: given.append([os.environ.get(name) for name in names]) or 0)
    monkeypatch.setattr(span_marker_cli, "import_module", lambda name: command)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "argv", ["span-marker", "env"])
    assert main() == 0
    assert given == [[None, None] if is_terminal else ["1", "1"]]


class Command:
    """A command that ends with an error."""

    def __init__(self, error):
        self.error = error

    def run(self, options):
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("a value"), 2, "span-marker env: a value\n"),
        (KeyError("a key"), 2, "span-marker env: KeyError: 'a key'\n"),
        (ModuleNotFoundError("a module"), 2, "span-marker env: ModuleNotFoundError: a module\n"),
        (KeyboardInterrupt(), 2, ""),
    ],
)
def test_ends(error, status, message, monkeypatch, capsys):
    monkeypatch.setattr(span_marker_cli, "import_module", lambda name: Command(error))
    assert main(["env"]) == status
    assert capsys.readouterr().err == message


def test_output_that_nobody_reads_any_more_is_no_error():
    # The shell's "| head -1" on an output that does not fit into the pipe.
    code = (
        "import sys, span_marker_cli as cli\n"
        "cli.import_module = lambda name: type('C', (), {'run': lambda options: print('x' * 9**7) or 0})\n"
        "sys.exit(cli.main(['env']))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_tables_of_terminals(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_table("Title", ["type", "f1"], [["LOC", 5]])
    assert re.search("│ LOC +│ +5 │", capsys.readouterr().out)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_table("Title", ["type", "f1"], [["LOC", 5]])
    assert capsys.readouterr().out == "Title\ntype  f1\n----  --\nLOC    5\n\n"


# ---- env, convert, push ----


def test_env(capsys):
    assert main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("span_marker: ")
    assert f"torch: {torch.__version__}" in lines


def test_convert(corpus, tmp_path, capsys):
    assert main(["convert", str(corpus / "train.jsonl"), str(tmp_path / "out.conll")]) == 0
    assert read_dataset(tmp_path / "out.conll")["tokens"] == make_dataset()["tokens"]
    assert capsys.readouterr().err.endswith(f"Sentences written to {tmp_path / 'out.conll'}: 6.\n")
    assert main(["convert", str(corpus), str(tmp_path / "folder"), "--to", "conll"]) == 0
    assert "folder: train 6, validation 6, test 6.\n" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        "test.conll",
        "train.conll",
        "validation.conll",
    ]
    assert main(["convert", str(corpus), str(tmp_path / "one.conll"), "--split", "test"]) == 0
    assert main(["convert", str(corpus), str(tmp_path / "one.conll"), "--split", "nope"]) == 2
    capsys.readouterr()
    assert main(["convert", str(corpus), str(tmp_path / "some")]) == 2
    assert "Which format? Pass --to to write several splits" in capsys.readouterr().err


def test_convert_a_saved_data_set_with_another_column(tmp_path):
    make_dataset().rename_column("ner_tags", "tags").save_to_disk(tmp_path / "saved")
    assert main(["convert", str(tmp_path / "saved"), str(tmp_path / "out.conll"), "--column", "tags"]) == 0
    assert read_dataset(tmp_path / "out.conll")["ner_tags"][0] == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert main(["convert", str(tmp_path / "saved"), str(tmp_path / "out.conll")]) == 2


def test_convert_reads_as_it_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("0 Ada\n2 Paris\n", encoding="latin-1")
    options = ["--format", "conll", "--token-column", "1", "--tag-column", "0", "--delimiter", "space"]
    options += ["--labels", "O,B-PER,B-LOC", "--encoding", "latin-1"]
    assert main(["convert", str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl"), "--to", "jsonl", *options]) == 2
    (tmp_path / "a.txt").write_text("O Ada\nB-LOC Paris\n", encoding="latin-1")
    assert main(["convert", str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl"), "--to", "jsonl", *options]) == 0
    assert read_dataset(tmp_path / "b.jsonl")["ner_tags"] == [["O", "B-LOC"]]


def test_push(trained, hub, capsys):
    assert main(["push", str(trained), "ada/model", "--private", "--message", "First", "--inference-handler"]) == 0
    assert "ada/model" in capsys.readouterr().out
    assert {"handler.py", "model.safetensors", "README.md"} <= hub.files("ada/model").keys()


def test_export(trained, corpus, tmp_path, capsys, monkeypatch):
    given = []

    def export(model, format, folder, *, quantize, dataset):
        given.extend([format, folder, quantize, dataset and len(dataset)])
        return {"f1": {"before": 1.0}}

    monkeypatch.setattr(SpanMarkerModel, "export", export)
    assert main(["export", str(trained), "to", "--quantize", "int8", "--data", str(corpus), "--split", "train"]) == 0
    assert json.loads(capsys.readouterr().out) == {"f1": {"before": 1.0}}
    assert main(["export", str(trained), "to"]) == 0
    assert given == ["onnx", "to", "int8", 6, "onnx", "to", None, None]


# ---- predict ----


def test_predict_texts_from_standard_input(trained, stdin, capsys):
    stdin("Ada Lovelace lives in London .\n\nParis\n")
    assert main(["predict", str(trained)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    texts = ["Ada Lovelace lives in London .", "", "Paris"]
    assert [record["text"] for record in records] == texts
    model = SpanMarkerModel.from_pretrained(trained)
    assert [len(record["entities"]) for record in records] == [len(row) for row in model.predict(texts)]
    entity = records[2]["entities"][0]
    assert "Paris"[entity["char_start_index"] : entity["char_end_index"]] == entity["span"]


def test_predict_json_lines_keeps_what_they_hold(trained, tmp_path, capsys):
    rows = [{"id": 1, "text": "Paris"}, {"id": 2, "text": "Ada left"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    assert main(["predict", str(trained), str(tmp_path / "in.jsonl")]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{**record, "entities": None} for record in records] == [row | {"entities": None} for row in rows]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"tokens": 3}', '{"tokens": [1]}', "{}", '{"text": "a", "document_id": [1], "sentence_id": 0}']
)
def test_predict_names_the_line(trained, tmp_path, line, capsys):
    (tmp_path / "in.jsonl").write_text(f'{{"text": "Paris"}}\n{line}\n', encoding="utf-8")
    assert main(["predict", str(trained), str(tmp_path / "in.jsonl")]) == 2
    assert f"{tmp_path / 'in.jsonl'}, line 2: " in capsys.readouterr().err


def test_predict_column_files(trained, tmp_path, capsys):
    (tmp_path / "in.conll").write_text("\ufeff-DOCSTART- O\n\nAda O\n#London O\n\n\nParis O\n", encoding="utf-8")
    assert main(["predict", str(trained), str(tmp_path / "in.conll")]) == 0
    (tmp_path / "out.conll").write_text(capsys.readouterr().out, encoding="utf-8")
    written = read_dataset(tmp_path / "out.conll")
    assert written["tokens"] == [["Ada", "#London"], ["Paris"]]
    assert written["document_id"] == ["0", "0"]
    assert written["ner_tags"][1] in (["B-LOC"], ["B-PER"])


def test_predict_words_without_tags(trained, stdin, capsys):
    stdin("Ada\n#London\n\nParis\n")
    assert main(["predict", str(trained), "--from", "conll", "--to", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["tokens"] for record in records] == [["Ada", "#London"], ["Paris"]]


def test_predict_refuses_to_tag_texts(trained, stdin, capsys):
    stdin("Paris\n")
    assert main(["predict", str(trained), "--to", "conll"]) == 2
    assert "standard input, line 1: a text has no words to tag" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--decoding", "nested"], {"decoding": "nested"}),
        (
            ["--decoding", "all", "--threshold", "0.5", "--top-k", "2"],
            {"decoding": "all", "threshold": 0.5, "top_k": 2},
        ),
        (["--threshold", "PER=0.8", "--threshold", "LOC=0.6"], {"threshold": {"PER": 0.8, "LOC": 0.6}}),
    ],
)
def test_predict_chooses_entities(trained, stdin, capsys, options, settings):
    words = ["Ada", "met", "Grace", "in", "London"]
    stdin(json.dumps({"tokens": words}) + "\n")
    assert main(["predict", str(trained), "--from", "jsonl", *options]) == 0
    found = json.loads(capsys.readouterr().out)["entities"]
    model = SpanMarkerModel.from_pretrained(trained)
    assert_close([found], [model.predict(words, **settings)])


def test_predict_writes_no_column_files_of_entities_that_overlap(trained, tmp_path, capsys):
    file = tmp_path / "in.conll"
    file.write_text("Ada O\nmet O\nGrace O\n", encoding="utf-8")
    assert main(["predict", str(trained), str(file), "--decoding", "all"]) == 0
    assert len(json.loads(capsys.readouterr().out)["entities"]) == 6
    assert main(["predict", str(trained), str(file), "--decoding", "all", "--to", "conll"]) == 2
    assert re.search(r"in.conll, line 1: the entities .* overlap, which column files cannot", capsys.readouterr().err)
    assert main(["predict", str(trained), str(file), "--decoding", "nested", "--top-k", "1", "--to", "conll"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold", "x"], "--threshold x: expected a probability"),
        (["--threshold", "2"], "threshold must be a probability from 0 to 1"),
        (["--threshold", "0.5", "--threshold", "PER=0.5"], "expected one number for all types, or one for each"),
        (["--threshold", "PER=0.5", "--threshold", "PER=0.6"], "expected one number for all types, or one for each"),
        (["--threshold", "PERS=0.5"], "threshold names 'PERS', which is no entity type of the model"),
    ],
)
def test_wrong_thresholds_are_named(trained, corpus, stdin, options, message, capsys):
    stdin("Paris\n")
    for command in (["predict", str(trained)], ["evaluate", str(trained), str(corpus)]):
        assert main([*command, *options]) == 2
        assert message in capsys.readouterr().err


def test_evaluate_chooses_entities(trained, corpus, capsys):
    numbers = []
    for options in ([], ["--decoding", "all"], ["--decoding", "all", "--top-k", "1"]):
        assert main(["evaluate", str(trained), str(corpus), "--json", *options]) == 0
        numbers.append(json.loads(capsys.readouterr().out))
    assert numbers[1]["eval_overall_recall"] >= numbers[0]["eval_overall_recall"]
    assert numbers[2]["eval_overall_recall"] <= numbers[1]["eval_overall_recall"]
    assert "eval_overall_accuracy" in numbers[0]
    assert "eval_overall_accuracy" not in numbers[1]


def test_predict_with_document_context(trained, tmp_path, capsys):
    model = SpanMarkerModel.from_pretrained(trained)
    model.config.trained_with_document_context = True
    model.save_pretrained(tmp_path / "model")
    data = make_dataset(documents=True).remove_columns("ner_tags")
    data.to_json(tmp_path / "in.jsonl")
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "in.jsonl")]) == 0
    found = [json.loads(line)["entities"] for line in capsys.readouterr().out.splitlines()]
    assert_close(found, model.predict(data, batch_size=32))
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "in.jsonl"), "--to", "conll"]) == 0
    assert capsys.readouterr().out.startswith("# newdoc id = 0\n# sent_id = 0\nAda\t")
    mixed = [row | {"sentence_id": str(row["sentence_id"])} if number % 2 else row for number, row in enumerate(data)]
    (tmp_path / "mixed.jsonl").write_text("\n".join(map(json.dumps, mixed)), encoding="utf-8")
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "mixed.jsonl")]) == 0
    assert_close([json.loads(line)["entities"] for line in capsys.readouterr().out.splitlines()], found)
    alone = model.predict(data.select_columns("tokens"), batch_size=32)
    assert [[entity["score"] for entity in row] for row in found] != [
        [entity["score"] for entity in row] for row in alone
    ]


# ---- Data on the Hub ----


def test_data_that_is_neither_here_nor_on_the_hub(hub, capsys):
    for name in ("nowhere", "org/nowhere"):
        assert main(["check", name]) == 2
        found = f"span-marker check: There is no file or folder '{name}', and no data set of this name could be loaded"
        assert found in capsys.readouterr().err


def test_data_sets_on_the_hub(hub, tmp_path, capsys):
    rows = "".join(
        json.dumps(row) + "\n" for row in ({"tokens": ["a"], "tags": ["B-X"]}, {"tokens": ["b"], "tags": ["O"]})
    )
    card = "configs: [{config_name: one, data_files: one.jsonl}, {config_name: two, data_files: two.jsonl}]"
    files = {"one.jsonl": rows.encode(), "two.jsonl": rows.replace("B-X", "B-Y").encode()}
    hub.create("org/data", "dataset", files=files | {"README.md": f"---\n{card}\n---\n".encode()})
    assert main(["check", "org/data", "--subset", "two", "--column", "tags", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["train"]["types"] == {"Y": 1}
    assert main(["check", "org/data", "--subset", "two"]) == 2
    assert "has no column 'ner_tags' with the tags, but tokens, tags" in capsys.readouterr().err


# ---- evaluate ----


def test_evaluate(trained, corpus, capsys):
    assert main(["evaluate", str(trained), str(corpus), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(trained), str(corpus), "--split", "train", "--batch-size", "2"]) == 0
    table = capsys.readouterr().out
    assert f"{100 * metrics['eval_overall_f1']:.1f} %" in table
    assert re.search(r"^LOC .* 6$", table, re.MULTILINE)
    assert main(["evaluate", str(trained), str(corpus), "--split", "nope"]) == 2
    assert "no split 'nope', but 'train', 'validation', 'test'" in capsys.readouterr().err


def test_evaluate_writes_a_report(trained, corpus, capsys, tmp_path):
    page = tmp_path / "report.html"
    assert main(["evaluate", str(trained), str(corpus), "--json", "--report", str(page)]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(trained), str(corpus), "--json"]) == 0
    usual = json.loads(capsys.readouterr().out)
    assert reported.keys() == usual.keys()
    assert reported["eval_f1"] == usual["eval_f1"]
    html = page.read_text(encoding="utf-8")
    assert f"<title>Evaluation of {trained} on {corpus}</title>" in html
    assert "Seen in training?" in html
    assert main(["evaluate", str(trained), str(corpus), "--split", "train", "--report", str(page)]) == 0
    assert "Seen in training?" not in page.read_text(encoding="utf-8")


# ---- train ----


def weights(folder):
    return SpanMarkerModel.from_pretrained(folder).state_dict()


def test_the_saved_configuration_reproduces_the_training(settings, tmp_path, capsys):
    path = write_settings(settings, tmp_path / "settings.yaml")
    assert main(["train", path, "training.seed=3", "trainer.negative_span_ratio=0.5"]) == 0
    assert "6 sentences of test" in capsys.readouterr().out
    saved = yaml.safe_load((tmp_path / "model" / "span_marker.yaml").read_text(encoding="utf-8"))
    assert saved["training"]["seed"] == 3
    assert saved["training"]["learning_rate"] == 1e-3
    assert saved["trainer"] == {"negative_span_ratio": 0.5}
    assert saved["data"] | {"path": None} == {
        "path": None,
        "train": "train",
        "validation": "validation",
        "test": "test",
    }
    assert any((tmp_path / "model" / "runs").rglob("events.out.*")) == (find_spec("tensorboard") is not None)
    again = str(tmp_path / "again")
    assert main(["train", str(tmp_path / "model" / "span_marker.yaml"), "--output", again]) == 0
    first, second = weights(tmp_path / "model"), weights(again)
    assert all(torch.equal(first[name], second[name]) for name in first)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "cc0-1.0" in card


def test_the_card_of_a_training_names_the_evaluation_sets(settings, tmp_path):
    settings["training"] |= {"eval_strategy": "epoch", "report_to": "none"}
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml")]) == 0
    results = ModelCard.load(tmp_path / "model" / "README.md").data.eval_results
    assert [result.dataset_split for result in results] == 3 * ["validation"] + 3 * ["test"]


def test_train_on_one_file(settings, corpus, tmp_path, capsys):
    settings["data"] = {"path": str(corpus / "train.jsonl")}
    assert main(["train", write_settings(settings, tmp_path / "settings.json"), "training.report_to=none"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""  # there is nothing to evaluate on
    assert not (tmp_path / "model" / "runs").exists()
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_a_dry_run_shows_the_settings(settings, tmp_path, capsys):
    path = write_settings(settings, tmp_path / "settings.yaml")
    assert main(["train", path, "--dry-run", "training.lr_scheduler_kwargs.num_cycles=2"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["training"]["lr_scheduler_kwargs"] == {"num_cycles": 2}
    assert shown["card"] == settings["card"]
    assert not (tmp_path / "model").exists()


def test_toml(settings, tmp_path):
    lines = []
    for section, values in settings.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    (tmp_path / "settings.toml").write_text("\n".join(lines), encoding="utf-8")
    assert Configuration.read([str(tmp_path / "settings.toml")]) == Configuration(**settings)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trainig.seed=1", "There is no section 'trainig'. Did you mean 'training'?"),
        ("training.sed=1", "There is no setting 'training.sed'. Did you mean 'seed'?"),
        ("training.seed=one", "training.seed is 'one', of type str. Expected a whole number."),
        ("trainer.negative_span_ration=1", "'trainer.negative_span_ration'. Did you mean 'negative_span_ratio'?"),
        ("data.colum=tags", "'data.colum'. Did you mean 'column'?"),
        ("data.scheme=IOB7", "data.scheme is 'IOB7'"),
        ("card.licence=mit", "'card.licence'. Did you mean 'license'?"),
        ("training.seed=???", "training.seed is '???'"),
        ("model.name=???", "model.name is '???'"),
        ("data.path=null", "data.path is None"),
        ("training=3", "'training=3' is neither a file"),
        ("seed", "'seed' is neither a file"),
        ("seed=1", "'seed=1' is neither a file"),
        ("training.seed=[", "The value of training.seed cannot be read"),
        ("nowhere.yaml", "nowhere.yaml"),
        ("data.test=nope", "data.test is 'nope', but the splits of"),
        ("model.entity_max_lenght=8", "'entity_max_lenght'. Did you mean 'entity_max_length'?"),
    ],
)
def test_wrong_settings_are_named(settings, setting, message, tmp_path, capsys):
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml"), setting]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.name", "data.path", "training.output_dir"])
def test_what_is_needed_is_named(name, settings, tmp_path, capsys):
    section, key = name.split(".")
    del settings[section][key]
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml")]) == 2
    assert f"{name} is needed" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "text"), [("a.yaml", "a: ["), ("a.json", "{"), ("a.toml", "a"), ("b.yaml", "3")])
def test_damaged_files_are_named(name, text, tmp_path, capsys):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["train", str(tmp_path / name)]) == 2
    assert f"{tmp_path / name} " in capsys.readouterr().err


def test_train_pushes_the_configuration_with_the_model(settings, hub, tmp_path):
    settings["training"] |= {"push_to_hub": True, "hub_model_id": "ada/trained"}
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml")]) == 0
    assert {"span_marker.yaml", "model.safetensors", "README.md"} <= hub.files("ada/trained").keys()


def test_sections_hold_settings_by_name(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("training: 3\n", encoding="utf-8")
    assert main(["train", str(tmp_path / "a.yaml")]) == 2
    assert "training is 3. Expected settings by name." in capsys.readouterr().err


def test_training_needs_its_split(settings, corpus, tmp_path, capsys):
    (corpus / "train.jsonl").unlink()
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml")]) == 2
    assert "are validation, test. Choose one with data.train=." in capsys.readouterr().err


# ---- Search ----


def test_a_search_takes_the_best_trial_and_can_be_gone_on_with(settings, tmp_path, capsys):
    pytest.importorskip("optuna")
    del settings["training"]["num_train_epochs"]
    del settings["training"]["learning_rate"]
    settings["training"] |= {"weight_decay": 0.0, "warmup_steps": 0, "max_steps": 1, "num_train_epochs": 1}
    path = write_settings(settings, tmp_path / "settings.yaml")
    assert main(["train", path, "--search", "1"]) == 0
    first = capsys.readouterr().out
    assert len(re.findall(r"^\d+ .* complete ", first, re.MULTILINE)) == 1
    assert main(["train", path, "--search", "2"]) == 0
    rows = re.findall(r"^(\d+) +(\S+) %  +complete +(\S+) +(\S+)$", capsys.readouterr().out, re.MULTILINE)
    assert sorted(row[0] for row in rows) == ["0", "1"]
    assert (tmp_path / "model" / "search.png").stat().st_size > 0
    saved = yaml.safe_load((tmp_path / "model" / "span_marker.yaml").read_text(encoding="utf-8"))["training"]
    assert f"{saved['learning_rate']:.3g}" == rows[0][2]
    assert f"{saved['per_device_train_batch_size']:.3g}" == rows[0][3]
    assert saved["weight_decay"] == 0.0
    assert saved["save_strategy"] == "no"
    assert main(["train", str(tmp_path / "model" / "span_marker.yaml"), "data.test=null"]) == 0
    assert f"{rows[0][1]} % " in re.search(r"^micro .*$", capsys.readouterr().out, re.MULTILINE)[0]


def trial(number, value, state, **parameters):
    return SimpleNamespace(number=number, value=value, state=SimpleNamespace(name=state), params=parameters)


TRIALS = [trial(0, 0.5, "COMPLETE", learning_rate=1e-4), trial(1, 0.7, "PRUNED", learning_rate=2e-4)]
TRIALS += [trial(2, 0.6, "COMPLETE", learning_rate=3e-5, weight_decay=0.05)]


def test_trials_that_were_given_up_come_last(capsys):
    show_trials(TRIALS, ["learning_rate", "weight_decay"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:6]]
    assert rows == [
        ["2", "60.0", "%", "complete", "3e-05", "0.05"],
        ["0", "50.0", "%", "complete", "0.0001", "-"],
        ["1", "70.0", "%", "pruned", "0.0002", "-"],
    ]


def test_a_plot_of_trials_needs_matplotlib_and_trials(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    plot = save_plot(TRIALS, ["learning_rate", "weight_decay"], tmp_path)
    assert plot == tmp_path / "search.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert save_plot([], ["learning_rate"], tmp_path) is None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert save_plot(TRIALS, ["learning_rate"], tmp_path) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"validation": None}, "A search needs a split for validation"),
        ({}, "There is nothing to search"),
    ],
)
def test_what_cannot_be_searched(settings, changed, message, tmp_path, capsys):
    settings["data"] |= changed
    settings["training"] |= {"weight_decay": 0.0, "warmup_steps": 0, "per_device_train_batch_size": 2}
    assert main(["train", write_settings(settings, tmp_path / "settings.yaml"), "--search", "2"]) == 2
    assert message in capsys.readouterr().err


# ---- The transcript of the documentation ----


def test_the_documented_transcript_runs(tiny_encoder, tmp_path, monkeypatch, capsys, stdin):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").replace("bert-base-cased", tiny_encoder)
    for name, text in re.findall(r"```\w+\n# (\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (transcript,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"^\$ (.*)$", transcript, re.MULTILINE)
    names = [shlex.split(command.rpartition("| ")[2])[1] for command in commands]
    assert names == ["check", "train", "evaluate", "predict"]
    for command in commands:
        before, _, command = command.rpartition("| ")
        if before:
            stdin(shlex.split(before)[1] + "\n")
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
        capsys.readouterr()
    assert (tmp_path / "model" / "span_marker.yaml").is_file()
