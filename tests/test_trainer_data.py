import datasets
import numpy as np
import pytest
from conftest import LABELS, make_dataset
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value

from span_marker import SpanMarkerDataCollator
from span_marker.trainer_data import (
    EvaluationCollator,
    FixedOrder,
    LengthGroups,
    choose_dataset,
    find_tags,
    require_columns,
    require_dataset,
    sequence_lengths,
)


class Tokenizer:
    pad_token_id = 0


def tagged(*rows):
    return Dataset.from_dict({"tokens": [["a"] * len(row) for row in rows], "ner_tags": [list(row) for row in rows]})


def test_batches_know_their_sentences():
    rows = [
        {
            "input_ids": [2, 7, 8, 3],
            "num_spans": 3,
            "start_position_ids": [1, 1, 2],
            "end_position_ids": [1, 2, 2],
            "labels": [0, 1, 0],
            "row": 4,
            "num_words": 2,
            "blank_words": [1],
            "all_words": 5,
            "entities": [[1, 0, 2], [2, 3, 5]],
        },
        {
            "input_ids": [2, 3],
            "num_spans": 0,
            "start_position_ids": [],
            "end_position_ids": [],
            "labels": [],
            "row": 1,
            "num_words": 0,
            "blank_words": [],
            "all_words": 0,
            "entities": [],
        },
    ]
    plain = SpanMarkerDataCollator(Tokenizer())
    batch = EvaluationCollator(plain)(rows)
    assert {name: batch[name].tolist() for name in ("row", "num_words", "all_words")} == {
        "row": [4, 1],
        "num_words": [2, 0],
        "all_words": [5, 0],
    }
    assert batch["blank_words"].tolist() == [[False, True], [False, False]]
    fill = [-100, -100, -100]
    assert batch["entities"].tolist() == [[[1, 0, 2], [2, 3, 5]], [fill, fill]]
    assert {name: batch[name].tolist() for name in plain(rows)} == {k: v.tolist() for k, v in plain(rows).items()}


def test_rows_without_tags_have_no_gold():
    row = {"input_ids": [2, 3], "start_position_ids": [], "end_position_ids": [], "row": 0, "num_words": 0}
    batch = EvaluationCollator(SpanMarkerDataCollator(Tokenizer()))([row | {"all_words": 3, "blank_words": []}])
    assert "entities" not in batch
    assert batch["all_words"].tolist() == [3]


def test_fixed_order():
    order = FixedOrder(np.array([2, 0, 1]))
    assert list(order) == list(order) == [2, 0, 1]
    assert len(order) == 3


def test_length_groups():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    sampler = LengthGroups(lengths, 5, seed=3)
    first = list(sampler)
    assert sorted(first) == list(range(len(sampler))) == list(range(1000))
    assert list(sampler) == list(LengthGroups(lengths, 5, seed=3)) == first
    assert lengths[first[0]] == lengths.max()
    spread = lengths[first].reshape(-1, 5)
    assert (spread.max(axis=1) - spread.min(axis=1)).mean() < 4
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(LengthGroups(lengths, 5, seed=4)) != first


@pytest.mark.parametrize("size", [0, 1, 7])
def test_length_groups_of_few_rows(size):
    assert sorted(LengthGroups(np.arange(size), 4, seed=0)) == list(range(size))


def test_a_sequence_holds_the_text_and_two_markers_a_span():
    rows = Dataset.from_dict({"input_ids": [[1, 2, 3], [1], [1, 2]], "num_spans": [2, 0, 5], "other": ["a", "b", "c"]})
    assert sequence_lengths(rows).tolist() == [7, 1, 12]
    assert sequence_lengths(rows.select([2, 0])).tolist() == [12, 7]
    assert sequence_lengths(rows.select([])).tolist() == []


