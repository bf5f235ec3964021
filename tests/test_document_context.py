from datetime import date, datetime

import datasets
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value, load_from_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils import logging

from span_marker import document_context
from span_marker.document_context import add_context, has_documents

FIRST, LAST = 101, 102
LENGTHS = [3, 4, 2, 5, 3]
SENTENCES = [[10 * number + place for place in range(length)] for number, length in enumerate(LENGTHS, 1)]


def make(sentences=SENTENCES, documents=None, order=None, specials=(1, 1)):
    count = len(sentences)
    before, after = specials
    return Dataset.from_dict(
        {
            "input_ids": [[FIRST] * before + tokens + [LAST] * after for tokens in sentences],
            "num_spans": [2] * count,
            "start_position_ids": [[before, before] for _ in sentences],
            "end_position_ids": [[before, before + max(len(tokens), 1) - 1] for tokens in sentences],
            "document_id": [0] * count if documents is None else documents,
            "sentence_id": list(range(count)) if order is None else order,
        }
    )


def texts(dataset, specials=(1, 1)):
    before, after = specials
    return [ids[before : len(ids) - after] for ids in dataset["input_ids"]]


def join(*numbers):
    return [token for number in numbers for token in SENTENCES[number]]


@pytest.mark.parametrize(
    ("length", "row", "expected"),
    [
        (8, 0, [10, 11, 12, 20, 21, 22]),
        (8, 1, [20, 21, 22, 23, 30, 31]),
        (10, 1, [11, 12, 20, 21, 22, 23, 30, 31]),
        (12, 2, [21, 22, 23, 30, 31, 40, 41, 42, 43, 44]),
        (14, 2, [20, 21, 22, 23, 30, 31, 40, 41, 42, 43, 44, 50]),
        (17, 2, [12, 20, 21, 22, 23, 30, 31, 40, 41, 42, 43, 44, 50, 51, 52]),
        (8, 4, [42, 43, 44, 50, 51, 52]),
        (19, 0, join(0, 1, 2, 3, 4)),
        (90, 4, join(0, 1, 2, 3, 4)),
    ],
)
def test_next_and_previous_sentences_in_turn_until_full(length, row, expected):
    result = add_context(make(), length)
    assert result["input_ids"][row] == [FIRST, *expected, LAST]
    shift = expected.index(SENTENCES[row][0])
    assert result["start_position_ids"][row] == [1 + shift, 1 + shift]
    assert result["end_position_ids"][row] == [1 + shift, shift + LENGTHS[row]]
    assert max(len(ids) for ids in result["input_ids"]) <= length


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        ((1, None), join(1, 2, 3, 4)),
        ((None, 1), join(0, 1, 2, 3)),
        ((0, None), join(2, 3, 4)),
        ((0, 0), join(2)),
        ((1, 2), join(1, 2, 3, 4)),
    ],
)
def test_limits_of_context(most, expected):
    assert texts(add_context(make(), 40, *most))[2] == expected


def test_columns_and_features():
    features = Features(
        {
            "input_ids": Sequence(Value("int32")),
            "document_id": ClassLabel(names=["a"]),
            "start_position_ids": Sequence(Value("int64")),
            "end_position_ids": Sequence(Value("int64")),
            "sentence_id": Value("int32"),
            "num_spans": Value("int64"),
        }
    )
    dataset = make().cast(features)
    result = add_context(dataset.with_format("numpy"), 40)
    assert result.column_names[-3:] == ["input_ids", "start_position_ids", "end_position_ids"]
    assert result.column_names[:3] == ["document_id", "sentence_id", "num_spans"]
    assert result.features == features
    assert isinstance(result[0]["input_ids"], list)


def test_rows_in_any_order():
    order = [3, 0, 4, 2, 1]
    sentences = [SENTENCES[index] for index in order]
    result = add_context(make(sentences, order=order), 12)
    expected = texts(add_context(make(), 12))
    assert texts(result) == [expected[index] for index in order]


def test_interleaved_documents():
    result = add_context(make(documents=[0, 1, 0, 1, 0], order=[2, 1, 1, 0, 0]), 40)
    assert texts(result) == [join(4, 2, 0), join(3, 1), join(4, 2, 0), join(3, 1), join(4, 2, 0)]


