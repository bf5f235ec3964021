import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from span_marker import Decoding, SpanMarkerConfig
from span_marker.decoding import choose_decoding, decode, decode_flat, reduce_logits, select_entities
from span_marker.decoding_modes import MODES
from span_marker.spans import count_spans
from span_marker.types import EntityTable


def table(entities):
    """[(row, label, start, end), ...] -> EntityTable"""
    columns = np.array(entities, dtype=np.int64).reshape(-1, 4).T
    return EntityTable(*columns)


def keep(candidates, scores):
    return decode_flat(table(candidates), np.array(scores, dtype=np.float32)).tolist()


def one_by_one(candidates, scores):
    """The definition: the best candidate first, each unless it overlaps one that was kept."""
    order = sorted(range(len(candidates)), key=lambda i: (-scores[i], *candidates[i][2:], candidates[i][1]))
    kept = []
    for i in order:
        row, _, start, end = candidates[i]
        if not any(candidates[k][0] == row and start < candidates[k][3] and candidates[k][2] < end for k in kept):
            kept.append(i)
    return sorted(kept, key=lambda i: (candidates[i][0], candidates[i][2]))


@st.composite
def scored_candidates(draw):
    spans = st.tuples(st.integers(0, 4), st.integers(0, 15), st.integers(1, 8))
    rows = draw(st.lists(spans, max_size=60, unique=True))
    labels = draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    # Few values, so that there are ties.
    scores = draw(st.lists(st.sampled_from([0.25, 0.5, 0.75, 1.0]), min_size=len(rows), max_size=len(rows)))
    candidates = [(row, label, start, start + size) for (row, start, size), label in zip(rows, labels, strict=True)]
    return candidates, scores


class TestReduceLogits:
    def test_best_label_and_its_probability(self):
        logits = torch.tensor([[[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]]])
        labels, scores = reduce_logits(logits)
        assert labels.tolist() == [[1, 0, 0]]
        torch.testing.assert_close(scores, torch.tensor([[0.7310586, 0.8807971, 0.5]]))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_types(self, dtype):
        labels, scores = reduce_logits(torch.zeros(2, 3, 4, dtype=dtype))
        assert (labels.dtype, scores.dtype) == (torch.int32, torch.float32)
        assert labels.shape == scores.shape == (2, 3)

    def test_half_precision_is_widened_before_the_softmax(self):
        logits = torch.tensor([[[5.0, 0.0, 0.0]]])
        assert torch.equal(reduce_logits(logits.half())[1], reduce_logits(logits)[1])

    def test_no_span(self):
        labels, scores = reduce_logits(torch.zeros(2, 0, 4))
        assert labels.shape == scores.shape == (2, 0)


