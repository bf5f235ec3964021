from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest
from entity_tables import table
from hypothesis import given, settings
from hypothesis import strategies as st

from span_marker.evaluation import compute_metrics, lay_out
from span_marker.evaluation_report import semeval
from span_marker.evaluation_report.semeval import SCHEMES, SchemeScores, pair_greedily, pair_in_turn, score_schemes

try:
    from nervaluate import Evaluator
except ModuleNotFoundError:  # it needs Python 3.11
    Evaluator = None

needs_nervaluate = pytest.mark.skipif(Evaluator is None, reason="nervaluate is not installed")
LABELS = ["O", "A", "B", "C"]
NAMES = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}


def score(predicted, gold, num_words):
    words = np.array(num_words, dtype=np.int64)
    tables = [lay_out(table(rows), words, LABELS, "given")[0] for rows in (predicted, gold)]
    return score_schemes(*tables, int(words.sum()), LABELS)


def counts(predicted, gold, num_words=(20,)):
    """Correct, incorrect, partial, missed and spurious entities by scheme."""
    overall, _ = score(predicted, gold, num_words)
    return {scheme: astuple(scores)[:5] for scheme, scores in overall.items()}


def test_found_exactly():
    assert counts([(0, 1, 0, 2)], [(0, 1, 0, 2)]) == dict.fromkeys(SCHEMES, (1, 0, 0, 0, 0))


def test_other_type():
    assert counts([(0, 2, 0, 2)], [(0, 1, 0, 2)]) == {
        "strict": (0, 1, 0, 0, 0),
        "exact": (1, 0, 0, 0, 0),
        "partial": (1, 0, 0, 0, 0),
        "type": (0, 1, 0, 0, 0),
    }


def test_other_words():
    assert counts([(0, 1, 0, 1)], [(0, 1, 0, 2)]) == {
        "strict": (0, 1, 0, 0, 0),
        "exact": (0, 1, 0, 0, 0),
        "partial": (0, 0, 1, 0, 0),
        "type": (1, 0, 0, 0, 0),
    }


def test_missed_and_spurious():
    assert counts([(0, 1, 0, 1)], [(0, 1, 1, 2)]) == dict.fromkeys(SCHEMES, (0, 0, 0, 1, 1))


def test_a_partial_match_counts_half():
    overall, each = score([(0, 1, 0, 1), (0, 1, 3, 4)], [(0, 1, 0, 2)], [4])
    assert overall["partial"] == SchemeScores(0, 0, 1, 0, 1, 0.25, 0.5, 1 / 3)
    assert each == {"A": overall}


def test_each_type_knows_no_other():
    _, each = score([(0, 2, 0, 2)], [(0, 1, 0, 2)], [2])
    assert each["A"] == dict.fromkeys(SCHEMES, SchemeScores(0, 0, 0, 1, 0, 0.0, 0.0, 0.0))
    assert each["B"] == dict.fromkeys(SCHEMES, SchemeScores(0, 0, 0, 0, 1, 0.0, 0.0, 0.0))


def test_the_type_scheme_takes_the_nearest_of_the_type():
    gold = [(0, 2, 0, 1), (0, 1, 1, 2), (0, 1, 2, 6)]
    assert counts([(0, 1, 0, 6)], gold)["type"] == (1, 0, 0, 2, 0)
    # The second prediction is left with the gold entity of another type.
    assert counts([(0, 1, 0, 4), (0, 1, 4, 6)], [(0, 1, 1, 5)])["type"] == (1, 0, 0, 0, 1)


def test_a_taken_entity_is_passed_on():
    # Each prediction reaches into the next gold entity: the first takes the first, and so on.
    gold = [(0, 1, 0, 3), (0, 1, 3, 6), (0, 1, 6, 9)]
    assert counts([(0, 1, 1, 4), (0, 1, 4, 7), (0, 1, 7, 10)], gold)["partial"] == (0, 0, 3, 0, 0)
    assert counts([(0, 1, 0, 1), (0, 1, 1, 2), (0, 1, 2, 4)], gold)["partial"] == (0, 0, 2, 1, 1)


@pytest.mark.parametrize(
    ("predicted", "gold", "costs", "made"),
    [
        ([], [], [], []),
        ([0, 0, 1], [0, 1, 1], [0, 0, 0], [True, False, True]),
        ([0, 0, 1], [0, 1, 1], [5, 2, 0], [False, True, False]),
        ([0, 1, 2, 2], [0, 0, 0, 1], [0, 0, 0, 0], [True, False, False, True]),
        ([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 3], [9, 0, 0, 0, 0, 0], [False, True, False, True, False, True]),
    ],
)
def test_pairs_are_made_from_left_to_right(predicted, gold, costs, made):
    columns = [np.array(column, dtype=np.int64) for column in (predicted, gold, costs)]
    assert pair_greedily(*columns).tolist() == made


