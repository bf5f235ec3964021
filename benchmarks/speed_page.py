"""The page that `report.py` writes: tables, what is required, and plots, all from the file of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contestants import ALL, AUTO, FILTERED, FLOAT, INT8, REFERENCE, TOKEN, Times, ratio
from records import ROOT, Record, replace_tables
from speed_parts import CORPUS, DATA, KEPT, LABELS, LENGTH

PAGE = ROOT / "docs" / "speed.md"
MOST_TIME = 1.3
"""How many times token classification's time filtered prediction may take."""
LEAST_SPEED = 8.0
"""How many times span-marker 1.8.1's speed filtered prediction has to have."""
FILTER_LOSS, INT8_LOSS = 0.001, 0.005
"""Most F1 that the filter and eight bits may cost."""
LEAST_FLATNESS = 0.9
"""Speed on large corpora, as a share of that on the first one of at least `_FLAT_FROM` sentences."""
_FLAT_FROM = 10_000
_CLOCKS = {"seconds": "wall clock", "processor": "processor time of all threads"}


@dataclass(frozen=True)
class Check:
    """Something that is required, or wanted, and whether it is so.

    Attributes:
        text: What is required.
        where: The data set, or the part.
        value: What was measured.
        is_met: Whether it is met.
        is_required: Whether the exit status counts it.
    """

    text: str
    where: str
    value: str
    is_met: bool
    is_required: bool = True


