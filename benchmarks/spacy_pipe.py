"""What the spaCy component costs beside the model: ``nlp.pipe`` and ``model.predict`` over the same short documents.

Both get the same texts and the same number of sentences in a batch, by turns, in one process; spaCy splits them into
words itself, the pipeline is blank otherwise. Processor time counts. ``nlp.pipe`` may take a tenth more::

    python benchmarks/spacy_pipe.py MODEL --data wikigold

Exit status: 0, or 1 where it takes more.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import spacy
import torch
from corpora import read_corpus

from span_marker import SpanMarkerModel
from span_marker.demo import DemoError

MOST = 1.10
"""Highest ratio of the two times."""


def processor_seconds(run: Callable[[], Any]) -> float:
    """Measure a run.

    Args:
        run: What to run.

    Returns:
        Its processor time.
    """
    begin = time.process_time()
    run()
    return time.process_time() - begin


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare nlp.pipe with model.predict.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("model", help="folder of a trained model")
    parser.add_argument("--data", default="wikigold", help="data set whose test sentences are the documents")
    parser.add_argument("--documents", type=int, default=2000, help="number of documents; sentences are repeated")
    parser.add_argument("--batch-size", type=int, default=32, help="sentences in a batch")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each, by turns; their medians count")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, 1 where ``nlp.pipe`` takes too long, or 2 where the data set is missing.
    """
    settings = _parse(argv)
    try:
        sentences = read_corpus(settings.data).splits["test"]["tokens"]
    except DemoError as error:
        print(f"spacy_pipe: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    texts = [" ".join(words) for words in islice(cycle(sentences), settings.documents)]
    nlp = spacy.blank("en")
    nlp.add_pipe("span_marker", config={"model": settings.model, "batch_size": settings.batch_size, "device": "cpu"})
    model = SpanMarkerModel.from_pretrained(settings.model)
    runs: dict[str, Callable[[], Any]] = {
        "model.predict": lambda: model.predict(texts, batch_size=settings.batch_size, is_split_into_words=False),
        "nlp.pipe": lambda: list(nlp.pipe(texts)),
    }
    list(nlp.pipe(texts[:64]))  # loads the model
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(settings.repetitions):
        for name, run in runs.items():
            seconds[name].append(processor_seconds(run))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(
            f"{name}: {medians[name]:.2f} s of processor time (runs: {', '.join(f'{value:.2f}' for value in values)})"
        )
    ratio = medians["nlp.pipe"] / medians["model.predict"]
    print(
        f"{settings.documents:,} documents, ratio {ratio:.3f}, at most {MOST}: {'met' if ratio <= MOST else 'not met'}"
    )
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
