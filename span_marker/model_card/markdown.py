"""Text from anywhere as inert Markdown, and as Python code."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

_MARKUP = re.compile(r"[\\`*\[\]|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=[wW]{3})\.")
"""Markup, among it what makes a link of an address; an underscore within a word is none."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_UNPRINTABLE = ("Cc", "Cs")
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def one_line(text: object) -> str:
    """Write a value on one line.

    Args:
        text: Any value.

    Returns:
        Its text without line breaks, control characters, halves of characters, and marks that reorder what follows.
    """
    plain = _BIDI_CONTROLS.sub("", str(text))
    return " ".join("".join(" " if unicodedata.category(char) in _UNPRINTABLE else char for char in plain).split())


def escape(text: object) -> str:
    """Escape a value so that Markdown shows it as it is, in a sentence as in a table cell.

    Args:
        text: Any value.

    Returns:
        One line in which nothing is markup, HTML or the border of a cell.
    """
    line = _MARKUP.sub(r"\\\g<0>", one_line(text))
    return "".join(_ENTITIES.get(char, char) for char in line)


def literal(value: object) -> str:
    """Write a value as Python code, texts in double quotes where they hold no quotes themselves.

    Args:
        value: A text, a list of texts, or any other value of Python's own types.

    Returns:
        The code, on one line.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    code = repr(value)
    return f'"{code[1:-1]}"' if isinstance(value, str) and not {"'", '"'} & {*value} else code


def number(value: object) -> str:
    """Write a number for a reader.

    Args:
        value: A number; anything else is escaped as text.

    Returns:
        Four decimals up to 1, as scores have them; two beyond; separators between thousands.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return escape(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    size = float(value)
    return f"{size:.4f}" if abs(size) <= 1 else f"{size:,.2f}".rstrip("0").rstrip(".")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw a table.

    Args:
        rows: One mapping a row, column name to value. Columns are those of all rows, in the order they come up.

    Returns:
        A Markdown table with every value escaped, columns of numbers flushed right.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    numeric = {name for name, column in values.items() if column and all(isinstance(value, Real) for value in column)}
    lines = [
        [escape(name) for name in columns],
        ["--:" if name in numeric else ":--" for name in columns],
        *([number(row[name]) if row.get(name) is not None else "" for name in columns] for row in rows),
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
