"""Time what follows the model in an evaluation: decoding spans, scoring entities, and the `evaluate.Metric`.

No model is needed: labels and scores of all candidate spans are random, about one span in a hundred wins an entity
label, and gold entities are the predicted ones of other random numbers::

    python benchmarks/decoding_and_metrics.py
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from span_marker import NERMetric
from span_marker.decoding import decode
from span_marker.evaluation import compute_metrics, to_iob2
from span_marker.spans import count_spans
from span_marker.types import EntityTable, IntArray

LABELS = ["O", "LOC", "MISC", "ORG", "PER"]
ENTITY_SHARE = 0.01
"""Share of the spans that win an entity label."""


Spans: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""Label ids and probabilities of candidate spans. Shape: ``[sentences, spans]`` each."""


def random_spans(random: np.random.Generator, shape: tuple[int, int]) -> Spans:
    """Draw what the model would say of each candidate span.

    Args:
        random: The random numbers.
        shape: Number of sentences, and of spans in the longest.

    Returns:
        Label ids and probabilities.
    """
    entities = random.random(shape, dtype=np.float32) < ENTITY_SHARE
    labels = random.integers(1, len(LABELS), shape, dtype=np.int32) * entities
    return labels, random.random(shape, dtype=np.float32)


def decode_batches(spans: Spans, words: IntArray, longest: int, batch_size: int) -> EntityTable:
    """Decode batch by batch, as an evaluation does.

    Args:
        spans: Labels and probabilities.
        words: Number of words of each sentence. Shape: ``[sentences]``.
        longest: Longest span, in words.
        batch_size: Number of sentences in a batch.

    Returns:
        The entities of all sentences.
    """
    tables = []
    for start in range(0, len(words), batch_size):
        part = slice(start, start + batch_size)
        table, _ = decode(spans[0][part], spans[1][part], words[part], longest, outside_id=0)
        tables.append(table._replace(rows=table.rows + start))
    return EntityTable(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


def timed(name: str, function: Callable[[], Any], sentences: int) -> Any:
    """Run a function once and print how long it took.

    Args:
        name: What it does.
        function: The function.
        sentences: Number of sentences that it goes through.

    Returns:
        What it returns.
    """
    begin = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - begin
    print(f"| {name} | {seconds:.2f} | {sentences / seconds:,.0f} |", flush=True)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(
        description="Time decoding and metrics.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=100_000, help="number of random sentences")
    parser.add_argument("--longest", type=int, default=40, help="most words of a sentence")
    parser.add_argument("--entity-max-length", type=int, default=8, help="longest span, in words")
    parser.add_argument("--batch-size", type=int, default=8, help="sentences in a batch that is decoded at once")
    settings = parser.parse_args(argv)
    random = np.random.default_rng(0)
    words = random.integers(1, settings.longest + 1, settings.sentences)
    spans = count_spans(words, settings.entity_max_length)
    shape = (settings.sentences, int(spans.max()))
    guesses, truth = random_spans(random, shape), random_spans(random, shape)
    print(f"{settings.sentences} sentences, {int(words.sum())} words, {int(spans.sum())} candidate spans\n")
    decoding = (words, settings.entity_max_length, settings.batch_size)
    print("| step | seconds | sentences/s |")
    print("|---|---|---|")
    count = settings.sentences
    predicted = timed("decode", lambda: decode_batches(guesses, *decoding), count)
    gold = decode_batches(truth, *decoding)
    scores = timed("compute_metrics", lambda: compute_metrics(predicted, gold, words, LABELS), count)
    tags = timed("to_iob2", lambda: [to_iob2(table, words, LABELS) for table in (predicted, gold)], 2 * count)
    metric = NERMetric()
    by_tags = timed("NERMetric", lambda: metric.compute(predictions=tags[0], references=tags[1]), count)
    equal = scores["overall_f1"] == by_tags["overall_f1"]
    found = f"{len(predicted.rows)} predicted and {len(gold.rows)} gold entities"
    print(f"\n{found}; F1 of compute_metrics and of NERMetric: {'equal' if equal else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
