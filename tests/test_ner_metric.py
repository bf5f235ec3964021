import json
import socket

import evaluate
import pytest
from entity_tables import GOLD, LABELS, PREDICTED, ZERO, by_seqeval, tables
from hypothesis import given

from span_marker import NERMetric
from span_marker.evaluation import compute_metrics, to_iob2


def test_compute():
    metric = NERMetric()
    assert isinstance(metric, evaluate.Metric)
    metrics = metric.compute(predictions=PREDICTED, references=GOLD)
    assert metrics == by_seqeval(PREDICTED, GOLD)
    assert json.loads(json.dumps(metrics)) == metrics
    assert metrics["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1}


def test_add_one_by_one_and_again():
    metric = NERMetric()
    for _ in range(2):
        for prediction, reference in zip(PREDICTED, GOLD, strict=True):
            metric.add(prediction=prediction, reference=reference)
        assert metric.compute() == by_seqeval(PREDICTED, GOLD)


def test_add_batch():
    metric = NERMetric()
    metric.add_batch(predictions=PREDICTED, references=GOLD)
    assert metric.compute()["overall_f1"] == 0.5


def test_regression_needs_no_network_and_no_cache(monkeypatch, tmp_path):
    def refuse(*args):
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "cache")
    NERMetric().compute(predictions=PREDICTED, references=GOLD)
    assert list(tmp_path.iterdir()) == []


def test_on_disk(tmp_path):
    metric = NERMetric(keep_in_memory=False, cache_dir=str(tmp_path))
    metric.add_batch(predictions=PREDICTED, references=GOLD)
    assert list(tmp_path.rglob("*.lock"))
    assert metric.compute()["overall_f1"] == 0.5


@pytest.mark.parametrize("kwargs", [{}, {"mode": "strict", "scheme": "IOB2"}])
def test_no_entity_is_zero_without_a_warning(kwargs):
    outside = {"predictions": [["O", "O"], []], "references": [["O", "O"], []]}
    assert NERMetric().compute(**outside, **kwargs) == {**ZERO, "overall_accuracy": 1.0}
    assert NERMetric().compute(predictions=[[]], references=[[]], **kwargs) == ZERO
    assert NERMetric().compute(predictions=[], references=[], **kwargs) == ZERO
    metrics = NERMetric().compute(predictions=[["B-A", "O"]], references=[["O", "O"]], **kwargs)
    assert metrics == {
        **ZERO,
        "overall_accuracy": 0.5,
        "A": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 0},
    }


def test_strict_counts_well_formed_entities_only():
    tags = {"predictions": [["I-A", "O", "B-A"]], "references": [["I-A", "O", "B-A"]]}
    assert NERMetric().compute(**tags)["A"]["number"] == 2
    assert NERMetric().compute(**tags, mode="strict", scheme="IOB2")["A"]["number"] == 1


def test_suffix():
    tags = [["PER-B", "PER-I", "O"]]
    assert NERMetric().compute(predictions=tags, references=tags, suffix=True)["PER"]["number"] == 1


@pytest.mark.parametrize("scheme", [None, "IOB3"])
def test_strict_needs_a_scheme(scheme):
    with pytest.raises(ValueError, match=f"Strict mode got scheme={scheme!r}. Give one of IOB1, IOB2, IOE1"):
        NERMetric().compute(predictions=PREDICTED, references=GOLD, mode="strict", scheme=scheme)


def test_sentences_of_different_lengths():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NERMetric().compute(predictions=[["O"]], references=[["O", "O"]])


@given(tables())
def test_equals_compute_metrics(given_tables):
    num_words, predicted, gold = given_tables
    tags = [to_iob2(entities, num_words, LABELS) for entities in (predicted, gold)]
    metrics = NERMetric().compute(predictions=tags[0], references=tags[1])
    assert metrics == compute_metrics(predicted, gold, num_words, LABELS)
