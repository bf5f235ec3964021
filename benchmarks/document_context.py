"""Measure how long adding document-level context takes, beside span-marker 1.8.1.

Prints seconds per sentence of both and their ratio, and checks that both give the same rows. Ends with status 1 where
the ratio is not above the one that is required.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from peer import PeerError, add_arguments, find_peer, run_script

REQUIRED = 20.0
"""How many times faster than the reference this package has to be, per sentence."""
WORKLOAD = Path(__file__).with_name("document_context_workload.py")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--documents", type=int, default=10_000, help="documents for this package (10000)")
    parser.add_argument("--sentences", type=int, default=20, help="sentences per document (20)")
    parser.add_argument("--peer-documents", type=int, default=100, help="documents for the reference (100)")
    parser.add_argument("--model-max-length", type=int, default=256, help="tokens per row (256)")
    parser.add_argument("--entity-max-length", type=int, default=8, help="longest span, in words (8)")
    add_arguments(parser)
    options = parser.parse_args(argv)
    shared = {name: getattr(options, name) for name in ("sentences", "model_max_length", "entity_max_length")}
    check = min(options.documents, options.peer_documents)
    workload = WORKLOAD.read_text(encoding="utf-8")
    try:
        peer = find_peer(options.peer_python)
        runs = {
            name: run_script(python, workload, {**shared, "documents": count, "check": check}, options.threads)
            for name, python, count in (
                ("span-marker 1.8.1", peer, options.peer_documents),
                ("this package", Path(sys.executable), options.documents),
            )
        }
    except PeerError as error:
        print(f"document_context: {error}", file=sys.stderr)
        return 2
    for name, result in runs.items():
        each = result["seconds"] / result["count"]
        print(f"{name}: {result['count']} sentences in {result['seconds']:.2f} s, {each * 1e6:.1f} microseconds each")
    reference, ours = runs.values()
    ratio = reference["seconds"] / reference["count"] / (ours["seconds"] / ours["count"])
    same = reference["digest"] == ours["digest"]
    print(f"ratio: {ratio:.1f} (required: more than {REQUIRED:.0f}); rows {'equal' if same else 'DIFFER'}")
    return 0 if same and ratio > REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