class TestDecodeFlat:
    def test_the_best_score_wins(self):
        assert keep([(0, 1, 0, 2), (0, 1, 1, 3)], [0.6, 0.7]) == [1]
        assert keep([(0, 1, 0, 2), (0, 1, 1, 3)], [0.7, 0.6]) == [0]

    def test_neighbours_do_not_overlap(self):
        assert keep([(0, 1, 0, 2), (0, 1, 2, 3)], [0.6, 0.7]) == [0, 1]

    def test_rows_do_not_meet(self):
        assert keep([(0, 1, 0, 2), (1, 1, 0, 2)], [0.6, 0.7]) == [0, 1]

    def test_what_only_overlaps_a_loser_is_kept(self):
        assert keep([(0, 1, 0, 2), (0, 1, 1, 4), (0, 1, 3, 5)], [0.9, 0.8, 0.7]) == [0, 2]

    def test_a_kept_span_inside_a_longer_one_counts(self):
        assert keep([(0, 1, 0, 5), (0, 1, 2, 3)], [0.8, 0.9]) == [1]

    def test_order_is_row_then_start(self):
        assert keep([(1, 1, 0, 1), (0, 1, 3, 4), (0, 1, 0, 1)], [0.9, 0.8, 0.7]) == [2, 1, 0]

    @pytest.mark.parametrize(
        ("candidates", "kept"),
        [
            ([(0, 1, 1, 2), (0, 1, 0, 2)], [1]),  # the earlier start, though longer
            ([(0, 1, 0, 2), (0, 1, 0, 1)], [1]),  # then the earlier end
            ([(0, 2, 0, 1), (0, 1, 0, 1)], [1]),  # then the lower label
        ],
    )
    def test_equal_scores(self, candidates, kept):
        assert keep(candidates, [1.0, 1.0]) == kept
        assert keep(candidates[::-1], [1.0, 1.0]) == [1 - kept[0]]

    def test_staircase_takes_every_other(self):
        # Each step beats the one before it: as many rounds as entities.
        candidates = [(0, 1, i, i + 2) for i in range(9)]
        assert keep(candidates, [i / 10 for i in range(9)]) == [0, 2, 4, 6, 8]

    def test_rows_far_apart(self):
        assert keep([(10**6, 1, 500, 501), (3, 1, 0, 1)], [0.5, 0.6]) == [1, 0]

    def test_nothing(self):
        kept = decode_flat(table([]), np.zeros(0, dtype=np.float32))
        assert kept.tolist() == []
        assert kept.dtype == np.int64

    @pytest.mark.parametrize(("start", "end"), [(2, 2), (3, 1), (-1, 1)])
    def test_no_span_is_refused(self, start, end):
        with pytest.raises(ValueError, match=rf"Row 7: the candidate \[{start}, {end}\) is no span"):
            keep([(0, 1, 0, 1), (7, 1, start, end)], [0.5, 0.5])

    def test_scores_must_match(self):
        with pytest.raises(ValueError, match="2 candidates came with 1 scores"):
            keep([(0, 1, 0, 1), (0, 1, 1, 2)], [0.5])

    @given(scored_candidates())
    def test_equals_one_by_one(self, given_candidates):
        candidates, scores = given_candidates
        assert keep(candidates, scores) == one_by_one(candidates, scores)

    @given(scored_candidates())
    def test_no_overlap_and_nothing_left_out(self, given_candidates):
        candidates, scores = given_candidates
        kept = keep(candidates, scores)
        words = [(candidates[k][0], word) for k in kept for word in range(candidates[k][2], candidates[k][3])]
        assert len(words) == len(set(words))
        for row, _, start, end in candidates:
            assert any((row, word) in words for word in range(start, end))

    @given(scored_candidates(), st.randoms(use_true_random=False))
    def test_the_order_of_the_candidates_does_not_matter(self, given_candidates, random):
        candidates, scores = given_candidates
        order = list(range(len(candidates)))
        random.shuffle(order)
        shuffled = keep([candidates[i] for i in order], [scores[i] for i in order])
        assert [order[k] for k in shuffled] == keep(candidates, scores)


def select(candidates, scores, mode="nested", labels=("O", "PER", "LOC", "ORG"), **settings):
    scores = np.array(scores, dtype=np.float32)
    return select_entities(table(candidates), scores, Decoding(mode, **settings), labels).tolist()


def crosses(one, other):
    (row, _, start, end), (other_row, _, other_start, other_end) = one, other
    return row == other_row and (start < other_start < end < other_end or other_start < start < other_end < end)


def overlaps(one, other):
    return one[0] == other[0] and one[2] < other[3] and other[2] < one[3]


def by_definition(candidates, scores, mode, threshold=0.0, top_k=None):
    """The best candidate first, each unless it conflicts with one that was kept; then the best of each row."""
    conflicts = {
        "flat": overlaps,
        "nested": lambda one, other: crosses(one, other) or (one[0], *one[2:]) == (other[0], *other[2:]),
        "all": lambda one, other: (one[0], *one[2:]) == (other[0], *other[2:]),
    }[mode]
    order = sorted(range(len(candidates)), key=lambda i: (-scores[i], *candidates[i][2:], candidates[i][1]))
    kept = []
    for i in order:
        if scores[i] >= threshold and not any(conflicts(candidates[i], candidates[k]) for k in kept):
            kept.append(i)
    if top_k is not None:
        kept = [i for at, i in enumerate(kept) if sum(candidates[k][0] == candidates[i][0] for k in kept[:at]) < top_k]
    return sorted(kept, key=lambda i: (candidates[i][0], *candidates[i][2:]))


