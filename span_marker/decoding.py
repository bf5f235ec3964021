"""Scores of candidate spans to entities.

Evaluation, prediction and every integration decode here, so that they agree to the last digit.
"""

import numpy as np
import numpy.typing as npt
import torch
from transformers.utils import logging

from span_marker.ragged import ranges
from span_marker.spans import count_spans, spans_at
from span_marker.types import EntityTable, FloatArray, IntArray

logger = logging.get_logger(__name__)


def reduce_logits(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reduce the logits of each span to its best label and that label's probability.

    Args:
        logits: Scores of every label. Shape: ``[batch, spans, labels]``, any floating point type.

    Returns:
        Best label ids (int32) and their probabilities (float32). Shape: ``[batch, spans]`` each.
    """
    scores, labels = logits.float().softmax(dim=-1).max(dim=-1)
    # Not int16, which would be half the size: NCCL cannot gather it across processes.
    return labels.to(torch.int32), scores


def decode_flat(candidates: EntityTable, scores: FloatArray) -> IntArray:
    """Choose entities that do not overlap: greedily, the best score first.

    Equal scores are settled by the order of `enumerate_spans`, the earlier start and then the earlier end first, as the
    reference does; a saturated softmax gives exactly 1.0 often enough for this to matter.

    Args:
        candidates: Spans that win an entity label, in any order.
        scores: Probability of each candidate. Shape: ``[candidates]``.

    Returns:
        Indices of the candidates kept, sorted by row, then start. Shape: ``[kept]``.

    Raises:
        ValueError: A candidate covers no word, or candidates and scores differ in number.
    """
    rows, labels, starts, ends = (np.asarray(column, dtype=np.int64) for column in candidates)
    if len(scores) != len(rows):
        raise ValueError(f"{len(rows)} candidates came with {len(scores)} scores. Give one score for each candidate.")
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    _check_lengths(rows, starts, ends)
    # Sentences are laid out one after the other, so that one pass serves them all.
    extents = np.zeros(rows.max() + 1, dtype=np.int64)
    np.maximum.at(extents, rows, ends)
    shift = (np.cumsum(extents) - extents)[rows]
    order = np.lexsort((labels, ends, starts, -np.asarray(scores)))
    winners = order[_first_fit(starts[order] + shift[order], ends[order] + shift[order], int(extents.sum()))]
    return winners[np.argsort(starts[winners] + shift[winners])]


def _check_lengths(rows: IntArray, starts: IntArray, ends: IntArray) -> None:
    """Refuse spans that are no span.

    Raises:
        ValueError: A span starts before the sentence or covers no word.
    """
    bad = np.flatnonzero((starts < 0) | (starts >= ends))
    if len(bad):
        row, start, end = rows[bad[0]], starts[bad[0]], ends[bad[0]]
        raise ValueError(
            f"Row {row}: the candidate [{start}, {end}) is no span. A span has 0 <= start < end, the end exclusive."
        )


def _first_fit(starts: IntArray, ends: IntArray, num_words: int) -> IntArray:
    """Keep each span that overlaps no kept span before it.

    A span that is the first of all on each of its words is kept whatever happens elsewhere. Such spans are taken
    together, what they overlap is dropped, and the rest goes into the next round: the result of the one by one loop in
    a handful of array operations, however many spans there are.

    Args:
        starts: First words, best span first. Shape: ``[spans]``.
        ends: Words after the last. Shape: ``[spans]``.
        num_words: Number of words that the spans lie in.

    Returns:
        Indices of the spans kept, in no particular order. Shape: ``[kept]``.
    """
    kept = [np.zeros(0, dtype=np.int64)]
    left = np.arange(len(starts), dtype=np.int64)
    taken = np.zeros(num_words, dtype=bool)
    best = np.full(num_words, len(starts), dtype=np.int64)
    while len(left):
        lengths = ends[left] - starts[left]
        words = ranges(starts[left], lengths)
        firsts = np.cumsum(lengths) - lengths
        best[words] = len(starts)
        np.minimum.at(best, words, np.repeat(left, lengths))
        # The first span on a word never comes after the span itself: the lowest tells whether all are this one.
        won = np.minimum.reduceat(best[words], firsts) == left
        kept.append(left[won])
        taken[words[np.repeat(won, lengths)]] = True
        left = left[~np.logical_or.reduceat(taken[words], firsts)]
    return np.concatenate(kept)


def decode(
    label_ids: npt.ArrayLike,
    scores: npt.ArrayLike,
    num_words: npt.ArrayLike,
    max_length: int,
    outside_id: int,
) -> tuple[EntityTable, FloatArray]:
    """Decode the reduced logits of whole sentences.

    Args:
        label_ids: Best label of each candidate span, in the order of `enumerate_spans`; what follows a sentence's last
            candidate is padding and may hold anything. Shape: ``[sentences, spans]``.
        scores: Probabilities of these labels. Shape: ``[sentences, spans]``.
        num_words: Number of words of each sentence whose spans were scored. Shape: ``[sentences]``.
        max_length: Longest span, in words.
        outside_id: Label id of "no entity".

    Returns:
        The entities, sorted by row, then start, and their scores. Shape of the scores: ``[entities]``.

    Raises:
        ValueError: A sentence has more candidates than columns.
    """
    label_ids, scores = np.asarray(label_ids), np.asarray(scores)
    words = np.asarray(num_words, dtype=np.int64)
    counts = count_spans(words, max_length)
    width = label_ids.shape[1]
    if len(counts) and counts.max() > width:
        row = int(counts.argmax())
        raise ValueError(
            f"Row {row}: {words[row]} words have {counts[row]} candidate spans of up to {max_length} words, but only "
            f"{width} were scored. Give the number of words that the spans were made from."
        )
    inside = np.arange(width) < counts[:, None]
    if np.isnan(scores[inside]).any():
        logger.warning_once(
            "The model's scores are not numbers (NaN), so that entities are missed. Its weights are spoilt, by a "
            "learning rate that is too high perhaps, or half precision overflows: load it with dtype=torch.float32."
        )
    found = inside & (label_ids != outside_id)
    rows, index = np.nonzero(found)
    starts, ends = spans_at(index, words[rows], max_length)
    candidates = EntityTable(rows, label_ids[rows, index].astype(np.int64), starts, ends)
    kept = decode_flat(candidates, scores[rows, index])
    return EntityTable(*(column[kept] for column in candidates)), scores[rows[kept], index[kept]].astype(np.float32)
