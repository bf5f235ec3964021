"""What `throughput.py` measures: one text that runs under either package, for both have the same public interface.

It is executed by `peer.run_script`, never imported; it therefore imports nothing of this folder.
"""

import resource
import sys
import tempfile
import time
from typing import Any, TypeAlias

import torch
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from transformers import TrainerCallback, TrainingArguments, set_seed

from span_marker import SpanMarkerModel, Trainer

Clocks: TypeAlias = tuple[float, float]
"""Seconds that passed, and seconds of processor time that this process used."""


def clocks() -> Clocks:
    """Read both clocks."""
    return time.perf_counter(), time.process_time()


def elapsed(begin: Clocks, end: Clocks) -> dict[str, float]:
    """Subtract two readings.

    Args:
        begin: The earlier.
        end: The later.

    Returns:
        ``seconds`` between them, and ``processor`` seconds used.
    """
    return {"seconds": end[0] - begin[0], "processor": end[1] - begin[1]}


class Stopwatch(TrainerCallback):
    """Times training from its first step to the end of its last.

    What the packages do before the first step (preprocessing, facts for the model card) is left out.
    """

    def __init__(self) -> None:
        self.begin: Clocks | None = None
        self.end: Clocks | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start with the first step."""
        self.begin = self.begin or clocks()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop, until the next step ends."""
        self.end = clocks()


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Measure.

    Args:
        payload: ``task`` ("train" or "predict") and what it needs.

    Returns:
        Times in seconds, and ``peak_memory`` of the process in MiB.
    """
    disable_progress_bar()
    result = {"train": train, "predict": predict}[payload["task"]](payload)
    unit = 1 << (20 if sys.platform == "darwin" else 10)  # bytes there, KiB on Linux
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return result | {"peak_memory": peak, "threads": torch.get_num_threads()}


def train(payload: dict[str, Any]) -> dict[str, Any]:
    """Train for one epoch; one batch first, untimed, to warm up.

    Args:
        payload: ``encoder``, ``labels``, ``settings`` of the model, ``rows`` (tokens and tag ids), ``arguments`` and,
            where the model is wanted, the folder ``save`` to.

    Returns:
        Times of all ``steps``, and the ``whole`` seconds of `Trainer.train` with its preprocessing.
    """
    set_seed(0)
    model = SpanMarkerModel.from_pretrained(payload["encoder"], labels=payload["labels"], **payload["settings"])
    rows = Dataset.from_dict(payload["rows"])
    batch_size = payload["arguments"]["per_device_train_batch_size"]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, **payload["arguments"])
        warm_up = TrainingArguments(folder, **payload["arguments"] | {"max_steps": 1})
        Trainer(model=model, args=warm_up, train_dataset=rows.select(range(min(batch_size, len(rows))))).train()
        stopwatch = Stopwatch()
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[stopwatch])
        begin = clocks()
        trainer.train()
        whole = elapsed(begin, clocks())["seconds"]
    if payload.get("save"):
        model.save_pretrained(payload["save"])
    return elapsed(stopwatch.begin, stopwatch.end) | {"whole": whole, "steps": trainer.state.global_step}


def predict(payload: dict[str, Any]) -> dict[str, Any]:
    """Predict with each of several batch sizes; a few sentences first, untimed, to warm up.

    Args:
        payload: ``model``, ``sentences`` (lists of words) and ``batch_sizes``.

    Returns:
        ``times`` of each batch size, in order, and the ``entities`` of each sentence: label, first word, word after
        the last.
    """
    model = SpanMarkerModel.from_pretrained(payload["model"])
    model.predict(payload["sentences"][:8], batch_size=8)
    times, found = [], []
    for batch_size in payload["batch_sizes"]:
        begin = clocks()
        found = model.predict(payload["sentences"], batch_size=batch_size)
        times.append(elapsed(begin, clocks()))
    keys = ("label", "word_start_index", "word_end_index")
    return {"times": times, "entities": [[[entity[key] for key in keys] for entity in row] for row in found]}