@st.composite
def repeated_candidates(draw):
    """Candidates of which several may have the same words and another label."""
    candidates, scores = draw(scored_candidates())
    if candidates:
        again = draw(st.lists(st.integers(0, len(candidates) - 1), max_size=4, unique=True))
        for index in again:
            row, label, start, end = candidates[index]
            candidates.append((row, label % 3 + 1, start, end))
            scores.append(draw(st.sampled_from([0.5, 1.0])))
    return candidates, scores


class TestNested:
    def test_an_entity_may_contain_others(self):
        candidates = [(0, 1, 0, 5), (0, 2, 0, 2), (0, 2, 3, 5), (0, 1, 1, 2)]
        assert select(candidates, [0.6, 0.9, 0.7, 0.5]) == [1, 0, 3, 2]
        assert select(candidates, [0.6, 0.9, 0.7, 0.5], "flat") == [1, 2]

    def test_of_two_that_cross_the_best_is_kept(self):
        assert select([(0, 1, 0, 2), (0, 1, 1, 3)], [0.6, 0.7]) == [1]
        assert select([(0, 1, 0, 2), (0, 1, 1, 3)], [0.7, 0.6]) == [0]

    @pytest.mark.parametrize(
        ("candidates", "kept"),
        [
            ([(0, 1, 0, 2), (0, 1, 1, 3)], [0]),  # the earlier start
            ([(0, 1, 0, 3), (0, 1, 1, 4), (0, 1, 1, 2)], [0, 2]),  # then the earlier end, which lies within both
            ([(0, 2, 0, 1), (0, 1, 0, 1)], [1]),  # then the lower label
        ],
    )
    def test_equal_scores(self, candidates, kept):
        assert select(candidates, [1.0] * len(candidates)) == kept

    def test_what_only_crosses_a_loser_is_kept(self):
        assert select([(0, 1, 0, 2), (0, 1, 1, 4), (0, 1, 3, 5)], [0.9, 0.8, 0.7]) == [0, 2]

    def test_rows_do_not_meet(self):
        assert select([(0, 1, 0, 2), (1, 1, 1, 3)], [0.6, 0.7]) == [0, 1]

    def test_flat_entities_are_not_always_among_the_nested_ones(self):
        # The second one contains the first, and beats the third.
        candidates, scores = [(0, 1, 0, 3), (0, 1, 0, 6), (0, 1, 4, 8)], [0.9, 0.8, 0.7]
        assert select(candidates, scores, "flat") == [0, 2]
        assert select(candidates, scores, "nested") == [0, 1]

    def test_staircase_takes_every_other(self):
        candidates = [(0, 1, i, i + 2) for i in range(9)]
        assert select(candidates, [i / 10 for i in range(9)]) == [0, 2, 4, 6, 8]

    def test_nothing(self):
        assert select([], []) == []
        assert select([], [], "all") == []

    @pytest.mark.parametrize("mode", MODES)
    def test_what_is_no_candidate_is_refused(self, mode):
        with pytest.raises(ValueError, match=r"Row 7: the candidate \[2, 2\) is no span"):
            select([(7, 1, 2, 2)], [0.5], mode)
        with pytest.raises(ValueError, match="2 candidates came with 1 scores"):
            select([(0, 1, 0, 1), (0, 1, 1, 2)], [0.5], mode)

    def test_long_texts_take_no_square_of_their_spans(self):
        # 200,000 spans: pairs of all of them would be 2e10.
        starts = np.repeat(np.arange(50_000), 4)
        ends = starts + np.tile([1, 2, 3, 4], 50_000)
        scores = np.random.default_rng(0).random(len(starts), dtype=np.float32)
        same = np.zeros(len(starts), dtype=np.int64)
        kept = select_entities(EntityTable(same, same, starts, ends), scores, Decoding("nested"))
        assert 50_000 < len(kept) < 150_000


