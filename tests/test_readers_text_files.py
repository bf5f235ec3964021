"""The bytes of text files: byte order marks, line ends, encodings, empty files and endless lines, in every format."""

import json
import tracemalloc

import pytest
from datasets import Dataset

from span_marker import read_dataset, write_dataset
from span_marker.readers import json_files, text_files
from span_marker.readers.registry import FORMATS
from span_marker.readers.text_files import MAX_LINE

BINARY = {"docbin", "parquet", "arrow"}
ARRAYS = {"label_studio", "gliner"}
"""Formats that are written as one JSON array, in which a carriage return is a space like others."""
TEXT_FORMATS = sorted({*FORMATS} - BINARY)
MARK = "\ufeff".encode()
ROWS = {
    "tokens": [["Ada", "Lovelace", "lives"], ["in", "Paris"]],
    "ner_tags": [["B-PER", "I-PER", "O"], ["O", "B-LOC"]],
}
NO_LINE_FEED = (
    "{path}, line 1: the file has carriage returns but no line feed, and only a line feed ends a line. Save it with "
    "the line ends of Unix or Windows."
)
UTF_16 = "{path}, line 1: the file begins with the byte order mark of UTF-16. Save it as UTF-8."
EMPTY = "{path}: the file holds no sentence. Check that it is the right one, and complete."


@pytest.fixture(params=TEXT_FORMATS)
def file(request, tmp_path):
    """The format and the path of a file; of BRAT's pair, the text."""
    name = request.param
    path = tmp_path / f"file{FORMATS[name].suffixes[0]}"
    write_dataset(Dataset.from_dict(ROWS), path, name)
    return name, path / "document.txt" if name == "brat" else path


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


def read(name, path):
    return read_dataset(path, name, split_words="whitespace").select_columns([*ROWS]).to_dict()


def message_of(name, path):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read(name, path)
    return str(error.value)


def test_a_byte_order_mark_is_skipped(file):
    name, path = file
    rewrite(path, lambda content: MARK + content)
    assert read(name, path) == ROWS


def test_offsets_of_brat_may_count_the_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes(MARK + b"Ada lives\nin Paris\n")
    for annotations in ("T1\tPER 0 3\tAda\nT2\tLOC 13 18\tParis\n", "T1\tPER 1 4\tAda\nT2\tLOC 14 19\tParis\n"):
        (tmp_path / "a.ann").write_text(annotations, encoding="utf-8")
        found = read_dataset(tmp_path, split_words="whitespace")
        assert found["text"] == ["Ada lives", "in Paris"]
        assert found["ner_tags"] == [["B-PER", "O"], ["O", "B-LOC"]]
    (tmp_path / "a.ann").write_text("T1\tPER 0 3\tAda\nT2\tLOC 14 19\tParis\n", encoding="utf-8")
    assert message_of("brat", tmp_path) == (
        f"{tmp_path / 'a.ann'}, line 2: the text of the entity is 'Paris', but at its offsets is 'aris\\n'. Correct "
        "the offsets, which count characters, line breaks too."
    )


def test_line_ends_of_windows(file):
    name, path = file
    text = path.read_text("utf-8")
    rewrite(path, lambda content: content.replace(b"\n", b"\r\n"))
    if name == "brat":  # whose offsets count them
        annotations = path.with_suffix(".ann").read_text("utf-8")
        assert text == "Ada Lovelace lives\nin Paris\n"
        assert "\tLOC 22 27\tParis\n" in annotations
        found = f"{path.with_suffix('.ann')}, line 2: the text of the entity is 'Paris', but at its offsets is ' Pari'."
        remedy = "Correct the offsets, which count characters, line breaks too (here two characters each)."
        assert message_of(name, path) == f"{found} {remedy}"
        path.with_suffix(".ann").write_bytes(annotations.replace("22 27", "23 28").replace("\n", "\r\n").encode())
    assert read(name, path) == ROWS


def test_carriage_returns_alone_are_no_line_ends(file):
    name, path = file
    rewrite(path, lambda content: content.replace(b"\n", b"\r"))
    if name in ARRAYS:
        assert read(name, path) == ROWS
    else:
        assert message_of(name, path) == NO_LINE_FEED.format(path=path)


def test_utf_16_is_named(file):
    name, path = file
    rewrite(path, lambda content: content.decode().encode("utf-16"))
    assert message_of(name, path) == UTF_16.format(path=path)


@pytest.mark.parametrize("content", [b"", MARK, b"\n\n"])
def test_an_empty_file(file, content):
    name, path = file
    path.write_bytes(content)
    path.with_suffix(".ann").write_bytes(b"")
    if name in ("csv", "tsv") and content == b"\n\n":
        assert message_of(name, path).startswith(f"{path}, line 1: the header is empty")
    else:
        assert message_of(name, path) == EMPTY.format(path=path)


def test_a_line_of_a_gigabyte_is_not_read(file):
    name, path = file
    is_array = name in ARRAYS
    text = path.read_text("utf-8")
    if is_array:  # the last value goes on and on
        path.write_text(text := text.removesuffix("}\n]\n") + ',\n"x": "', encoding="utf-8")
    with path.open("r+b") as stream:
        stream.truncate(1 << 30)  # zeros, which take no room on the disk
    line = text.count("\n") + 1
    tracemalloc.start()
    message = message_of(name, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * MAX_LINE
    if is_array:
        found = f"{path}, line {line}: not JSON: Invalid control character at"
        assert message == f"{found}. Expected an array of values, or a value a line."
    else:
        assert message == (
            f"{path}, line {line}: the line has more than 16,777,216 bytes. Expected a word or a sentence in each "
            "line: check the format of the file."
        )


def test_regression_an_array_on_one_line_is_longer_than_a_line_may_be(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    rows = [{"tokens": ["Ada", "lives"], "ner_tags": ["B-PER", "O"]}] * 50
    path.write_text(json.dumps(rows), encoding="utf-8")
    for module in (text_files, json_files):
        monkeypatch.setattr(module, "MAX_LINE", 200)
        monkeypatch.setattr(module, "BLOCK", 100)
    assert read_dataset(path).select_columns(["tokens", "ner_tags"]).to_list() == rows


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16", "in which a line feed is not one byte. Save the files as UTF-8, and pass no encoding."),
        ("cp037", "in which a line feed is not one byte. Save the files as UTF-8, and pass no encoding."),
        ("latin-l", "which Python does not know. Pass one such as 'latin-1'."),
    ],
)
def test_encodings_without_lines_are_refused(encoding, message, tmp_path):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_dataset(tmp_path, encoding=encoding)
    assert str(error.value) == f"encoding={encoding!r}, {message}"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "gb18030", "shift_jis"])
def test_encodings_with_lines(encoding, tmp_path):
    content = "Málaga B-LOC\n" if encoding == "latin-1" else "東京 B-LOC\n"
    (tmp_path / "a.conll").write_text(content, encoding=encoding)
    assert read_dataset(tmp_path / "a.conll", encoding=encoding)["tokens"] == [[content.split()[0]]]
