"""Tags and tables of entities, random ones and their scores by seqeval."""

import itertools
import warnings

import numpy as np
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score

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
