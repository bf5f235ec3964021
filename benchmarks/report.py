"""How fast prediction is: one command that measures, and writes `docs/speed.md` with its tables and plots.

Contestants run on the same sentences, in turn, each in a process of its own: token classification with the same
encoder as the floor, span-marker 1.8.1, and this package with all spans, filtered, and filtered with ONNX Runtime.
Three scaling curves follow: sentence length, number of entity types, corpus size::

    SPAN_MARKER_SHARED=../shared python benchmarks/report.py

Finished parts are lines of ``results/speed.jsonl`` and are not repeated; ``--parts`` without any writes the page only.
The exit status is 1 where something that is required is not met, which the page then says.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import peer
import torch
from corpora import ENCODER
from quiet import set_up
from records import ROOT, read_results
from speed_page import PAGE, Report, write_page
from speed_parts import CORPUS, DATA, LABELS, LENGTH, Bench

from span_marker.demo import DemoError

RESULTS = ROOT / "benchmarks" / "results" / "speed.jsonl"
MODELS = ROOT / "benchmarks" / "results" / "raw" / "models"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the speed of prediction and write the report.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, parts = parser.add_argument, [DATA, LENGTH, LABELS, CORPUS]
    add("--parts", nargs="*", choices=parts, default=parts, help="what to measure, if it is not in the results")
    add("--data", nargs="+", default=["wnut17", "wikigold", "ncbi_disease"], help="data sets; curves use the first")
    add("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    add("--models", type=Path, default=MODELS, help="folder of trained models, by data set; others are trained there")
    add("--untrained-tagger", action="store_true", help="do not train token classification for the sake of its F1")
    add("--bf16", action="store_true", help="train in mixed precision")
    add("--sentences", type=int, help="test sentences of each data set that are timed (default: all)")
    add("--scored", type=int, help="test sentences that F1 is measured on (default: all)")
    add("--repetitions", type=int, default=3, help="timed runs of each contestant")
    add("--batch-size", type=int, default=32, help="sentences in a batch, of all but 'auto' and the reference")
    add("--peer-batch-sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="tried by the reference")
    add("--lengths", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512], help="words of a sentence")
    add("--words", type=int, default=4096, help="words of all sentences of a length")
    add("--long-text", type=int, default=10_000, help="words of a single text, which is read once")
    add("--labels", type=int, nargs="+", default=[4, 8, 16, 32, 64, 128], help="numbers of entity types")
    add("--label-sentences", type=int, default=128, help="sentences for the numbers of types")
    add("--corpus-sizes", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000, 100_000], help="sentences")
    add("--corpus-words", type=int, default=4, help="words of a sentence of these")
    add("--clock", choices=["wall", "processor"], default="wall", help="what ratios and speeds are made of")
    add("--results", type=Path, default=RESULTS, help="file of finished parts, added to")
    add("--page", type=Path, default=PAGE, help="page whose tables are written; plots go to a folder of its name")
    peer.add_arguments(parser)
    return parser.parse_args(argv)


def run(settings: argparse.Namespace) -> bool:
    """Measure what is missing, and write the page.

    Args:
        settings: The parsed arguments.

    Returns:
        Whether all that is required is met.

    Raises:
        DemoError: A data set or the encoder is missing, or no data set has been measured.
        PeerError: A contestant failed, or the reference cannot be had.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    peer_python = peer.find_peer(settings.peer_python) if DATA in settings.parts else None
    Bench(settings, peer_python).run()
    report = Report(read_results(settings.results), {"wall": "seconds", "processor": "processor"}[settings.clock])
    write_page(report, settings.page)
    checks = report.checks()
    if not any(check.is_required for check in checks):
        raise DemoError(f"Nothing that is required is in {settings.results} yet: run the part {DATA!r}.")
    for check in checks:
        print(f"{'met' if check.is_met else 'NOT MET'}: {check.where}, {check.text}: {check.value}")
    return all(check.is_met for check in checks if check.is_required)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, 1 where something that is required is not met, 2 where something is missing or failed.
    """
    set_up()
    try:
        return 0 if run(_parse(argv)) else 1
    except (peer.PeerError, DemoError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
