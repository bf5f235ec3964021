"""Precision against recall: what becomes of the scores if improbable entities are left out."""

from dataclasses import dataclass

import numpy as np

from span_marker.evaluation import precision_recall_f1
from span_marker.types import BoolArray, FloatArray

_STEPS = 100


@dataclass(frozen=True)
class ThresholdPoint:
    """The scores over all types at one threshold.

    Attributes:
        threshold: Least probability of the predicted entities that count.
        predicted: Their number.
        precision: Share of them that are right; 0.0 without any.
        recall: Share of the gold entities that they find; 0.0 without any.
        f1: Harmonic mean of precision and recall.
    """

    threshold: float
    predicted: int
    precision: float
    recall: float
    f1: float


def threshold_curve(scores: FloatArray, is_right: BoolArray, num_gold: int) -> tuple[ThresholdPoint, ...]:
    """Score the predicted entities at thresholds from 0 to 1.

    Entities are read off best score first, so that those below a threshold never keep one above it out: leaving them
    out afterwards is the same as decoding with the threshold.

    Args:
        scores: Probability of each predicted entity. Shape: ``[predicted]``.
        is_right: Whether it is a gold entity. Shape: ``[predicted]``.
        num_gold: Number of gold entities.

    Returns:
        A point for every hundredth.
    """
    thresholds = np.arange(_STEPS + 1) / _STEPS
    values = np.asarray(scores, dtype=np.float64)
    kept, right = (len(part) - np.searchsorted(np.sort(part), thresholds) for part in (values, values[is_right]))
    shares = precision_recall_f1(right, kept, np.full_like(kept, num_gold))
    return tuple(
        ThresholdPoint(*point) for point in zip(thresholds.tolist(), kept.tolist(), *shares.tolist(), strict=True)
    )


def best_threshold(curve: tuple[ThresholdPoint, ...]) -> ThresholdPoint:
    """Choose the point of the highest F1, of equals that of the lowest threshold.

    Args:
        curve: The points.

    Returns:
        The point.
    """
    return max(curve, key=lambda point: point.f1)