@pytest.mark.parametrize(
    ("documents", "order"),
    [
        (["x", "x", "y", "y", "y"], ["s2", "s10", "a1b9", "a1b10", "b"]),
        (["1", "1", "02", "02", "02"], ["9", "10", "1", "2", "11"]),
        ([7, 7, -1, -1, -1], [-5, 0, 1, 2, 3]),
        ([7, 7, 3, 3, 3], [0.5, 1.5, 2.5, 3.0, 4.0]),
        (["x", "x", "y", "y", "y"], [1, 1, 1, 1, 1]),
        ([date(2020, 1, 2)] * 2 + [date(2020, 1, 1)] * 3, [datetime(2020, 1, day) for day in (1, 2, 3, 10, 20)]),
    ],
)
def test_ids_of_any_type(documents, order):
    result = add_context(make(documents=documents, order=order), 40)
    assert texts(result) == [join(0, 1)] * 2 + [join(2, 3, 4)] * 3
    backwards = make(documents=documents, order=order).select([4, 3, 2, 1, 0])
    if order[0] != order[1]:
        assert texts(add_context(backwards, 40)) == texts(result)[::-1]


@pytest.mark.parametrize(
    "ordered",
    [
        ["-3", "-2", "-1", "0", "10"],
        ["0.25", "0.5", "1e0", "02", "10.0"],
        ["1.1", "1.2", "1.9", "1.10", "2.1"],  # sections: as numbers, 1.1 and 1.10 were the same
        ["1", "10", "nan", "x2", "x10"],
        ["1", "2", "10", "inf", "s"],
        ["3", "03", "4", "10", "011"],
        ["9007199254740992", "9007199254740993", "1" * 5000, "1" * 4999 + "2", "2" + "0" * 5000],
        ["s3", "s" + "1" * 5000, "s" + "1" * 4999 + "2", "s2" + "0" * 5000, "t"],
    ],
)
def test_regression_order_of_strings(ordered):
    result = add_context(make(order=ordered), 40)
    assert texts(result)[0] == join(0, 1, 2, 3, 4)
    shuffled = [3, 0, 4, 1, 2] if ordered[0] != "3" else [0, 1, 4, 3, 2]  # "3" and "03" are equal
    again = add_context(make(order=ordered).select(shuffled), 40)
    assert texts(again)[0] == join(0, 1, 2, 3, 4)


@pytest.mark.parametrize("name", ["document_id", "sentence_id"])
@pytest.mark.parametrize("value", [[1, 2], {"part": 1}])
def test_regression_nested_ids(name, value):
    dataset = make().remove_columns(name).add_column(name, [value] * 5)
    with pytest.raises(ValueError, match=f"The column '{name}' holds values of type .*Expected numbers, dates or str"):
        add_context(dataset, 40)


def test_empty_and_full_sentences():
    sentences = [[], [1, 2, 3, 4, 5, 6], [], [7]]
    assert texts(add_context(make(sentences), 8)) == [[1, 2, 3, 4, 5, 6]] * 2 + [[2, 3, 4, 5, 6, 7]] * 2
    # Longer than the model: nothing is added, nothing cut.
    assert texts(add_context(make(sentences), 5))[1] == sentences[1]
    assert texts(add_context(make(sentences), 2))[1] == sentences[1]


@pytest.mark.parametrize("specials", [(0, 0), (1, 0), (0, 1), (2, 3)])
def test_other_special_tokens(specials):
    dataset = make(specials=specials)
    result = add_context(dataset, sum(specials) + 6, num_special_tokens=specials)
    before, after = specials
    expected = [
        join(0) + SENTENCES[1][:3],
        join(1, 2),
        [*join(2), *SENTENCES[3][:4]],
        [*join(3), 50],
        [42, 43, 44, *join(4)],
    ]
    assert result["input_ids"] == [[FIRST] * before + row + [LAST] * after for row in expected]
    assert result["start_position_ids"][4] == [before + 3] * 2


