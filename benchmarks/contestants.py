"""Who is compared in `report.py`, and how: each in a process of its own, all on the same sentences, in turn."""

import itertools
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import peer
from corpora import LENGTHS
from datasets import Dataset

from span_marker.evaluation import compute_metrics
from span_marker.label_normalizer import AutoLabelNormalizer
from span_marker.schemes import LabelScheme
from span_marker.types import EntityTable

TOKEN, REFERENCE = "token classification", f"span-marker {peer.PEER_VERSION}"
ALL, FILTERED, AUTO = "all spans", "filtered", "filtered, auto"
FLOAT, INT8 = "ONNX, filtered", "ONNX int8, filtered"
SCRIPT = Path(__file__).with_name("workloads.py")
_CHOICE = 48
"""About how many sentences the best batch size is chosen on."""
Times: TypeAlias = dict[str, Any]
"""One contestant's times: ``seconds`` and ``processor`` of each repetition, ``peak_memory`` in MiB, ``batch_size``."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured.

    Attributes:
        name: What it is called.
        payload: What `workloads.py` is told, but for the sentences.
        batch_sizes: Number of sentences in a batch, or "auto"; of several the fastest is chosen.
        python: Interpreter.
    """

    name: str
    payload: dict[str, Any]
    batch_sizes: Sequence[int | str]
    python: Path = field(default=Path(sys.executable))


def tagger(model: str, batch_size: int, tags: int | None = None) -> Contestant:
    """Token classification.

    Args:
        model: Folder of a trained model, or an encoder.
        batch_size: Number of sentences in a batch.
        tags: Number of tags, for an encoder.
    """
    payload = {"task": "tag", "model": model, "max_length": LENGTHS["model_max_length"], "tags": tags}
    return Contestant(TOKEN, payload, [batch_size])


def finder(name: str, model: str, batch_size: int | str, **payload: Any) -> Contestant:
    """A span marker model.

    Args:
        name: What it is called.
        model: Folder of the model.
        batch_size: Number of sentences in a batch, or "auto".
        **payload: What `workloads.predict` is told beside that.
    """
    return Contestant(name, {"task": "predict", "model": model, **payload}, [batch_size])


def line_up(model: str, batch_size: int) -> list[Contestant]:
    """This package's ways to predict with a model.

    Args:
        model: Folder of the model.
        batch_size: Number of sentences in a batch.
    """
    return [
        finder(ALL, model, batch_size, options={"span_filter": False}),
        finder(FILTERED, model, batch_size),
        finder(AUTO, model, "auto"),
    ]


