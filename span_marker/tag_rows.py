"""Tags of many sentences as one array."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from span_marker.ragged import locate, offsets_of
from span_marker.types import IntArray

TagRows: TypeAlias = Sequence[Sequence[int]] | Any
"""Tag ids of many sentences: lists of ids, or a pyarrow list column."""


class FlatTags(NamedTuple):
    """The tags of many sentences, one sentence after the other.

    Attributes:
        tags: Tag ids. Shape: ``[words]``.
        offsets: Index of the first word of each sentence, then the number of words. Shape: ``[sentences + 1]``.
    """

    tags: IntArray
    offsets: IntArray

    def locate(self, word: int) -> tuple[int, int]:
        """Find where a word lies.

        Args:
            word: Index in ``tags``.

        Returns:
            Index of the sentence, and of the word in it.
        """
        return locate(self.offsets, word)


def flatten_tags(ner_tags: TagRows) -> FlatTags:
    """Put the tags of all sentences into one array.

    Args:
        ner_tags: Tag ids of each sentence's words.

    Returns:
        The tags.

    Raises:
        ValueError: A row is not a list of integers.
    """
    if isinstance(ner_tags, (pa.Array, pa.ChunkedArray)):
        column = ner_tags.combine_chunks() if isinstance(ner_tags, pa.ChunkedArray) else ner_tags
        if _is_clean(column):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            return FlatTags(column.flatten().to_numpy(zero_copy_only=False).astype(np.int64), offsets_of(lengths))
        ner_tags = column.to_pylist()
    rows = list(ner_tags)
    try:
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        tags = np.array(list(chain.from_iterable(rows)))
    except (TypeError, ValueError):
        _refuse(rows)
    if tags.size and (tags.dtype.kind not in "iu" or tags.ndim != 1):
        _refuse(rows)
    return FlatTags(tags.astype(np.int64), offsets_of(lengths))


def _is_clean(column: Any) -> bool:
    """Tell whether an arrow column holds lists of integers, none of them null."""
    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not lists or not pa.types.is_integer(kind.value_type):
        return False
    return not column.null_count and not column.flatten().null_count


def _refuse(rows: list[Any]) -> NoReturn:
    """Report the first row that is not a list of integers."""
    expected = "Each row must be a list with one integer tag a word"
    for index, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__len__"):
            raise ValueError(f"Row {index} of the tags is {row!r}. {expected}.")
        for word, tag in enumerate(row):
            if isinstance(tag, bool) or not isinstance(tag, (int, np.integer)):
                raise ValueError(f"Row {index}, word {word}: the tag is {tag!r}. {expected}.")
    raise ValueError(f"The tags do not fit 64-bit integers. {expected}.")