def test_no_rows():
    dataset = make().select([])
    assert add_context(dataset, 10).num_rows == 0


def test_documents_need_both_ids(caplog):
    logging.warning_once.cache_clear()
    assert has_documents(["tokens", "document_id", "sentence_id"])
    assert not has_documents(["tokens"])
    assert not caplog.records
    assert not has_documents(["tokens", "document_id"])
    assert not has_documents(["sentence_id"])
    missing, other = (record.getMessage() for record in caplog.records)
    assert "has 'document_id' but no 'sentence_id'" in missing
    assert "has 'sentence_id' but no 'document_id'" in other


def test_missing_column():
    with pytest.raises(ValueError, match=r"needs the column 'sentence_id'; the data set has 'input_ids', 'num_spans'"):
        add_context(make().remove_columns("sentence_id"), 10)


def test_a_transform_is_refused():
    with pytest.raises(ValueError, match="The data set has a transform"):
        add_context(make().with_transform(lambda batch: batch), 10)


def test_missing_id():
    with pytest.raises(ValueError, match="Row 2 has no document_id"):
        add_context(make(documents=["a", "a", None, "b", "b"]), 10)
    with pytest.raises(ValueError, match="Row 1 has no sentence_id"):
        add_context(make(order=[0.0, float("nan"), 2.0, 3.0, 4.0]), 10)


def test_same_call_comes_from_the_cache(tmp_path, monkeypatch):
    make().save_to_disk(tmp_path)
    first = add_context(load_from_disk(tmp_path), 12)
    calls = []
    monkeypatch.setattr(document_context, "_rewrite", lambda *args, **kwargs: calls.append(args))
    again = add_context(load_from_disk(tmp_path), 12)
    assert (again._fingerprint, again.to_dict(), calls) == (first._fingerprint, first.to_dict(), [])
    assert add_context(make(), 12)._fingerprint != first._fingerprint


@pytest.mark.parametrize("enabled", [True, False])
def test_progress_bars_are_put_back(enabled, capsys):
    was_disabled = datasets.are_progress_bars_disabled()
    (datasets.enable_progress_bars if enabled else datasets.disable_progress_bars)()
    try:
        add_context(make(), 12, show_progress_bar=False)
        assert capsys.readouterr().err == ""
        assert datasets.are_progress_bars_disabled() is not enabled
        add_context(make(), 12)
        assert ("Adding document-level context" in capsys.readouterr().err) is enabled
    finally:
        (datasets.disable_progress_bars if was_disabled else datasets.enable_progress_bars)()


def plain_context(sentences, documents, length, most_before, most_after):
    """The definition, sentence by sentence."""
    result = []
    for row, tokens in enumerate(sentences):
        document = [index for index, other in enumerate(documents) if other == documents[row]]
        place = document.index(row)
        ahead = document[place + 1 :][:most_after]
        back = document[:place][::-1][:most_before]
        room = length - 2 - len(tokens)
        before, after = [], []
        for turn in range(max(len(ahead), len(back))):
            if turn < len(ahead) and room > 0:
                after += sentences[ahead[turn]][:room]
                room -= len(sentences[ahead[turn]][:room])
            if turn < len(back) and room > 0:
                before = sentences[back[turn]][-room:] + before
                room -= len(sentences[back[turn]][-room:])
        result.append(before + tokens + after)
    return result


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=12),
    st.integers(8, 30),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
)
def test_against_the_definition(rows, length, most_before, most_after):
    documents = [document for document, _ in rows]
    tokens = iter(range(1000, 2000))
    sentences = [[next(tokens) for _ in range(count)] for _, count in rows]
    result = add_context(make(sentences, documents), length, most_before, most_after)
    assert texts(result) == plain_context(sentences, documents, length, most_before, most_after)


def test_time_grows_with_the_corpus_only(monkeypatch):
    # One long document: whatever looks at all pairs of sentences would not end.
    count = 200_000
    lengths = np.full(count, 20)
    before, after = document_context._fill(lengths, np.zeros(count, dtype=np.int64), np.full(count, 200), (None, None))
    assert (before[100:-100] == 100).all()
    assert (after[100:-100] == 100).all()