def test_a_data_set_is_returned():
    dataset = tagged(["O"])
    assert require_dataset(dataset, "training") is dataset


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (DatasetDict({"train": tagged(["O"]), "test": tagged(["O"])}), "DatasetDict.*one of its splits: train, test"),
        (tagged(["O"]).to_iterable_dataset(), "IterableDataset.*Streams are not supported.*Dataset.from_generator"),
        (iter([]), "Streams are not supported"),
        ([{"tokens": ["a"], "ner_tags": [0]}], r"list.*Dataset.from_list\(rows\)"),
    ],
)
def test_what_is_no_data_set_is_refused(given, message):
    with pytest.raises(TypeError, match=f"(?s)The training set is of type.*{message}"):
        require_dataset(given, "training")


def test_a_missing_column_is_named_with_those_found():
    with pytest.raises(
        ValueError, match=r"(?s)evaluation set lacks the column 'tags'; it has tokens, ner_tags.*column="
    ):
        require_columns(tagged(["O"]), ["tokens", "tags"], "evaluation")


def test_choose_dataset():
    first, second = tagged(["O"]), tagged(["O"])
    assert choose_dataset(None, first) == ("evaluation", first)
    assert choose_dataset(second, first) == ("evaluation", second)
    assert choose_dataset("dev", {"dev": second}) == ("dev", second)
    with pytest.raises(ValueError, match="Evaluation needs sentences"):
        choose_dataset(None, None)
    with pytest.raises(ValueError, match="no evaluation set 'test', but 'dev'"):
        choose_dataset("test", {"dev": second})
    with pytest.raises(ValueError, match="no evaluation set 'test', but none with a name"):
        choose_dataset("test", first)


def test_tags_are_the_names_of_the_training_set():
    other = make_dataset().cast_column("ner_tags", Sequence(ClassLabel(names=["O", "B-X", "I-X", "B-Y", "I-Y"])))
    assert find_tags({"training": make_dataset(), "evaluation": other}, "ner_tags") == LABELS
    assert find_tags({"evaluation": other}, "ner_tags") == ["O", "B-X", "I-X", "B-Y", "I-Y"]


def test_strings_that_only_the_evaluation_set_has_are_tags_too():
    # Otherwise the evaluation would fail, after an epoch of training.
    train, dev = tagged(["O", "B-PER"]), tagged(["B-LOC", "I-LOC"])
    assert find_tags({"training": train, "evaluation": dev}, "ner_tags") == ["O", "B-PER", "B-LOC", "I-LOC"]


def test_no_data_set_has_no_tags():
    assert find_tags({}, "ner_tags") is None


def test_no_row_has_no_tags():
    empty = Dataset.from_dict({"tokens": [], "ner_tags": []})
    assert find_tags({"training": empty}, "ner_tags") is None
    assert find_tags({"training": tagged(["O", "B-PER"]), "evaluation": empty}, "ner_tags") == ["O", "B-PER"]
    assert find_tags({"training": empty, "evaluation": make_dataset()}, "ner_tags") == LABELS


def test_numbers_without_names_are_refused():
    with pytest.raises(ValueError, match="tags of the training set are numbers without names"):
        find_tags({"training": tagged([0, 1])}, "ner_tags")


def test_tags_of_another_column():
    features = Features({"tokens": Sequence(Value("string")), "tags": Sequence(ClassLabel(names=["O", "X"]))})
    dataset = Dataset.from_list([{"tokens": ["a"], "tags": [1]}], features=features)
    assert find_tags({"training": dataset}, "tags") == ["O", "X"]
    with pytest.raises(ValueError, match="lacks the column 'ner_tags'; it has tokens, tags"):
        find_tags({"training": dataset}, "ner_tags")


def test_large_lists_have_names_too():
    features = Features(
        {"tokens": Sequence(Value("string")), "ner_tags": datasets.LargeList(ClassLabel(names=["O", "X"]))}
    )
    dataset = Dataset.from_list([{"tokens": ["a"], "ner_tags": [1]}], features=features)
    assert find_tags({"training": dataset}, "ner_tags") == ["O", "X"]
