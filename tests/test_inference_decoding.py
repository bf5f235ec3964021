"""Modes of decoding, thresholds and top_k in all that `predict` takes."""

from collections import Counter
from itertools import pairwise

import pytest
from datasets import Dataset
from test_decoding import by_definition
from tiny_models import SENTENCES, TEXTS, assert_close, make_finder

from span_marker import Decoding
from span_marker.decoding_modes import MODES
from span_marker.spans import count_spans

LONG = [word for sentence in SENTENCES for word in sentence] * 3
INPUTS = [*SENTENCES, LONG]


@pytest.fixture(scope="module")
def finder(tiny_encoder):
    """A model that takes every span for an entity, and reads 20 tokens at once."""
    return make_finder(tiny_encoder, model_max_length=20)


def places(rows, unit="word"):
    """[(row, label, start, end), ...] and the scores."""
    found = [
        (row, entity["label"], entity[f"{unit}_start_index"], entity[f"{unit}_end_index"])
        for row, entities in enumerate(rows)
        for entity in entities
    ]
    return found, [entity["score"] for entities in rows for entity in entities]


@pytest.fixture(scope="module")
def everything(finder):
    """All candidates of the inputs, and their scores."""
    candidates, scores = places(finder.predict(INPUTS, decoding="all"))
    assert len(candidates) == count_spans([len(row) for row in INPUTS], 4).sum()
    assert len(set(candidates)) == len(candidates)
    assert candidates == sorted(candidates, key=lambda place: (place[0], *place[2:]))
    return candidates, scores


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("threshold", "top_k"), [(0.0, None), (0.6, None), (0.0, 2), (0.6, 1)])
def test_entities_are_those_of_the_definition(finder, everything, mode, threshold, top_k):
    candidates, scores = everything
    expected = by_definition(candidates, scores, mode, threshold, top_k)
    found = finder.predict(INPUTS, decoding=mode, threshold=threshold or None, top_k=top_k)
    assert places(found) == ([candidates[index] for index in expected], [scores[index] for index in expected])


def test_flat_is_the_default(finder):
    assert finder.predict(INPUTS) == finder.predict(INPUTS, decoding="flat")
    assert finder.predict(INPUTS) != finder.predict(INPUTS, decoding="nested") != finder.predict(INPUTS, decoding="all")


def test_the_configuration_says_the_default(finder, monkeypatch):
    expected = finder.predict(SENTENCES, decoding="nested")
    monkeypatch.setattr(finder.config, "decoding", "nested")
    assert finder.predict(SENTENCES) == expected
    assert finder.predict(SENTENCES, top_k=1) == finder.predict(SENTENCES, decoding=Decoding("nested", top_k=1))


@pytest.mark.parametrize(
    "settings", [{"decoding": "nested"}, {"decoding": "all", "threshold": {"PER": 0.9}, "top_k": 3}]
)
def test_forms_of_inputs_agree(finder, settings):
    expected = finder.predict(INPUTS, **settings)
    for row, entities in zip(INPUTS, expected, strict=True):
        if len(row) > 1:  # one string is a text
            assert_close([finder.predict(row, **settings)], [entities])
    assert finder.predict(Dataset.from_dict({"tokens": INPUTS}), **settings) == expected
    assert list(finder.predict(iter(INPUTS), **settings)) == expected
    assert finder.predict(INPUTS, decoding=Decoding(*map(settings.get, ("decoding", "threshold", "top_k")))) == expected
    texts, _ = places(finder.predict(TEXTS, **settings), "char")
    assert len(texts) == len(places(expected[: len(TEXTS)])[0]) > 0


def test_texts_keep_their_order(finder):
    found, _ = places(finder.predict(TEXTS, decoding="nested"), "char")
    assert found == sorted(found, key=lambda place: (place[0], *place[2:]))
    assert any(a[0] == b[0] and a[3] > b[2] for a, b in pairwise(found))


def test_thresholds_by_type(finder, everything):
    candidates, scores = everything
    (label, number), *_ = Counter(place[1] for place in candidates).most_common()
    least = sorted(score for place, score in zip(candidates, scores, strict=True) if place[1] == label)[number // 2]
    found, _ = places(finder.predict(INPUTS, decoding="all", threshold={label: least}))
    kept = [place for place, score in zip(candidates, scores, strict=True) if place[1] != label or score >= least]
    assert found == kept != candidates


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoding": "nestd"}, "decoding must be one of .* Did you mean 'nested'"),
        ({"threshold": 2}, "threshold must be a probability"),
        (
            {"threshold": {"PERS": 0.5}},
            "'PERS', which is no entity type of the model. Did you mean 'PER'",
        ),
        ({"top_k": 0}, "top_k must be a positive integer"),
        ({"decoding": Decoding(), "top_k": 1}, "decoding is a Decoding, which holds threshold and top_k itself"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_read(finder, settings, message):
    def stream():
        pytest.fail("an input was read")
        yield

    with pytest.raises(ValueError, match=message):
        finder.predict(stream(), **settings)
