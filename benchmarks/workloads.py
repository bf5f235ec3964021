"""What `throughput.py` and `report.py` measure: one text for both packages, which have the same public interface.

It is executed by `peer.Worker` in a process of its own; it therefore imports nothing of this folder.
"""

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from transformers import AutoModelForTokenClassification, AutoTokenizer, TrainerCallback, TrainingArguments, set_seed

import span_marker
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
        payload: ``task`` ("train", "predict" or "tag") and what it needs.

    Returns:
        Times in seconds, and ``peak_memory`` of the process in MiB: in this run, or so far where that is all there is.
    """
    disable_progress_bar()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    result = {"train": train, "predict": predict, "tag": tag}[payload["task"]](payload)
    return result | {"peak_memory": peak_memory(), "threads": torch.get_num_threads()}


def peak_memory() -> float:
    """Return the most memory that this process has used, MiB."""
    # Linux lets a new process begin with its parent's maximum in what getrusage returns.
    with suppress(OSError, IndexError):
        return int(Path("/proc/self/status").read_text("ascii").partition("VmHWM:")[2].split()[0]) / 1024
    unit = 1 << (20 if sys.platform == "darwin" else 10)  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


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
        payload: ``model``, ``sentences`` (lists of words) and ``batch_sizes``; and where they are wanted, the ``class``
            of the model, further ``options`` of its ``predict``, and as ``stream`` the number of sentences that a
            generator makes of the given ones over and over.

    Returns:
        ``times`` of each batch size, in order, and the ``entities`` of each sentence: label, first word, word after
        the last. Of a stream their number.
    """
    model = _load(payload.get("class", "SpanMarkerModel"), payload["model"])
    sentences, options, number = payload["sentences"], payload.get("options", {}), payload.get("stream")

    def find(batch_size: Any) -> Any:
        if number is None:
            return model.predict(sentences, batch_size=batch_size, **options)
        stream = itertools.islice(itertools.cycle(sentences), number)
        return sum(map(len, model.predict(stream, batch_size=batch_size, **options)))

    model.predict(_first_words(sentences), batch_size=8, **options)
    times, found = _time(find, payload["batch_sizes"])
    keys = ("label", "word_start_index", "word_end_index")
    if number is None:
        found = [[[entity[key] for key in keys] for entity in row] for row in found]
    return {"times": times, "entities": found}


def tag(payload: dict[str, Any]) -> dict[str, Any]:
    """Predict with token classification in place of span markers, as `predict` does.

    Args:
        payload: ``model``, ``sentences``, ``batch_sizes``, ``max_length`` in tokens and, for an encoder that has no
            classifier yet, the number of ``tags``.

    Returns:
        ``times`` of each batch size, in order, and the ``tags`` of each sentence's words.
    """
    model, tokenizer = _load_tagger(payload["model"], payload.get("tags"))
    sentences, length = payload["sentences"], payload["max_length"]
    tag_sentences(model, tokenizer, _first_words(sentences), 8, length)
    times, (encoded, found) = _time(
        lambda size: tag_sentences(model, tokenizer, sentences, size, length), payload["batch_sizes"]
    )
    tags = [["O"] * len(words) for words in sentences]
    for row in reversed(range(len(found))):  # the first piece of a word decides, and in it the first token
        sentence = tags[encoded["overflow_to_sample_mapping"][row]]
        for word, label in zip(reversed(encoded.word_ids(row)), reversed(found[row]), strict=True):
            if word is not None:
                sentence[word] = model.config.id2label[label]
    return {"times": times, "tags": tags}


def tag_sentences(
    model: Any, tokenizer: Any, sentences: Sequence[Sequence[str]], batch_size: int, max_length: int
) -> tuple[Any, list[list[int]]]:
    """Predict tags as plainly as can be: batches of like length, sentences that are too long in pieces.

    Args:
        model: A token classification model.
        tokenizer: Its tokenizer.
        sentences: Lists of words.
        batch_size: Number of sentences in a batch.
        max_length: Most tokens of a piece.

    Returns:
        The pieces as encoded, and the label id of each of their tokens.
    """
    encoded = tokenizer(
        sentences, is_split_into_words=True, truncation=True, max_length=max_length, return_overflowing_tokens=True
    )
    ids = encoded["input_ids"]
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    found: list[list[int]] = [[] for _ in ids]
    with torch.inference_mode():
        for offset in range(0, len(order), batch_size):
            rows = order[offset : offset + batch_size]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            for row, labels in zip(rows, model(**batch).logits.argmax(-1).tolist(), strict=True):
                found[row] = labels[: len(ids[row])]
    return encoded, found


def _time(task: Callable[[Any], Any], batch_sizes: Sequence[Any]) -> tuple[list[dict[str, float]], Any]:
    """Time a task with each batch size; return the times, and what it returned last."""
    times, found = [], None
    for batch_size in batch_sizes:
        begin = clocks()
        found = task(batch_size)
        times.append(elapsed(begin, clocks()))
    return times, found


def _first_words(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cut out something to warm up with."""
    return [list(words[:32]) for words in sentences[:8]]


@lru_cache(maxsize=1)
def _load(kind: str, path: str) -> Any:
    return getattr(span_marker, kind).from_pretrained(path)


@lru_cache(maxsize=1)
def _load_tagger(path: str, tags: int | None) -> tuple[Any, Any]:
    settings = {} if tags is None else {"num_labels": tags}
    model = AutoModelForTokenClassification.from_pretrained(path, **settings).eval()
    return model, AutoTokenizer.from_pretrained(path)
