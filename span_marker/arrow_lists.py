"""Arrow columns of integer lists to flat arrays and back, without a Python object per number."""

from typing import Any

import numpy as np
import pyarrow as pa

from span_marker.ragged import offsets_of
from span_marker.types import IntArray

MOST_VALUES = int(np.iinfo(np.int32).max)
"""Most integers of a column whose offsets have 32 bits."""


def as_lists(column: Any) -> Any:
    """Give a column without rows, which may have no type yet, that of lists.

    Args:
        column: An array or chunked array of lists.

    Returns:
        The same; a column of no type as one of lists of integers.
    """
    return column.cast(pa.list_(pa.int64())) if pa.types.is_null(column.type) else column


def read_lists(column: Any) -> tuple[IntArray, IntArray]:
    """Read a column of integer lists.

    Args:
        column: An array or chunked array of lists of integers.

    Returns:
        The integers of all rows, shape ``[integers]``, and the length of each row, shape ``[rows]``.
    """
    column = as_lists(column)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    nothing = np.zeros(0, dtype=np.int64)
    values = [chunk.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for chunk in chunks]
    lengths = [chunk.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for chunk in chunks]
    return np.concatenate([nothing, *values]), np.concatenate([nothing, *lengths])


def make_lists(values: IntArray, lengths: IntArray) -> Any:
    """Make a column of integer lists.

    Args:
        values: The integers of all rows. Shape: ``[integers]``.
        lengths: Length of each row. Shape: ``[rows]``.

    Returns:
        An arrow array of lists.
    """
    offsets = offsets_of(lengths)
    if offsets[-1] > MOST_VALUES:
        return pa.LargeListArray.from_arrays(offsets, values)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values)
