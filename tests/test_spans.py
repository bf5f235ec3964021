import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.spans import count_spans, enumerate_spans, span_index, spans_at

NUM_WORDS = st.integers(min_value=0, max_value=40)
MAX_LENGTH = st.integers(min_value=1, max_value=45)


def spans(num_words, max_length):
    starts, ends = enumerate_spans(num_words, max_length)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_enumerate_three_words():
    assert spans(3, 2) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("max_length", [3, 4, 100])
def test_a_maximum_beyond_the_sentence_gives_every_span(max_length):
    assert spans(3, max_length) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert count_spans(3, max_length) == 6


def test_no_word_gives_no_span():
    starts, ends = enumerate_spans(0, 8)
    assert starts.shape == ends.shape == (0,)
    assert count_spans(0, 8) == 0
    assert span_index([0], [1], 0, 8).tolist() == [-1]
    assert span_index([], [], 0, 8).tolist() == []


def test_count_keeps_the_shape():
    assert count_spans([[0, 1], [2, 3]], 2).tolist() == [[0, 1], [3, 5]]
    assert count_spans(5, 1).shape == ()


def test_index_three_words():
    assert span_index([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], 3, 2).tolist() == [0, 1, 2, 3, 4]


def test_index_over_sentences_of_different_lengths():
    assert span_index([0, 1, 1], [1, 2, 2], [1, 2, 3], 8).tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (-1, 1, "starts before the sentence"),
        (1, 1, "covers no word"),
        (2, 1, "ends before it starts"),
        (2, 4, "ends after the sentence"),
        (0, 3, "is longer than the maximum"),
        (3, 4, "starts after the sentence"),
    ],
)
def test_no_candidate_has_no_index(start, end, why):
    assert span_index([start], [end], 3, 2).tolist() == [-1], why


@given(NUM_WORDS, MAX_LENGTH)
def test_enumeration_is_every_span_by_start_then_end(num_words, max_length):
    expected = [
        (start, end)
        for start in range(num_words)
        for end in range(start + 1, num_words + 1)
        if end - start <= max_length
    ]
    assert spans(num_words, max_length) == expected


@given(st.lists(NUM_WORDS, max_size=5), MAX_LENGTH)
def test_count_matches_enumeration(num_words, max_length):
    expected = [len(enumerate_spans(words, max_length)[0]) for words in num_words]
    assert count_spans(num_words, max_length).tolist() == expected


@given(NUM_WORDS, MAX_LENGTH)
def test_index_inverts_enumeration(num_words, max_length):
    starts, ends = enumerate_spans(num_words, max_length)
    assert span_index(starts, ends, num_words, max_length).tolist() == list(range(len(starts)))


@given(NUM_WORDS, MAX_LENGTH, st.integers(-3, 50), st.integers(-3, 50))
def test_only_candidates_have_an_index(num_words, max_length, start, end):
    (index,) = span_index([start], [end], num_words, max_length).tolist()
    candidates = spans(num_words, max_length)
    assert index == (candidates.index((start, end)) if (start, end) in candidates else -1)


def test_types():
    starts, ends = enumerate_spans(4, 2)
    assert starts.dtype == ends.dtype == span_index(starts, ends, 4, 2).dtype == count_spans([4], 2).dtype == np.int64


class TestSpansAt:
    def test_three_words(self):
        starts, ends = spans_at([0, 1, 2, 3, 4], 3, 2)
        assert starts.tolist() == [0, 0, 1, 1, 2]
        assert ends.tolist() == [1, 2, 2, 3, 3]

    def test_sentences_of_different_lengths(self):
        starts, ends = spans_at([0, 2, 3], [1, 2, 3], 8)
        assert (starts.tolist(), ends.tolist()) == ([0, 1, 1], [1, 2, 2])

    def test_no_span(self):
        starts, ends = spans_at([], [], 8)
        assert starts.shape == ends.shape == (0,)

    @given(st.integers(0, 60), st.integers(1, 65))
    def test_inverts_the_index(self, num_words, max_length):
        starts, ends = enumerate_spans(num_words, max_length)
        found = spans_at(span_index(starts, ends, num_words, max_length), num_words, max_length)
        assert found[0].tolist() == starts.tolist()
        assert found[1].tolist() == ends.tolist()

    @pytest.mark.parametrize("max_length", [8, 1000, 100_000])
    def test_long_sentence(self, max_length):
        index = np.unique(np.linspace(0, count_spans(100_000, max_length) - 1, 10_000).astype(np.int64))
        assert np.array_equal(span_index(*spans_at(index, 100_000, max_length), 100_000, max_length), index)
