"""Tag columns of data sets."""

import time

import numpy as np
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value
from transformers.utils import logging

from span_marker import label_columns
from span_marker.label_columns import labels_from_dataset, resolve_tags

NAMES = ["O", "B-A", "I-A"]


def words(rows):
    return [["w"] * len(row) for row in rows]


def dataset_of(rows, column="ner_tags", names=None):
    dataset = Dataset.from_dict({"tokens": words(rows), column: rows, "id": list(range(len(rows)))})
    return dataset.cast_column(column, Sequence(ClassLabel(names=names))) if names else dataset


def typed(column, kind):
    return Dataset(pa.table({"ner_tags": pa.array(column, kind)}))


def test_names_of_class_labels():
    assert labels_from_dataset(dataset_of([[0, 1]], "tags", NAMES), "tags") == NAMES


def test_names_of_string_tags():
    rows = [["I-B", "O"], ["B-B", "B-A"], ["PER", "I-A-b", "B-A-b"], []]
    assert labels_from_dataset(dataset_of(rows)) == ["O", "PER", "B-A", "B-A-b", "I-A-b", "B-B", "I-B"]


def test_integers_have_no_names():
    assert labels_from_dataset(dataset_of([[0, 1]])) is None


def test_integers_stay():
    dataset = dataset_of([[0, 1, 2], [], [1]])
    resolved = resolve_tags(dataset, labels=NAMES)
    assert resolved.to_dict() == dataset.to_dict()
    assert resolve_tags(resolved, labels=NAMES)._fingerprint == resolved._fingerprint
    assert resolve_tags(dataset).to_dict() == dataset.to_dict()


def test_other_column_is_renamed():
    dataset = dataset_of([[0, 1]], "tags").add_column("ner_tags", [["x"]])
    resolved = resolve_tags(dataset, "tags", NAMES)
    assert resolved.to_dict() == {"tokens": [["w", "w"]], "ner_tags": [[0, 1]], "id": [0]}


def test_strings_become_ids():
    rows = [["O", "B-A", "I-A"], [], ["B-A"]]
    resolved = resolve_tags(dataset_of(rows, "tags"), "tags", ["I-A", "B-A", "O"])
    assert resolved["ner_tags"][:] == [[2, 1, 0], [], [1]]
    assert resolved["id"][:] == [0, 1, 2]
    assert resolved.features["ner_tags"] == Sequence(Value("int64"))
    assert resolve_tags(dataset_of(rows))["ner_tags"][:] == [[0, 1, 2], [], [1]]


def test_class_labels_are_matched_by_name():
    dataset = dataset_of([[0, 1, 2]], names=NAMES)
    assert resolve_tags(dataset)["ner_tags"][0] == [0, 1, 2]
    assert resolve_tags(dataset, labels=["B-A", "I-A", "B-B", "O"])["ner_tags"][0] == [3, 0, 1]


def test_class_labels_with_unused_names():
    dataset = dataset_of([[0, 1]], names=[*NAMES, "B-MISC"])
    assert resolve_tags(dataset, labels=NAMES)["ner_tags"][0] == [0, 1]


