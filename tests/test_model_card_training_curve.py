import sys

import pytest

from span_marker.model_card.training_curve import PLOT_FILE, save_plot, thinned, training_curve

HISTORY = [
    {"loss": 2.0, "learning_rate": 0.1, "epoch": 0.5, "step": 5},
    {"loss": 1.0, "epoch": 1.0, "step": 10},
    {"eval_f1": 0.25, "eval_overall_f1": 0.25, "eval_overall_recall": 0.5, "eval_loss": 3.0, "epoch": 1.0, "step": 10},
    {"loss": 0.5, "epoch": 1.5, "step": 15},
    {"eval_dev_overall_f1": 0.5, "eval_dev_loss": 2.0, "epoch": 2.0, "step": 20},
    {"train_runtime": 9.0, "train_loss": 1.0, "epoch": 2.0, "step": 20},
]


def test_rows_are_those_of_the_log():
    assert training_curve(HISTORY) == [
        {"Epoch": 0.5, "Step": 5, "Training loss": 2.0},
        {"Epoch": 1.0, "Step": 10, "Training loss": 1.0, "Validation loss": 3.0, "Recall": 0.5, "F1": 0.25},
        {"Epoch": 1.5, "Step": 15, "Training loss": 0.5},
        {"Epoch": 2.0, "Step": 20, "Validation loss (dev)": 2.0, "F1 (dev)": 0.5},
    ]
    assert training_curve([]) == training_curve([{"train_runtime": 1.0, "step": 3}]) == []


def test_the_table_shows_evaluations_with_the_last_loss():
    assert thinned(training_curve(HISTORY)) == [
        {"Epoch": "1", "Step": 10, "Training loss": 1.0, "Validation loss": 3.0, "Recall": 0.5, "F1": 0.25},
        {"Epoch": "2", "Step": 20, "Training loss": 0.5, "Validation loss (dev)": 2.0, "F1 (dev)": 0.5},
    ]
    assert [list(row) for row in thinned(training_curve(HISTORY[2:3]))] == [
        ["Epoch", "Step", "Validation loss", "Recall", "F1"]
    ]


@pytest.mark.parametrize(("rows", "shown"), [(0, 0), (1, 1), (20, 20), (21, 11), (1000, 20)])
def test_the_table_is_short_and_has_the_last_row(rows, shown):
    curve = training_curve([{"loss": 1.0, "epoch": step / 10, "step": step} for step in range(rows)])
    table = thinned(curve)
    assert len(table) == shown
    assert not rows or table[-1]["Step"] == rows - 1


def test_plot(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)  # notebooks import it
    assert save_plot(training_curve(HISTORY), tmp_path)
    first = (tmp_path / PLOT_FILE).read_bytes()
    assert first.startswith(b"\x89PNG")
    assert save_plot(training_curve(HISTORY), tmp_path)
    assert (tmp_path / PLOT_FILE).read_bytes() == first
    assert "matplotlib.pyplot" not in sys.modules


def test_nothing_to_plot(tmp_path):
    assert not save_plot([], tmp_path)
    assert not save_plot(training_curve(HISTORY[:1]), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_there_is_no_plot(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not save_plot(training_curve(HISTORY), tmp_path)
    assert list(tmp_path.iterdir()) == []
