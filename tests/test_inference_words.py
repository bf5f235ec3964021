"""Texts in scripts without spaces, and word splitters, in all that `predict` takes."""

import pytest
from datasets import Dataset
from tiny_models import TEXTS, assert_close, make_finder, make_model
from tokenizers_zoo import all_tokenizers
from transformers import pipeline

from span_marker import SpanMarkerConfig, SpanMarkerModel, read_dataset
from span_marker.word_splitters import choose_word_splitter, split_at_whitespace

CLAUSES = {
    "東京タワーは北京。": ["東", "京", "タ", "ワ", "ー", "は", "北", "京", "。"],
    "กรุงเทพ": ["ก", "รุ", "ง", "เ", "ท", "พ"],
    "Ada met 王さん": ["Ada", "met", "王", "さ", "ん"],
}


@pytest.fixture(scope="module")
def finder(tiny_encoder):
    return make_finder(tiny_encoder, model_max_length=20)


def places(entities):
    return [(entity["char_start_index"], entity["char_end_index"], entity["label"]) for entity in entities]


def in_words(text, words, splits):
    """Places of entities that were found in the words of a text."""
    return [(splits[e["word_start_index"]][0], splits[e["word_end_index"] - 1][1], e["label"]) for e in words]


@pytest.mark.parametrize("name", sorted(all_tokenizers()))
@pytest.mark.parametrize("text", CLAUSES)
def test_characters_are_words_whatever_the_tokenizer(name, text, tmp_path):
    model = make_model(tmp_path, all_tokenizers()[name], outside=-100.0)
    (words,) = model.tokenizer.words([text])
    assert [text[start:end] for start, end in words] == CLAUSES[text]
    expected = model.predict([CLAUSES[text]])[0]
    assert places(model.predict(text)) == in_words(text, expected, words)


def test_texts_of_both_kinds_share_a_batch(finder):
    texts = [*TEXTS, *CLAUSES, "Ada"]
    found = finder.predict(texts, is_split_into_words=False)
    assert_close(found, [finder.predict(text) for text in texts])
    for text, entities in zip(texts, found, strict=True):
        for entity in entities:
            assert text[entity["char_start_index"] : entity["char_end_index"]] == entity["span"]


def halves(texts):
    """Words of two characters each."""
    return [[(start, min(start + 2, len(text))) for start in range(0, len(text), 2)] for text in texts]


def test_the_words_may_be_the_callers(finder):
    text = "Adalovelace"
    (words,) = halves([text])
    expected = finder.predict([[text[start:end] for start, end in words]])[0]
    found = finder.predict(text, word_splitter=halves)
    assert places(found) == in_words(text, expected, words)
    assert [entity["score"] for entity in found] == [entity["score"] for entity in expected]
    assert {end - start for start, end, _ in places(found)} - {11}, "some entity ends where no tokenizer's word does"


def test_whitespace_is_in_no_word(finder):
    text = " Ada\n  met"
    found = finder.predict(text, word_splitter=lambda texts: [[(0, 4), (4, 7), (7, 10), (10, 10)]])
    for start, end, _ in places(found):
        assert (start, end) in {(1, 4), (7, 10), (1, 10)}
    assert found


def test_inputs_of_all_forms(finder, tmp_path):
    expected = finder.predict(TEXTS, word_splitter="whitespace")
    assert any(expected)
    for inputs in (Dataset.from_dict({"tokens": TEXTS}), iter(TEXTS)):
        assert list(finder.predict(inputs, word_splitter=split_at_whitespace)) == expected
    find = pipeline("span-marker", model=finder, device=-1, word_splitter="whitespace")
    assert find(TEXTS, batch_size=4) == expected
    finder.save_pretrained(tmp_path)
    model = SpanMarkerModel.from_pretrained(tmp_path, word_splitter="whitespace")
    assert model.predict(TEXTS) == expected
    model.save_pretrained(tmp_path)
    assert SpanMarkerConfig.from_pretrained(tmp_path).word_splitter == "whitespace"
    assert SpanMarkerModel.from_pretrained(tmp_path).predict(TEXTS) == expected


@pytest.mark.parametrize("rule", ["punctuation", "whitespace", "fugashi", halves])
def test_predict_and_readers_find_the_same_words(finder, tmp_path, rule):
    text = "東京タワーは北京のtower。"
    (tmp_path / "a.jsonl").write_text(f'["{text}", {{"entities": []}}]\n', encoding="utf-8")
    (row,) = read_dataset(tmp_path / "a.jsonl", split_words=rule)
    encoded = finder.tokenizer.encode([text], word_splitter=choose_word_splitter(rule))
    assert [text[start:end] for start, end in encoded.character_spans[0].tolist()] == row["tokens"]


def test_what_cannot_be_meant_is_refused(finder):
    with pytest.raises(ValueError, match=r"word_splitter is given, but the sentences are lists of words: \['Ada'\]"):
        finder.predict([["Ada"]], word_splitter="whitespace")
    with pytest.raises(ValueError, match=r"word_splitter='spaces'\. "):
        finder.predict(iter(["Ada"]), word_splitter="spaces")
    with pytest.raises(ValueError, match=r"Text 0: the word splitter gives word 0 as \(0, 9\) in a text of 3"):
        finder.predict("Ada", word_splitter=lambda texts: [[(0, 9)]])
    with pytest.raises(ValueError, match=r"word_splitter='spaces'"):
        SpanMarkerConfig(word_splitter="spaces")
    assert finder.predict([], word_splitter="whitespace") == []
