"""The documentation: complete, without dead links, and made without a warning."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import span_marker

ROOT = Path(span_marker.__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(*languages):
    return [
        pytest.param(code, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (language, code) in enumerate(FENCE.findall(text_of(page)))
        if language in languages
    ]


def test_every_public_name_is_in_the_reference():
    named = set(re.findall(r"auto(?:class|function):: (\w+)$", text_of(ROOT / "docs" / "reference.md"), re.MULTILINE))
    assert set(span_marker.__all__) - named == {"TrainingArguments", "__version__"}


def test_every_page_is_in_the_table_of_contents():
    contents = re.search(r"\{toctree\}.*?```", text_of(ROOT / "docs" / "index.md"), re.DOTALL).group()
    assert {page.stem for page in ROOT.glob("docs/*.md")} - set(contents.split()) == {"index"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", FENCE.sub("", text_of(page)))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("code", blocks("python", "py"))
def test_python_is_python_and_imports_what_there_is(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "span_marker":
            assert [name.name for name in node.names if not hasattr(span_marker, name.name)] == []


@pytest.mark.parametrize("code", blocks("yaml", "yml"))
def test_yaml_is_yaml(code):
    assert yaml.safe_load(code)


@pytest.mark.slow
def test_the_documentation_is_made_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", tmp_path]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "SpanMarkerModel" in (tmp_path / "reference.html").read_text(encoding="utf-8")
