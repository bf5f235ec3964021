import numpy as np
import pyarrow as pa
import pytest

from span_marker import arrow_lists
from span_marker.arrow_lists import make_lists, read_lists

ROWS = [[1, 2], [], [3]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(ROWS),
        pa.array(ROWS, pa.large_list(pa.int32())),
        pa.chunked_array([ROWS[:1], ROWS[1:]]),
        pa.array([[9], *ROWS, [9]])[1:4],
    ],
)
def test_read_lists(column):
    values, lengths = read_lists(column)
    assert values.dtype == lengths.dtype == np.int64
    assert values.tolist() == [1, 2, 3]
    assert lengths.tolist() == [2, 0, 1]


@pytest.mark.parametrize("column", [pa.array([[], []]), pa.chunked_array([], pa.list_(pa.int64())), pa.array([])])
def test_read_no_numbers(column):
    values, lengths = read_lists(column)
    assert values.tolist() == []
    assert lengths.tolist() == [0] * len(column)


def test_make_lists(monkeypatch):
    values, lengths = np.array([1, 2, 3]), np.array([2, 0, 1])
    assert make_lists(values, lengths).to_pylist() == ROWS
    assert make_lists(values, lengths).type == pa.list_(pa.int64())


def test_make_many_lists(monkeypatch):
    monkeypatch.setattr(arrow_lists, "MOST_VALUES", 2)
    lists = make_lists(np.array([1, 2, 3]), np.array([2, 0, 1]))
    assert lists.type == pa.large_list(pa.int64())
    assert lists.to_pylist() == ROWS
