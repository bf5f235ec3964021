"""The notebooks run as they stand, with an encoder and a number of sentences that take seconds."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"encoder": tiny_encoder, "sentences": 16, "epochs": 1}
    ran = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", []):
            exec("".join(cell["source"]), names)
            ran += 1
    assert ran >= 5
    assert "loaded" in names
