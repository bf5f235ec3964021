"""What experiment trackers get of a training: TensorBoard's event files, and MLflow's local store."""

import os

import pytest
from conftest import QUICK_TRAINING

from span_marker import Trainer, TrainingArguments

NUMBERS = {"f1", "loss", "overall_precision", "macro_recall", "runtime"}
TYPES = {f"{label}_{name}" for label in ("PER", "LOC") for name in ("f1", "precision", "recall", "number")}


def train(model, dataset, folder, tracker):
    """Train with an evaluation in between, and evaluate afterwards."""
    settings = QUICK_TRAINING | {"report_to": [tracker], "eval_strategy": "epoch", "num_train_epochs": 2}
    trainer = Trainer(model, TrainingArguments(str(folder), **settings), train_dataset=dataset, eval_dataset=dataset)
    trainer.train()
    return trainer, trainer.evaluate(metric_key_prefix="test")


def test_tensorboard(model, dataset, tmp_path, caplog):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer, metrics = train(model, dataset, tmp_path, "tensorboard")
    scalars = {}
    for folder, _, files in os.walk(tmp_path / "runs"):
        for file in files:
            events = EventAccumulator(os.path.join(folder, file)).Reload()
            for name in events.Tags()["scalars"]:
                scalars.setdefault(name, []).extend((event.step, event.value) for event in events.Scalars(name))
    logged = {entry["step"]: entry["eval_f1"] for entry in trainer.state.log_history if "eval_f1" in entry}
    assert len(scalars["train/loss"]) == trainer.state.global_step == 4
    assert dict(scalars["eval/f1"]) == pytest.approx(logged)
    assert scalars["test/LOC_f1"] == [(4, pytest.approx(metrics["test_LOC"]["f1"]))]
    assert {f"eval/{name}" for name in NUMBERS} <= scalars.keys()
    assert {f"test/{name}" for name in NUMBERS | TYPES} <= scalars.keys()
    assert "is incorrect so we dropped this attribute" not in caplog.text


def test_mlflow(model, dataset, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: it has two dozen dependencies of its own")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    try:
        metrics = train(model, dataset, tmp_path / "out", "mlflow")[1]
        mlflow.flush_async_logging()
        client = mlflow.MlflowClient()
        runs = client.search_runs(["0"])
        found = {name: value for run in runs for name, value in run.data.metrics.items()}
        parameters = {name: value for run in runs for name, value in run.data.params.items()}
    finally:
        while mlflow.active_run() is not None:
            mlflow.end_run()
        mlflow.set_tracking_uri(before)
    assert {f"eval_{name}" for name in NUMBERS} <= found.keys()
    assert {f"test_{name}" for name in NUMBERS | TYPES} <= found.keys()
    assert found["test_LOC_f1"] == pytest.approx(metrics["test_LOC"]["f1"])
    assert found["train_loss"] > 0
    assert parameters["entity_max_length"] == "4"
    assert parameters["num_train_epochs"] == "2"


def test_what_is_returned_and_remembered(model, dataset, tmp_path):
    trainer = Trainer(model, TrainingArguments(str(tmp_path), **QUICK_TRAINING), dataset, dataset)
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["epoch"] == 1
    assert set(metrics["eval_PER"]) == {"f1", "number", "precision", "recall"}
    last = trainer.state.log_history[-1]
    assert last["eval_PER_number"] == metrics["eval_PER"]["number"]
    assert not any(isinstance(value, dict) for value in last.values())
