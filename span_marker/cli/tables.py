"""Tables on the terminal: with rich where it is installed, as plain text otherwise and in files."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table and a blank line to standard output. All columns but the first are aligned to the right.

    Args:
        title: What is in it.
        columns: Heads of the columns.
        rows: The rows.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _print_rich(title, columns, cells)):
        print(plain_table(title, columns, cells))


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay a table out as plain text.

    Args:
        title: What is in it.
        columns: Heads of the columns.
        rows: The rows.

    Returns:
        Its lines.
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [title]
    for row in (columns, ["-" * width for width in widths], *rows):
        first, *others = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return "\n".join(lines) + "\n"


def print_metrics(title: str, metrics: Mapping[str, Any], prefix: str) -> None:
    """Print scores: one line for each entity type, then micro and macro averages.

    Args:
        title: What was scored.
        metrics: The metrics, as `Trainer.evaluate` names them.
        prefix: What their names begin with: "eval" or "test".
    """
    scores = {name.removeprefix(f"{prefix}_"): value for name, value in metrics.items()}
    types = {name: value for name, value in scores.items() if isinstance(value, Mapping)}
    rows = [[name, *_percentages(value, ""), f"{value['number']:,}"] for name, value in sorted(types.items())]
    support = f"{sum(value['number'] for value in types.values()):,}"
    rows += [[f"{name} average", *_percentages(scores, f"{key}_"), support] for name, key in _AVERAGES]
    print_table(title, ["type", *_SCORES, "support"], rows)


_SCORES = ("precision", "recall", "f1")
_AVERAGES = (("micro", "overall"), ("macro", "macro"))


def _percentages(scores: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{100 * scores[prefix + name]:.1f} %" for name in _SCORES]


def _print_rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Print a table with rich; tell whether it is installed."""
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
    except ModuleNotFoundError:
        return False
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table, "")
    return True
