"""Candidate spans of a sentence: enumerate, count and index them.

The candidates of a sentence of N words are all ``(start, end)`` with ``start < end <= min(N, start + max_length)``,
ends exclusive, in row-major order: by start, then by end. Everything else in the package relies on this order.
"""

import numpy as np
import numpy.typing as npt

from span_marker.types import IntArray


def count_spans(num_words: npt.ArrayLike, max_length: int) -> IntArray:
    """Count the candidate spans of sentences.

    Args:
        num_words: Number of words of each sentence; a scalar or an array of any shape.
        max_length: Longest span, in words.

    Returns:
        Number of candidates. Shape: the shape of ``num_words``.
    """
    words = np.asarray(num_words, dtype=np.int64)
    longest = np.minimum(words, max_length)
    return np.asarray(words * longest - longest * (longest - 1) // 2)


def enumerate_spans(num_words: int, max_length: int) -> tuple[IntArray, IntArray]:
    """List the candidate spans of one sentence in row-major order.

    Args:
        num_words: Number of words of the sentence.
        max_length: Longest span, in words.

    Returns:
        Starts and (exclusive) ends. Shape: ``[spans]`` each.
    """
    starts = np.arange(num_words, dtype=np.int64)[:, None]
    ends = starts + np.arange(1, min(num_words, max_length) + 1, dtype=np.int64)
    inside = ends <= num_words
    return np.broadcast_to(starts, ends.shape)[inside], ends[inside]


def span_index(starts: npt.ArrayLike, ends: npt.ArrayLike, num_words: npt.ArrayLike, max_length: int) -> IntArray:
    """Find the position of spans in the order of [`enumerate_spans`].

    Args:
        starts: First words. Shape: ``[spans]``.
        ends: Words after the last. Shape: ``[spans]``.
        num_words: Number of words of the sentence each span lies in; a scalar or shape ``[spans]``.
        max_length: Longest span, in words.

    Returns:
        Index of each span among its sentence's candidates, -1 where it is no candidate. Shape: ``[spans]``.
    """
    start, end, words = (np.asarray(value, dtype=np.int64) for value in (starts, ends, num_words))
    index = count_spans(words, max_length) - count_spans(words - start, max_length) + end - start - 1
    valid = (start >= 0) & (start < end) & (end <= words) & (end - start <= max_length)
    return np.where(valid, index, -1)


def spans_at(indices: npt.ArrayLike, num_words: npt.ArrayLike, max_length: int) -> tuple[IntArray, IntArray]:
    """Find the spans at given positions in the order of [`enumerate_spans`]: the inverse of [`span_index`].

    Args:
        indices: Index of each span among its sentence's candidates, in range. Shape: ``[spans]``.
        num_words: Number of words of the sentence each span lies in; a scalar or shape ``[spans]``.
        max_length: Longest span, in words.

    Returns:
        Starts and (exclusive) ends. Shape: ``[spans]`` each.
    """
    index, words = np.broadcast_arrays(np.asarray(indices, dtype=np.int64), np.asarray(num_words, dtype=np.int64))
    longest = np.minimum(words, max_length)
    # The last `longest` starts own 1 to `longest` spans, a triangle that is counted from its end.
    from_end = count_spans(words, max_length) - 1 - index
    starts_after = np.floor((np.sqrt(8.0 * np.maximum(from_end, 0) + 1.0) - 1.0) / 2.0).astype(np.int64)
    in_triangle = starts_after < longest
    divisor = np.maximum(longest, 1)
    starts = np.where(in_triangle, words - 1 - starts_after, index // divisor)
    ends = np.where(
        in_triangle, words - (from_end - starts_after * (starts_after + 1) // 2), starts + index % divisor + 1
    )
    return starts, ends
