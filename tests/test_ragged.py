import numpy as np

from span_marker.ragged import flatten, locate, offsets_of, ranges, split_rows


def lists(rows):
    return [row.tolist() for row in rows]


def test_flat_rows():
    values, lengths = flatten([[1, 2], [], [3]])
    assert values.tolist() == [1, 2, 3]
    assert lengths.tolist() == [2, 0, 1]
    assert offsets_of(lengths).tolist() == [0, 2, 2, 3]
    assert lists(split_rows(values, offsets_of(lengths))) == [[1, 2], [], [3]]
    assert flatten([])[0].tolist() == []
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_offsets():
    assert offsets_of(np.array([2, 0, 1])).tolist() == [0, 2, 2, 3]
    assert offsets_of(np.array([], dtype=np.int64)).tolist() == [0]


def test_locate_skips_empty_rows():
    assert locate(np.array([0, 0, 2, 2, 3]), 2) == (3, 0)
