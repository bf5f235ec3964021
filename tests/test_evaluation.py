import json
import time

import numpy as np
import pytest
from entity_tables import LABELS, ZERO, by_seqeval, table, tables
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from span_marker.evaluation import compute_metrics, count_overlapping, to_iob2
from span_marker.types import EntityTable


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
        ],
    )
    def test_entities_that_are_none(self, entities, message):
        with pytest.raises(ValueError, match=message):
            compute_metrics(table([]), table(entities), [4, 3], LABELS)
        with pytest.raises(ValueError, match=message.replace("gold", "predicted")):
            compute_metrics(table(entities), table([]), [4, 3], LABELS)
        with pytest.raises(ValueError, match=message.replace("gold", "given")):
            to_iob2(table(entities), [4, 3], LABELS)

    @pytest.mark.parametrize(
        ("entities", "message"),
        [
            ([(0, 1, 0, 3), (0, 2, 1, 2)], r"Row 0: the given entities \[0, 3\) and \[1, 2\) overlap.*nested"),
            ([(1, 1, 0, 2), (1, 1, 0, 2)], r"Row 1: the given entities \[0, 2\) and \[0, 2\) overlap"),
        ],
    )
    def test_entities_that_tags_cannot_express(self, entities, message):
        with pytest.raises(ValueError, match=message):
            to_iob2(table(entities), [4, 3], LABELS)


@st.composite
def overlapping(draw):
    """Lengths of sentences, and two tables of entities that may overlap."""
    num_words = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    span = st.integers(0, len(num_words) - 1).flatmap(
        lambda row: st.tuples(st.just(row), st.integers(1, 2), st.integers(0, num_words[row] - 1), st.integers(1, 6))
    )
    spans = st.lists(span.map(lambda s: (*s[:3], min(s[2] + s[3], num_words[s[0]]))), max_size=12, unique=True)
    return num_words, draw(spans), draw(spans)


class TestOverlapping:
    def test_entities_within_others(self):
        gold = table([(0, 1, 0, 4), (0, 2, 1, 2), (0, 1, 3, 4), (1, 2, 0, 2)])
        predicted = table([(0, 1, 0, 4), (0, 1, 1, 2), (1, 2, 0, 2), (1, 2, 1, 2)])
        metrics = compute_metrics(predicted, gold, [4, 3], LABELS)
        assert metrics == {
            "LOC": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "number": 2},
            "PER": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "number": 2},
            **dict.fromkeys(("overall_precision", "overall_recall", "overall_f1", "f1"), 0.5),
            **dict.fromkeys(("macro_precision", "macro_recall", "macro_f1"), 0.5),
        }

    def test_an_entity_counts_once(self):
        twice = table([(0, 1, 0, 2), (0, 1, 0, 2)])
        metrics = compute_metrics(twice, twice, [2], LABELS)
        assert (metrics["f1"], metrics["PER"]["number"]) == (1.0, 1)

    def test_accuracy_is_that_of_words_with_one_tag(self):
        flat, nested = table([(0, 1, 0, 2)]), table([(0, 1, 0, 2), (0, 2, 1, 2)])
        assert compute_metrics(flat, flat, [2], LABELS)["overall_accuracy"] == 1.0
        for pair in ((flat, nested), (nested, flat), (nested, nested)):
            assert "overall_accuracy" not in compute_metrics(*pair, [2], LABELS)

    @given(overlapping())
    def test_equals_sets(self, given_tables):
        num_words, predicted, gold = given_tables
        metrics = compute_metrics(table(predicted), table(gold), num_words, LABELS)
        for label in (1, 2, None):
            found, true = ({e for e in rows if label in (None, e[1])} for rows in (predicted, gold))
            right = len(found & true)
            precision, recall = right / max(len(found), 1), right / max(len(true), 1)
            scores = {name: metrics[f"overall_{name}"] for name in ("precision", "recall", "f1")}
            if label is not None:
                scores = metrics.get(LABELS[label], {"precision": 0.0, "recall": 0.0, "f1": 0.0})
            assert (scores["precision"], scores["recall"]) == (precision, recall)
            assert scores["f1"] == pytest.approx(2 * right / max(len(found) + len(true), 1))

    @given(overlapping())
    def test_count_overlapping(self, given_tables):
        _, entities, _ = given_tables
        expected = [
            any(a is not b and a[0] == b[0] and a[2] < b[3] and b[2] < a[3] for b in entities) for a in entities
        ]
        assert count_overlapping(table(entities)) == sum(expected)


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
