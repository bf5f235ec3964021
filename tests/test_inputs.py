import random

import pytest
import torch
from datasets import Dataset
from tiny_models import SENTENCES, TEXTS, assert_close, make_finder

from span_marker.inputs import is_stream, read_stream

ROWS = [
    {"tokens": ["Ada", "lives"], "document_id": document, "sentence_id": sentence}
    for document, length in enumerate([3, 1, 4, 2])
    for sentence in range(length)
]


@pytest.fixture(scope="module")
def predictor(tiny_encoder):
    return make_finder(tiny_encoder)


def windows(stream, size, is_split_into_words=None):
    return list(read_stream(iter(stream), is_split_into_words, size))


def test_streams_are_told_from_lists():
    assert is_stream(iter([]))
    assert is_stream(Dataset.from_list(ROWS).to_iterable_dataset())
    assert not any(map(is_stream, ["Ada", ["Ada"], (), Dataset.from_list(ROWS)]))


def test_texts_and_words_are_cut_into_windows():
    assert [window.sentences for window in windows(["a", "b c", "d"], 2)] == [["a", "b c"], ["d"]]
    assert [window.sentences for window in windows([["a"], [], ["b", "c"]], 1)] == [[["a"]], [[]], [["b", "c"]]]
    assert windows([], 2) == []
    assert not any(window.is_single or window.documents for window in windows(["a", "b"], 1))


def test_documents_are_not_cut():
    found = windows(ROWS, 2)
    assert [len(window.sentences) for window in found] == [3, 5, 2]
    assert [window.documents["document_id"] for window in found] == [[0] * 3, [1] + [2] * 4, [3] * 2]
    numbers = [number for window in found for number in window.documents["sentence_id"]]
    assert numbers == [row["sentence_id"] for row in ROWS]


def test_rows_without_documents():
    rows = [{"tokens": ["Ada"], "topic": 1}, {"tokens": ["Bob"], "topic": 2}]
    assert [(window.sentences, window.documents) for window in windows(rows, 1)] == [([["Ada"]], {}), ([["Bob"]], {})]


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (["a", "b", ["c"]], TypeError, "row 2 is list"),
        ([["a"], ["b"], ["c"], [7]], TypeError, "word 0 of row 3 is 7"),
        ([None], TypeError, "row 0 is NoneType"),
        ([{"words": ["a"]}], ValueError, "Row 0 of the stream needs 'tokens', but it is words"),
        ([*ROWS[:4], {"tokens": ["a"], "document_id": 2}], ValueError, "Row 4 of the stream needs 'sentence_id'"),
        ([*ROWS[:2], "a"], ValueError, "Row 2 of the stream needs 'tokens', but it is 'a'"),
        ([*ROWS[:4], ROWS[4] | {"sentence_id": None}], ValueError, "Row 4 of the stream has the sentence_id None"),
        ([*ROWS[:4], ROWS[4] | {"document_id": [2]}], ValueError, r"Row 4 of the stream has the document_id \[2\]"),
        (
            [*ROWS[:4], ROWS[4] | {"document_id": "2"}],
            ValueError,
            r"^Row 4 of the stream has the document_id '2', of type str, but row 3 has \d, of type int\. Give all rows "
            r"ids of one type, such as strings\.$",
        ),
        (
            [ROWS[0], ROWS[1] | {"sentence_id": 1j}],
            ValueError,
            r"Row 1 of the stream has the sentence_id 1j\. Expected a number, a date or a string",
        ),
        ([ROWS[0], ROWS[1] | {"document_id": 10**30}], ValueError, r"Row 1 of the stream has the document_id 10{30}"),
        ([*ROWS[:5], ROWS[0]], ValueError, "Row 5 of the stream goes on with document 0 after others"),
    ],
    ids=repr,
)
def test_wrong_items_are_named(stream, error, message):
    with pytest.raises(error, match=message):
        windows(stream, 3)


def test_what_is_said_of_words_counts():
    with pytest.raises(ValueError, match="is_split_into_words=True, but got a text"):
        windows(["Ada lives"], 2, True)
    with pytest.raises(ValueError, match="is_split_into_words=False, but got a list of words"):
        windows([["Ada"]], 2, False)


@pytest.mark.parametrize("inputs", [TEXTS, SENTENCES], ids=["texts", "words"])
def test_a_generator_gives_what_a_list_gives(predictor, monkeypatch, inputs):
    monkeypatch.setattr("span_marker.inputs.read_stream.__defaults__", (3,))
    many = list(inputs) * 4
    random.Random(0).shuffle(many)
    expected = predictor.predict(many, is_split_into_words=None if inputs is SENTENCES else False)
    assert any(expected)
    assert_close(list(predictor.predict(item for item in many)), expected)


def test_an_iterable_data_set_gives_what_a_data_set_gives(predictor):
    rows = Dataset.from_list([row | {"tokens": SENTENCES[0] + [str(index)]} for index, row in enumerate(ROWS)])
    streamed = predictor.predict(rows.to_iterable_dataset())
    assert_close(list(streamed), predictor.predict(rows))


@pytest.mark.parametrize("kind", ["numpy", "torch", "arrow", "pandas"])
def test_regression_the_format_of_an_iterable_data_set_does_not_matter(predictor, kind):
    rows = Dataset.from_list(ROWS)
    assert_close(list(predictor.predict(rows.to_iterable_dataset().with_format(kind))), predictor.predict(rows))
    again = Dataset.from_list([*ROWS[:4], ROWS[0]]).to_iterable_dataset().with_format(kind)
    with pytest.raises(ValueError, match="Row 4 of the stream goes on with document 0 after others"):
        list(read_stream(again, None, 2))


def test_regression_other_iterables_that_stream(predictor):
    class Texts(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(TEXTS)

    assert_close(list(predictor.predict(Texts())), predictor.predict(TEXTS))
    column = Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()["text"]
    assert_close(list(predictor.predict(column)), predictor.predict(TEXTS))


def test_a_stream_is_read_as_results_are_asked_for(predictor):
    read = []

    def texts():
        for index in range(3000):
            read.append(index)
            yield "Ada lives"

    results = predictor.predict(texts(), batch_size=256)
    assert not read
    next(results)
    assert len(read) == 1025


def test_wrong_arguments_are_refused_at_once(predictor):
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        predictor.predict(iter(["Ada"]), batch_size=0)


def test_a_stream_that_is_left_leaves_no_mode_behind(predictor):
    predictor.train()
    results = predictor.predict(iter(["Ada lives in Paris"] * 3))
    next(results)
    assert predictor.training
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()
    predictor.eval()
