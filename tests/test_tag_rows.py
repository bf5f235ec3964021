"""Tags of many sentences as one array; refusals are tested with the label normalizer, which reports them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.tag_rows import flatten_tags


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1))))
def test_lists_and_arrow_flatten_alike(rows):
    for container in (rows, pa.array(rows, pa.list_(pa.int64()))):
        flat = flatten_tags(container)
        assert flat.tags.tolist() == [tag for row in rows for tag in row]
        assert [flat.tags[a:b].tolist() for a, b in zip(flat.offsets, flat.offsets[1:], strict=False)] == rows
        assert flat.tags.dtype == flat.offsets.dtype == np.int64
        places = [(row, word) for row, tags in enumerate(rows) for word in range(len(tags))]
        assert [flat.locate(word) for word in range(len(flat.tags))] == places


def test_slices_of_arrow_columns():
    column = pa.array([[1], [2, 3], [4]])
    flat = flatten_tags(column.slice(1, 1))
    assert (flat.tags.tolist(), flat.offsets.tolist()) == ([2, 3], [0, 2])


def test_rows_must_be_lists_of_integers():
    with pytest.raises(ValueError, match=r"Row 1, word 0: the tag is 'B-A'\. Each row must be a list with one integer"):
        flatten_tags([[0], ["B-A"]])
