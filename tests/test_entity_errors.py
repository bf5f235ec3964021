import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from span_marker.entity_errors import OUTCOMES, EntityErrors, find_errors
from span_marker.evaluation import compute_metrics
from span_marker.types import EntityTable

LABELS = ["O", "LOC", "ORG", "PER"]
WORDS = [10, 4]


def table(*entities):
    """Entities from (row, type, start, end)."""
    columns = np.array([(row, LABELS.index(label), start, end) for row, label, start, end in entities]).reshape(-1, 4).T
    return EntityTable(*columns.astype(np.int64))


def errors(predicted, gold):
    return find_errors(table(*predicted), table(*gold), WORDS, LABELS)


def row(**counts):
    return dict.fromkeys((*OUTCOMES, "spurious"), 0) | counts


def test_each_outcome():
    gold = [(0, "PER", 0, 2), (0, "PER", 2, 4), (0, "ORG", 4, 5), (0, "ORG", 6, 8), (1, "LOC", 0, 1)]
    predicted = [(0, "PER", 0, 2), (0, "PER", 3, 4), (0, "LOC", 4, 5), (0, "LOC", 7, 9), (1, "LOC", 2, 3)]
    found = errors(predicted, gold)
    assert found.outcomes == {
        "LOC": row(missed=1, spurious=1),
        "ORG": row(other_type=1, other_both=1),
        "PER": row(found=1, other_words=1),
    }
    assert found.confusions == (("ORG", "LOC", 2),)


def test_the_best_of_several_overlapping_entities_counts():
    gold = [(0, "PER", 0, 4)]
    assert errors([(0, "LOC", 0, 3), (0, "PER", 3, 4)], gold).outcomes["PER"] == row(other_words=1)
    assert errors([(0, "LOC", 0, 3), (0, "ORG", 3, 4)], gold).confusions == (("PER", "LOC", 1),)
    assert errors([(0, "LOC", 0, 2), (0, "ORG", 2, 4)], gold).confusions == (("PER", "LOC", 1),)
    # One prediction may be the best of two gold entities; it is not spurious.
    found = errors([(0, "PER", 0, 4)], [(0, "PER", 0, 1), (0, "LOC", 1, 4)])
    assert found.outcomes == {"LOC": row(other_both=1), "PER": row(other_words=1)}


def test_what_lies_within_a_found_entity_is_missed_or_spurious_by_itself():
    gold = [(0, "ORG", 0, 4), (0, "LOC", 3, 4), (0, "PER", 6, 9), (0, "LOC", 7, 8)]
    predicted = [(0, "ORG", 0, 4), (0, "PER", 1, 2), (0, "PER", 6, 8)]
    assert errors(predicted, gold).outcomes == {
        "LOC": row(missed=1, other_both=1),
        "ORG": row(found=1),
        "PER": row(other_words=1, spurious=1),
    }
    assert errors(predicted, gold).confusions == (("LOC", "PER", 1),)


def test_entities_of_other_sentences_do_not_meet():
    assert errors([(1, "PER", 0, 1)], [(0, "PER", 0, 1)]).outcomes == {"PER": row(missed=1, spurious=1)}


def test_nothing_to_compare():
    assert errors([], []) == find_errors(table(), table(), [], LABELS) == EntityErrors()


def test_the_most_frequent_confusion_comes_first():
    gold = [(0, "PER", 0, 1), (0, "ORG", 1, 2), (0, "ORG", 2, 3), (0, "LOC", 3, 4)]
    predicted = [(0, "LOC", 0, 1), (0, "PER", 1, 2), (0, "PER", 2, 3), (0, "ORG", 3, 4)]
    assert errors(predicted, gold).confusions == (("ORG", "PER", 2), ("LOC", "ORG", 1), ("PER", "LOC", 1))


def test_there_and_back():
    found = errors([(0, "LOC", 0, 1)], [(0, "PER", 0, 1)])
    assert EntityErrors.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@st.composite
def entities(draw):
    """Entities that do not overlap, in two sentences."""
    rows = []
    for index, length in enumerate(WORDS):
        cuts = sorted(draw(st.sets(st.integers(0, length), max_size=6)))
        types = draw(st.lists(st.sampled_from(LABELS), min_size=len(cuts), max_size=len(cuts)))
        rows += [
            (index, label, start, end)
            for label, start, end in zip(types, cuts[:-1], cuts[1:], strict=False)
            if label != "O"
        ]
    return rows


nested_entities = st.sets(
    st.tuples(st.just(0), st.sampled_from(LABELS[1:]), st.integers(0, 8), st.integers(1, 3)).map(
        lambda entity: (*entity[:3], min(sum(entity[2:]), WORDS[0]))
    ),
    max_size=8,
).map(lambda rows: sorted(rows, key=lambda row: (row[0], *row[2:])))
"""Entities of one sentence that may overlap."""


@settings(max_examples=100, deadline=None)
@given(entities() | nested_entities, entities() | nested_entities)
def test_outcomes_agree_with_the_metrics(predicted, gold):
    found = errors(predicted, gold)
    metrics = compute_metrics(table(*predicted), table(*gold), WORDS, LABELS)
    assert list(found.outcomes) == [name for name, value in metrics.items() if isinstance(value, dict)]
    for label, counts in found.outcomes.items():
        number = metrics[label]["number"]
        assert sum(counts[outcome] for outcome in OUTCOMES) == number
        assert counts["found"] / max(number, 1) == metrics[label]["recall"]
    confused = sum(counts["other_type"] + counts["other_both"] for counts in found.outcomes.values())
    assert sum(count for *_, count in found.confusions) == confused
    same = errors(gold, gold)
    assert all(counts == row(found=counts["found"]) for counts in same.outcomes.values())
