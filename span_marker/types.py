"""Names for the values that travel between modules."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Row: TypeAlias = dict[str, Any]
"""One row of a data set: column name to value."""
Columns: TypeAlias = dict[str, list[Any]]
"""A batch of rows: column name to one value per row."""
Sentences: TypeAlias = Sequence[str] | Sequence[Sequence[str]]
"""Texts, or lists of words."""


class EntityTable(NamedTuple):
    """Entities of many sentences as parallel columns, sorted by row, then start, then end.

    Attributes:
        rows: Index of the sentence an entity belongs to. Shape: ``[entities]``.
        labels: Id of the entity type. Shape: ``[entities]``.
        starts: Index of the first word. Shape: ``[entities]``.
        ends: Index after the last word. Shape: ``[entities]``.
    """

    rows: IntArray
    labels: IntArray
    starts: IntArray
    ends: IntArray
