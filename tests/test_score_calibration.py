import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.score_calibration import LEAST_ENTITIES, calibration_error, complete, fit_temperature, scale

PROBABILITIES = st.lists(st.floats(0, 1, width=32), max_size=30)


def draw(temperature, size=20_000):
    """Entities whose scores are as far off as a temperature makes them."""
    generator = np.random.default_rng(0)
    truth = generator.uniform(0.05, 0.95, size)
    return scale(truth, 1 / temperature), generator.uniform(size=size) < truth


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_is_found_again(temperature):
    scores, is_right = draw(temperature)
    assert fit_temperature(scores, is_right) == pytest.approx(temperature, rel=0.05)


def test_a_fitted_temperature_lowers_the_error():
    scores, is_right = draw(2.5)
    assert calibration_error(scores, is_right) > 0.1
    assert calibration_error(scale(scores, fit_temperature(scores, is_right)), is_right) < 0.02


@pytest.mark.parametrize("size", [0, 1, LEAST_ENTITIES - 1])
def test_few_entities_tell_nothing(size):
    assert fit_temperature(np.full(size, 0.9), np.zeros(size, dtype=bool)) == 1.0


@pytest.mark.parametrize("is_right", [True, False])
def test_entities_that_are_all_right_or_all_wrong(is_right):
    assert 0 < fit_temperature(np.full(100, 0.9), np.full(100, is_right)) < np.inf


def test_error_by_hand():
    assert calibration_error([], []) == 0.0
    assert calibration_error([1.0, 1.0], [True, False]) == pytest.approx(0.5)
    # One range each: 0.9 where all is right, 0.5 where nothing is.
    assert calibration_error([0.9, 0.9, 0.9, 0.5], [True, True, True, False]) == pytest.approx((3 * 0.1 + 0.5) / 4)


@given(PROBABILITIES, st.floats(0.5, 20))
def test_scores_stay_probabilities_in_their_order(scores, temperature):
    scores = np.unique(np.array(scores, dtype=np.float32))
    scaled = scale(scores, temperature)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert (np.diff(scaled[scores > 1e-30]) > 0).all()


@given(PROBABILITIES)
def test_a_temperature_of_one_changes_nothing(scores):
    assert scale(scores, 1.0).tolist() == np.array(scores, dtype=np.float32).tolist()


def test_what_a_score_leaves_is_shared_as_the_model_says():
    probabilities = [[0.1, 0.6, 0.3], [0.0, 0.0, 1.0], [0.5, 0.2, 0.3]]
    completed = complete(probabilities, [1, 2, 0], [0.8, 1.0, 0.5])
    np.testing.assert_allclose(completed, [[0.05, 0.8, 0.15], [0.0, 0.0, 1.0], [0.5, 0.2, 0.3]], atol=1e-12)
    assert complete(np.zeros((0, 3)), [], []).shape == (0, 3)
