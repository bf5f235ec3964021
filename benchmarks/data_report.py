"""Speed and memory of `check_dataset`, without an encoder.

Writes sentences as JSON lines, reads and checks them, each number of sentences in a process of its own::

    python benchmarks/data_report.py --sentences 250000 1000000

Memory is what the check adds to what the imported package takes, without pages of files. It may grow with the keys of
the sentences (24 bytes each, which are sorted and compared), and with nothing else: the exit status is 1 where it does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from datasets import disable_progress_bars
from readers import PeakMemory, write_sentences

from span_marker import read_dataset
from span_marker.data_report import check_dataset

MOST_MEMORY = 32.0
"""Most memory beyond the keys, MiB."""
MOST_FOR_KEYS = 3 * 24 / 2**20
"""Most memory for the keys of a sentence, MiB."""


def check(source: Path) -> dict[str, float]:
    """Check a file, and measure it.

    Args:
        source: The file.

    Returns:
        Seconds of reading and of checking, processor seconds of both, memory of checking in MiB, and the number of
        sentences.
    """
    disable_progress_bars()
    start, processor = time.perf_counter(), time.process_time()
    dataset = read_dataset(source, keep_tags=True)
    middle = time.perf_counter()
    memory = PeakMemory()
    memory.start()
    check_dataset(dataset)
    return {
        "read": middle - start,
        "check": time.perf_counter() - middle,
        "processor": time.process_time() - processor,
        "memory": memory.stop(),
        "sentences": len(dataset),
    }


def measure(number: int, folder: Path) -> dict[str, float]:
    """Check so many sentences in a new process; see [`check`]."""
    source = folder / f"{number}.jsonl"
    write_sentences(source, number)
    command = [sys.executable, __file__, "--check", str(source)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        arguments: Those of the command line.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.check is not None:
        print(json.dumps(check(options.check)))
        return 0
    is_met = True
    with tempfile.TemporaryDirectory() as folder:
        for number in options.sentences:
            result = measure(number, Path(folder))
            allowed = MOST_MEMORY + number * MOST_FOR_KEYS
            is_met = is_met and result["memory"] <= allowed
            print(
                f"{number:,} sentences: read in {result['read']:.1f} s, checked in {result['check']:.1f} s, together "
                f"{number / result['processor']:,.0f} a second of processor time; checked with {result['memory']:.0f} "
                f"MiB, at most {allowed:.0f}"
            )
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