def test_labels_can_rename_class_labels(caplog):
    logging.warning_once.cache_clear()
    dataset = dataset_of([[0, 1, 2]], names=["O", "B-person", "I-person"])
    for _ in range(2):
        assert resolve_tags(dataset, labels=["O", "B-PER", "I-PER"])["ner_tags"][0] == [0, 1, 2]
    (record,) = caplog.records
    assert "'B-person' as 'B-PER', 'I-person' as 'I-PER'." in record.getMessage()
    with pytest.raises(ValueError, match=r"Row 0, word 1: the tag 'B-person' is none of the 3 labels \(nearest: B-PER"):
        resolve_tags(dataset, labels=["B-PER", "I-PER", "O"])
    with pytest.raises(ValueError, match="the tag 'O' is none of the 2 labels"):
        resolve_tags(dataset, labels=["B-PER", "I-PER"])


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["O", "PER", "LOC"], ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
        (["O", "PER", "LOC"], ["O", "B-PER", "I-PER"]),
        (["O", "B-GENE", "I-GENE"], ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
        (["O", "B-X", "B-Y", "I-X", "I-Y"], ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
        (["person", "place"], ["O", "PER"]),
    ],
)
def test_regression_foreign_class_labels_were_read_by_id(names, labels, caplog):
    error = (
        rf"Row 0, word 0: the tag '{names[1]}' is none of the {len(labels)} labels .*"
        rf"tags are {', '.join(names)}; the labels are {', '.join(labels)}\. .*ignore_mismatched_sizes=True"
    )
    with pytest.raises(ValueError, match=error):
        resolve_tags(dataset_of([[1, 0]], names=names), labels=labels)
    assert not caplog.records


def test_class_labels_that_are_ids_are_no_names(caplog):
    dataset = dataset_of([[2, 0]], names=ClassLabel(3).names)
    assert labels_from_dataset(dataset) is None
    assert resolve_tags(dataset, labels=NAMES)["ner_tags"][0] == [2, 0]
    assert not caplog.records


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([["O"], ["O", "B-B"]], r"Row 1, word 1: the tag 'B-B' is none of the 3 labels \(nearest: B-A\)"),
        ([["???"]], r"Row 0, word 0: the tag '\?\?\?' .*nearest: O, B-A, I-A"),
        ([["O"], None], "Row 1 of the column 'ner_tags' is None"),
        ([["O"], ["O", None]], "Row 1, word 1: the tag is None"),
        ([[0], [], [3]], "Row 2, word 0: the tag 3 is out of range. Expected 0 to 2, one of the 3 labels"),
        ([[0, -1]], "Row 0, word 1: the tag -1 is out of range"),
        ([[0], None], "Row 1 of the column 'ner_tags' is None"),
        ([[0], [None, 1]], "Row 1, word 0: the tag is None"),
        ([None, None], "Row 0 of the column 'ner_tags' is None"),
        ([0, 1], "holds values of type int64. Expected lists of integers or strings"),
        (["O", "B-A"], "holds values of type string"),
        ([[[0]], [[1]]], r"holds values of type list<.*list<"),
        ([[0.0]], "holds values of type list<.*double"),
    ],
)
def test_wrong_tags_are_located(rows, error):
    with pytest.raises(ValueError, match=error):
        resolve_tags(Dataset.from_dict({"ner_tags": rows}), labels=NAMES)


def test_integers_without_names_must_not_be_negative():
    with pytest.raises(ValueError, match=r"Row 0, word 0: the tag -100 is out of range\. Expected 0 or more"):
        resolve_tags(dataset_of([[-100]]))


@pytest.mark.parametrize("rows", [[[0], [0, 1]], [["O"], ["O", "B-A"]]])
def test_tags_must_match_the_tokens(rows):
    dataset = Dataset.from_dict({"tokens": [["a"], ["b"]], "ner_tags": rows})
    with pytest.raises(ValueError, match="Row 1 has 1 tokens but 2 tags"):
        resolve_tags(dataset, labels=NAMES)


@pytest.mark.parametrize("rows", [[[0], []], [[0], [1]], [["O"], ["B-A"]]])
def test_regression_missing_tokens_counted_as_none(rows):
    dataset = Dataset.from_dict({"tokens": [["a"], None], "ner_tags": rows})
    with pytest.raises(ValueError, match=r"Row 1 has no tokens\. Use an empty list"):
        resolve_tags(dataset, labels=NAMES)


def test_raw_text_has_no_tokens_to_match():
    dataset = Dataset.from_dict({"tokens": ["a b"], "ner_tags": [[0, 1]]})
    assert resolve_tags(dataset, labels=NAMES)["ner_tags"][0] == [0, 1]


