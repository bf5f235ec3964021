"""Training and prediction throughput beside span-marker 1.8.1, in one run on one machine.

Both packages execute the same text, `workloads.py`, on the same WNUT17 sentences with the same arguments, each in
processes of its own, in turn (this, reference, this, reference, ...); medians are compared. Loading a model and a
first batch are not timed. Prediction looks at all candidate spans, uses one checkpoint for both, and each package its
own best batch size. Run it on a machine that does nothing else::

    SPAN_MARKER_SHARED=../shared python benchmarks/throughput.py

The exit status is 1 where a ratio falls short of what is required.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import peer
from corpora import ENCODER, LENGTHS, Corpus, encoder_path, read_corpus

from span_marker.demo import DemoError

OURS, REFERENCE = "this package", f"span-marker {peer.PEER_VERSION}"
REQUIRED = {"train": 4.0, "predict": 2.2}
"""Smallest ratio of throughputs, this package's to the reference's."""
ARGUMENTS = {
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-4,
    "num_train_epochs": 1,
    # Defaults differ between versions of transformers: the optimizer is set, so that both have the same.
    "optim": "adamw_torch",
    "seed": 0,
    "use_cpu": True,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


@dataclass
class Times:
    """One package's repetitions of one task.

    Attributes:
        seconds: Wall-clock time of each.
        processor: Processor time of each, of all threads together.
        whole: Wall-clock time of each with its preprocessing, where that is not timed.
        memory: Peak memory of each process, MiB.
        note: What else there is to say.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    note: str = ""

    def add(self, times: dict[str, float], memory: float) -> None:
        """Add a repetition.

        Args:
            times: Seconds by kind.
            memory: Peak memory, MiB.
        """
        for kind in ("seconds", "processor", "whole"):
            if kind in times:
                getattr(self, kind).append(times[kind])
        self.memory.append(memory)

    def row(self, sentences: int) -> str:
        """Write cells of the report's table.

        Args:
            sentences: Number of sentences in each repetition.
        """
        rates = [sentences / seconds for seconds in self.seconds]
        middle = statistics.median(self.seconds)
        cells = (f"{sentences / middle:.2f}", f"{min(rates):.2f} to {max(rates):.2f}", f"{middle:.1f}")
        return " | ".join([*cells, f"{max(self.memory):.0f}", self.note])


class Bench:
    """Runs tasks in both packages.

    Args:
        pythons: Interpreter of each package.
        threads: CPU threads of each process.
        repetitions: How often each package is timed.
    """

    def __init__(self, pythons: dict[str, Path], threads: int | None, repetitions: int) -> None:
        self._pythons = pythons
        self._threads = threads
        self._repetitions = repetitions
        self._script = Path(__file__).with_name("workloads.py").read_text(encoding="utf-8")

    def train(self, corpus: Corpus, sentences: int, encoder: str, save: Path) -> dict[str, Times]:
        """Time training.

        Args:
            corpus: The corpus.
            sentences: Number of training sentences, its first.
            encoder: Path of the encoder.
            save: Folder for the model that this package trains first.

        Returns:
            The times of each package.
        """
        times = {name: Times() for name in self._pythons}
        rows = corpus.splits["train"].select(range(sentences)).select_columns(["tokens", "ner_tags"])
        payload = {
            "task": "train",
            "encoder": encoder,
            "labels": corpus.labels,
            "settings": LENGTHS,
            "rows": rows.to_dict(),
            "arguments": ARGUMENTS,
        }
        for repetition in range(self._repetitions):
            for name in self._pythons:
                # The reference has no span filter, so that markers are run for all spans.
                wanted: dict[str, Any] = {"settings": LENGTHS | {"span_filter": False}} if name == OURS else {}
                if wanted and repetition == 0:
                    wanted["save"] = str(save)
                result = self._run(name, payload | wanted)
                times[name].add(result, result["peak_memory"])
                whole = statistics.median(times[name].whole)
                times[name].note = f"{result['steps']} steps; {whole:.1f} s with preprocessing"
                _progress(f"train {repetition + 1}/{self._repetitions}, {name}: {result['seconds']:.1f} s")
        return times

    def predict(self, model: Path, sentences: list[list[str]], batch_sizes: Sequence[int]) -> dict[str, Times]:
        """Time prediction: all batch sizes once to choose each package's best, then that one repeatedly.

        Args:
            model: Folder of the model that both load.
            sentences: Sentences as words.
            batch_sizes: The batch sizes to try.

        Returns:
            The times of each package.
        """
        times = {name: Times() for name in self._pythons}
        payload = {"task": "predict", "model": str(model), "sentences": sentences}
        best = {}
        for name in self._pythons:
            tried = [time["seconds"] for time in self._run(name, payload | {"batch_sizes": batch_sizes})["times"]]
            best[name] = batch_sizes[tried.index(min(tried))]
            rates = ", ".join(
                f"{size}: {len(sentences) / time:.1f}" for size, time in zip(batch_sizes, tried, strict=True)
            )
            _progress(f"predict, {name}, sentences/s by batch size: {rates}")
        found: dict[str, Any] = {}
        for repetition in range(self._repetitions):
            for name in self._pythons:
                result = self._run(name, payload | {"batch_sizes": [best[name]]})
                times[name].add(result["times"][0], result["peak_memory"])
                found[name] = result["entities"]
                seconds = result["times"][0]["seconds"]
                _progress(f"predict {repetition + 1}/{self._repetitions}, {name}: {seconds:.1f} s")
        equal = sum(ours == theirs for ours, theirs in zip(*found.values(), strict=True))
        for name in self._pythons:
            times[name].note = f"batch size {best[name]}; {sum(map(len, found[name]))} entities"
        print(f"predict: both find the same entities in {equal} of {len(sentences)} sentences")
        return times

    def _run(self, name: str, payload: dict[str, Any]) -> Any:
        return peer.run_script(self._pythons[name], self._script, payload, self._threads)


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ratios(times: dict[str, Times]) -> tuple[float, list[float], float]:
    """Compare the packages.

    Args:
        times: The times of each.

    Returns:
        How many times as fast this package is: by medians of time, in each pair of neighbouring repetitions, and by
        medians of processor time.
    """
    ours, theirs = times[OURS], times[REFERENCE]
    pairs = [their / our for our, their in zip(ours.seconds, theirs.seconds, strict=True)]
    medians = [statistics.median(getattr(theirs, kind)) / statistics.median(getattr(ours, kind)) for kind in _KINDS]
    return medians[0], pairs, medians[1]


