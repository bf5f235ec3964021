"""Scores of predicted entities that say how often such entities are right.

A model's probabilities tell better entities from worse, but not how many of them are right. One temperature, fitted on
sentences that the model was not trained on, mends most of that (Guo et al. 2017) and changes no order among scores, so
that the same entities are found.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

BINS: Final = 15
LEAST_ENTITIES: Final = 50
"""From fewer predicted entities no temperature is fitted."""
_CERTAIN: Final = 1e-6
_TEMPERATURES: Final = np.geomspace(0.5, 20.0, 371)
"""None so low that scores next to 1 would become the same."""


def scale(scores: npt.ArrayLike, temperature: float) -> npt.NDArray[np.floating]:
    """Divide the log-odds of scores by a temperature.

    Args:
        scores: Probabilities.
        temperature: At least 0.5; 1 leaves the scores as they are.

    Returns:
        Probabilities, in double precision unless they are the same: scores that differ still do. Shape: as ``scores``.
    """
    scores = np.asarray(scores)
    if temperature == 1:
        return scores
    with np.errstate(divide="ignore"):  # of certainty
        odds = np.log(scores, dtype=np.float64) - np.log1p(-scores, dtype=np.float64)
    scaled: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0, -odds / temperature))
    return scaled


def complete(probabilities: npt.ArrayLike, labels: npt.ArrayLike, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Tell the probabilities of all labels of entities whose own label has been given its score.

    What the score leaves is shared among the other labels in the proportions that the model says.

    Args:
        probabilities: What the model says of each label. Shape: ``[entities, labels]``.
        labels: Label id of each entity. Shape: ``[entities]``.
        scores: Its score. Shape: ``[entities]``.

    Returns:
        Distributions in which each label that was given has its score. Shape: ``[entities, labels]``.
    """
    own = np.asarray(labels)[:, None] == np.arange(np.shape(probabilities)[1])
    others = np.where(own, 0.0, np.asarray(probabilities, dtype=np.float64))
    known = np.asarray(scores, dtype=np.float64)[:, None]
    total = others.sum(axis=1, keepdims=True)
    shares = np.divide(others, total, out=np.zeros_like(others), where=total > 0)
    completed: npt.NDArray[np.float64] = np.where(own, known, shares * (1 - known))
    return completed


def fit_temperature(scores: npt.ArrayLike, is_right: npt.ArrayLike) -> float:
    """Find the temperature under which it is most likely that just these entities are right.

    Args:
        scores: Probability of each predicted entity. Shape: ``[entities]``.
        is_right: Whether each is a gold entity. Shape: ``[entities]``.

    Returns:
        The temperature; 1 where there are too few entities to tell.
    """
    clipped = np.clip(np.asarray(scores, dtype=np.float64), _CERTAIN, 1 - _CERTAIN)
    if len(clipped) < LEAST_ENTITIES:
        return 1.0
    odds = np.log(clipped) - np.log1p(-clipped)
    signed = np.where(is_right, odds, -odds)
    losses = [np.logaddexp(0, -signed / temperature).mean() for temperature in _TEMPERATURES]
    return float(_TEMPERATURES[int(np.argmin(losses))])


def calibration_error(scores: npt.ArrayLike, is_right: npt.ArrayLike) -> float:
    """Compare scores with the share of entities that are right (expected calibration error, Naeini et al. 2015).

    Args:
        scores: Probability of each predicted entity. Shape: ``[entities]``.
        is_right: Whether each is a gold entity. Shape: ``[entities]``.

    Returns:
        The difference between mean score and precision in each of 15 equal ranges of scores, averaged over the
        entities; 0.0 where there is none.
    """
    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
    bins = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    excess = np.bincount(bins, weights=scores - right, minlength=BINS)
    return float(np.abs(excess).sum() / max(len(scores), 1))
