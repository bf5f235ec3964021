"""Scores of predicted entities that say how often such entities are right.

A model's probabilities tell better entities from worse, but not how many of them are right. One temperature, fitted on
sentences that the model was not trained on, mends most of that (Guo et al. 2017) and changes no order among scores, so
that the same entities are found.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from span_marker.types import FloatArray

BINS: Final = 15
LEAST_ENTITIES: Final = 50
"""From fewer predicted entities no temperature is fitted."""
_CERTAIN: Final = 1e-6
_TEMPERATURES: Final = np.geomspace(0.05, 20.0, 481)


def scale(scores: npt.ArrayLike, temperature: float) -> FloatArray:
    """Divide the log-odds of scores by a temperature.

    Args:
        scores: Probabilities.
        temperature: Above 0; 1 leaves the scores as they are.

    Returns:
        Probabilities. Shape: as ``scores``.
    """
    scores = np.asarray(scores, dtype=np.float32)
    if temperature == 1:
        return scores
    scaled: FloatArray = _sigmoid(_log_odds(scores) / temperature).astype(np.float32)
    return scaled


def fit_temperature(scores: npt.ArrayLike, is_right: npt.ArrayLike) -> float:
    """Find the temperature under which it is most likely that just these entities are right.

    Args:
        scores: Probability of each predicted entity. Shape: ``[entities]``.
        is_right: Whether each is a gold entity. Shape: ``[entities]``.

    Returns:
        The temperature; 1 where there are too few entities to tell.
    """
    odds, right = _log_odds(np.asarray(scores, dtype=np.float64)), np.asarray(is_right, dtype=bool)
    if len(odds) < LEAST_ENTITIES:
        return 1.0
    signed = np.where(right, odds, -odds)
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


def _log_odds(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    clipped = np.clip(scores.astype(np.float64), _CERTAIN, 1 - _CERTAIN)
    odds: npt.NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
    return odds


def _sigmoid(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    probabilities: npt.NDArray[np.float64] = 1 / (1 + np.exp(-values))
    return probabilities
