import copy
import re
import time
import warnings

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_models import SENTENCES, TEXTS, assert_close, collate, give_opinions, make_model
from tokenizers_zoo import all_tokenizers, llama_bpe, modernbert, unigram, wordpiece, xlm_roberta
from transformers.utils import logging as transformers_logging

from span_marker import SpanMarkerModel, Trainer, TrainingArguments, classification, inference
from span_marker.classification import classify_spans

ODD_WORDS = ["", " ", "\t\n", "\u200b", "\u200d\ufe0f", "\x00", "\u00ad", "\ufeff", "\ud800"]
ODD_TEXTS = [
    "",
    " ",
    "\t \n",
    "\u200b",
    "Ada\u200bLovelace",
    "  Ada   Lovelace  lives\n\nin London .\n",
    "👩‍👩‍👧 Ada 🇬🇧 🏴󠁧󠁢󠁥󠁮󠁧󠁿!",
    "שלום עולם Ada مرحبا بالعالم",
    "新宿区は東京都にある。Ada",
    "e\u0301 Ada nai\u0308ve ﬁn ǅ ß İ",
    "\ud800Ada\udfff",
    "\ufeffAda Lovelace",
    "Ada\u2028Lovelace\u3000London\xa0.",
    "[CLS] <start> Ada <end> [SEP] [MASK] [PAD] <s> </s>",
]


@pytest.fixture(scope="module")
def predictor(tiny_encoder):
    """A model that finds entities of both types."""
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=tags, model_max_length=40, entity_max_length=4)
    return give_opinions(model)


