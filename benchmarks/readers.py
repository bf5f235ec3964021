"""Speed and memory of conversions between file formats.

Writes sentences as JSON lines, reads them with `read_dataset` and writes them with `write_dataset`, each conversion in
a process of its own::

    python benchmarks/readers.py --sentences 250000 1000000

Memory is what the conversion adds to what the imported package takes, without pages of files, which the system takes
back when it needs them. It must not grow with the number of sentences: the exit status is 1 where it does.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from datasets import disable_progress_bars

from span_marker import read_dataset, write_dataset

TARGETS = {"parquet": "sentences.parquet", "conll": "sentences.conll"}
MOST_GROWTH = 1.2
"""Largest ratio of the memory for most sentences to that for fewest."""
_WORDS = 20
_TYPES = ("PER", "ORG", "LOC", "MISC")
_INTERVAL = 0.01
"""Seconds between two looks at the memory."""


def write_sentences(path: Path, number: int) -> None:
    """Write random sentences of 20 words on average, a tenth of which begin an entity.

    Args:
        path: The file of JSON lines.
        number: How many.
    """
    draw = random.Random(0)
    vocabulary = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyzäß", k=draw.randint(1, 12))) for _ in range(20_000)]
    pool = []
    for _ in range(5_000):
        tags: list[str] = []
        for _ in range(draw.randint(1, 2 * _WORDS - 1)):
            begins, goes_on = draw.random() < 0.1, bool(tags) and tags[-1] != "O" and draw.random() < 0.4
            tags.append(f"I-{tags[-1][2:]}" if goes_on else f"B-{draw.choice(_TYPES)}" if begins else "O")
        pool.append(tags)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(number):
            tags = draw.choice(pool)
            row = {"tokens": draw.choices(vocabulary, k=len(tags)), "ner_tags": tags}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def used_memory() -> float:
    """Return the memory of this process that is no page of a file, MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


class PeakMemory(threading.Thread):
    """Watches the memory of this process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.peak = used_memory()
        self._done = threading.Event()

    def run(self) -> None:
        """Look again and again."""
        while not self._done.wait(_INTERVAL):
            self.peak = max(self.peak, used_memory())

    def stop(self) -> float:
        """Return the most memory that was used beyond that at the beginning, MiB."""
        self._done.set()
        self.join()
        return self.peak - self.before


def convert(source: Path, target: Path) -> dict[str, float]:
    """Convert a file, and measure it.

    Args:
        source: The file.
        target: The file to write; its name tells the format.

    Returns:
        Seconds of reading and of writing, processor seconds of both, memory in MiB, and the number of sentences.
    """
    disable_progress_bars()
    memory = PeakMemory()
    memory.start()
    start, processor = time.perf_counter(), time.process_time()
    dataset = read_dataset(source)
    middle = time.perf_counter()
    write_dataset(dataset, target)
    times = {
        "read": middle - start,
        "write": time.perf_counter() - middle,
        "processor": time.process_time() - processor,
    }
    return {**times, "memory": memory.stop(), "sentences": len(dataset)}


def measure(source: Path, target: Path) -> dict[str, float]:
    """Convert a file in a new process; see [`convert`]."""
    command = [sys.executable, __file__, "--convert", str(source), str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Speed and memory of conversions between file formats.")
    parser.add_argument("--sentences", type=int, nargs="+", default=[250_000, 1_000_000], help="two or more sizes")
    parser.add_argument("--folder", type=Path, help="where to write the files (default: a temporary folder)")
    parser.add_argument("--convert", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.convert:
        print(json.dumps(convert(*options.convert)))
        return 0
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, 20 words a sentence")
    titles = ("JSON lines to", "sentences", "file, MB", "read, sentences/s", "write, sentences/s", "both")
    print("|", " | ".join((*titles, "both by processor time", "memory, MiB")), "|")
    print("|---|---|---|---|---|---|---|---|")
    memory: dict[str, list[float]] = {name: [] for name in TARGETS}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source = Path(folder) / "sentences.jsonl"
        for number in sorted(options.sentences):
            write_sentences(source, number)
            for name, file in TARGETS.items():
                found = measure(source, Path(folder) / file)
                assert found["sentences"] == number
                memory[name].append(found["memory"])
                read, write = found["read"], found["write"]
                print(
                    f"| {name} | {number:,} | {source.stat().st_size / 1e6:,.0f} | {number / read:,.0f} "
                    f"| {number / write:,.0f} | {number / (read + write):,.0f} | {number / found['processor']:,.0f} "
                    f"| {found['memory']:,.0f} |"
                )
    growth = {name: used[-1] / used[0] for name, used in memory.items()}
    for name, ratio in growth.items():
        print(f"{name}: memory for most sentences / for fewest = {ratio:.2f}, at most {MOST_GROWTH}")
    return int(any(ratio > MOST_GROWTH for ratio in growth.values()))


if __name__ == "__main__":
    sys.exit(main())
