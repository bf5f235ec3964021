"""`read_dataset` and `write_dataset`: paths, splits, columns, and what the Trainer makes of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK_TRAINING
from datasets import Dataset, DatasetDict, load_from_disk

from span_marker import Trainer, TrainingArguments, read_dataset, write_dataset
from span_marker.readers.reading import _temporary_folder
from span_marker.readers.text_files import line_blocks, numbered_lines

ROWS = [
    {"tokens": ["Ada", "Lovelace", "met", "Grace"], "ner_tags": ["B-PER", "I-PER", "O", "B-PER"], "document_id": "a"},
    {"tokens": ["in", "London"], "ner_tags": ["O", "B-LOC"], "document_id": "a"},
]


def write_rows(path, rows=ROWS):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_columns_say_where_each_row_is_from(tmp_path):
    path = write_rows(tmp_path / "a.jsonl")
    dataset = read_dataset(str(path))
    assert isinstance(dataset, Dataset)
    assert dataset.column_names == ["tokens", "ner_tags", "document_id", "source_file", "source_line"]
    assert dataset.to_list() == [row | {"source_file": str(path), "source_line": n} for n, row in enumerate(ROWS, 1)]


@pytest.mark.parametrize(
    "names",
    [
        ("train.jsonl", "validation.jsonl", "test.jsonl"),
        ("corpus-train-0.jsonl", "corpus_dev.jsonl", "corpus.test.jsonl"),
        ("Training.jsonl", "devel.jsonl", "eval.jsonl"),
    ],
)
def test_a_folder_is_a_data_set_of_splits(names, tmp_path):
    for number, name in enumerate(names, 1):
        write_rows(tmp_path / name, ROWS[:number])
    (tmp_path / "README.md").write_text("training data")
    dataset = read_dataset(tmp_path)
    assert isinstance(dataset, DatasetDict)
    assert dataset.num_rows == {"train": 1, "validation": 2, "test": 2}
    assert str(dataset["validation"].split) == "validation"


def test_parts_of_a_split_are_joined(tmp_path):
    write_rows(tmp_path / "train-00000-of-00002.jsonl", ROWS[:1])
    write_rows(tmp_path / "train-00001-of-00002.jsonl", ROWS[1:])
    dataset = read_dataset(tmp_path)["train"]
    assert dataset.remove_columns(["source_file", "source_line"]).to_list() == ROWS
    assert [Path(file).name[:11] for file in dataset["source_file"]] == ["train-00000", "train-00001"]


def test_all_splits_have_the_same_columns(tmp_path):
    write_rows(tmp_path / "train.jsonl", [{"tokens": ["a", "b"], "spans": [[0, 2, "X"], [1, 2, "Y"]]}])
    write_rows(tmp_path / "test.jsonl", [{"tokens": ["a"], "spans": [[0, 1, "X"]], "document_id": 1}])
    dataset = read_dataset(tmp_path)
    columns = ["tokens", "spans", "document_id", "source_file", "source_line"]
    assert dataset.column_names == {"train": columns, "test": columns}
    write_rows(tmp_path / "test.jsonl", ROWS)
    with pytest.raises(
        ValueError, match=r"Some sentences have tags, others spans that overlap\. Pass entity_column='spans'"
    ):
        read_dataset(tmp_path)
    assert read_dataset(tmp_path, entity_column="spans")["test"][1]["spans"] == [{"start": 1, "end": 2, "label": "LOC"}]


def test_what_datasets_saved_is_returned_as_it_is(tmp_path):
    dataset = Dataset.from_dict({"x": [1, 2]})
    dataset.save_to_disk(tmp_path / "one")
    DatasetDict(train=dataset).save_to_disk(tmp_path / "several")
    assert read_dataset(tmp_path / "one").to_list() == load_from_disk(tmp_path / "one").to_list()
    assert list(read_dataset(tmp_path / "several")) == ["train"]


def test_names_are_left_to_datasets(monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda name: f"the data set {name}")
    assert read_dataset("someone/conll2003") == "the data set someone/conll2003"


@pytest.mark.parametrize("path", ["nowhere/a.conll", "a.jsonl", "/a/b/c"])
def test_files_that_are_missing_are_no_names(path):
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read_dataset(path)


def test_folders_without_splits_are_described(tmp_path):
    write_rows(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=r"holds no files of train, validation or test, but a\.jsonl\. Name them so"):
        read_dataset(tmp_path)
    for name in ("train.jsonl", "train.conll"):
        write_rows(tmp_path / name)
    with pytest.raises(
        ValueError, match=r"has several files of train: train\.conll, train\.jsonl\. Pass their `format=`"
    ):
        read_dataset(tmp_path)
    assert read_dataset(tmp_path, "jsonl").num_rows == {"train": 2}


def test_unknown_formats_and_options(tmp_path):
    path = write_rows(tmp_path / "a.jsonl")
    dataset = read_dataset(path)
    for argument, message in (
        ({"format": "conll2003"}, r"There is no format 'conll2003'\. Choose one of conll, "),
        ({"entity_column": "tags"}, r"entity_column='tags'\. Choose one of None, 'ner_tags', 'spans'\."),
        ({"align": "expand"}, r"align='expand'\. Choose one of 'error', 'snap', 'drop'\."),
        (
            {"split_words": "spacy"},
            r"split_words='spacy'\. Choose from punctuation, whitespace, jieba, fugashi, pythainlp\. A function",
        ),
        ({"scheme": "IOBX"}, "Unknown tagging scheme 'IOBX'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_dataset(path, **argument)
    with pytest.raises(
        ValueError, match=r"'.*a\.jsonl' could be jsonl or spacy_json or prodigy or doccano\. Pass `format=`"
    ):
        write_dataset(dataset, path)
    with pytest.raises(ValueError, match=r"'.*a\.doc' is the file of no format\."):
        write_dataset(dataset, tmp_path / "a.doc")
    with pytest.raises(ValueError, match="Pass `format=` to write several splits"):
        write_dataset(DatasetDict(train=dataset), tmp_path / "all")
    with pytest.raises(TypeError, match=r"Expected a datasets\.Dataset or DatasetDict, but got list"):
        write_dataset(ROWS, tmp_path / "a.conll")
    with pytest.raises(ValueError, match="The data set has the columns x"):
        write_dataset(Dataset.from_dict({"x": [1]}), tmp_path / "a.conll")
    (tmp_path / "a.bin").write_text("binary")
    with pytest.raises(ValueError, match=r"a\.bin: begins with 'binary', which is no known format\. Pass `format=`"):
        read_dataset(tmp_path / "a.bin")


def test_files_are_replaced_and_folders_are_not(tmp_path):
    dataset = read_dataset(write_rows(tmp_path / "a.jsonl"))
    (tmp_path / "a.conll").write_text("old")
    write_dataset(dataset, tmp_path / "a.conll")
    assert (tmp_path / "a.conll").read_text().startswith("# newdoc id = a\nAda\tB-PER\n")
    write_dataset(dataset, tmp_path / "brat", "brat")
    with pytest.raises(FileExistsError, match="brat' exists"):
        write_dataset(dataset, tmp_path / "brat", "brat")


def test_the_arrow_files_go_where_they_are_told(tmp_path):
    path = write_rows(tmp_path / "a.jsonl")
    dataset = read_dataset(path, cache_dir=tmp_path / "cache")
    assert [Path(file["filename"]).parents[1] for file in dataset.cache_files] == [tmp_path / "cache"]
    inside = Path(read_dataset(path).cache_files[0]["filename"])
    assert inside.parents[1] == Path(_temporary_folder().name)


def test_nothing_is_left_of_a_broken_data_set(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [*ROWS, {"tokens": ["a"], "ner_tags": ["X"]}])
    with pytest.raises(ValueError, match="the tag of word 0, 'X', is neither"):
        read_dataset(path, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_temporary_folder_goes_with_the_program(tmp_path):
    path = write_rows(tmp_path / "a.jsonl")
    code = f"from span_marker import read_dataset; print(read_dataset({str(path)!r}).cache_files[0]['filename'])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip().endswith(".arrow")
    assert not Path(done.stdout.strip()).parents[1].exists()


def test_only_line_feeds_end_lines(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\r\nc\x0cd\rx\n\ne".encode())
    expected = list(enumerate(["a\u2028b", "", "c\x0cd\rx", "", "e"], 1))
    assert list(numbered_lines(path)) == expected
    monkeypatch.setattr("span_marker.readers.text_files.BLOCK", 4)
    assert list(numbered_lines(path)) == expected
    assert [number for number, _ in line_blocks(path)] == [1, 3, 5]


def test_blocks_that_arrow_reads_and_those_that_it_cannot(tmp_path, monkeypatch):
    rows = [{"tokens": [f"w{n}"], "ner_tags": ["O"], "document_id": n if n % 7 else f"d{n}"} for n in range(50)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    expected = [(row["tokens"], str(row["document_id"]), line) for line, row in enumerate(rows, 1)]
    for block in (1 << 20, 300, 1):
        monkeypatch.setattr("span_marker.readers.text_files.BLOCK", block)
        dataset = read_dataset(path)
        assert [(row["tokens"], row["document_id"], row["source_line"]) for row in dataset] == expected


def test_other_columns_do_not_matter_to_the_trainer(model, tmp_path):
    columns = {"document_id": "d", "sentence_id": 1}
    path = write_rows(tmp_path / "a.jsonl", [row | columns | {"text": " ".join(row["tokens"])} for row in ROWS])
    dataset = read_dataset(path)
    assert {"text", "source_file", "source_line"} <= {*dataset.column_names}
    plain = dataset.select_columns(["tokens", "ner_tags", "document_id", "sentence_id"])
    arguments = TrainingArguments(output_dir=str(tmp_path / "out"), **QUICK_TRAINING)
    scores = []
    for rows in (dataset, plain):
        found = Trainer(model, arguments, eval_dataset=rows).evaluate()
        scores.append({name: value for name, value in found.items() if not name.endswith(("time", "per_second"))})
    assert scores[0] == scores[1]
    trainer = Trainer(model, arguments, train_dataset=dataset)
    trainer.train()
    assert trainer.state.global_step == 1
    assert model.predict(dataset) == model.predict(plain)


def test_importing_the_package_imports_no_reader_and_a_reader_no_extra():
    code = """
import sys, span_marker
print("span_marker.readers" in sys.modules)
span_marker.read_dataset
print("span_marker.readers" in sys.modules, "spacy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "False"]