@pytest.mark.parametrize("function", [labels_from_dataset, resolve_tags])
def test_missing_column_names_those_found(function):
    dataset = Dataset.from_dict({"tokens": [["a"]], "tags": [[0]]})
    with pytest.raises(ValueError, match=r"no column 'ner_tags' with the tags, but tokens, tags\. .*`column=`"):
        function(dataset)


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.uint8()), pa.large_list(pa.int32()), pa.list_(pa.int64(), 2)],
)
def test_integer_list_types(kind):
    assert resolve_tags(typed([[0, 1], [2, 0]], kind), labels=NAMES)["ner_tags"][:] == [[0, 1], [2, 0]]


@pytest.mark.parametrize("kind", [pa.list_(pa.large_string()), pa.large_list(pa.string())])
def test_string_list_types(kind):
    assert resolve_tags(typed([["O", "B-A"], ["I-A"]], kind))["ner_tags"][:] == [[0, 1], [2]]


def test_feature_in_a_python_list():
    features = Features({"ner_tags": [ClassLabel(names=NAMES)]})
    assert labels_from_dataset(Dataset.from_dict({"ner_tags": [[0, 1]]}, features=features)) == NAMES


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing_is_legal(rows):
    dataset = Dataset.from_dict({"tokens": rows, "ner_tags": rows})
    assert len(resolve_tags(dataset, labels=NAMES)) == len(rows)
    if rows:
        assert labels_from_dataset(dataset) is None
    strings = dataset_of([["O"]]).select([])
    assert labels_from_dataset(strings) == []
    assert len(resolve_tags(strings, labels=NAMES)) == 0


def test_rows_are_counted_in_the_data_set_given(monkeypatch):
    monkeypatch.setattr(label_columns, "_BATCH", 2)
    rows = [["O"], ["B-A"], ["O"], ["B-B", "O"], ["I-A"]]
    dataset = dataset_of(rows)
    with pytest.raises(ValueError, match="Row 3, word 0: the tag 'B-B'"):
        resolve_tags(dataset, labels=NAMES)
    chosen = dataset.select([4, 2, 0, 1])
    assert resolve_tags(chosen, labels=NAMES)["ner_tags"][:] == [[2], [0], [0], [1]]
    with pytest.raises(ValueError, match="Row 4, word 0: the tag 'B-B'"):
        resolve_tags(dataset.select([4, 2, 0, 1, 3]), labels=NAMES)
    numbers = dataset_of([[0], [0], [0], [0, 5]])
    with pytest.raises(ValueError, match="Row 3, word 1: the tag 5"):
        resolve_tags(numbers, labels=NAMES)


def test_format_is_dropped():
    for rows in ([[0, 1]], [["O", "B-A"]]):
        resolved = resolve_tags(dataset_of(rows).with_format("numpy", columns=["ner_tags"]), labels=NAMES)
        assert resolved[0] == {"tokens": ["w", "w"], "ner_tags": [0, 1], "id": 0}


def test_same_input_has_the_same_fingerprint():
    first, second = (resolve_tags(dataset_of([["O", "B-A"]]), labels=NAMES) for _ in range(2))
    assert first._fingerprint == second._fingerprint


def test_names_become_ids_without_a_loop_over_words():
    ids = np.random.default_rng(0).integers(0, 3, 500_000)
    column = pa.ListArray.from_arrays(pa.array(np.arange(0, 500_001, 20), pa.int32()), pa.array(NAMES).take(ids))
    dataset = Dataset(pa.table({"ner_tags": column}))
    start = time.process_time()
    resolved = resolve_tags(dataset, labels=NAMES)
    taken = time.process_time() - start
    start = time.process_time()
    mapping = {name: index for index, name in enumerate(NAMES)}
    loop = [[mapping[tag] for tag in row] for row in dataset["ner_tags"]]
    assert resolved["ner_tags"][24_999] == loop[24_999]
    assert taken < time.process_time() - start
