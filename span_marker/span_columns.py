"""Encoded sentences to the columns of their candidate spans."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from span_marker.ragged import offsets_of, split_rows
from span_marker.spans import count_spans, enumerate_spans, span_index
from span_marker.types import BoolArray, Columns, EntityTable, IntArray
from span_marker.word_encoding import EncodedWords


def span_columns(encoded: EncodedWords, entity_max_length: int) -> Columns:
    """List the candidate spans of sentences by the tokens they begin and end with.

    Args:
        encoded: The sentences.
        entity_max_length: Longest span, in words.

    Returns:
        Per sentence ``input_ids``; ``num_spans``; ``start_position_ids`` and ``end_position_ids``, the index in
        ``input_ids`` of each span's first and last token, in row-major order of the spans.
    """
    starts, ends = [], []
    kept = encoded.kept_words.tolist()
    for words, first, last in zip(kept, encoded.first_tokens, encoded.last_tokens, strict=True):
        span_starts, span_ends = _enumerate(words, entity_max_length)
        starts.append(first[span_starts])
        ends.append(last[span_ends - 1])
    return {
        "input_ids": encoded.input_ids,
        "num_spans": [len(row) for row in starts],
        "start_position_ids": starts,
        "end_position_ids": ends,
    }


def span_labels(entities: EntityTable, kept_words: IntArray, entity_max_length: int, outside_id: int) -> list[IntArray]:
    """Give each candidate span its label.

    Args:
        entities: The entities; those that are no candidate (too long, or cut off) are left out.
        kept_words: Number of words of each sentence that fit the model. Shape: ``[sentences]``.
        entity_max_length: Longest span, in words.
        outside_id: Label of the spans that are no entity.

    Returns:
        Labels of each sentence's spans, in row-major order. Shape of each: ``[spans]``.
    """
    offsets = offsets_of(count_spans(kept_words, entity_max_length))
    labels = np.full(offsets[-1], outside_id, dtype=np.int64)
    index = span_index(entities.starts, entities.ends, kept_words[entities.rows], entity_max_length)
    known = index >= 0
    labels[offsets[entities.rows[known]] + index[known]] = entities.labels[known]
    return split_rows(labels, offsets)


def spans_with_ends(words: BoolArray, entity_max_length: int) -> BoolArray:
    """Find the candidate spans whose first or last word is one of some words.

    Args:
        words: Which words of a sentence. Shape: ``[words]``.
        entity_max_length: Longest span, in words.

    Returns:
        Shape: ``[spans]``.
    """
    starts, ends = _enumerate(len(words), entity_max_length)
    return words[starts] | words[ends - 1]


def outrule_blank_ends(
    label_ids: IntArray, blank_words: Sequence[BoolArray], entity_max_length: int, outside_id: int
) -> None:
    """Label the spans "O" that begin or end with a blank word: to the model they are the same as shorter spans.

    Args:
        label_ids: Best label of each candidate span, changed in place. Shape: ``[batch, spans]``.
        blank_words: Whether each word of each sentence is blank. Shape of each: ``[words]``.
        entity_max_length: Longest span, in words.
        outside_id: Label of the spans that are no entity.
    """
    for row, words in enumerate(blank_words):
        if words.any():
            blank = spans_with_ends(words, entity_max_length)
            label_ids[row, : len(blank)][blank] = outside_id


def entity_table(rows: Sequence[Sequence[Sequence[int]]]) -> EntityTable:
    """Put the entities of sentences into one table.

    Args:
        rows: Entities of each sentence as (label id, first word, word after the last).

    Returns:
        The table, in the order given.
    """
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    flat = np.array([entity for row in rows for entity in row], dtype=np.int64).reshape(-1, 3)
    return EntityTable(np.repeat(np.arange(len(rows)), counts), flat[:, 0], flat[:, 1], flat[:, 2])


def _enumerate(num_words: int, max_length: int) -> tuple[IntArray, IntArray]:
    """List the spans of a sentence. Shape: ``[spans]`` each."""
    return _remembered(num_words, max_length) if num_words <= _COMMON else enumerate_spans(num_words, max_length)


_COMMON = 256
_remembered = lru_cache(maxsize=512)(enumerate_spans)
"""Remembers the spans of sentences of common lengths: most batches repeat them."""
