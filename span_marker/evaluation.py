"""Precision, recall and F1 of entities, equal to seqeval's to the last digit, without a download.

Gold entities that the model cannot predict, because they are longer than ``entity_max_length``, count as missed. The
reference drops them from the gold, which flatters its recall.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from span_marker.ragged import ranges
from span_marker.types import BoolArray, EntityTable, IntArray

SCORES = ("precision", "recall", "f1")
"""Names of the scores of a type, in their order."""


class FlatEntities(NamedTuple):
    """Entities on the words of all sentences laid out one after the other, sorted by start.

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

    Entities may overlap, those of either table; one that is given twice counts once.

    Args:
        predictions: Predicted entities.
        references: All gold entities, those that the model cannot predict too.
        num_words: Number of words of each sentence as given, before any truncation. Shape: ``[sentences]``.
        labels: Name of each label id of the two tables.
        per_type: Whether to add a dictionary for each type. Off within training, where loggers want numbers only.

    Returns:
        ``overall_precision``, ``overall_recall``, ``overall_f1`` over all entities (micro), ``overall_accuracy`` over
        the words' IOB2 tags where no entities overlap, ``macro_precision``, ``macro_recall``, ``macro_f1`` as
        unweighted means over the types that occur, ``f1`` as a short name of ``overall_f1``, and first of all, for each
        type that occurs in either table, a dictionary of ``precision``, ``recall``, ``f1`` and ``number`` (of gold
        entities) under the type's name. Plain floats and integers. A ratio of nothing is 0.0. A type named like one of
        the totals gives way to it.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, or has no type.
    """
    words = np.asarray(num_words, dtype=np.int64)
    predicted, _ = lay_out(predictions, words, labels, "predicted")
    gold, _ = lay_out(references, words, labels, "gold")
    keys = _keys(predicted, gold, len(labels))
    correct, guessed, support = (
        np.bincount(found % len(labels), minlength=len(labels)) for found in (_common(*keys), *keys)
    )
    # By name, as seqeval has it: the order of the terms decides the last digit of a mean.
    types = sorted(np.flatnonzero(guessed + support).tolist(), key=lambda label: labels[label])
    each = precision_recall_f1(correct[types], guessed[types], support[types])
    micro = precision_recall_f1(*(counts.sum(keepdims=True) for counts in (correct, guessed, support)))
    metrics: dict[str, Any] = {}
    if per_type:
        for label, scores in zip(types, each.T.tolist(), strict=True):
            metrics[labels[label]] = dict(zip(SCORES, scores, strict=True)) | {"number": int(support[label])}
    macro = each.mean(axis=1) if types else np.zeros(3)
    overlap = do_overlap(predicted) or do_overlap(gold)
    accuracy = None if overlap else _accuracy(predicted, gold, int(words.sum()))
    return metrics | totals(micro[:, 0].tolist(), macro.tolist(), accuracy)


def _keys(predicted: FlatEntities, gold: FlatEntities, num_labels: int) -> tuple[IntArray, IntArray]:
    """Number entities such that the same ones have the same number, whose remainder is the label id.

    Returns:
        The numbers of the predicted and of the gold entities, each once. Shape of each: ``[different entities]``.
    """
    lengths = [entities.ends - entities.starts for entities in (predicted, gold)]
    base = np.concatenate(lengths).max(initial=0) + 1
    one, other = (
        # All but sorted already, which a stable sort makes use of.
        np.sort((entities.starts * base + length) * num_labels + entities.labels, kind="stable")
        for entities, length in zip((predicted, gold), lengths, strict=True)
    )
    return one[_is_new(one)], other[_is_new(other)]


def _common(one: IntArray, other: IntArray) -> IntArray:
    """Find the numbers that are in both of two sorted arrays without repetition."""
    both = np.sort(np.concatenate([one, other]), kind="stable")
    return both[~_is_new(both)]


def _is_new(numbers: IntArray) -> BoolArray:
    """Tell which numbers differ from the one before."""
    new = np.ones(len(numbers), dtype=np.bool_)
    new[1:] = numbers[1:] != numbers[:-1]
    return new


def _accuracy(predicted: FlatEntities, gold: FlatEntities, num_words: int) -> float:
    """Compute the share of words with the right IOB2 tag, 0.0 of no words."""
    right = int(np.count_nonzero(_tag_ids(predicted, num_words) == _tag_ids(gold, num_words)))
    return right / num_words if num_words else 0.0


def find_right(predictions: EntityTable, references: EntityTable) -> BoolArray:
    """Tell which predicted entities are gold entities.

    Args:
        predictions: Predicted entities.
        references: Gold entities.

    Returns:
        Shape: ``[predicted entities]``.
    """
    both = np.concatenate([np.stack(table, axis=1) for table in (predictions, references)])
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    count = len(predictions.rows)
    right: BoolArray = np.isin(numbers[:count], numbers[count:])
    return right


def count_overlapping(entities: EntityTable) -> int:
    """Count the entities that share words with another one of their sentence.

    Args:
        entities: Entities in any order.

    Returns:
        0 if tags could express all of them.
    """
    if not len(entities.rows):
        return 0
    words = np.zeros(entities.rows.max() + 1, dtype=np.int64)
    np.maximum.at(words, entities.rows, entities.ends)
    flat = _sorted(entities, words)[0]
    # One that begins later reaches back before the end of any that began earlier.
    reach = np.maximum.accumulate(flat.ends)
    after = np.zeros(len(reach), dtype=bool)
    after[1:] = flat.starts[1:] < reach[:-1]
    before = np.zeros(len(reach), dtype=bool)
    before[:-1] = flat.starts[1:] < flat.ends[:-1]
    return int((after | before).sum())


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


def totals(micro: Sequence[float], macro: Sequence[float], accuracy: float | None) -> dict[str, float]:
    """Name the scores over all types.

    Args:
        micro: Precision, recall and F1 over all entities.
        macro: Their means over the types.
        accuracy: Share of words with the right tag. ``None``: no tags can express the entities.

    Returns:
        The scores by name, as in [`compute_metrics`].
    """
    named = {f"overall_{name}": value for name, value in zip(SCORES, micro, strict=True)}
    if accuracy is not None:
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
    flat, order = lay_out(entities, num_words, labels, source)
    overlap = _overlapping(flat)
    if len(overlap):
        rows, _, starts, ends = entities
        first, second = order[overlap[0]], order[overlap[0] + 1]
        raise ValueError(
            f"Row {rows[first]}: the {source} entities [{starts[first]}, {ends[first]}) and [{starts[second]}, "
            f"{ends[second]}) overlap. Tags cannot express nested entities: keep one of the two."
        )
    return flat


def lay_out(
    entities: EntityTable, num_words: IntArray, labels: Sequence[str], source: str
) -> tuple[FlatEntities, IntArray]:
    """Lay entities out on the words of all sentences.

    Args:
        entities: Entities in any order.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        labels: Name of each label id.
        source: What the entities are, for the error: "gold", ...

    Returns:
        The same entities, sorted by start, and the index of each among those given. Shape: ``[entities]``.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, or has no type.
    """
    entities = EntityTable(*(np.asarray(column, dtype=np.int64) for column in entities))
    _check_entities(entities, num_words, labels, source)
    return _sorted(entities, num_words)


def _sorted(entities: EntityTable, num_words: IntArray) -> tuple[FlatEntities, IntArray]:
    """Lay entities out that are known to lie in their sentences; the result is that of [`lay_out`]."""
    rows, ids, starts, ends = entities
    offsets = (np.cumsum(num_words) - num_words)[rows]
    order = np.argsort(starts + offsets, kind="stable")
    return FlatEntities(*(column[order] for column in (starts + offsets, ends + offsets, ids))), order


def do_overlap(entities: FlatEntities) -> bool:
    """Tell whether any two entities share a word.

    Args:
        entities: The entities.

    Returns:
        Whether tags could not express them.
    """
    return len(_overlapping(entities)) > 0


def _overlapping(entities: FlatEntities) -> IntArray:
    """Find the entities that share words with the next one; there are none exactly if no two overlap."""
    found: IntArray = np.flatnonzero(entities.ends[:-1] > entities.starts[1:])
    return found


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
