import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from span_marker import Decoding
from span_marker.decoding_modes import MODES, require_mode


def test_the_default_is_flat():
    assert Decoding() == Decoding("flat", None, None)
    assert MODES == ("flat", "nested", "all")


@pytest.mark.parametrize("mode", ["Flat", "", None, 1])
def test_unknown_modes_are_refused(mode):
    message = "decoding must be one of 'flat', 'nested', 'all', but it is"
    with pytest.raises(ValueError, match=message):
        Decoding(mode)
    with pytest.raises(ValueError, match=message):
        require_mode(mode)


def test_the_nearest_mode_is_named():
    with pytest.raises(ValueError, match=r"it is 'neste'\. Did you mean 'nested'"):
        Decoding("neste")


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), True, "0.5", [0.5]])
def test_thresholds_are_probabilities(threshold):
    with pytest.raises(ValueError, match="threshold must be a probability from 0 to 1, but it is"):
        Decoding(threshold=threshold)
    with pytest.raises(ValueError, match=r"threshold\['PER'\] must be a probability"):
        Decoding(threshold={"LOC": 0.5, "PER": threshold})


@pytest.mark.parametrize("top_k", [0, -1, True, 1.0, "1"])
def test_top_k_is_a_positive_integer(top_k):
    with pytest.raises(ValueError, match="top_k must be a positive integer, but it is"):
        Decoding(top_k=top_k)


def test_numbers_of_numpy():
    assert Decoding("all", np.float32(0.5), np.int64(2)) == Decoding("all", 0.5, 2)


def test_nothing_can_be_changed_later():
    threshold = {"PER": 0.5}
    decoding = Decoding(threshold=threshold)
    threshold["PER"] = 7.0
    assert decoding.threshold == {"PER": 0.5}
    with pytest.raises(FrozenInstanceError):
        decoding.mode = "all"
    assert pickle.loads(pickle.dumps(decoding)) == decoding


def test_least_scores():
    labels = ["PER", "O", "LOC"]
    assert Decoding().least_scores(labels) is None
    assert Decoding(threshold=0.25).least_scores(labels).tolist() == 0.25
    assert Decoding(threshold={"LOC": 0.5}).least_scores(labels).tolist() == [0.0, 0.0, 0.5]
