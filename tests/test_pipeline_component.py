import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import SENTENCES, TEXTS, assert_close, make_finder
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset

import span_marker
from span_marker import SpanMarkerModel, SpanMarkerPipeline

TEXTS = [text for text in TEXTS if text]


@pytest.fixture(scope="module")
def model(tiny_encoder):
    return make_finder(tiny_encoder)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def pipe(model):
    return pipeline("span-marker", model=model, device=-1)


@pytest.fixture
def find(model):
    return pipeline("span-marker", model=model, device=-1)


def test_loading_by_name(folder, model):
    find = pipeline("span-marker", model=str(folder), device=-1)
    assert isinstance(find, SpanMarkerPipeline)
    assert find(TEXTS[0]) == model.predict(TEXTS[0])


def test_what_predict_returns(find, model):
    assert_close(find(TEXTS, batch_size=3), model.predict(TEXTS))
    assert_close(find(SENTENCES), model.predict(SENTENCES))
    assert find(SENTENCES[0]) == model.predict(SENTENCES[0])
    assert find("") == []
    assert find([]) == []


def test_arguments_of_the_pipeline_hold_for_its_calls(model):
    find = pipeline("span-marker", model=model, device=-1, is_split_into_words=False, batch_size=2)
    assert find(["Ada", "Paris"]) == model.predict(["Ada", "Paris"], is_split_into_words=False)
    assert find(["Ada", "Paris"], is_split_into_words=True) == model.predict(["Ada", "Paris"])


def test_streams_and_data_sets(find, model):
    expected = model.predict(TEXTS)
    rows = Dataset.from_dict({"text": TEXTS, "tokens": SENTENCES[: len(TEXTS)]})
    assert_close(list(find(text for text in TEXTS)), expected)
    assert_close(list(find(KeyDataset(rows, "text"))), expected)
    assert_close(find(rows), model.predict(rows))


def test_token_classification(find, model):
    entity = model.predict(TEXTS[0])[0]
    first, length = find(TEXTS[0], output_format="token-classification")[0], len(model.predict(TEXTS[0]))
    assert first == {
        "entity_group": entity["label"],
        "score": entity["score"],
        "word": entity["span"],
        "start": entity["char_start_index"],
        "end": entity["char_end_index"],
    }
    for inputs in ([TEXTS[0], TEXTS[0]], iter([TEXTS[0], TEXTS[0]])):
        found = list(find(inputs, output_format="token-classification"))
        assert [len(entities) for entities in found] == [length, length]
        assert list(found[1][0]) == ["entity_group", "score", "word", "start", "end"]
    words = find(SENTENCES[0], output_format="token-classification")[-1]
    assert words["word"] == " ".join(SENTENCES[0][words["start"] : words["end"]])
    assert find("", output_format="token-classification") == []


@pytest.mark.parametrize("settings", [{"decoding": "nested"}, {"decoding": "all", "threshold": 0.5, "top_k": 2}])
def test_decoding(find, folder, model, settings):
    expected = model.predict(SENTENCES, **settings)
    assert_close(find(SENTENCES, **settings), expected)
    assert_close(pipeline("span-marker", model=str(folder), device=-1, **settings)(SENTENCES), expected)


any_text = st.text(max_size=25) | st.text("Ada \n\t\u200b'.👩\u200d🇬ש中の\u0e38é\u0301<>[]", max_size=25)


@settings(max_examples=25, deadline=None)
@given(st.lists(any_text, max_size=6))
def test_arbitrary_text(pipe, model, texts):
    """What predict says, in all forms of inputs and of outputs."""
    expected = model.predict(texts, is_split_into_words=False)
    assert_close(pipe(texts, is_split_into_words=False, batch_size=3), expected)
    assert_close(list(pipe(iter(texts))), expected)
    renamed = list(pipe(iter(texts), output_format="token-classification"))
    for text, entities, found in zip(texts, expected, renamed, strict=True):
        for entity, other in zip(entities, found, strict=True):
            assert text[other["start"] : other["end"]] == other["word"] == entity["span"] != ""
            assert other["entity_group"] == entity["label"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.text(max_size=8), max_size=6), max_size=5))
def test_arbitrary_words(pipe, model, sentences):
    expected = model.predict(sentences)
    assert_close(pipe(sentences, batch_size=3), expected)
    assert_close(list(pipe(iter(sentences))), expected)


def test_unknown_arguments(find):
    with pytest.raises(TypeError, match="The pipeline got 'top_p'; it takes decoding, is_split_into_words, "):
        find("Ada", top_p=3)
    with pytest.raises(
        ValueError, match=r"output_format is 'json'\. Expected one of span-marker, token-classification"
    ):
        find("Ada", output_format="json")


def test_regression_what_cannot_be_meant_is_refused(find):
    with pytest.raises(ValueError, match='batch_size must be at least 1, or "auto", but it is 0'):
        find("Ada", batch_size=0)
    with pytest.raises(TypeError, match="The pipeline got 2 inputs one by one"):
        find("Ada", "Paris")


def test_saving(find, tmp_path, model):
    find.save_pretrained(tmp_path)
    assert SpanMarkerModel.from_pretrained(tmp_path).predict(TEXTS[0]) == model.predict(TEXTS[0])
    assert pipeline("span-marker", model=str(tmp_path), device=-1)(TEXTS[0]) == model.predict(TEXTS[0])


def test_the_public_class():
    assert span_marker.SpanMarkerPipeline is SpanMarkerPipeline