class TestAll:
    def test_all_are_kept_in_order(self):
        assert select([(1, 1, 0, 1), (0, 1, 1, 3), (0, 1, 0, 3), (0, 1, 0, 2)], [0.1, 0.2, 0.3, 0.4], "all") == [
            3,
            2,
            1,
            0,
        ]

    def test_the_same_words_are_kept_once(self):
        assert select([(0, 1, 0, 2), (0, 2, 0, 2), (1, 1, 0, 2)], [0.5, 0.6, 0.7], "all") == [1, 2]
        assert select([(0, 2, 0, 2), (0, 1, 0, 2)], [0.5, 0.5], "all") == [1]


class TestThreshold:
    CANDIDATES = ((0, 1, 0, 2), (0, 2, 1, 3), (0, 1, 4, 5))

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(("threshold", "kept"), [(0.0, [0, 2]), (0.75, [0, 2]), (0.76, [0]), (0.9, [0]), (1.0, [])])
    def test_one_for_all_labels(self, mode, threshold, kept):
        assert select([self.CANDIDATES[0], self.CANDIDATES[2]], [0.9, 0.75], mode, threshold=threshold) == [
            [0, 2].index(index) for index in kept
        ]

    def test_one_for_each_label(self):
        scores = [0.9, 0.8, 0.7]
        assert select(self.CANDIDATES, scores, "all", threshold={"PER": 0.8}) == [0, 1]
        assert select(self.CANDIDATES, scores, "all", threshold={"PER": 0.8, "LOC": 0.81}) == [0]
        assert select(self.CANDIDATES, scores, "all", threshold={"ORG": 1}) == [0, 1, 2]
        assert select(self.CANDIDATES, scores, "all", threshold={}) == [0, 1, 2]

    def test_what_is_too_improbable_keeps_nothing_out(self):
        assert select(self.CANDIDATES, [0.9, 0.8, 0.7], "flat", threshold={"PER": 0.95}) == [1]

    def test_the_labels_must_be_known(self):
        with pytest.raises(
            ValueError, match=r"threshold names 'PERS', which is no entity type .* Did you mean 'PER'\?"
        ):
            select(self.CANDIDATES, [0.9, 0.8, 0.7], threshold={"PERS": 0.5})
        with pytest.raises(ValueError, match="threshold names 'O', which is no entity type"):
            select(self.CANDIDATES, [0.9, 0.8, 0.7], threshold={"O": 0.5})


class TestTopK:
    def test_the_best_in_the_order_of_the_words(self):
        candidates = [(0, 1, 0, 1), (0, 1, 1, 2), (0, 1, 2, 3), (1, 1, 0, 1)]
        assert select(candidates, [0.5, 0.7, 0.6, 0.1], top_k=2) == [1, 2, 3]
        assert select(candidates, [0.5, 0.7, 0.6, 0.1], top_k=3) == [0, 1, 2, 3]

    def test_equal_scores(self):
        candidates = [(0, 1, 2, 4), (0, 1, 2, 3), (0, 1, 0, 4)]
        assert select(candidates, [0.5, 0.5, 0.5], top_k=1) == [2]
        assert select(candidates, [0.5, 0.5, 0.5], top_k=2) == [2, 1]

    def test_only_of_those_that_the_mode_keeps(self):
        candidates = [(0, 1, 0, 2), (0, 1, 1, 3), (0, 1, 4, 5)]
        assert select(candidates, [0.9, 0.8, 0.7], "flat", top_k=2) == [0, 2]
        assert select(candidates, [0.9, 0.8, 0.7], "all", top_k=2) == [0, 1]


