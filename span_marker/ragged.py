"""Rows of unequal length as one flat array and the offsets of the rows in it."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from span_marker.types import IntArray

_Element = TypeVar("_Element", bound=np.generic)


def offsets_of(lengths: IntArray) -> IntArray:
    """Sum lengths up, from zero.

    Args:
        lengths: Lengths of rows. Shape: ``[rows]``.

    Returns:
        Index of each row's first element, then the number of elements. Shape: ``[rows + 1]``.
    """
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """List the integers of several ranges, one range after the other.

    Args:
        starts: First integer of each range. Shape: ``[ranges]``.
        lengths: Number of integers of each. Shape: ``[ranges]``.

    Returns:
        The integers. Shape: ``[sum of lengths]``.
    """
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def split_rows(values: npt.NDArray[_Element], offsets: IntArray) -> list[npt.NDArray[_Element]]:
    """Cut a flat array into rows.

    Args:
        values: All rows, one after the other. Shape: ``[values]``.
        offsets: Index of each row's first value, then the number of values. Shape: ``[rows + 1]``.

    Returns:
        One array a row.
    """
    bounds = offsets.tolist()
    return [values[start:end] for start, end in pairwise(bounds)]


def flatten(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Put rows of integers into one array.

    Args:
        rows: The rows.

    Returns:
        The integers, shape ``[integers]``, and the length of each row, shape ``[rows]``.
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum())), lengths


def locate(offsets: IntArray, index: int) -> tuple[int, int]:
    """Find the row of an element when rows lie one after the other.

    Args:
        offsets: See [`offsets_of`]. Shape: ``[rows + 1]``.
        index: Index of the element among all.

    Returns:
        Index of the row, and of the element in it.
    """
    row = int(np.searchsorted(offsets, index, side="right")) - 1
    return row, int(index - offsets[row])
