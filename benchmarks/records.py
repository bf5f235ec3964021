"""The file of finished runs, a JSON object a line, and the tables made of it.

Run as a script, it writes the tables of ``docs/accuracy.md`` anew.
"""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import torch

import span_marker

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "accuracy.jsonl"
PAGE = ROOT / "docs" / "accuracy.md"
Record: TypeAlias = dict[str, Any]
_SCORES = ("f1", "precision", "recall", "macro_f1")
_SETTINGS = ("experiment", "recipe", "data", "context", "sentences", "split", "seed", "encoder")
_ORDER = ("data", "sentences", "context", "experiment", "recipe", "seed")


def read_results(path: Path) -> list[Record]:
    """Read the runs that are finished.

    Args:
        path: File of one JSON object a line; it need not exist.
    """
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line] if path.is_file() else []


def find(records: list[Record], key: Record) -> Record | None:
    """Find the latest run with the given settings."""
    return next((record for record in reversed(records) if key.items() <= record.items()), None)


def append(path: Path, record: Record) -> None:
    """Add a run.

    Args:
        path: The file; it need not exist.
        record: The run.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def table(records: list[Record]) -> str:
    """Sum up runs that differ in their seeds.

    Args:
        records: The runs.

    Returns:
        A Markdown table: means and, from two seeds on, their standard errors; minutes are processor time of the
        training.
    """
    lines = [
        "| data | sentences | context | scored on | experiment | epochs | seeds "
        "| F1 | precision | recall | macro F1 | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        epochs = f"{record['recipe']['arguments']['num_train_epochs']:g}"
        key = (
            record["data"],
            record["sentences"] or "all",
            "yes" if record["context"] else "no",
            record["split"],
            record["experiment"],
            epochs,
            _identity(record["recipe"]),
        )
        groups.setdefault(key, []).append(record)
    for (*cells, _), runs in groups.items():
        scores = [mean_and_error([100 * run[name] for run in runs]) for name in _SCORES]
        seconds = [run["training_processor_seconds"] for run in runs if run["training_processor_seconds"]]
        minutes = f"{statistics.mean(seconds) / 60:.1f}" if seconds else ""
        seeds = " ".join(str(run["seed"]) for run in runs)
        lines.append(f"| {' | '.join(map(str, [*cells, seeds, *scores, minutes]))} |")
    return "\n".join(lines)


def _identity(value: Any) -> str:
    """Write settings such that the same ones are the same, 4 epochs and 4.0 epochs among them."""
    return json.dumps(json.loads(json.dumps(value), parse_int=float))


def update(page: str, records: list[Record]) -> str:
    """Write the tables of a page anew.

    Args:
        page: Markdown with a table for each split, of the runs that were scored on it; see [`replace_tables`].
        records: All runs.

    Returns:
        The page.
    """

    def of_split(split: str) -> str:
        latest = {
            _identity([record[name] for name in _SETTINGS]): record for record in records if record["split"] == split
        }
        return table(sorted(latest.values(), key=lambda record: [str(record[name]) for name in _ORDER]))

    return replace_tables(page, of_split)


def replace_tables(page: str, make: Callable[[str], str]) -> str:
    """Write the tables of a page anew.

    Args:
        page: Markdown in which ``<!-- table: NAME -->`` and ``<!-- end -->`` enclose a table.
        make: Makes the table of a name.

    Returns:
        The page.
    """

    def replace(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        return f"{begin}\n{make(name)}\n{end}"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)", replace, page, flags=re.DOTALL)


def mean_and_error(values: Sequence[float]) -> str:
    """Write a mean and its standard error.

    Args:
        values: One value a seed.
    """
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) / len(values) ** 0.5:.2f}"


def environment() -> Record:
    """Tell what a run was made with."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        commit = git.stdout.strip() or None
    except OSError:  # no git here
        commit = None
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "span_marker": span_marker.__version__,
        "transformers": version("transformers"),
        "torch": version("torch"),
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def machine() -> str:
    """Describe the machine: processor, cores, system."""
    processor = platform.processor() or platform.machine()
    try:
        names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:  # not Linux
        names = []
    return f"{names[0] if names else processor}, {os.cpu_count()} cores, {platform.system()}"


if __name__ == "__main__":
    PAGE.write_text(update(PAGE.read_text("utf-8"), read_results(RESULTS)), "utf-8")