class Report:
    """The latest results of each part.

    Args:
        records: The lines of the file of results.
        clock: What ratios are made of: "seconds" or "processor".
    """

    def __init__(self, records: Sequence[Record], clock: str) -> None:
        self._clock = clock
        self._parts: dict[str, dict[Any, Record]] = {part: {} for part in (DATA, LENGTH, LABELS, CORPUS)}
        for record in records:
            self._parts[record["part"]][record[record["part"]]] = record

    def of(self, part: str) -> list[Record]:
        """The results of a part, in order: each data set's, length's, number of types', size's."""
        found = self._parts[part]
        return [found[point] for point in (found if part == DATA else sorted(found))]

    def median(self, times: Times) -> float:
        """Seconds of the middle repetition."""
        found = sorted(times[self._clock])
        return float(found[len(found) // 2] + found[(len(found) - 1) // 2]) / 2

    def times(self, record: Record, name: str, floor: str) -> tuple[float, str]:
        """How many times as long one contestant takes as another, as a number, and with its range."""
        middle, least, most = ratio(record["times"][name], record["times"][floor], self._clock)
        return middle, f"{middle:.2f} ({least:.2f} to {most:.2f})"

    def checks(self) -> list[Check]:
        """Compare with what is required."""
        checks = []
        for record in self.of(DATA):
            where, f1 = record["data"], record["f1"]
            time, text = self.times(record, FILTERED, TOKEN)
            checks.append(
                Check(f"at most {MOST_TIME} times token classification's time", where, text, time <= MOST_TIME)
            )
            speed, text = self.times(record, REFERENCE, FILTERED)
            checks.append(
                Check(f"at least {LEAST_SPEED:g} times {REFERENCE}'s speed", where, text, speed >= LEAST_SPEED)
            )
            for these, those, most in ((FILTERED, ALL, FILTER_LOSS), (INT8, FLOAT, INT8_LOSS)):
                difference = f1[these] - f1[those]
                text = f"F1 of {these} at most {100 * most:g} below {those}"
                checks.append(Check(text, where, f"{100 * difference:+.2f}", round(-difference, 6) <= most))
        large = [record for record in self.of(CORPUS) if record["corpus"] >= _FLAT_FROM]
        for name in (FILTERED, AUTO) if len(large) > 1 else ():
            shares = [self._rate(record, name) / self._rate(large[0], name) for record in large]
            text = f"{name}: speed within {1 - LEAST_FLATNESS:.0%} from {_FLAT_FROM:,} sentences on (wanted)"
            checks.append(Check(text, CORPUS, f"{min(shares):.2f}", min(shares) >= LEAST_FLATNESS, False))
        return checks

    def _rate(self, record: Record, name: str) -> float:
        """Sentences a second of a corpus."""
        return float(record["corpus"]) / self.median(record["times"][name])

    def table(self, name: str) -> str:
        """Make a table of the page.

        Args:
            name: "required", "runs", or a part.
        """
        make: dict[str, Callable[[], str]] = {
            "required": self._required,
            DATA: self._data,
            LENGTH: self._lengths,
            LABELS: self._labels,
            CORPUS: self._corpora,
            "runs": self._runs,
        }
        return make[name]()

    def _required(self) -> str:
        rows = [(one.text, one.where, one.value, "yes" if one.is_met else "**no**") for one in self.checks()]
        return markdown(("required of filtered prediction", "on", "measured", "met"), rows)

    def _data(self) -> str:
        heads = (
            "data",
            "",
            "batches of",
            "sentences/s",
            "times token classification's time",
            f"times {REFERENCE}'s speed",
            "peak MiB",
            "F1",
        )
        rows = []
        for record in self.of(DATA):
            for name, times in record["times"].items():
                speed = record["sentences"] / self.median(times)
                f1 = f"{100 * record['f1'][name]:.2f}" if name in record["f1"] else ""
                of_reference, _ = self.times(record, REFERENCE, name)
                compared = (self.times(record, name, TOKEN)[1], f"{of_reference:.1f}", f"{times['peak_memory']:.0f}")
                rows.append((record["data"], name, times["batch_size"], f"{speed:.1f}", *compared, f1))
        return markdown(heads, rows)

    def _lengths(self) -> str:
        return self._curve(
            LENGTH, "words a sentence", "words", 1000, ("ms a word", "times token classification's time")
        )

    def _labels(self) -> str:
        return self._curve(
            LABELS, "entity types", "sentences", 1000, ("ms a sentence", "times token classification's time")
        )

    def _curve(self, part: str, head: str, unit: str, factor: float, heads: tuple[str, str]) -> str:
        """Time for each unit of three contestants, and two of them beside the first."""
        rows = []
        for record in self.of(part):
            each = [factor * self.median(record["times"][name]) / record[unit] for name in (TOKEN, ALL, FILTERED)]
            ratios = [self.times(record, name, TOKEN)[1] for name in (ALL, FILTERED)]
            rows.append((f"{record[part]:,}", *(f"{time:.2f}" for time in each), *ratios))
        times, compared = heads
        names = (
            *(f"{name}, {times}" for name in (TOKEN, ALL, FILTERED)),
            *(f"{name}, {compared}" for name in (ALL, FILTERED)),
        )
        return markdown((head, *names), rows)

    def _corpora(self) -> str:
        rows = [
            (
                f"{record['corpus']:,}",
                *(f"{self._rate(record, name):.0f}" for name in (FILTERED, AUTO)),
                *(f"{record['times'][name]['peak_memory']:.0f}" for name in (FILTERED, AUTO)),
            )
            for record in self.of(CORPUS)
        ]
        names = (FILTERED, AUTO)
        return markdown(
            ("sentences", *(f"{name}, sentences/s" for name in names), *(f"{name}, peak MiB" for name in names)), rows
        )

    def _runs(self) -> str:
        """With what, and how, the parts were measured."""
        names = {DATA: "data sets", LENGTH: "lengths", LABELS: "types", CORPUS: "corpora"}
        rows: dict[tuple[Any, ...], None] = {}
        for part, title in names.items():
            for record in self.of(part):
                versions = ", ".join(f"{name} {record[name]}" for name in ("span_marker", "torch", "transformers"))
                sizes = f"{record['sentences']} sentences" if "sentences" in record else f"{record['words']} words"
                cells = (title, sizes, record["repetitions"], record["threads"] or "torch's own", _CLOCKS[self._clock])
                rows[(*cells, record["machine"], versions, record["commit"], record["date"][:10])] = None
        heads = ("part", "of", "repetitions", "threads", "ratios by", "machine", "versions", "commit", "date")
        return markdown(heads, list(rows))

    def curves(self) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """The points of the plots: seconds or rates or MiB by contestant."""
        curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for part, unit in ((LENGTH, "words"), (LABELS, "sentences")):
            curves[part] = {
                name: [(r[part], 1000 * self.median(r["times"][name]) / r[unit]) for r in self.of(part)]
                for name in (TOKEN, ALL, FILTERED)
            }
        names = (FILTERED, AUTO)
        curves["speed"] = {name: [(r[CORPUS], self._rate(r, name)) for r in self.of(CORPUS)] for name in names}
        curves["memory"] = {
            name: [(r[CORPUS], r["times"][name]["peak_memory"]) for r in self.of(CORPUS)] for name in names
        }
        return curves


_PICTURES = {
    "length": "Time for each word by sentence length",
    "labels": "Time for each sentence by number of entity types",
    "corpus": "Speed and memory by number of sentences",
}
"""What the pictures show."""


def markdown(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) if rows else "Not measured yet."


def write_page(report: Report, path: Path) -> None:
    """Write a page's tables anew, and its plots into the folder of its name.

    Args:
        report: The results.
        path: The page.
    """
    folder = path.with_suffix("")
    drawn = draw(report, folder)

    def make(name: str) -> str:
        picture = f"\n\n![{_PICTURES[name]}]({folder.name}/{name}.png)" if name in drawn else ""
        return report.table(name) + picture

    path.write_text(replace_tables(path.read_text("utf-8"), make), "utf-8")


def draw(report: Report, folder: Path) -> list[str]:
    """Draw the scaling curves.

    Args:
        report: The results.
        folder: Where to write the pictures.

    Returns:
        Names of the pictures; what was not measured has none.
    """
    from matplotlib.figure import Figure

    curves = report.curves()
    plots = {
        "length": [(LENGTH, "Words of a sentence", "Milliseconds a word")],
        "labels": [(LABELS, f"Entity types ({KEPT:.0%} of the spans kept)", "Milliseconds a sentence")],
        "corpus": [("speed", "Sentences", "Sentences a second"), ("memory", "Sentences", "Peak memory, MiB")],
    }
    folder.mkdir(exist_ok=True)
    drawn: list[str] = []
    for name, panels in plots.items():
        if not any(curves[panels[0][0]].values()):
            continue
        drawn.append(name)
        # Not pyplot's figures, which are global and need a display.
        figure = Figure(figsize=(4.5 * len(panels), 3.5), layout="constrained")
        for axes, (part, across, up) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for label, points in curves[part].items():
                axes.plot(*zip(*points, strict=True), marker=".", label=label)
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.set_xlabel(across)
            axes.set_ylabel(up)
            axes.grid(alpha=0.3)
            axes.legend()
        figure.savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})
    return drawn
