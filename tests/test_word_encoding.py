import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.word_encoding import (
    Frame,
    align_words,
    trim_spans,
    word_spans,
)

FRAME = Frame(prefix=(101,), suffix=(102,), filler=0, max_tokens=6)


def lists(arrays):
    return [array.tolist() for array in arrays]


def align(token_rows, word_rows, num_words, frame=FRAME):
    return align_words(token_rows, word_rows, np.array(num_words, dtype=np.int64), frame)


def test_align_words():
    encoded = align([[7, 8, 9], [5]], [[0, 0, 1], [0]], [2, 1])
    assert lists(encoded.input_ids) == [[101, 7, 8, 9, 102], [101, 5, 102]]
    assert lists(encoded.first_tokens) == [[1, 3], [1]]
    assert lists(encoded.last_tokens) == [[2, 3], [1]]
    assert encoded.kept_words.tolist() == encoded.num_words.tolist() == [2, 1]
    assert encoded.character_spans is None


def test_align_cuts_inside_a_word():
    encoded = align([[1, 2, 3, 4, 5, 6]], [[0, 1, 1, 2, 2, 3]], [4])
    assert lists(encoded.input_ids) == [[101, 1, 2, 3, 4, 102]]
    assert lists(encoded.first_tokens) == [[1, 2, 4]]
    assert lists(encoded.last_tokens) == [[1, 3, 4]]
    assert encoded.kept_words.tolist() == [3]
    assert encoded.num_words.tolist() == [4]


def test_align_words_without_tokens_take_the_nearest():
    # Words 0, 2 and 4 give no token; the words around them keep their places.
    encoded = align([[7, 8]], [[1, 3]], [5])
    assert lists(encoded.first_tokens) == [[1, 1, 1, 2, 2]]
    assert lists(encoded.last_tokens) == [[1, 1, 1, 2, 2]]


def test_align_words_without_tokens_at_the_cut_are_left_out():
    encoded = align([[1, 2, 3, 4, 5]], [[0, 1, 2, 3, 5]], [7])
    assert encoded.kept_words.tolist() == [4]


def test_align_without_any_token():
    encoded = align([[], []], [[], []], [2, 0])
    assert lists(encoded.input_ids) == [[101, 102], [101, 102]]
    assert lists(encoded.first_tokens) == lists(encoded.last_tokens) == [[0, 0], []]
    bare = align([[]], [[]], [1], Frame((), (), 9, None))
    assert lists(bare.input_ids) == [[9]]
    assert lists(bare.first_tokens) == [[0]]


def test_align_without_room():
    encoded = align([[1, 2]], [[0, 1]], [2], Frame((101,), (102,), 0, 1))
    assert lists(encoded.input_ids) == [[101, 102]]
    assert encoded.kept_words.tolist() == [0]


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=5),
    st.integers(2, 12),
)
def test_align_against_a_plain_loop(sentences, length):
    token_rows, word_rows = [], []
    for counts in sentences:
        word_rows.append([word for word, count in enumerate(counts) for _ in range(count)])
        token_rows.append(list(range(200, 200 + len(word_rows[-1]))))
    encoded = align(token_rows, word_rows, [len(counts) for counts in sentences], Frame((101,), (102,), 0, length))
    for tokens, words, counts, ids, first, last in zip(
        token_rows,
        word_rows,
        sentences,
        encoded.input_ids,
        encoded.first_tokens,
        encoded.last_tokens,
        strict=True,
    ):
        kept = words[: length - 2]
        assert ids.tolist() == [101, *tokens[: length - 2], 102]
        expected = len(counts) if len(kept) == len(words) else (kept[-1] + 1 if kept else 0)
        assert len(first) == len(last) == expected
        for word in range(expected):
            places = [index + 1 for index, other in enumerate(kept) if other == word]
            if places:
                assert (first[word], last[word]) == (places[0], places[-1])
            else:
                before = [index + 1 for index, other in enumerate(kept) if other < word]
                nearest = before[-1] if before else min(1, len(kept))
                assert first[word] == last[word] == nearest
                assert nearest < len(ids)


def test_word_spans():
    spans = word_spans([[(0, 2), (2, 5), (6, 7)], []], [[0, 0, 1], []])
    assert lists(spans) == [[[0, 5], [6, 7]], []]
    assert lists(word_spans([[(0, 1), (3, 4)]], [[0, 2]])) == [[[0, 1], [3, 3], [3, 4]]]


def test_trim_spans():
    texts = [" ab  c", "", "\u3000x\n"]
    spans = [np.array([[0, 3], [3, 4], [4, 6]]), np.zeros((0, 2), dtype=np.int64), np.array([[0, 3]])]
    assert lists(trim_spans(texts, spans)) == [[[1, 3], [3, 3], [5, 6]], [], [[1, 2]]]


def test_accents_after_the_last_letter_belong_to_the_word():
    acute, texts = "\u0301", ["Jose\u0301 no\u0308\u0301", "e\u0301", "e", "\u0301x", "ab\u0301"]
    spans = [[[0, 4], [6, 8]], [[0, 1]], [[0, 1]], [], [[0, 1], [1, 2]]]
    found = lists(trim_spans(texts, [np.array(row, dtype=np.int64).reshape(-1, 2) for row in spans]))
    assert found == [[[0, 5], [6, 10]], [[0, 2]], [[0, 1]], [], [[0, 1], [1, 3]]]
    # A mark that a tokenizer takes for a word of its own stays one.
    assert lists(trim_spans(["e" + acute], [np.array([[0, 1], [1, 2]])])) == [[[0, 1], [1, 2]]]


@given(st.lists(st.text(alphabet=" \ta\u00a0é😀\u2003\u200b", max_size=12), max_size=4), st.data())
def test_trim_spans_like_strip(texts, data):
    spans = []
    for text in texts:
        ends = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
        spans.append(np.array([ends]))
    for text, before, after in zip(texts, spans, trim_spans(texts, spans), strict=True):
        (start, end), (first, last) = before[0].tolist(), after[0].tolist()
        assert text[first:last] == text[start:end].strip()
        assert start <= first <= last <= max(end, first)


@pytest.mark.parametrize("code", [9, 28, 133, 160, 0x1680, 0x2009, 0x2028, 0x3000])
def test_whitespace_is_what_python_says(code):
    assert chr(code).isspace()
    assert trim_spans([chr(code)], [np.array([[0, 1]])])[0].tolist() == [[0, 0]]
