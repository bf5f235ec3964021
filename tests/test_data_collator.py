import doctest
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from span_marker import data_collator
from span_marker.data_collator import IGNORED_LABEL, SpanMarkerDataCollator

COLLATE = SpanMarkerDataCollator(SimpleNamespace(pad_token_id=9))
ROWS = [
    {"input_ids": [2, 7, 3], "start_position_ids": [1], "end_position_ids": [1], "labels": [4]},
    {"input_ids": [2, 5, 6, 8, 3], "start_position_ids": [1, 1, 2], "end_position_ids": [1, 2, 3], "labels": [0, 1, 0]},
    {"input_ids": [2, 3], "start_position_ids": [], "end_position_ids": [], "labels": []},
]
COLUMNS = {
    "input_ids": ("input_ids", 9),
    "start_positions": ("start_position_ids", 0),
    "end_positions": ("end_position_ids", 0),
    "labels": ("labels", -100),
}


def test_example_of_the_docstring():
    assert doctest.testmod(data_collator).failed == 0


def test_exact_values():
    batch = COLLATE(ROWS)
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[2, 7, 3, 9, 9], [2, 5, 6, 8, 3], [2, 3, 9, 9, 9]],
        "attention_mask": [[True] * 3 + [False] * 2, [True] * 5, [True] * 2 + [False] * 3],
        "start_positions": [[1, 0, 0], [1, 1, 2], [0, 0, 0]],
        "end_positions": [[1, 0, 0], [1, 2, 3], [0, 0, 0]],
        "num_spans": [1, 3, 0],
        "labels": [[4, -100, -100], [0, 1, 0], [-100, -100, -100]],
    }
    assert {name: tensor.dtype for name, tensor in batch.items() if tensor.dtype != torch.int64} == {
        "attention_mask": torch.bool
    }
    assert torch.nn.CrossEntropyLoss().ignore_index == IGNORED_LABEL


@pytest.mark.parametrize("labels", [{}, {"labels": None}])
def test_rows_without_labels(labels):
    rows = [{name: values for name, values in row.items() if name != "labels"} | labels for row in ROWS]
    batch = COLLATE(rows)
    assert "labels" not in batch
    assert torch.equal(batch["start_positions"], COLLATE(ROWS)["start_positions"])


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple])
def test_rows_of_arrays(make):
    rows = [{name: make(values) if values else values for name, values in row.items()} for row in ROWS]
    expected = COLLATE(ROWS)
    batch = COLLATE(rows)
    assert batch.keys() == expected.keys()
    assert all(torch.equal(batch[name], expected[name]) for name in batch)


def test_other_columns_are_left_out():
    rows = [row | {"num_spans": 3, "num_words": 4, "document_id": "a"} for row in ROWS]
    assert COLLATE(rows).keys() == COLLATE(ROWS).keys()


def test_rows_without_spans():
    batch = COLLATE(ROWS[2:])
    assert batch["start_positions"].tolist() == batch["end_positions"].tolist() == [[0]]
    assert batch["labels"].tolist() == [[-100]]
    assert batch["num_spans"].tolist() == [0]


def test_no_rows():
    batch = COLLATE([])
    assert batch["input_ids"].shape == batch["start_positions"].shape == (0, 1)
    assert batch["num_spans"].shape == (0,)
    assert batch["num_spans"].dtype == torch.int64


def test_batches_are_padded_to_their_own_size():
    collate = SpanMarkerDataCollator(SimpleNamespace(pad_token_id=9), marker_max_length=128)
    assert collate.marker_max_length == 128
    assert collate(ROWS)["start_positions"].shape == (3, 3)
    assert collate(ROWS[:1])["input_ids"].shape == (1, 3)


def test_padding_token_is_read_from_the_tokenizer_as_it_is_now():
    tokenizer = SimpleNamespace(pad_token_id=0)
    collate = SpanMarkerDataCollator(tokenizer)
    tokenizer.pad_token_id = 7
    assert collate(ROWS)["input_ids"][2].tolist() == [2, 3, 7, 7, 7]


def test_missing_column():
    with pytest.raises(KeyError, match="end_position_ids"):
        COLLATE([{"input_ids": [1], "start_position_ids": [0]}])


@st.composite
def feature_rows(draw):
    numbers = st.integers(0, 99)
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        spans = draw(st.integers(0, 6))
        columns = {"input_ids": draw(st.lists(numbers, min_size=1, max_size=8))}
        for column in ("start_position_ids", "end_position_ids", "labels"):
            columns[column] = draw(st.lists(numbers, min_size=spans, max_size=spans))
        rows.append(columns)
    return rows


@settings(deadline=None)
@given(feature_rows())
def test_nothing_is_lost_and_the_rest_is_padding(rows):
    batch = COLLATE(rows)
    for name, (column, padding) in COLUMNS.items():
        width = max(1, *(len(row[column]) for row in rows))
        assert batch[name].shape == (len(rows), width)
        for values, row in zip(batch[name].tolist(), rows, strict=True):
            assert values == [*row[column], *[padding] * (width - len(row[column]))]
    assert batch["attention_mask"].sum(1).tolist() == [len(row["input_ids"]) for row in rows]
    assert batch["num_spans"].tolist() == [len(row["labels"]) for row in rows]
