"""Precision, recall and F1 of entities, equal to seqeval's to the last digit, without a download.

Gold entities that the model cannot predict, because they are longer than ``entity_max_length``, count as missed. The
reference drops them from the gold, which flatters its recall.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from span_marker.ragged import ranges
from span_marker.types import EntityTable, IntArray

SCORES = ("precision", "recall", "f1")
"""Names of the scores of a type, in their order."""


class FlatEntities(NamedTuple):
    """Entities that do not overlap, on the words of all sentences laid out one after the other, sorted by start.

    Attributes:
        starts: Index of the first word among all words. Shape: ``[entities]``.
        ends: Index after the last word among all words. Shape: ``[entities]``.
        labels: Id of the entity type. Shape: ``[entities]``.
    """

    starts: IntArray
    ends: IntArray
    labels: IntArray


def compute_metrics(
    predictions: EntityTable,
    references: EntityTable,
    num_words: npt.ArrayLike,
    labels: Sequence[str],
    *,
    per_type: bool = True,
) -> dict[str, Any]:
    """Score predicted entities against gold entities as seqeval and conlleval do: a span counts if its type matches.

    Args:
        predictions: Predicted entities.
        references: All gold entities, those that the model cannot predict too.
        num_words: Number of words of each sentence as given, before any truncation. Shape: ``[sentences]``.
        labels: Name of each label id of the two tables.
        per_type: Whether to add a dictionary for each type. Off within training, where loggers want numbers only.

    Returns:
        ``overall_precision``, ``overall_recall``, ``overall_f1`` over all entities (micro), ``overall_accuracy`` over
        the words' IOB2 tags, ``macro_precision``, ``macro_recall``, ``macro_f1`` as unweighted means over the types
        that occur, ``f1`` as a short name of ``overall_f1``, and first of all, for each type that occurs in either
        table, a dictionary of ``precision``, ``recall``, ``f1`` and ``number`` (of gold entities) under the type's
        name. Plain floats and integers. A ratio of nothing is 0.0. A type named like one of the totals gives way to it.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, has no type, or overlaps another.
    """
    words = np.asarray(num_words, dtype=np.int64)
    predicted = flatten(predictions, words, labels, "predicted")
    gold = flatten(references, words, labels, "gold")
    _, in_predicted, in_gold = np.intersect1d(predicted.starts, gold.starts, assume_unique=True, return_indices=True)
    same = (predicted.ends[in_predicted] == gold.ends[in_gold]) & (
        predicted.labels[in_predicted] == gold.labels[in_gold]
    )
    correct, guessed, support = (
        np.bincount(ids, minlength=len(labels)) for ids in (gold.labels[in_gold[same]], predicted.labels, gold.labels)
    )
    # By name, as seqeval has it: the order of the terms decides the last digit of a mean.
    types = sorted(np.flatnonzero(guessed + support).tolist(), key=lambda label: labels[label])
    each = precision_recall_f1(correct[types], guessed[types], support[types])
    micro = precision_recall_f1(*(counts.sum(keepdims=True) for counts in (correct, guessed, support)))
    total = int(words.sum())
    right = int(np.count_nonzero(_tag_ids(predicted, total) == _tag_ids(gold, total)))
    metrics: dict[str, Any] = {}
    if per_type:
        for label, scores in zip(types, each.T.tolist(), strict=True):
            metrics[labels[label]] = dict(zip(SCORES, scores, strict=True)) | {"number": int(support[label])}
    macro = each.mean(axis=1) if types else np.zeros(3)
    return metrics | totals(micro[:, 0].tolist(), macro.tolist(), right / total if total else 0.0)


def to_iob2(entities: EntityTable, num_words: npt.ArrayLike, labels: Sequence[str]) -> list[list[str]]:
    """Write entities as IOB2 tags, one list for each sentence.

    Args:
        entities: Entities that do not overlap, in any order.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        labels: Name of each label id.

    Returns:
        "O", "B-TYPE" or "I-TYPE" for each word of each sentence.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, has no type, or overlaps another.
    """
    words = np.asarray(num_words, dtype=np.int64)
    names = np.array(["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")], dtype=object)
    tags = names[_tag_ids(flatten(entities, words, labels, "given"), int(words.sum()))].tolist()
    ends = np.cumsum(words)
    return [tags[start:end] for start, end in zip((ends - words).tolist(), ends.tolist(), strict=True)]


def totals(micro: Sequence[float], macro: Sequence[float], accuracy: float) -> dict[str, float]:
    """Name the scores over all types.

    Args:
        micro: Precision, recall and F1 over all entities.
        macro: Their means over the types.
        accuracy: Share of words with the right tag.

    Returns:
        The scores by name, as in [`compute_metrics`].
    """
    named = {f"overall_{name}": value for name, value in zip(SCORES, micro, strict=True)}
    named["overall_accuracy"] = accuracy
    named |= {f"macro_{name}": value for name, value in zip(SCORES, macro, strict=True)}
    return named | {"f1": named["overall_f1"]}


def precision_recall_f1(correct: npt.NDArray[Any], guessed: IntArray, support: IntArray) -> npt.NDArray[np.float64]:
    """Score counts of entities, with seqeval's order of operations, so that the last digit is the same.

    Args:
        correct: Entities that are both predicted and gold, of which some may count half. Shape: ``[types]``.
        guessed: Predicted entities. Shape: ``[types]``.
        support: Gold entities. Shape: ``[types]``.

    Returns:
        Precision, recall and F1, each 0.0 where it divides by 0. Shape: ``[3, types]``.
    """
    precision = correct / np.where(guessed == 0, 1, guessed)
    recall = correct / np.where(support == 0, 1, support)
    both = precision + recall
    f1 = 2.0 * precision * recall / np.where(both == 0, 1.0, both)
    return np.stack([precision, recall, f1])


def flatten(entities: EntityTable, num_words: IntArray, labels: Sequence[str], source: str) -> FlatEntities:
    """Lay entities out on the words of all sentences and refuse those that no tags can express.

    Args:
        entities: Entities in any order.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        labels: Name of each label id.
        source: What the entities are, for the error: "gold", ...

    Returns:
        The same entities, sorted.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, has no type, or overlaps another.
    """
    rows, ids, starts, ends = (np.asarray(column, dtype=np.int64) for column in entities)
    _check_entities(EntityTable(rows, ids, starts, ends), num_words, labels, source)
    offsets = (np.cumsum(num_words) - num_words)[rows]
    order = np.argsort(starts + offsets, kind="stable")
    flat = FlatEntities(*(column[order] for column in (starts + offsets, ends + offsets, ids)))
    overlap = np.flatnonzero(flat.ends[:-1] > flat.starts[1:])
    if len(overlap):
        first, second = order[overlap[0]], order[overlap[0] + 1]
        raise ValueError(
            f"Row {rows[first]}: the {source} entities [{starts[first]}, {ends[first]}) and [{starts[second]}, "
            f"{ends[second]}) overlap. Tags cannot express nested entities: keep one of the two."
        )
    return flat


def _check_entities(entities: EntityTable, num_words: IntArray, labels: Sequence[str], source: str) -> None:
    """Refuse entities that lie nowhere or are of no type; the arguments are those of [`flatten`].

    Raises:
        ValueError: An entity lies in no sentence or outside its own, or has no type.
    """
    rows, ids, starts, ends = entities
    lost = np.flatnonzero((rows < 0) | (rows >= len(num_words)))
    if len(lost):
        raise ValueError(
            f"A {source} entity lies in row {rows[lost[0]]}, but there are {len(num_words)} sentences. Give the number "
            "of words of every sentence."
        )
    outside = np.flatnonzero((starts < 0) | (starts >= ends) | (ends > num_words[rows]))
    if len(outside):
        at = outside[0]
        raise ValueError(
            f"Row {rows[at]}: the {source} entity [{starts[at]}, {ends[at]}) does not lie in the sentence of "
            f"{num_words[rows[at]]} words. Give words before truncation and exclusive ends."
        )
    types = [label_id for label_id, label in enumerate(labels) if label != "O"]
    untyped = np.flatnonzero(~np.isin(ids, types))
    if len(untyped):
        at = untyped[0]
        raise ValueError(
            f"Row {rows[at]}: the {source} entity [{starts[at]}, {ends[at]}) has the label id {ids[at]}. Give the id "
            f"of an entity type; the labels are {list(labels)}."
        )


def _tag_ids(entities: FlatEntities, num_words: int) -> IntArray:
    """Number the IOB2 tag of every word: 0 for "O", then two for each label, "B" before "I".

    Args:
        entities: Entities that do not overlap.
        num_words: Number of words of all sentences together.

    Returns:
        Tag ids. Shape: ``[words]``.
    """
    tags = np.zeros(num_words, dtype=np.int64)
    inside = 2 * entities.labels + 2
    lengths = entities.ends - entities.starts
    tags[ranges(entities.starts, lengths)] = np.repeat(inside, lengths)
    tags[entities.starts] = inside - 1
    return tags