class Arena:
    """Runs contestants, each in a process of its own that goes on until the arena is closed.

    Args:
        threads: CPU threads of each process.
    """

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._script = SCRIPT.read_text("utf-8")
        self._workers: dict[str, peer.Worker] = {}
        self._latest: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()

    def measure(
        self, what: str, contestants: Sequence[Contestant], task: dict[str, Any], repetitions: int
    ) -> dict[str, Times]:
        """Time contestants in turn.

        Loading and a first batch are not timed, and not in the memory where the system can tell.

        Args:
            what: What to call it while it goes on.
            contestants: The contestants.
            task: ``sentences`` and, for a stream, its length.
            repetitions: How often each is timed.

        Returns:
            The times of each.
        """
        times: dict[str, Times] = {}
        for one in contestants:
            times[one.name] = {"batch_size": self._best_batch_size(one, task), "seconds": [], "processor": []}
            times[one.name]["peak_memory"] = 0.0
            self._ask(one, {"sentences": [["Load", "it"]]}, 1)
        for repetition, one in itertools.product(range(repetitions), contestants):
            mine = times[one.name]
            result = self._ask(one, task, mine["batch_size"])
            self._latest[one.name] = task, result
            for clock in ("seconds", "processor"):
                mine[clock].append(result["times"][0][clock])
            mine["peak_memory"] = max(mine["peak_memory"], result["peak_memory"])
            seconds, processor = (mine[clock][-1] for clock in ("seconds", "processor"))
            progress(
                f"{what}, {repetition + 1} of {repetitions}, {one.name}: {seconds:.1f} s, "
                f"{processor:.1f} s of processor time, {result['peak_memory']:.0f} MiB"
            )
        return times

    def find(self, contestant: Contestant, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Let a contestant predict for the sake of what it finds, if it was not timed on just these sentences.

        Args:
            contestant: The contestant.
            sentences: Lists of words.

        Returns:
            The ``entities`` or ``tags`` of each sentence.
        """
        task, found = self._latest.get(contestant.name, (None, {}))
        if task != {"sentences": sentences}:
            found = self._ask(contestant, {"sentences": sentences}, contestant.batch_sizes[0])
        return found

    def _ask(self, contestant: Contestant, task: dict[str, Any], *sizes: int | str) -> Any:
        if contestant.name not in self._workers:
            self._workers[contestant.name] = peer.Worker(contestant.python, self._script, self._threads)
        return self._workers[contestant.name](contestant.payload | task | {"batch_sizes": sizes})

    def _best_batch_size(self, contestant: Contestant, task: dict[str, Any]) -> int | str:
        """Try all batch sizes on some sentences."""
        sizes = contestant.batch_sizes
        if len(sizes) == 1:
            return sizes[0]
        sentences = task["sentences"]
        some = {"sentences": sentences[:: max(len(sentences) // _CHOICE, 1)]}
        seconds = [times["processor"] for times in self._ask(contestant, some, *sizes)["times"]]
        # What large batches have used is not to count in the memory.
        self._workers.pop(contestant.name).close()
        tried = ", ".join(f"{size}: {time:.1f} s" for size, time in zip(sizes, seconds, strict=True))
        progress(f"{contestant.name}, processor time by batch size: {tried}")
        return sizes[seconds.index(min(seconds))]


def choose(rows: Dataset, number: int | None, batch_size: int) -> Dataset:
    """Choose sentences that make batches such as those of all sentences.

    Few sentences of all lengths would be padded more, which slows down those that compute padding.

    Args:
        rows: The sentences.
        number: How many, rounded up to whole batches. ``None``: all.
        batch_size: Number of sentences in a batch.

    Returns:
        Evenly chosen batches of neighbours in the order of length, in their first order.
    """
    if number is None or number >= len(rows):
        return rows
    order = np.argsort([-sum(map(len, words)) for words in rows["tokens"]], kind="stable")
    batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
    count = min(-(-number // batch_size), len(batches))
    middle = ((np.arange(count) + 0.5) * len(batches) / count).astype(int)
    return rows.select(np.sort(np.concatenate([batches[batch] for batch in middle])))


def ratio(these: Times, those: Times, clock: str) -> tuple[float, float, float]:
    """Compare two contestants' times.

    Args:
        these: Times of the one.
        those: Times of the other.
        clock: "seconds" or "processor".

    Returns:
        How many times as long the one takes: by medians, and the smallest and the largest of neighbouring repetitions.
    """
    pairs = [this / that for this, that in zip(these[clock], those[clock], strict=True)]
    return statistics.median(these[clock]) / statistics.median(those[clock]), min(pairs), max(pairs)


def f1_score(found: dict[str, Any], rows: Dataset, tags: Sequence[str]) -> float:
    """Score what a contestant found.

    Args:
        found: The ``entities`` of each sentence, or its ``tags``.
        rows: The sentences, with tag ids.
        tags: Name of each tag id.

    Returns:
        Micro-averaged F1 of entities, all gold ones counted.
    """
    scheme = LabelScheme.from_labels(tags)
    normalizer = AutoLabelNormalizer.from_config(SimpleNamespace(label_scheme=scheme))
    if "tags" in found:
        ids = {tag: index for index, tag in enumerate(tags)}
        predicted = normalizer.entities([[ids[tag] for tag in row] for row in found["tags"]])
    else:
        labels = {label: index for index, label in enumerate(scheme.labels)}
        entities = [
            (row, labels[label], start, end)
            for row, sentence in enumerate(found["entities"])
            for label, start, end in sentence
        ]
        predicted = EntityTable(*np.array(entities, dtype=np.int64).reshape(-1, 4).T)
    words = [len(tokens) for tokens in rows["tokens"]]
    return float(compute_metrics(predicted, normalizer.entities(list(rows["ner_tags"])), words, scheme.labels)["f1"])


def progress(text: str) -> None:
    """Tell what goes on."""
    print(text, file=sys.stderr, flush=True)
