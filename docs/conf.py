"""How Sphinx makes the documentation of these pages: `make docs`."""

import re
from pathlib import Path
from typing import Any

import span_marker

project = "span_marker"
author = "the span_marker authors"
version = release = span_marker.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_build"]
nb_execution_mode = "off"  # `make notebooks` runs them
html_theme = "furo"
html_title = f"span_marker {release}"
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False


def _as_literals(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show names in docstrings, which are written `name` or [`name`] there, as code."""
    lines[:] = [re.sub(r"(?<!`)\[?`([^`]+)`\]?(?![`_])", r"``\1``", line) for line in lines]


def _copy_notebooks(app: Any) -> None:
    """Bring the notebooks, which lie beside this folder, into it."""
    folder = Path(app.srcdir, "notebooks")
    folder.mkdir(exist_ok=True)
    for path in Path(app.srcdir, "..", "notebooks").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8").replace("](../docs/", "](../")
        (folder / path.name).write_text(text, encoding="utf-8")


def _link_to_page(app: Any, page: str, source: list[str]) -> None:
    """Lead links to the description of the benchmarks to the page that includes it."""
    source[0] = source[0].replace("](../benchmarks/README.md", "](benchmarks.md")


def setup(app: Any) -> None:
    """Set Sphinx up."""
    app.connect("builder-inited", _copy_notebooks)
    app.connect("autodoc-process-docstring", _as_literals)
    app.connect("source-read", _link_to_page)
