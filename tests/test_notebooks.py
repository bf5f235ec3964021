"""The notebooks run as they stand, with an encoder and a corpus that take seconds, and show what came out."""

import json
import warnings
from pathlib import Path

import pytest
from datasets import DatasetDict

from span_marker.demo import corpus

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path):
    """The source of each code cell but that with the parameters, which tests replace."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code[0]["metadata"]["tags"] == ["parameters"]
    return code


@pytest.fixture
def few_sentences(monkeypatch):
    load = corpus.load_corpus

    def load_some(name):
        return DatasetDict({split: rows.select(range(16)) for split, rows in load(name).items()})

    monkeypatch.setattr(corpus, "load_corpus", load_some)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tiny_encoder, few_sentences, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"encoder": tiny_encoder, "sentences": 16, "epochs": 1}
    code = code_cells(path)[1:]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W006\] No entities to visualize")  # an encoder that knows nothing
        for cell in code:
            exec("".join(cell["source"]), names)
    assert len(code) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_results_are_shown(path):
    code = code_cells(path)
    counts = [cell["execution_count"] for cell in code]
    assert counts == list(range(1, len(code) + 1))  # run from top to bottom
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any(output["output_type"] != "stream" for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
    assert str(Path.home()) not in json.dumps(outputs)
