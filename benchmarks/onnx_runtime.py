"""What ONNX Runtime gains and costs: logits, F1, speed and size of an exported model beside PyTorch's.

A MiniLM with a span filter is trained for a few minutes (or loaded with ``--model``) and exported in 32 and in 8 bits.
The three then predict the same test sentences in turn, in one process, with the filter::

    SPAN_MARKER_SHARED=../shared python benchmarks/onnx_runtime.py --data wnut17
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora import ENCODER, encoder_path, read_corpus
from datasets.utils.logging import disable_progress_bar
from span_filter import measure, train
from transformers.utils import logging as transformers_logging

from span_marker import OnnxSpanMarkerModel, SpanMarkerModel
from span_marker.demo import DemoError

TORCH, FLOAT, INT8 = "PyTorch", "ONNX, 32 bits", "ONNX, int8"
TOLERANCE = 1e-4
"""Largest difference of logits that is taken for rounding."""
F1_LOSS = 0.005
"""Most F1 that eight bits may cost."""


def run(settings: argparse.Namespace) -> bool:
    """Export, measure and report.

    Args:
        settings: The parsed arguments.

    Returns:
        Whether what is required is met.

    Raises:
        DemoError: The data set or the encoder is missing.
    """
    corpus = read_corpus(settings.data)
    if settings.model:
        model: Any = SpanMarkerModel.from_pretrained(settings.model)
    else:
        model = train(corpus, encoder_path(), settings).model
    test = corpus.splits["test"]
    sentences = list(test["tokens"])[: settings.sentences]
    test = test.select(range(len(sentences)))
    with tempfile.TemporaryDirectory() as folder:
        paths = {FLOAT: Path(folder, "float"), INT8: Path(folder, "int8")}
        reports = {
            FLOAT: model.export("onnx", paths[FLOAT], dataset=test),
            INT8: model.export("onnx", paths[INT8], quantize="int8", dataset=test),
        }
        models = {TORCH: model} | {name: OnnxSpanMarkerModel.from_pretrained(path) for name, path in paths.items()}
        sizes = {name: sum(file.stat().st_size for file in path.glob("*.onnx")) for name, path in paths.items()}
    speeds = [measure_speeds(models, sentences, size, settings) for size in settings.batch_sizes]
    heads = [f"speed, batches of {size}" for size in settings.batch_sizes]
    print(f"{len(sentences)} sentences; speeds relative to {TORCH}")
    print(
        f"\n| | largest difference of logits | F1 | MB | {' | '.join(heads)} |\n|---|---|---|---|{'---|' * len(heads)}"
    )
    for name in models:
        report = reports.get(name)
        difference = f"{report['largest_logit_difference']:.1e}" if report else ""
        f1 = report["f1"]["onnx"] if report else reports[FLOAT]["f1"]["torch"]
        size = f"{sizes[name] / 1e6:.0f}" if report else f"{model.num_parameters() * 4 / 1e6:.0f}"
        ratios = " | ".join(f"{speed[name]:.2f}" for speed in speeds)
        print(f"| {name} | {difference} | {100 * f1:.2f} | {size} | {ratios} |")
    return (
        reports[FLOAT]["largest_logit_difference"] <= TOLERANCE
        and reports[INT8]["f1"]["onnx"] >= reports[INT8]["f1"]["torch"] - F1_LOSS
        and all(speed[FLOAT] > 1 for speed in speeds)
    )


def measure_speeds(
    models: dict[str, Any], sentences: Sequence[Sequence[str]], batch_size: int, settings: argparse.Namespace
) -> dict[str, float]:
    """Time the models in turn.

    Args:
        models: The models by name.
        sentences: Lists of words.
        batch_size: Number of sentences in a batch.
        settings: The parsed arguments.

    Returns:
        How many times PyTorch's speed each has.
    """
    tasks = {name: lambda model=model: model.predict(sentences, batch_size) for name, model in models.items()}
    seconds = measure(tasks, settings.repetitions, settings.clock)
    return {name: seconds[TORCH] / time_taken for name, time_taken in seconds.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, 1 where what is required is not met, or 2 where something is missing.
    """
    parser = argparse.ArgumentParser(
        description="Measure what ONNX Runtime gains and costs.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default="wnut17", help="data set in $SPAN_MARKER_SHARED/data, or a folder")
    parser.add_argument("--model", type=Path, help="a model with a filter, instead of training one")
    parser.add_argument("--sentences", type=int, help="test sentences to predict (default: all)")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 16], help="sentences in a batch")
    parser.add_argument("--repetitions", type=int, default=3, help="timed runs of each")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall", help="what is timed")
    parser.set_defaults(encoder=ENCODER, save=None, seed=0, epochs=6, learning_rate=2e-4, bf16=False)
    parser.set_defaults(batch_size=16)
    disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        return 0 if run(parser.parse_args(argv)) else 1
    except DemoError as error:
        print(f"onnx_runtime: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