class TestModes:
    @given(
        repeated_candidates(), st.sampled_from(MODES), st.sampled_from([0.0, 0.5, 0.75]), st.sampled_from([None, 1, 3])
    )
    def test_equals_the_definition(self, given_candidates, mode, threshold, top_k):
        candidates, scores = given_candidates
        found = select(candidates, scores, mode, threshold=threshold, top_k=top_k)
        assert found == by_definition(candidates, scores, mode, threshold, top_k)

    @given(repeated_candidates())
    def test_what_each_mode_promises(self, given_candidates):
        candidates, scores = given_candidates
        kept = {mode: [candidates[index] for index in select(candidates, scores, mode)] for mode in MODES}
        pairs = {mode: [(a, b) for at, a in enumerate(found) for b in found[:at]] for mode, found in kept.items()}
        assert not any(overlaps(*pair) for pair in pairs["flat"])
        assert not any(crosses(*pair) for pair in pairs["nested"])
        assert {*kept["flat"]} | {*kept["nested"]} <= {*kept["all"]}
        assert {(row, start, end) for row, _, start, end in candidates} == {(r, s, e) for r, _, s, e in kept["all"]}
        for found in kept.values():
            places = [(row, start, end) for row, _, start, end in found]
            assert places == sorted(set(places))

    @given(repeated_candidates(), st.sampled_from(MODES), st.randoms(use_true_random=False))
    def test_the_order_of_the_candidates_does_not_matter(self, given_candidates, mode, random):
        candidates, scores = given_candidates
        order = list(range(len(candidates)))
        random.shuffle(order)
        shuffled = select([candidates[i] for i in order], [scores[i] for i in order], mode)
        assert [candidates[order[k]] for k in shuffled] == [candidates[k] for k in select(candidates, scores, mode)]

    @given(scored_candidates())
    def test_flat_is_what_it_was(self, given_candidates):
        candidates, scores = given_candidates
        assert select(candidates, scores, "flat") == keep(candidates, scores)


class TestChooseDecoding:
    @pytest.fixture
    def config(self):
        config = SpanMarkerConfig(decoding="nested")
        config.set_labels(["O", "B-PER", "I-PER"])
        return config

    def test_the_configuration_says_the_mode(self, config):
        assert choose_decoding(None, None, None, config) == Decoding("nested")
        assert choose_decoding(None, 0.5, 3, config) == Decoding("nested", 0.5, 3)
        assert choose_decoding("flat", {"PER": 1}, None, config) == Decoding("flat", {"PER": 1})

    def test_a_decoding_is_complete(self, config):
        assert choose_decoding(Decoding(), None, None, config) == Decoding("flat")
        for extra in ((0.5, None), (None, 1)):
            with pytest.raises(ValueError, match=r"Decoding, which holds threshold and top_k itself"):
                choose_decoding(Decoding(), *extra, config)

    def test_unknown_types_are_refused_at_once(self, config):
        with pytest.raises(ValueError, match=r"'LOC'.*Choose from PER"):
            choose_decoding(None, {"LOC": 0.5}, None, config)
        with pytest.raises(ValueError, match="decoding must be one of 'flat', 'nested', 'all', but it is 'nestd'"):
            choose_decoding("nestd", None, None, config)


