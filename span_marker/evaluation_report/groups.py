"""What became of entities, by groups of them: by type, by length, by whether they were seen in training."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from span_marker.entity_errors import OUTCOMES, PairedEntities, count_outcomes
from span_marker.evaluation import FlatEntities, precision_recall_f1
from span_marker.types import IntArray

_MANY_WORDS = 10
"""Words from which on entities are put together."""


@dataclass(frozen=True)
class EntityGroup:
    """What became of some of the entities.

    Attributes:
        name: What they have in common.
        gold: Number of gold entities.
        predicted: Number of predicted entities.
        found: Gold entities that were predicted as they are.
        other_words: Those that were predicted with their type, but other words.
        other_type: Those that were predicted with their words, but another type.
        other_both: Those some words of which were predicted as another type.
        missed: Those none of whose words were predicted.
        spurious: Predicted entities that share no word with a gold one.
        precision: Share of the predicted entities that are right; 0.0 without any.
        recall: Share of the gold entities that were found; 0.0 without any.
        f1: Harmonic mean of precision and recall.
    """

    name: str
    gold: int
    predicted: int
    found: int
    other_words: int
    other_type: int
    other_both: int
    missed: int
    spurious: int
    precision: float
    recall: float
    f1: float


def group_by_type(pairs: PairedEntities, labels: Sequence[str]) -> tuple[EntityGroup, ...]:
    """Group entities by type.

    Args:
        pairs: The entities.
        labels: Name of each label id.

    Returns:
        A group for each type that occurs, by name.
    """
    gold, predicted = pairs.gold.labels, pairs.predicted.labels
    groups = count_groups(labels, gold, predicted, pairs)
    occurring = sorted({*gold.tolist(), *predicted.tolist()}, key=lambda label: labels[label])
    return tuple(groups[label] for label in occurring)


def group_by_length(pairs: PairedEntities) -> tuple[EntityGroup, ...]:
    """Group entities by their number of words: gold ones by that of the gold, predicted ones by that of the prediction.

    Args:
        pairs: The entities.

    Returns:
        A group for each number of words up to the largest that occurs; those of 10 words and more are put together.
    """
    gold, predicted = _lengths(pairs.gold), _lengths(pairs.predicted)
    longest = max(gold.max(initial=0), predicted.max(initial=0))
    names = [str(length) + "+" * (length == _MANY_WORDS) for length in range(1, longest + 1)]
    return tuple(count_groups(names, gold - 1, predicted - 1, pairs))


def count_groups(
    names: Sequence[str], gold_groups: IntArray, predicted_groups: IntArray, pairs: PairedEntities
) -> list[EntityGroup]:
    """Count what became of the entities of each group.

    Args:
        names: Names of the groups.
        gold_groups: Number of each gold entity's group. Shape: ``[gold]``.
        predicted_groups: Number of each predicted entity's group, the same as that of the gold entity if it is right.
            Shape: ``[predicted]``.
        pairs: The entities.

    Returns:
        The groups.
    """
    size = len(names)
    gold, predicted = (np.bincount(groups, minlength=size) for groups in (gold_groups, predicted_groups))
    outcomes = count_outcomes(pairs, gold_groups, predicted_groups, size)
    shares = precision_recall_f1(outcomes[:, OUTCOMES.index("found")], predicted, gold)
    counts = np.column_stack([gold, predicted, outcomes])
    return [
        EntityGroup(name, *numbers, *scores)
        for name, numbers, scores in zip(names, counts.tolist(), shares.T.tolist(), strict=True)
    ]


def _lengths(entities: FlatEntities) -> IntArray:
    """Count words. Shape: ``[entities]``."""
    lengths: IntArray = np.minimum(entities.ends - entities.starts, _MANY_WORDS)
    return lengths
