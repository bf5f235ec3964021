import itertools
import json
import socket
import time
import warnings

import evaluate
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from span_marker.evaluation import NERMetric, compute_metrics, to_iob2
from span_marker.types import EntityTable

LABELS = ["O", "PER", "LOC"]
PREDICTED = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
GOLD = [["B-PER", "I-PER", "O"], ["O", "B-LOC"]]
ZERO = {
    **dict.fromkeys(("overall_precision", "overall_recall", "overall_f1", "overall_accuracy"), 0.0),
    **dict.fromkeys(("macro_precision", "macro_recall", "macro_f1", "f1"), 0.0),
}


def table(entities):
    """[(row, label, start, end), ...] -> EntityTable"""
    return EntityTable(*np.array(entities, dtype=np.int64).reshape(-1, 4).T)


def by_seqeval(predicted, gold):
    """The metrics of two lists of tags as seqeval itself gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(gold, predicted, output_dict=True, zero_division=0)
        scores = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
        metrics = {f"overall_{name}": score(gold, predicted, zero_division=0) for name, score in scores.items()}
        macro = {name: score(gold, predicted, average="macro", zero_division=0) for name, score in scores.items()}
    metrics |= {f"macro_{name}": 0.0 if np.isnan(value) else value for name, value in macro.items()}
    metrics["overall_accuracy"] = accuracy_score(gold, predicted) if any(gold) else 0.0
    metrics["f1"] = metrics["overall_f1"]
    for average in ("micro avg", "macro avg", "weighted avg"):
        report.pop(average)
    names = {"precision": "precision", "recall": "recall", "f1-score": "f1", "support": "number"}
    return metrics | {kind: {names[key]: value for key, value in row.items()} for kind, row in report.items()}


@st.composite
def tables(draw, labels=3):
    """Lengths of sentences, predicted and gold entities; about half of the gold entities are predicted."""
    num_words = draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))
    gold, predicted = [], []
    for row, words in enumerate(num_words):
        cuts = sorted(draw(st.sets(st.integers(0, words), max_size=6)))
        for start, end in itertools.pairwise(cuts):
            label = draw(st.integers(1, labels - 1))
            fate = draw(st.sampled_from(["both", "gold", "predicted", "other label", "other end", "neither"]))
            if fate not in ("predicted", "neither"):
                gold.append((row, label, start, end))
            if fate in ("both", "predicted"):
                predicted.append((row, label, start, end))
            elif fate == "other label":
                predicted.append((row, draw(st.integers(1, labels - 1)), start, end))
            elif fate == "other end":
                predicted.append((row, label, start, start + 1))
    return num_words, table(predicted), table(gold)


class TestComputeMetrics:
    def test_exact_values(self):
        gold = table([(0, 1, 0, 2), (0, 2, 3, 4), (1, 1, 0, 1)])
        predicted = table([(0, 1, 0, 2), (0, 1, 3, 4), (1, 1, 0, 2)])
        assert compute_metrics(predicted, gold, [4, 2], LABELS) == {
            "LOC": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1},
            "PER": {"precision": 1 / 3, "recall": 0.5, "f1": 2 * (1 / 3) * 0.5 / (1 / 3 + 0.5), "number": 2},
            "overall_precision": 1 / 3,
            "overall_recall": 1 / 3,
            "overall_f1": 1 / 3,
            "overall_accuracy": 4 / 6,
            "macro_precision": (1 / 3) / 2,
            "macro_recall": 0.25,
            "macro_f1": 0.2,
            "f1": 1 / 3,
        }

    def test_perfect(self):
        gold = table([(0, 1, 0, 2), (1, 2, 1, 2)])
        metrics = compute_metrics(gold, gold, [3, 2], LABELS)
        assert metrics.pop("PER") == metrics.pop("LOC") == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1}
        assert set(metrics.values()) == {1.0}

    def test_types_come_first_by_name_and_totals_last(self):
        gold = table([(0, 1, 0, 1), (0, 2, 1, 2)])
        assert list(compute_metrics(gold, gold, [2], LABELS)) == ["LOC", "PER", *ZERO]

    def test_only_types_that_occur(self):
        gold, predicted = table([(0, 2, 0, 1)]), table([(0, 3, 0, 1)])
        assert list(compute_metrics(predicted, gold, [2], ["O", "A", "B", "C"]))[:2] == ["B", "C"]

    def test_without_types(self):
        gold = table([(0, 1, 0, 1)])
        assert compute_metrics(gold, gold, [1], LABELS, per_type=False) == dict.fromkeys(ZERO, 1.0)

    def test_a_type_named_like_a_total_gives_way(self):
        gold = table([(0, 1, 0, 1), (0, 2, 1, 2)])
        metrics = compute_metrics(gold, gold, [2], ["O", "f1", "overall_recall"])
        assert metrics == dict.fromkeys(ZERO, 1.0)

    @pytest.mark.parametrize("num_words", [[], [0], [0, 0]])
    def test_no_word(self, num_words):
        assert compute_metrics(table([]), table([]), num_words, LABELS) == ZERO

    def test_no_entity(self):
        assert compute_metrics(table([]), table([]), [2, 1], LABELS) == {**ZERO, "overall_accuracy": 1.0}

    def test_no_gold_entity(self):
        metrics = compute_metrics(table([(0, 1, 0, 1)]), table([]), [2], LABELS)
        assert metrics == {
            **ZERO,
            "overall_accuracy": 0.5,
            "PER": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 0},
        }

    def test_json_safe(self):
        metrics = compute_metrics(table([(0, 1, 0, 1)]), table([(0, 1, 0, 1), (0, 2, 1, 2)]), [2], LABELS)
        assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics
        flat = [*metrics.pop("PER").values(), *metrics.pop("LOC").values(), *metrics.values()]
        assert {type(value) for value in flat} == {int, float}

    def test_regression_gold_that_cannot_be_predicted_is_missed(self):
        # 20 words, of which a model that takes 5 words, and entities of up to 4 words, sees the first entity only.
        gold = table([(0, 1, 0, 2), (0, 1, 2, 10), (0, 2, 15, 17)])
        metrics = compute_metrics(table([(0, 1, 0, 2)]), gold, [20], LABELS)
        assert metrics["overall_recall"] == 1 / 3
        assert metrics["PER"]["number"] == 2
        assert metrics["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1}

    def test_order_of_the_rows_does_not_matter(self):
        gold, predicted = [(0, 1, 0, 2), (0, 2, 3, 4), (1, 1, 0, 1)], [(1, 1, 0, 1), (0, 2, 0, 2)]
        expected = compute_metrics(table(predicted), table(gold), [4, 2], LABELS)
        assert compute_metrics(table(predicted[::-1]), table(gold[::-1]), [4, 2], LABELS) == expected

    @given(tables())
    @example(([0], table([]), table([])))
    @example(([3], table([(0, 1, 0, 1)]), table([])))
    @example(([3], table([]), table([(0, 1, 0, 1)])))
    def test_equals_seqeval(self, given_tables):
        num_words, predicted, gold = given_tables
        tags = [to_iob2(entities, num_words, LABELS) for entities in (predicted, gold)]
        assert compute_metrics(predicted, gold, num_words, LABELS) == by_seqeval(*tags)

    @given(tables(labels=40))
    def test_equals_seqeval_with_many_types(self, given_tables):
        # The order and grouping in which numpy adds more than 8 terms shows in the last digit of a mean.
        num_words, predicted, gold = given_tables
        labels = ["O", *(f"{chr(97 + i * 7 % 26)}-type {i}" for i in range(39))]
        tags = [to_iob2(entities, num_words, labels) for entities in (predicted, gold)]
        assert compute_metrics(predicted, gold, num_words, labels) == by_seqeval(*tags)

    @pytest.mark.parametrize("seed", range(5))
    def test_equals_seqeval_on_a_corpus(self, seed):
        random = np.random.default_rng(seed)
        labels = ["O", *(f"T{i}" for i in range(30))]
        num_words = random.integers(6, 20, 300)
        gold, predicted = (
            table([(row, random.integers(1, 31 if seed else 3), start, start + random.integers(1, 3))
                   for row in range(300) for start in (0, 2, 4) if random.random() < 0.7])
            for _ in range(2)
        )  # fmt: skip
        tags = [to_iob2(entities, num_words, labels) for entities in (predicted, gold)]
        assert compute_metrics(predicted, gold, num_words, labels) == by_seqeval(*tags)

    def test_hundred_thousand_sentences(self):
        rows = np.repeat(np.arange(100_000), 3)
        starts = np.tile([0, 5, 12], 100_000)
        random = np.random.default_rng(0)
        gold, predicted = (
            EntityTable(rows, random.integers(1, 7, 300_000), starts, starts + random.integers(1, 5, 300_000))
            for _ in range(2)
        )
        start = time.perf_counter()
        metrics = compute_metrics(predicted, gold, np.full(100_000, 20), ["O", *"abcdef"])
        assert time.perf_counter() - start < 5
        assert sum(metrics[name]["number"] for name in "abcdef") == 300_000


class TestErrors:
    @pytest.mark.parametrize(
        ("entities", "message"),
        [
            ([(2, 1, 0, 1)], "A gold entity lies in row 2, but there are 2 sentences"),
            ([(-1, 1, 0, 1)], "A gold entity lies in row -1"),
            ([(0, 1, 0, 1), (1, 1, 2, 4)], r"Row 1: the gold entity \[2, 4\) does not lie in the sentence of 3 words"),
            ([(1, 1, -1, 1)], r"Row 1: the gold entity \[-1, 1\) does not lie"),
            ([(1, 1, 2, 2)], r"Row 1: the gold entity \[2, 2\) does not lie"),
            ([(0, 3, 0, 1)], r"Row 0: the gold entity \[0, 1\) has the label id 3"),
            ([(0, -1, 0, 1)], "label id -1"),
            ([(0, 0, 0, 1)], r"label id 0. Give the id of an entity type; the labels are \['O', 'PER', 'LOC'\]"),
            ([(0, 1, 0, 3), (0, 2, 1, 2)], r"Row 0: the gold entities \[0, 3\) and \[1, 2\) overlap.*nested"),
            ([(1, 1, 0, 2), (1, 1, 0, 2)], r"Row 1: the gold entities \[0, 2\) and \[0, 2\) overlap"),
        ],
    )
    def test_entities_that_tags_cannot_express(self, entities, message):
        with pytest.raises(ValueError, match=message):
            compute_metrics(table([]), table(entities), [4, 3], LABELS)
        with pytest.raises(ValueError, match=message.replace("gold", "predicted")):
            compute_metrics(table(entities), table([]), [4, 3], LABELS)
        with pytest.raises(ValueError, match=message.replace("gold", "given")):
            to_iob2(table(entities), [4, 3], LABELS)


class TestToIob2:
    def test_three_sentences(self):
        entities = table([(0, 1, 0, 2), (0, 1, 2, 3), (2, 2, 1, 2)])
        assert to_iob2(entities, [4, 0, 2], LABELS) == [["B-PER", "I-PER", "B-PER", "O"], [], ["O", "B-LOC"]]

    def test_the_outside_label_can_be_any(self):
        assert to_iob2(table([(0, 0, 0, 2)]), [3], ["PER", "O"]) == [["B-PER", "I-PER", "O"]]

    def test_nothing(self):
        assert to_iob2(table([]), [], LABELS) == []

    @given(tables())
    def test_seqeval_reads_the_entities_back(self, given_tables):
        num_words, predicted, gold = given_tables
        for entities in (predicted, gold):
            found = [
                (row, LABELS.index(kind), start, end + 1)
                for row, tags in enumerate(to_iob2(entities, num_words, LABELS))
                for kind, start, end in get_entities(tags)
            ]
            assert found == [*zip(*(column.tolist() for column in entities), strict=True)]


class TestNERMetric:
    def test_compute(self):
        metric = NERMetric()
        assert isinstance(metric, evaluate.Metric)
        metrics = metric.compute(predictions=PREDICTED, references=GOLD)
        assert metrics == by_seqeval(PREDICTED, GOLD)
        assert json.loads(json.dumps(metrics)) == metrics
        assert metrics["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1}

    def test_add_one_by_one_and_again(self):
        metric = NERMetric()
        for _ in range(2):
            for prediction, reference in zip(PREDICTED, GOLD, strict=True):
                metric.add(prediction=prediction, reference=reference)
            assert metric.compute() == by_seqeval(PREDICTED, GOLD)

    def test_add_batch(self):
        metric = NERMetric()
        metric.add_batch(predictions=PREDICTED, references=GOLD)
        assert metric.compute()["overall_f1"] == 0.5

    def test_regression_needs_no_network_and_no_cache(self, monkeypatch, tmp_path):
        def refuse(*args):
            raise OSError("no network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "cache")
        NERMetric().compute(predictions=PREDICTED, references=GOLD)
        assert list(tmp_path.iterdir()) == []

    def test_on_disk(self, tmp_path):
        metric = NERMetric(keep_in_memory=False, cache_dir=str(tmp_path))
        metric.add_batch(predictions=PREDICTED, references=GOLD)
        assert list(tmp_path.rglob("*.lock"))
        assert metric.compute()["overall_f1"] == 0.5

    @pytest.mark.parametrize("kwargs", [{}, {"mode": "strict", "scheme": "IOB2"}])
    def test_no_entity_is_zero_without_a_warning(self, kwargs):
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

    def test_strict_counts_well_formed_entities_only(self):
        tags = {"predictions": [["I-A", "O", "B-A"]], "references": [["I-A", "O", "B-A"]]}
        assert NERMetric().compute(**tags)["A"]["number"] == 2
        assert NERMetric().compute(**tags, mode="strict", scheme="IOB2")["A"]["number"] == 1

    def test_suffix(self):
        tags = [["PER-B", "PER-I", "O"]]
        assert NERMetric().compute(predictions=tags, references=tags, suffix=True)["PER"]["number"] == 1

    @pytest.mark.parametrize("scheme", [None, "IOB3"])
    def test_strict_needs_a_scheme(self, scheme):
        with pytest.raises(ValueError, match=f"Strict mode got scheme={scheme!r}. Give one of IOB1, IOB2, IOE1"):
            NERMetric().compute(predictions=PREDICTED, references=GOLD, mode="strict", scheme=scheme)

    def test_sentences_of_different_lengths(self):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            NERMetric().compute(predictions=[["O"]], references=[["O", "O"]])

    @given(tables())
    def test_equals_compute_metrics(self, given_tables):
        num_words, predicted, gold = given_tables
        tags = [to_iob2(entities, num_words, LABELS) for entities in (predicted, gold)]
        metrics = NERMetric().compute(predictions=tags[0], references=tags[1])
        assert metrics == compute_metrics(predicted, gold, num_words, LABELS)
