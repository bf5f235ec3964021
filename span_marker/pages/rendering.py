"""From values to the HTML of a page."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: What is in it.
        columns: Heads of the columns.
        rows: The rows.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]


def render_page(template: Path, **values: Any) -> str:
    """Write a page.

    Args:
        template: The page's template, which extends ``base.html.jinja``.
        **values: What the template shows, among it the ``title``.

    Returns:
        HTML. All values are escaped.
    """
    return _environment(template.parent).get_template(template.name).render(values)


@cache
def _environment(folder: Path) -> Environment:
    """Make what reads the templates of a folder, and those that all pages share."""
    return Environment(
        loader=FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
