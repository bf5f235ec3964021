"""Scores of candidate spans to entities.

Evaluation, prediction and every integration decode here, so that they agree to the last digit.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers.utils import logging

from span_marker.configuration import SpanMarkerConfig
from span_marker.decoding_modes import ALL, FLAT, NESTED, Decoding
from span_marker.ragged import ranges
from span_marker.score_calibration import scale
from span_marker.spans import count_spans, spans_at
from span_marker.types import BoolArray, EntityTable, FloatArray, IntArray

logger = logging.get_logger(__name__)


def reduce_logits(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reduce the logits of each span to its best label and that label's probability.

    Args:
        logits: Scores of every label. Shape: ``[batch, spans, labels]``, any floating point type.

    Returns:
        Best label ids (int32) and their probabilities (float32). Shape: ``[batch, spans]`` each.
    """
    return reduce_probabilities(logits.float().softmax(dim=-1))


def reduce_probabilities(probabilities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reduce the probabilities of each span's labels, as [`reduce_logits`] does logits.

    Args:
        probabilities: Shape: ``[batch, spans, labels]``.

    Returns:
        Best label ids (int32) and their probabilities. Shape: ``[batch, spans]`` each.
    """
    scores, labels = probabilities.max(dim=-1)
    # Not int16, which would be half the size: NCCL cannot gather it across processes.
    return labels.to(torch.int32), scores


def choose_decoding(
    decoding: Decoding | str | None,
    threshold: float | Mapping[str, float] | None,
    top_k: int | None,
    config: SpanMarkerConfig,
) -> Decoding:
    """Bring the arguments that say how to decode into one form, and check them.

    Args:
        decoding: The mode, or all of it. ``None``: the configuration's mode.
        threshold: As in [`Decoding`].
        top_k: As in [`Decoding`].
        config: The model's configuration.

    Returns:
        How to decode.

    Raises:
        ValueError: A value is out of range, names an entity type that the model does not have, or is given twice.
    """
    if not isinstance(decoding, Decoding):
        decoding = Decoding(config.decoding if decoding is None else decoding, threshold, top_k)
    elif threshold is not None or top_k is not None:
        raise ValueError(
            "decoding is a Decoding, which holds threshold and top_k itself, but one of them is also given. Give "
            f"Decoding({decoding.mode!r}, threshold=..., top_k=...) alone."
        )
    decoding.least_scores(config.labels)  # an unknown type is refused before anything is read
    return decoding


def select_entities(
    candidates: EntityTable, scores: FloatArray, decoding: Decoding, labels: Sequence[str] = ()
) -> IntArray:
    """Choose entities among the spans that win an entity label.

    Args:
        candidates: The spans, in any order.
        scores: Probability of each. Shape: ``[candidates]``.
        decoding: How to choose.
        labels: Name of each label id, for thresholds by entity type.

    Returns:
        Indices of the candidates kept, sorted by row, then start, then end. Shape: ``[kept]``.

    Raises:
        ValueError: A candidate covers no word, candidates and scores differ in number, or a threshold is given for an
            unknown entity type.
    """
    least, scores = decoding.least_scores(labels), np.asarray(scores)
    likely = np.arange(len(scores))
    if least is not None:
        # In the precision of the scores: 0.9 as the model says it is not less than a threshold of 0.9.
        least = least.astype(scores.dtype)
        likely = np.flatnonzero(scores >= (least[np.asarray(candidates.labels)] if least.ndim else least))
        candidates, scores = EntityTable(*(np.asarray(column)[likely] for column in candidates)), scores[likely]
    kept = _MODES[decoding.mode](candidates, scores)
    if decoding.top_k is not None:
        kept = kept[_is_among_best(EntityTable(*(column[kept] for column in candidates)), scores[kept], decoding.top_k)]
    chosen: IntArray = likely[kept]
    return chosen


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
    rows, labels, starts, ends = _columns(candidates, scores)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    shift, num_words = _lay_out(rows, ends)
    order = np.lexsort((labels, ends, starts, -np.asarray(scores)))
    winners = order[_first_fit(starts[order] + shift[order], ends[order] + shift[order], num_words)]
    return winners[np.argsort(starts[winners] + shift[winners])]


def decode_nested(candidates: EntityTable, scores: FloatArray) -> IntArray:
    """Choose entities that do not cross: greedily, the best score first.

    Two spans cross if they share words and neither contains the other. Of candidates with the same words the best one
    is kept. Equal scores are settled as in [`decode_flat`].

    Args:
        candidates: Spans that win an entity label, in any order.
        scores: Probability of each candidate. Shape: ``[candidates]``.

    Returns:
        Indices of the candidates kept, sorted by row, then start, then end. Shape: ``[kept]``.

    Raises:
        ValueError: A candidate covers no word, or candidates and scores differ in number.
    """
    rows, labels, starts, ends = _columns(candidates, scores)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    shift, _ = _lay_out(rows, ends)
    order = np.lexsort((labels, ends, starts, -np.asarray(scores)))
    order = order[_firsts(starts[order] + shift[order], ends[order] + shift[order])]
    kept = order[_uncrossed(starts[order] + shift[order], ends[order] + shift[order])]
    return kept[np.lexsort((ends[kept], starts[kept] + shift[kept]))]


def decode_all(candidates: EntityTable, scores: FloatArray) -> IntArray:
    """Choose all entities; of candidates with the same words the best one.

    Args:
        candidates: Spans that win an entity label, in any order.
        scores: Probability of each candidate. Shape: ``[candidates]``.

    Returns:
        Indices of the candidates kept, sorted by row, then start, then end. Shape: ``[kept]``.

    Raises:
        ValueError: A candidate covers no word, or candidates and scores differ in number.
    """
    rows, labels, starts, ends = _columns(candidates, scores)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    shift, _ = _lay_out(rows, ends)
    order = np.lexsort((labels, -np.asarray(scores), ends, starts + shift))
    return order[_firsts(starts[order] + shift[order], ends[order] + shift[order])]


_MODES = {FLAT: decode_flat, NESTED: decode_nested, ALL: decode_all}


def _columns(candidates: EntityTable, scores: FloatArray) -> tuple[IntArray, ...]:
    """Check candidates.

    Raises:
        ValueError: A candidate covers no word, or candidates and scores differ in number.
    """
    rows, labels, starts, ends = (np.asarray(column, dtype=np.int64) for column in candidates)
    if len(scores) != len(rows):
        raise ValueError(f"{len(rows)} candidates came with {len(scores)} scores. Give one score for each candidate.")
    _check_lengths(rows, starts, ends)
    return rows, labels, starts, ends


def _lay_out(rows: IntArray, ends: IntArray) -> tuple[IntArray, int]:
    """Lay sentences out one after the other, so that one pass serves them all.

    Returns:
        By how much the words of each span move, shape ``[spans]``, and the number of words of all sentences.
    """
    extents = np.zeros(rows.max() + 1, dtype=np.int64)
    np.maximum.at(extents, rows, ends)
    return (np.cumsum(extents) - extents)[rows], int(extents.sum())


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


def _firsts(starts: IntArray, ends: IntArray) -> IntArray:
    """Find the first span with each pair of ends. Shape: ``[kept]``, sorted."""
    _, first = np.unique(starts * (ends.max() + 1) + ends, return_index=True)
    return np.sort(first)


def _uncrossed(starts: IntArray, ends: IntArray) -> IntArray:
    """Keep each span that crosses no kept span before it.

    All pairs that cross are listed once. A span that is the worse one of no pair is kept whatever happens elsewhere:
    what it crosses is dropped, the pairs of dropped spans fall away, and the rest goes into the next round. A span is
    only paired with those that begin within it: the pairs grow with the number of spans, not with its square.

    Args:
        starts: First words, best span first. Shape: ``[spans]``.
        ends: Words after the last. Shape: ``[spans]``.

    Returns:
        Indices of the spans kept, sorted. Shape: ``[kept]``.
    """
    order = np.argsort(starts, kind="stable")
    sorted_starts = starts[order]
    behind = np.searchsorted(sorted_starts, starts, side="right")
    counts = np.searchsorted(sorted_starts, ends, side="left") - behind
    first, second = np.repeat(np.arange(len(starts)), counts), order[ranges(behind, counts)]
    crosses = ends[second] > ends[first]
    pairs = np.sort(np.stack([first[crosses], second[crosses]]), axis=0)
    dropped = np.zeros(len(starts), dtype=bool)
    while pairs.size:
        better, worse = pairs
        beaten = np.zeros(len(starts), dtype=bool)
        beaten[worse] = True
        dropped[worse[~beaten[better]]] = True
        pairs = pairs[:, ~dropped[pairs].any(axis=0)]
    return np.flatnonzero(~dropped)


def _is_among_best(entities: EntityTable, scores: FloatArray, count: int) -> BoolArray:
    """Tell which entities are among the most probable of their row. Shape: ``[entities]``."""
    rows, _, starts, ends = entities
    order = np.lexsort((ends, starts, -scores, rows))
    place = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[order[place < count]] = True
    return chosen


def decode(
    label_ids: npt.ArrayLike,
    scores: npt.ArrayLike,
    num_words: npt.ArrayLike,
    max_length: int,
    outside_id: int,
    decoding: Decoding | None = None,
    labels: Sequence[str] = (),
    temperature: float = 1.0,
) -> tuple[EntityTable, FloatArray]:
    """Decode the reduced logits of whole sentences.

    Args:
        label_ids: Best label of each candidate span, in the order of `enumerate_spans`; what follows a sentence's last
            candidate is padding and may hold anything. Shape: ``[sentences, spans]``.
        scores: Probabilities of these labels. Shape: ``[sentences, spans]``.
        num_words: Number of words of each sentence whose spans were scored. Shape: ``[sentences]``.
        max_length: Longest span, in words.
        outside_id: Label id of "no entity".
        decoding: How to choose among spans. ``None``: entities that do not overlap, whatever their probability.
        labels: Name of each label id, for thresholds by entity type.
        temperature: What the log-odds of the scores are divided by first.

    Returns:
        The entities, sorted by row, then start, then end, and their scores. Shape of the scores: ``[entities]``.

    Raises:
        ValueError: A sentence has more candidates than columns, or a threshold is given for an unknown entity type.
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
    probabilities = scale(scores[rows, index], temperature)
    kept = select_entities(candidates, probabilities, decoding or Decoding(), labels)
    return EntityTable(*(column[kept] for column in candidates)), probabilities[kept].astype(np.float32)
