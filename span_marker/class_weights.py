"""Weights of entity types in the losses: given by type, or balanced by how often the types occur."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from span_marker.settings import nearest

BALANCED: Final = "balanced"
MOST: Final = 10.0
"""Highest balanced weight: a few examples shall not outweigh all others."""
ClassWeights: TypeAlias = Mapping[str, float] | str | None


def require_class_weights(value: Any) -> None:
    """Refuse what are no weights.

    Args:
        value: What was given.

    Raises:
        ValueError: It is neither "balanced" nor positive numbers by entity type.
    """
    if value is None or (isinstance(value, str) and value == BALANCED):
        return
    if not isinstance(value, Mapping):
        raise ValueError(
            f"class_weights must be {BALANCED!r}, or numbers by entity type such as {{'PER': 2.0}}, but it is "
            f"{value!r:.60}."
        )
    for label, weight in value.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 < weight < math.inf:
            raise ValueError(f"class_weights[{label!r}] must be a number above 0, but it is {weight!r}.")


def weights_of(weights: ClassWeights, labels: Sequence[str], outside_id: int) -> list[float]:
    """List the weight of each label.

    Args:
        weights: The weights as the configuration has them.
        labels: Name of each label id.
        outside_id: Label id of "no entity".

    Returns:
        1 for types that are not named, and for "no entity". Shape: ``[labels]``.

    Raises:
        ValueError: A weight is given for what is no entity type, or nothing has been counted yet.
    """
    if weights is None:
        return [1.0] * len(labels)
    if isinstance(weights, str):
        raise ValueError(
            f"class_weights is {weights!r}: the Trainer counts the entities of its training set and puts numbers in "
            "its place when a training begins. Without it, give numbers by entity type."
        )
    types = [label for index, label in enumerate(labels) if index != outside_id]
    for label in weights:
        if label not in types:
            raise ValueError(
                f"class_weights names {label!r}, which is no entity type of the model. {nearest(label, types)} The "
                "weight of entities relative to other spans is entity_weight."
            )
    return [float(weights.get(label, 1.0)) for label in labels]


def balanced_weights(counts: Mapping[str, int]) -> dict[str, float]:
    """Weigh types such that each has the same share in the loss of all entities.

    Args:
        counts: Number of entities of each type.

    Returns:
        The mean number of entities of a type divided by its own, 10 at most; 1 for a type without any.
    """
    seen = [count for count in counts.values() if count]
    mean = sum(seen) / max(len(seen), 1)
    return {label: min(round(mean / count, 4), MOST) if count else 1.0 for label, count in counts.items()}
