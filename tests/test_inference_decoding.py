"""Modes of decoding, thresholds and top_k in all that `predict` takes."""

from collections import Counter
from itertools import pairwise

import pytest
from datasets import Dataset
from test_decoding import by_definition
from tiny_models import SENTENCES, TEXTS, assert_close, collate, give_filter, make_finder
from transformers import pipeline

from span_marker import Decoding
from span_marker.decoding_modes import MODES
from span_marker.spans import count_spans, span_index

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


# ---- The probabilities of all labels ----


def plain(rows):
    return [[{name: entity[name] for name in entity if name != "scores"} for entity in row] for row in rows]


@pytest.fixture(scope="module", params=["all spans", "filter that votes"])
def scorer(request, tiny_encoder):
    model = make_finder(tiny_encoder, model_max_length=20)
    return model if request.param == "all spans" else give_filter(model, vote=0.5)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("mode", MODES)
def test_scores_are_distributions_that_agree_with_the_score(scorer, monkeypatch, temperature, mode):
    monkeypatch.setattr(scorer.config, "score_temperature", temperature)
    found = scorer.predict(INPUTS, decoding=mode, return_scores=True)
    entities = [entity for row in found for entity in row]
    assert entities
    for entity in entities:
        assert list(entity["scores"]) == ["O", "LOC", "PER"]
        assert sum(entity["scores"].values()) == pytest.approx(1, abs=1e-12)
        assert min(entity["scores"].values()) >= 0
        assert entity["scores"][entity["label"]] == entity["score"]
    assert plain(found) == scorer.predict(INPUTS, decoding=mode)


def test_scores_are_what_the_model_says(scorer):
    """Each sentence by itself: its logits are those of the forward pass, of both classifiers where both vote."""
    for sentence in (SENTENCES[0], SENTENCES[4]):
        logits = scorer(**collate(scorer, [sentence])).logits[0].softmax(-1)
        for entity in scorer.predict([sentence], decoding="all", return_scores=True)[0]:
            index = span_index(entity["word_start_index"], entity["word_end_index"], len(sentence), 4)
            expected = dict(zip(["O", "LOC", "PER"], logits[index].tolist(), strict=True))
            assert entity["scores"] == pytest.approx(expected, abs=1e-5)


def test_forms_of_inputs_have_the_same_scores(scorer):
    expected = scorer.predict(INPUTS, return_scores=True)
    assert scorer.predict(Dataset.from_dict({"tokens": INPUTS}), return_scores=True) == expected
    assert list(scorer.predict(iter(INPUTS), return_scores=True)) == expected
    for sentence, entities in zip(SENTENCES, expected, strict=False):
        for found in (
            scorer.predict([sentence], return_scores=True)[0],
            scorer.predict(" ".join(sentence), return_scores=True),
        ):
            assert len(found) == len(entities)
            for entity, other in zip(found, entities, strict=True):
                assert entity["scores"] == pytest.approx(other["scores"], abs=1e-5)
    assert scorer.predict("", return_scores=True) == []


def test_scores_in_the_pipeline(scorer):
    find = pipeline("span-marker", model=scorer, device=-1)
    expected = scorer.predict(TEXTS[0], return_scores=True)
    assert find(TEXTS[0], return_scores=True) == expected
    renamed = find(TEXTS[0], return_scores=True, output_format="token-classification")
    assert [entity["scores"] for entity in renamed] == [entity["scores"] for entity in expected]