def test_entities_within_entities():
    gold = [(0, 1, 0, 6), (0, 2, 1, 3), (0, 1, 4, 5)]
    assert counts(gold, gold) == dict.fromkeys(SCHEMES, (3, 0, 0, 0, 0))
    # The outer one is found, one within is found as another type, one is missed; another within the outer is spurious.
    predicted = [(0, 1, 0, 6), (0, 2, 0, 1), (0, 1, 1, 3)]
    assert counts(predicted, gold) == {
        "strict": (1, 1, 0, 1, 1),
        "exact": (2, 0, 0, 1, 1),
        "partial": (2, 0, 0, 1, 1),
        "type": (1, 1, 0, 1, 1),
    }
    # What is too short takes the outer entity only where nothing has its words.
    assert counts([(0, 1, 0, 5), (0, 1, 0, 6)], [(0, 1, 0, 6)])["partial"] == (1, 0, 0, 0, 1)
    assert counts([(0, 1, 0, 5), (0, 2, 1, 3)], gold)["partial"] == (1, 0, 1, 1, 0)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(st.integers(0, 14), min_size=1, max_size=4))
def test_both_ways_of_pairing_agree_where_nothing_overlaps(data, num_words):
    gold, predicted = data.draw(entities(num_words)), data.draw(entities(num_words))
    one = score(predicted, gold, num_words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semeval, "do_overlap", lambda _: True)
        patch.setattr(semeval, "pair_greedily", None)
        assert score(predicted, gold, num_words) == one


spans = st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 8), st.integers(1, 4))
nested = st.sets(spans, max_size=8).map(lambda rows: sorted((*row[:3], row[2] + row[3]) for row in rows))


@settings(max_examples=200, deadline=None)
@given(nested, nested)
def test_strict_is_strict_f1_where_entities_overlap(predicted, gold):
    overall, each = score(predicted, gold, [12, 12])
    metrics = compute_metrics(table(predicted), table(gold), [12, 12], LABELS)
    assert overall["strict"].f1 == metrics["overall_f1"]
    for label, schemes in each.items():
        assert schemes["strict"].f1 == metrics[label]["f1"]
    for scores in (*overall.values(), *(scores for schemes in each.values() for scores in schemes.values())):
        assert min(astuple(scores)) >= 0
    for scores in overall.values():
        assert scores.correct + scores.incorrect + scores.partial + scores.missed == len(gold)
        assert scores.correct + scores.incorrect + scores.partial + scores.spurious == len(predicted)


def test_tiers_are_paired_one_after_the_other():
    columns = [np.array(column) for column in ([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [2, 2, 0, 2])]
    assert pair_in_turn(*columns).tolist() == [False, True, True, False]
    assert pair_in_turn(*(np.zeros(0, dtype=np.int64) for _ in range(4))).tolist() == []


def test_nothing_scores_zero():
    overall, each = score([], [], [3, 0])
    assert overall == dict.fromkeys(SCHEMES, SchemeScores(0, 0, 0, 0, 0, 0.0, 0.0, 0.0))
    assert each == {}


@st.composite
def entities(draw, num_words):
    """Entities that do not overlap, most words in one."""
    rows = []
    for row, words in enumerate(num_words):
        cuts = sorted(draw(st.sets(st.integers(0, words), max_size=9)))
        kinds = draw(st.lists(st.sampled_from([0, 1, 1, 2, 2, 3]), min_size=len(cuts), max_size=len(cuts)))
        rows += [(row, kind, *span) for kind, span in zip(kinds, pairwise(cuts), strict=False) if kind]
    return rows


def as_documents(rows, num_sentences):
    """The entities as nervaluate takes them, with inclusive ends."""
    documents = [[] for _ in range(num_sentences)]
    for row, label, start, end in rows:
        documents[row].append({"label": LABELS[label], "start": start, "end": end - 1})
    return documents


@needs_nervaluate
@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.integers(0, 14), min_size=1, max_size=4))
def test_all_numbers_are_nervaluates(data, num_words):
    gold, predicted = data.draw(entities(num_words)), data.draw(entities(num_words))
    overall, each = score(predicted, gold, num_words)
    documents = (as_documents(rows, len(num_words)) for rows in (gold, predicted))
    expected = Evaluator(*documents, LABELS[1:], loader="dict").evaluate()
    fields = [*SchemeScores.__dataclass_fields__]
    for ours, theirs in [(overall, expected["overall"]), *((each[name], expected["entities"][name]) for name in each)]:
        for scheme, name in NAMES.items():
            assert astuple(ours[scheme]) == tuple(getattr(theirs[name], field) for field in fields)
    assert each.keys() == expected["entities"].keys()


@needs_nervaluate
def test_one_word_of_a_very_long_entity_is_enough():
    # nervaluate asks for one word in a hundred.
    gold, predicted = [(0, 1, 0, 150)], [(0, 1, 0, 1)]
    assert counts(predicted, gold, [150])["partial"] == (0, 0, 1, 0, 0)
    documents = (as_documents(rows, 1) for rows in (gold, predicted))
    assert Evaluator(*documents, LABELS[1:], loader="dict").evaluate()["overall"]["partial"].partial == 0