@pytest.fixture(scope="module")
def finder(predictor):
    """A model that finds entities everywhere."""
    model = copy.deepcopy(predictor)
    with torch.no_grad():
        model.classifier.bias[0] -= 100
    return model


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A model for each kind of tokenizer that finds entities everywhere."""
    return {
        name: give_opinions(make_model(tmp_path_factory.mktemp(name), tokenizer, num_hidden_layers=1), outside=-100.0)
        for name, tokenizer in all_tokenizers().items()
    }


def is_of_words(entities):
    """Tell entities in words from entities in text."""
    kinds = {tuple(entity) for entity in entities}
    words = ("span", "label", "score", "word_start_index", "word_end_index")
    text = ("span", "label", "score", "char_start_index", "char_end_index")
    assert kinds in ({words}, {text})
    return kinds == {words}


def check_text(text, entities):
    """Check the places of entities in a text."""
    end = 0
    for entity in entities:
        first, last = entity["char_start_index"], entity["char_end_index"]
        assert text[first:last] == entity["span"]
        assert entity["span"].strip() == entity["span"] != ""
        assert first >= end, "entities are in order and do not overlap"
        end = last


def check_words(words, entities):
    """Check the places of entities in a sentence of words."""
    end = 0
    for entity in entities:
        first, last = entity["word_start_index"], entity["word_end_index"]
        assert list(words[first:last]) == entity["span"] != []
        assert type(entity["span"]) is list
        assert last - first <= 4
        assert first >= end
        end = last


# ---- Forms of input ----


@pytest.mark.parametrize(
    ("inputs", "nested", "of_words"),
    [
        ("Ada lives in London", False, False),
        ("Ada", False, False),
        (["Ada lives in London"], True, False),
        (["Ada lives in London", "Ada lives"], True, False),
        (["Ada lives in", "London"], True, False),
        (["Ada", "lives", "in", "London"], False, True),
        (("Ada", "lives", "in", "London"), False, True),
        ([["Ada", "lives"], ["in", "London"]], True, True),
        ([["Ada", "lives in"]], True, True),
        ([["Ada"]], True, True),
        ([("Ada", "lives"), ["Ada"]], True, True),
        ((["Ada", "lives"],), True, True),
        (Dataset.from_dict({"tokens": [["Ada", "lives"], ["in", "London"]]}), True, True),
        (Dataset.from_dict({"tokens": ["Ada lives", "in London"]}), True, False),
        (Dataset.from_dict({"tokens": [["Ada"]], "other": [1]}), True, True),
        (Dataset.from_dict({"tokens": [["Ada", "lives"], ["in", "London"]]})["tokens"], True, True),
        (Dataset.from_dict({"text": ["Ada lives", "in London"]})["text"], True, False),
    ],
    ids=repr,
)
def test_nesting(finder, inputs, nested, of_words):
    found = finder.predict(inputs)
    rows = found if nested else [found]
    sentences = list(inputs["tokens"]) if isinstance(inputs, Dataset) else inputs
    assert len(rows) == (len(sentences) if nested else 1)
    for row in rows:
        assert is_of_words(row) is of_words
    for sentence, row in zip(sentences if nested else [inputs], rows, strict=True):
        (check_words if of_words else check_text)(sentence, row)


def test_regression_a_list_of_one_string_is_one_text(finder):
    # span-marker 1.8.1 takes it for a sentence of one word: as many lists come back as the word has entities.
    (row,) = finder.predict(["Ada"])
    assert row == finder.predict("Ada")
    assert not is_of_words(row)


@pytest.mark.parametrize("words", [["Ada"], ["Ada lives", "in London"], ["Ada", "lives"]])
def test_is_split_into_words_settles_what_a_list_of_strings_is(finder, words):
    found = finder.predict(words, is_split_into_words=True)
    assert is_of_words(found)
    check_words(words, found)
    rows = finder.predict(words, is_split_into_words=False)
    assert len(rows) == len(words)
    for text, row in zip(words, rows, strict=True):
        assert not is_of_words(row)
        check_text(text, row)


TEXT, WORDS = "Ada lives", [["Ada", "lives"], ["Ada"]]


@pytest.mark.parametrize(
    ("inputs", "split"),
    [
        (TEXT, False),
        (WORDS, True),
        (Dataset.from_dict({"tokens": [TEXT]}), False),
        (Dataset.from_dict({"tokens": WORDS}), True),
        ([[]], True),
    ],
)
def test_regression_is_split_into_words_contradicts_the_inputs(finder, inputs, split):
    assert finder.predict(inputs, is_split_into_words=split) == finder.predict(inputs)
    given = "a list of words: " if split else "a text: 'Ada lives'. Pass its words as a list, for instance text.split()"
    with pytest.raises(ValueError, match=f"is_split_into_words={not split}, but got {re.escape(given)}"):
        finder.predict(inputs, is_split_into_words=not split)


@pytest.mark.parametrize("split", [None, True, False])
def test_no_input_contradicts_is_split_into_words(finder, split):
    assert finder.predict([], is_split_into_words=split) == []


@pytest.mark.parametrize("split", ["no", 1, []])
def test_regression_is_split_into_words_of_another_type(finder, split):
    with pytest.raises(TypeError, match=f"must be True, False or None, but it is {re.escape(repr(split))}"):
        finder.predict(["Ada"], is_split_into_words=split)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([], []),
        ((), []),
        ("", []),
        ([""], [[]]),
        (["", ""], []),
        (["", " "], [[], []]),
        ([[]], [[]]),
        ([[], []], [[], []]),
        (Dataset.from_dict({"tokens": []}), []),
        (Dataset.from_dict({"tokens": [[], []]}), [[], []]),
        (Dataset.from_dict({"tokens": [[]], "document_id": [1], "sentence_id": [1]}), [[]]),
        (Dataset.from_dict({"tokens": [], "document_id": [], "sentence_id": []}), []),
    ],
    ids=repr,
)
def test_regression_empty_inputs(finder, inputs, expected):
    found = finder.predict(inputs)
    # Two empty strings are, by the rule, one sentence of two words, which may have any label.
    assert found == expected or inputs == ["", ""]


@pytest.mark.parametrize("empty", ["", []])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_regression_an_empty_sentence_shifts_no_other(finder, empty, place):
    sentences = ["Ada lives", "in London"] if empty == "" else [["Ada", "lives"], ["in", "London"]]
    expected = finder.predict(sentences)
    assert all(expected)
    with_empty = [*sentences[:place], empty, *sentences[place:]]
    assert_close(finder.predict(with_empty), [*expected[:place], [], *expected[place:]])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, "but got NoneType"),
        (3, "but got int"),
        (b"Ada", "but got bytes"),
        ({"tokens": [["Ada"]]}, "but got dict"),
        (DatasetDict(train=Dataset.from_dict({"tokens": [["Ada"]]})), "but got DatasetDict"),
        (["Ada lives", None], "row 1 is NoneType"),
        ([["Ada"], "lives"], "row 1 is 'lives'"),
        (["Ada lives", ["Ada"]], "row 1 is list"),
        ([["Ada"], ["lives", 3]], "word 1 of row 1 is 3"),
        ([["Ada"], ["lives", None]], "word 1 of row 1 is None"),
        ([[["Ada"]]], r"word 0 of row 0 is \['Ada'\]"),
        ([["Ada"], {"a": 1}], "row 1 is dict"),
        (Dataset.from_dict({"tokens": [["Ada"], None]}), "row 1 is NoneType"),
        (Dataset.from_dict({"tokens": [["Ada"], [None]]}), "word 0 of row 1 is None"),
        (Dataset.from_dict({"tokens": [["Ada"], [], ["x"]]}).map(lambda row: {"tokens": [1]}), "word 0 of row 0 is 1"),
    ],
    ids=repr,
)
def test_wrong_inputs_are_named(predictor, inputs, message):
    with pytest.raises(TypeError, match=message):
        predictor.predict(inputs)


def test_rows_are_counted_over_all_inputs(predictor, monkeypatch):
    monkeypatch.setattr(inference, "_BLOCK", 2)
    with pytest.raises(TypeError, match="word 0 of row 5 is 7"):
        predictor.predict([["Ada"]] * 5 + [[7]])


def test_a_data_set_needs_tokens(predictor):
    with pytest.raises(ValueError, match="needs a column 'tokens', but it has words, tags"):
        predictor.predict(Dataset.from_dict({"words": [["Ada"]], "tags": [[0]]}))


@pytest.mark.parametrize("kind", ["numpy", "pandas", "arrow", "torch"])
def test_regression_the_format_of_a_data_set_counts(predictor, kind):
    expected = predictor.predict(documents())
    assert predictor.predict(documents().with_format(kind)) == expected
    assert predictor.predict(documents().with_format(kind, columns=["sentence_id"])) == expected


def test_regression_a_transform_is_dropped(predictor):
    rows = documents().with_transform(lambda batch: {"tokens": [["Paris"] for _ in batch["tokens"]]})
    with pytest.raises(ValueError, match="The data set has a transform"):
        predictor.predict(rows)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_size_is_positive(predictor, batch_size):
    with pytest.raises(ValueError, match=f'batch_size must be at least 1, or "auto", but it is {batch_size}'):
        predictor.predict(SENTENCES, batch_size)
    with pytest.raises(ValueError, match=f'batch_size must be at least 1, or "auto", but it is {batch_size}'):
        predictor.fit_span_filter(SENTENCES, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [2.0, "4", None, True])
def test_regression_a_batch_size_of_another_type(predictor, batch_size):
    message = f'batch_size must be an integer of at least 1, or "auto", but it is {batch_size!r}'
    with pytest.raises(TypeError, match=message):
        predictor.predict([], batch_size)
    with pytest.raises(TypeError, match=message):
        predictor.fit_span_filter(SENTENCES, batch_size=batch_size)


def test_a_batch_size_may_be_numpys(predictor):
    assert predictor.predict(SENTENCES, np.int64(2)) == predictor.predict(SENTENCES, 2)


# ---- Documents ----


def documents(ids=(0, 0, 0, 1, 1), numbers=(0, 1, 2, 0, 1)):
    return Dataset.from_dict({"tokens": SENTENCES, "document_id": list(ids), "sentence_id": list(numbers)})


def test_documents_give_context(predictor, monkeypatch):
    alone, together = predictor.predict(SENTENCES), predictor.predict(documents())
    assert len(together) == len(SENTENCES)
    for sentence, row in zip(SENTENCES, together, strict=True):
        check_words(sentence, row)
    scores = [[entity["score"] for row in rows for entity in row] for rows in (alone, together)]
    assert scores[0] != scores[1]
    monkeypatch.setattr(predictor.config, "max_prev_context", 0)
    monkeypatch.setattr(predictor.config, "max_next_context", 0)
    assert_close(predictor.predict(documents()), alone)


def test_ids_can_be_strings_and_rows_in_any_order(predictor):
    expected = predictor.predict(documents())
    named = documents(["a", "a", "a", "b", "b"], ["s8", "s9", "s10", "s1", "s2"])
    assert_close(predictor.predict(named), expected)
    order = [3, 1, 4, 2, 0]
    assert_close(predictor.predict(named.select(order)), [expected[row] for row in order])


def test_documents_of_texts_give_context(predictor):
    data = documents().remove_columns("tokens").add_column("tokens", TEXTS)
    found = predictor.predict(data)
    for text, row in zip(TEXTS, found, strict=True):
        check_text(text, row)


@pytest.mark.parametrize("missing", ["document_id", "sentence_id"])
def test_half_of_the_ids_gives_no_context_but_a_warning(predictor, missing, caplog):
    transformers_logging.warning_once.cache_clear()
    assert_close(predictor.predict(documents().remove_columns(missing)), predictor.predict(SENTENCES))
    assert f"Add the column '{missing}' for context" in caplog.text


def test_a_row_without_an_id_is_named(predictor):
    with pytest.raises(ValueError, match="Row 2 has no document_id"):
        predictor.predict(documents([0, 0, None, 1, 1]))


def test_documents_are_not_cut_apart(predictor, monkeypatch):
    expected = predictor.predict(documents())
    monkeypatch.setattr(inference, "_BLOCK", 2)
    assert predictor.predict(documents()) == expected


def test_a_model_trained_with_context_misses_it(predictor, caplog, monkeypatch):
    monkeypatch.setattr(predictor.config, "trained_with_document_context", True)
    transformers_logging.warning_once.cache_clear()
    predictor.predict([])
    predictor.predict(documents())
    assert not caplog.records
    predictor.predict(SENTENCES)
    predictor.predict(SENTENCES)
    (record,) = caplog.records
    assert "trained with document-level context, but the inputs have none" in record.getMessage()


# ---- Any text ----


@pytest.mark.parametrize("name", sorted(all_tokenizers()))
def test_regression_any_text_is_legal(zoo, name):
    rows = zoo[name].predict(ODD_TEXTS, is_split_into_words=False)
    assert len(rows) == len(ODD_TEXTS)
    for text, row in zip(ODD_TEXTS, rows, strict=True):
        check_text(text, row)
    assert sum(map(len, rows)) > len(ODD_TEXTS), "the model has to find something for this test to say anything"


@pytest.mark.parametrize("name", sorted(all_tokenizers()))
def test_regression_words_without_a_token_are_legal_and_shift_no_index(zoo, name):
    model = zoo[name]
    sentences = [[word] for word in ODD_WORDS]
    sentences += [["Ada", word, "Lovelace"] for word in ODD_WORDS]
    sentences += [ODD_WORDS, [word for odd in ODD_WORDS for word in (odd, "Ada")]]
    rows = model.predict(sentences)
    assert len(rows) == len(sentences)
    for sentence, row in zip(sentences, rows, strict=True):
        check_words(sentence, row)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.text(max_size=25) | st.text("Ada \n\t\u200b'.👩\u200d🇬ש中é\u0301<>[]", max_size=25),
        min_size=1,
        max_size=12,
    )
)
@example([" \u3000 ", "\x1c\x85", "0"])
@example(["0000\r\u0e01"])
def test_places_in_arbitrary_text(zoo, texts):
    for model in zoo.values():
        rows = model.predict(texts, batch_size=12, is_split_into_words=False)
        assert len(rows) == len(texts)
        for text, row in zip(texts, rows, strict=True):
            check_text(text, row)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.lists(st.text(max_size=8), max_size=6), max_size=10))
def test_places_in_arbitrary_words(zoo, sentences):
    for model in zoo.values():
        rows = model.predict(sentences, batch_size=12)
        assert len(rows) == len(sentences)
        for sentence, row in zip(sentences, rows, strict=True):
            check_words(sentence, row)


@pytest.mark.parametrize("make", [modernbert, llama_bpe], ids=lambda make: make.__name__)
def test_whitespace_that_a_tokenizer_takes_for_a_word_is_in_no_end_of_an_entity(make, tmp_path):
    text = "Ada   Lovelace \n\n lives"
    model = make_model(tmp_path, make(), outside=-100.0)
    assert any(first == last for first, last in model.tokenizer.words([text])[0])
    check_text(text, model.predict(text))


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (["Ada", "\u200b"], {0}),
        (["\u200b", "Ada"], {1}),
        (["", "Ada", "", "London", ""], {1, 3}),
        (["", "\u200b"], set()),
    ],
)
def test_words_without_a_token_are_in_no_end_of_an_entity(finder, words, ends):
    (row,) = finder.predict([words])
    assert bool(row) is bool(ends)
    for entity in row:
        assert {entity["word_start_index"], entity["word_end_index"] - 1} <= ends


def test_evaluation_agrees_on_words_without_a_token(finder, tmp_path):
    sentences = [["Ada", "\u200b"], ["\u200b", "Ada", ""], ["", ""], ["Ada", "", "London"], []]
    arguments = TrainingArguments(tmp_path, use_cpu=True, report_to=[])
    rows = Dataset.from_dict({"tokens": sentences})
    evaluated = Trainer(model=finder, args=arguments).predict(rows).predictions
    predicted = finder.predict(rows)
    assert [[(e["start"], e["end"]) for e in row] for row in evaluated] == [
        [(e["word_start_index"], e["word_end_index"]) for e in row] for row in predicted
    ]


def test_texts_without_spaces_are_suspected(predictor, caplog):
    predictor.predict(["Ada", "Lovelace", "Donaudampfschifffahrtsgesellschaft", "。"])
    assert not caplog.records
    assert (
        len(predictor.predict(["東京都は日本の首都です。", "大阪は西日本の都市です。"], is_split_into_words=False)) == 2
    )
    assert not caplog.records
    predictor.predict(["東京都は日本の首都です。", "大阪は西日本の都市です。"])
    assert "these look like texts: '東京都は日本の首都です。'" in caplog.text


def test_weights_that_are_no_numbers_are_reported(predictor, caplog):
    model = copy.deepcopy(predictor)
    model.classifier.weight.data.fill_(float("nan"))
    assert model.predict([["Ada", "in", "London"]]) == [[]]
    assert "not numbers (NaN)" in caplog.text


# ---- Length ----


@pytest.mark.parametrize("sentence", [["Ada"] * 10_000, "Ada lives . " * 5_000], ids=["words", "text"])
def test_a_very_long_sentence_takes_seconds(predictor, sentence, caplog):
    start = time.process_time()
    (row,) = predictor.predict([sentence])
    assert time.process_time() - start < 20
    assert not caplog.records
    (check_text if isinstance(sentence, str) else check_words)(sentence, row)


def test_a_word_longer_than_the_model_is_legal(predictor):
    words = ["Ada", "x" * 500, "London"]
    (row,) = predictor.predict([words])
    check_words(words, row)


# ---- Batches ----


@pytest.mark.parametrize("inputs", [SENTENCES * 3, TEXTS * 3], ids=["words", "texts"])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_the_batch_size_changes_nothing(predictor, inputs, batch_size):
    assert_close(predictor.predict(inputs, batch_size=batch_size), predictor.predict(inputs))


def test_windows_change_nothing(predictor, monkeypatch):
    expected = predictor.predict(SENTENCES)
    monkeypatch.setattr(inference, "_BLOCK", 2)
    assert_close(predictor.predict(SENTENCES), expected)


@pytest.mark.parametrize("size", [1, 5, 24])
def test_spans_in_several_calls_change_nothing(predictor, monkeypatch, size):
    sentences = SENTENCES[:3]
    batch = collate(predictor, sentences)
    with torch.no_grad():
        labels, scores = classify_spans(predictor, batch)
        expected = predictor.predict(sentences)
        monkeypatch.setattr(classification, "SPANS_PER_CALL", size)
        calls = []
        hook = predictor.register_forward_hook(lambda module, args, output: calls.append(output.logits.shape))
        found_labels, found_scores = classify_spans(predictor, batch)
        hook.remove()
    assert len(calls) > 1
    assert all(rows * spans <= max(size, rows) for rows, spans, _ in calls)
    mask = torch.arange(labels.shape[1]) < batch["num_spans"][:, None]
    assert torch.equal(found_labels[mask], labels[mask])
    assert torch.allclose(found_scores[mask], scores[mask], atol=1e-5)
    assert_close(predictor.predict(sentences), expected)


def test_classify_spans(predictor):
    batch = collate(predictor, SENTENCES)
    with torch.no_grad():
        logits = predictor(**batch).logits
        labels, scores = classify_spans(predictor, batch | {"labels": None, "anything": None})
    assert labels.shape == scores.shape == logits.shape[:2]
    assert scores.dtype == torch.float32
    expected_scores, expected_labels = logits.softmax(-1).max(-1)
    assert torch.equal(labels.long(), expected_labels)
    assert torch.allclose(scores, expected_scores)


def test_scores_are_probabilities_and_labels_are_types(predictor):
    entities = [entity for row in predictor.predict(SENTENCES) for entity in row]
    assert {entity["label"] for entity in entities} <= {"PER", "LOC"}
    assert all(type(entity["score"]) is float and 0 < entity["score"] <= 1 for entity in entities)
    assert all(type(entity["word_start_index"]) is type(entity["word_end_index"]) is int for entity in entities)


def test_entities_are_the_best_of_each_sentence(predictor):
    (row,) = predictor.predict(SENTENCES[:1])
    batch = collate(predictor, SENTENCES[:1])
    with torch.no_grad():
        scores = predictor(**batch).logits[0].softmax(-1)
    best = scores[:, 1:].max()
    assert max(entity["score"] for entity in row) == pytest.approx(best.item(), abs=1e-6)


# ---- The model's state ----


@pytest.mark.parametrize("training", [True, False])
def test_predict_leaves_the_mode_as_it_was(model, training):
    model.train(training)
    first, second = model.predict(SENTENCES), model.predict(SENTENCES)
    assert first == second, "dropout is off"
    assert model.training is training
    assert model.dropout.training is training
    with pytest.raises(TypeError):
        model.predict([["Ada"], 3])
    assert model.training is training


def test_the_mode_is_restored_after_an_error(model, monkeypatch):
    model.train()
    monkeypatch.setattr(inference, "classify_spans", lambda model, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.predict(SENTENCES)
    assert model.training


def test_a_model_can_be_trained_after_it_has_predicted(model):
    model.predict(SENTENCES)
    model.train()
    batch = collate(model, SENTENCES)
    model(**batch, labels=torch.zeros_like(batch["start_positions"])).loss.backward()
    assert model.classifier.weight.grad is not None


@pytest.mark.parametrize("make", [wordpiece, unigram, xlm_roberta], ids=lambda make: make.__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_any_floating_point_type(make, dtype, tmp_path):
    model = make_model(tmp_path, make())
    found = model.to(dtype).predict(SENTENCES)
    assert len(found) == len(SENTENCES)
    assert all(type(entity["score"]) is float for row in found for entity in row)


# ---- Progress ----


def test_progress_is_shown_on_request(predictor, capsys):
    predictor.predict(SENTENCES)
    assert capsys.readouterr().err == ""
    predictor.predict(SENTENCES, show_progress_bar=True)
    shown = capsys.readouterr().err
    assert "Predicting" in shown
    assert f"{len(SENTENCES)}/{len(SENTENCES)}" in shown


def test_correct_use_is_silent(predictor, capsys, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.predict(SENTENCES)
        predictor.predict(TEXTS)
        predictor.predict(documents())
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert not caplog.records