class TestDecode:
    def test_modes(self):
        # Spans of up to 3 words: (0,1) (0,2) (0,3) (1,2) (1,3) (2,3).
        labels, scores = [[1, 2, 1, 0, 2, 1]], np.array([[0.5, 0.75, 0.7, 0.9, 0.625, 0.9]], dtype=np.float32)

        def found(*arguments, **settings):
            entities, kept = decode(labels, scores, [3], 3, 0, Decoding(*arguments, **settings), ["O", "PER", "LOC"])
            return [*zip(entities.starts.tolist(), entities.ends.tolist(), entities.labels.tolist(), strict=True)], kept

        assert found("flat")[0] == [(0, 2, 2), (2, 3, 1)]
        assert found("nested")[0] == [(0, 1, 1), (0, 2, 2), (0, 3, 1), (2, 3, 1)]
        assert found("all")[0] == [(0, 1, 1), (0, 2, 2), (0, 3, 1), (1, 3, 2), (2, 3, 1)]
        entities, kept = found("all", threshold={"PER": 0.7}, top_k=3)
        assert entities == [(0, 2, 2), (0, 3, 1), (2, 3, 1)]  # 0.7 of the model is not less than a threshold of 0.7
        assert kept.tolist() == scores[0, [1, 2, 5]].tolist()

    def test_two_sentences(self):
        # Spans of 2 words: (0,1) (0,2) (1,2); of 1 word: (0,1), then padding.
        labels = np.array([[1, 2, 0], [3, -100, -100]])
        scores = np.array([[0.5, 0.9, 0.8], [0.7, -100, -100]], dtype=np.float32)
        entities, kept_scores = decode(labels, scores, [2, 1], 2, outside_id=0)
        assert [column.tolist() for column in entities] == [[0, 1], [2, 3], [0, 0], [2, 1]]
        assert kept_scores.tolist() == scores[[0, 1], [1, 0]].tolist()
        assert kept_scores.dtype == np.float32
        assert all(column.dtype == np.int64 for column in entities)

    def test_padding_may_hold_anything(self):
        entities, _ = decode([[1, 1, 1]], [[0.5, 0.9, 0.9]], [1], 2, outside_id=0)
        assert [column.tolist() for column in entities] == [[0], [1], [0], [1]]

    def test_the_outside_label_can_be_any(self):
        entities, _ = decode([[1, 0]], [[0.5, 0.9]], [2], 1, outside_id=1)
        assert [column.tolist() for column in entities] == [[0], [0], [1], [2]]

    @pytest.mark.parametrize("shape", [(0, 0), (2, 0), (2, 3)])
    def test_no_word_no_entity(self, shape):
        entities, scores = decode(np.ones(shape, int), np.ones(shape), [0] * shape[0], 8, outside_id=0)
        assert all(column.shape == (0,) for column in entities)
        assert scores.shape == (0,)

    def test_tensors(self):
        labels, scores = reduce_logits(torch.tensor([[[0.0, 3.0]]]))
        entities, _ = decode(labels, scores, torch.tensor([1]), 8, outside_id=0)
        assert entities.ends.tolist() == [1]

    def test_more_spans_than_columns(self):
        with pytest.raises(ValueError, match="Row 1: 3 words have 5 candidate spans of up to 2 words, but only 3"):
            decode(np.zeros((2, 3)), np.zeros((2, 3)), [2, 3], 2, outside_id=0)

    @given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 5))
    def test_sentences_together_equal_each_alone(self, seed, max_length, padding):
        random = np.random.default_rng(seed)
        num_words = random.integers(0, 12, size=6)
        width = int(count_spans(num_words, max_length).max()) + padding
        labels, scores = random.integers(0, 3, (6, width)), random.random((6, width), dtype=np.float32)
        entities, kept_scores = decode(labels, scores, num_words, max_length, outside_id=1)
        for row in range(6):
            alone, alone_scores = decode(labels[[row]], scores[[row]], num_words[[row]], max_length, outside_id=1)
            here = entities.rows == row
            assert kept_scores[here].tolist() == alone_scores.tolist()
            for column, expected in zip(entities[1:], alone[1:], strict=True):
                assert column[here].tolist() == expected.tolist()


@pytest.mark.reference
@pytest.mark.parametrize("case", ["bert", "roberta", "xlm_roberta", "bert_document_context"])
def test_logits_of_the_reference_give_its_entities(shared, case):
    expected = json.loads((shared / "reference" / case / "expected.json").read_text(encoding="utf8"))
    config = json.loads((shared / "reference" / case / "model" / "config.json").read_text(encoding="utf8"))
    sentences = expected["preprocessed"]["rows"]["tokens"]
    logits = [torch.tensor(row) for row in expected["logits"]]
    found = []
    for tokens in sentences:
        # Spread over several rows: the rows of a sentence hold its spans one after the other.
        spans = []
        while sum(map(len, spans)) < count_spans(len(tokens), config["entity_max_length"]):
            spans.append(logits.pop(0))
        labels, scores = reduce_logits(torch.cat(spans)[None])
        entities, kept = decode(labels, scores, [len(tokens)], config["entity_max_length"], outside_id=0)
        found.append([*zip(*(column.tolist() for column in entities[1:]), kept.tolist(), strict=True)])
    assert not logits
    assert expected["predict"]["inputs"]["tokens"][: len(sentences)] == sentences
    # The second document goes on in the prediction's rows: its sentences have another context there.
    complete = 6 if case == "bert_document_context" else len(sentences)
    for entities, wanted in zip(found[:complete], expected["predict"]["entities"][:complete], strict=True):
        assert [(config["id2label"][str(label)], start, end) for label, start, end, _ in entities] == [
            (entity["label"], entity["word_start_index"], entity["word_end_index"]) for entity in wanted
        ]
        assert [score for *_, score in entities] == pytest.approx([entity["score"] for entity in wanted], abs=1e-4)
