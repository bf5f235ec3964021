import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.trainer_evaluation import (
    EvaluatedSentences,
    add_user_metrics,
    flatten_metrics,
    pack_entities,
    pack_scores,
)
from span_marker.types import EntityTable

LABELS = ["O", "LOC", "PER"]


def table(*entities):
    return EntityTable(*np.array(entities, dtype=np.int64).reshape(-1, 4).T)


def batch(rows, found, scores):
    entities = table(*found)
    return (
        np.array(rows),
        pack_entities(entities, len(rows)),
        pack_scores(entities, np.array([scores, scores], dtype=np.float32).T, len(rows)),
    )


@pytest.fixture
def evaluated():
    """Three sentences of 5, 2 and 3 words, evaluated in the order 2, 0 and 1."""
    predicted = [batch([2, 0], [(0, 2, 1, 2), (1, 1, 0, 2), (1, 2, 4, 5)], [0.5, 0.75, 1.0]), batch([1], [], [])]
    gold = [
        (pack_entities(table((1, 1, 0, 2)), 2), [3, 5], [0.5, 2.0], [3, 7]),
        (pack_entities(table((0, 2, 0, 1)), 1), [2], [0.5], [2]),
    ]
    return EvaluatedSentences.gather(predicted, gold, LABELS)


def test_entities_are_packed_by_row():
    entities = table((0, 1, 0, 2), (2, 2, 1, 3), (2, 1, 4, 5))
    fill = [-100, -100, -100]
    assert pack_entities(entities, 4).tolist() == [
        [[1, 0, 2], fill],
        [fill, fill],
        [[2, 1, 3], [1, 4, 5]],
        [fill, fill],
    ]
    scores = pack_scores(entities, np.array([0.5, 0.25, 1.0], dtype=np.float32), 4)
    assert scores.tolist() == [[0.5, -100], [-100, -100], [0.25, 1.0], [-100, -100]]
    assert scores.dtype == np.float32


def test_no_entity_is_packed_with_a_column_to_exchange():
    assert pack_entities(table(), 2).tolist() == [[[-100, -100, -100]], [[-100, -100, -100]]]


def test_entities_that_overlap():
    predicted = [batch([0, 1], [(0, 1, 0, 3), (0, 2, 0, 4), (1, 2, 0, 1)], [0.5, 0.75, 1.0])]
    gold = [(pack_entities(table((0, 1, 0, 3), (0, 1, 1, 2), (1, 2, 0, 1)), 2), [5, 2], [0.5, 2.0], [3, 7])]
    evaluated = EvaluatedSentences.gather(predicted, gold, LABELS)
    assert [entity["end"] for entity in evaluated.predictions[0]] == [3, 4]
    metrics = evaluated.metrics(per_type=False)
    assert (metrics["overall_precision"], metrics["overall_recall"]) == (2 / 3, 2 / 3)
    assert "overall_accuracy" not in metrics
    outcomes = evaluated.errors.outcomes
    assert {kind: count for kind, count in outcomes["LOC"].items() if count} == {"found": 1, "other_both": 1}
    assert {kind: count for kind, count in outcomes["PER"].items() if count} == {"found": 1}
    with pytest.raises(ValueError, match=r"Row 0: the given entities .* overlap"):
        _ = evaluated.reference_tags


def test_batches_are_put_into_the_order_of_the_data_set(evaluated):
    assert evaluated.num_sentences == 3
    assert evaluated.predictions == [
        [{"label": "LOC", "start": 0, "end": 2, "score": 0.75}, {"label": "PER", "start": 4, "end": 5, "score": 1.0}],
        [],
        [{"label": "PER", "start": 1, "end": 2, "score": 0.5}],
    ]
    assert evaluated.references == [
        [{"label": "LOC", "start": 0, "end": 2}],
        [{"label": "PER", "start": 0, "end": 1}],
        [],
    ]
    assert evaluated.num_words.tolist() == [5, 2, 3]
    assert evaluated.num_spans.tolist() == [7, 2, 3]
    assert evaluated.losses.tolist() == [2.0, 0.5, 0.5]
    assert evaluated.loss == 0.25


def test_tags_are_iob2(evaluated):
    assert evaluated.predicted_tags == [["B-LOC", "I-LOC", "O", "O", "B-PER"], ["O", "O"], ["O", "B-PER", "O"]]
    assert evaluated.reference_tags == [["B-LOC", "I-LOC", "O", "O", "O"], ["B-PER", "O"], ["O", "O", "O"]]


def test_it_unpacks_like_an_eval_prediction(evaluated):
    predictions, references = evaluated
    assert predictions is evaluated.predictions
    assert references is evaluated.references is evaluated.label_ids


def test_metrics(evaluated):
    metrics = evaluated.metrics(per_type=True)
    assert metrics["loss"] == 0.25
    assert metrics["overall_precision"] == 1 / 3
    assert metrics["overall_recall"] == 1 / 2
    assert metrics["LOC"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1}
    assert "LOC" not in evaluated.metrics(per_type=False)


def test_a_row_of_several_processes_counts_once():
    found = [(0, 1, 0, 1), (1, 2, 0, 1)]
    evaluated = EvaluatedSentences.gather(
        [batch([0, 1], found, [0.5, 0.25]), batch([1, 0], [(0, 2, 0, 1), (1, 1, 0, 1)], [0.25, 0.5])], None, LABELS
    )
    assert evaluated.predictions == [
        [{"label": "LOC", "start": 0, "end": 1, "score": 0.5}],
        [{"label": "PER", "start": 0, "end": 1, "score": 0.25}],
    ]


def test_no_sentence():
    evaluated = EvaluatedSentences.gather([], [], LABELS)
    assert evaluated.predictions == evaluated.references == evaluated.predicted_tags == []
    assert evaluated.loss == 0.0
    assert evaluated.metrics(per_type=True)["f1"] == 0.0


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_packing_and_gathering_loses_nothing(rows, random):
    # Entities of one word: sentence r has an entity with the label l at word w.
    expected = [[(label, word) for word, label in enumerate(labels) if label] for labels in rows]
    order = list(range(len(rows)))
    random.shuffle(order)
    batches = []
    for start in range(0, len(order), 3):
        indices = order[start : start + 3]
        found = [(at, label, word, word + 1) for at, row in enumerate(indices) for label, word in expected[row]]
        batches.append(batch(indices, found, [0.5] * len(found)))
    evaluated = EvaluatedSentences.gather(batches, None, LABELS)
    assert [[(LABELS.index(e["label"]), e["start"]) for e in row] for row in evaluated.predictions] == expected


def test_user_metrics_are_added():
    assert add_user_metrics({"f1": 0.5}, {"mine": 1}, "eval") == {"f1": 0.5, "mine": 1}
    assert add_user_metrics({"f1": 0.5}, {"eval_mine": 1}, "eval") == {"f1": 0.5, "mine": 1}


@pytest.mark.parametrize("name", ["f1", "eval_f1"])
def test_a_user_metric_cannot_replace_a_built_in_one(name):
    with pytest.raises(ValueError, match="compute_metrics returned 'f1', which the Trainer computes itself"):
        add_user_metrics({"f1": 0.5, "loss": 0.1}, {name: 1, "mine": 2}, "eval")


def test_user_metrics_are_a_dictionary():
    with pytest.raises(TypeError, match="compute_metrics returned None"):
        add_user_metrics({}, None, "eval")


def test_metrics_of_types_are_named_one_by_one():
    assert flatten_metrics({"f1": 0.5, "PER": {"f1": 1.0, "number": 2}}) == {"f1": 0.5, "PER_f1": 1.0, "PER_number": 2}