_KINDS = ("seconds", "processor")


def report(results: dict[str, dict[str, Times]], sentences: int) -> bool:
    """Print the results as Markdown.

    Args:
        results: The times of each package, by task.
        sentences: Number of sentences.

    Returns:
        Whether all ratios are as large as is required.
    """
    print("\n| task | package | sentences/s: median | slowest to fastest | seconds | peak MiB | |")
    print("|---|---|---|---|---|---|---|")
    for task, times in results.items():
        for name, of in times.items():
            print(f"| {task} | {name} | {of.row(sentences)} |")
    print()
    met = []
    for task, times in results.items():
        ratio, pairs, processor = ratios(times)
        met.append(ratio >= REQUIRED[task])
        print(
            f"{task}: {ratio:.2f} times the reference (pairs {min(pairs):.2f} to {max(pairs):.2f}; by processor time "
            f"{processor:.2f}); required {REQUIRED[task]}: {'met' if met[-1] else 'NOT MET'}"
        )
    return all(met)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare training and prediction throughput with span-marker 1.8.1.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default="wnut17", help="data set in $SPAN_MARKER_SHARED/data")
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--sentences", type=int, default=500, help="number of sentences")
    parser.add_argument("--repetitions", type=int, default=3, help="timed runs of each package and task")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], help="tried by predict")
    parser.add_argument("--tasks", nargs="+", choices=list(REQUIRED), default=list(REQUIRED), help="what to time")
    parser.add_argument("--model", type=Path, help="model for predict, where training is not timed")
    parser.add_argument("--output", type=Path, help="file to append all times to, as one line of JSON")
    peer.add_arguments(parser)
    settings = parser.parse_args(argv)
    if "train" not in settings.tasks and settings.model is None:
        parser.error("predict needs a model: time training too, or pass --model with a folder")
    return settings


def run(settings: argparse.Namespace) -> bool:
    """Measure and report.

    Args:
        settings: The parsed arguments.

    Returns:
        Whether all ratios are as large as is required.

    Raises:
        PeerError: A script failed.
        DemoError: The data set or the encoder is missing.
    """
    corpus, encoder = read_corpus(settings.data), encoder_path(settings.encoder)
    pythons = {OURS: Path(sys.executable), REFERENCE: peer.find_peer(settings.peer_python)}
    versions = {name: peer.versions(python) for name, python in pythons.items()}
    sentences = min(settings.sentences, len(corpus.splits["train"]))
    name = Path(settings.encoder).name
    print(f"{sentences} sentences of {settings.data}, {name}, {LENGTHS}, threads {settings.threads or 'default'}")
    for name, found in versions.items():
        print(f"{name}: {', '.join(f'{package} {number}' for package, number in found.items())}")
    bench = Bench(pythons, settings.threads, settings.repetitions)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        if "train" in settings.tasks:
            results["train"] = bench.train(corpus, sentences, encoder, model)
        if "predict" in settings.tasks:
            words = list(corpus.splits["train"]["tokens"][:sentences])
            results["predict"] = bench.predict((settings.model or model).resolve(), words, settings.batch_sizes)
    met = report(results, sentences)
    if settings.output:
        line = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "machine": platform.platform(),
            "data": settings.data,
            "sentences": sentences,
            "threads": settings.threads,
            "versions": versions,
            "times": {task: {name: vars(of) for name, of in times.items()} for task, times in results.items()},
        }
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        with settings.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return met


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, 1 where a ratio is too small, 2 where something is missing or failed.
    """
    try:
        return 0 if run(_parse(argv)) else 1
    except (peer.PeerError, DemoError) as error:
        print(f"throughput: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
