"""Checkpoints of span-marker 1.8.1 give here what they gave there."""

import json

import pytest
import torch
from datasets import Dataset

from span_marker import SpanMarkerDataCollator, SpanMarkerModel

pytestmark = pytest.mark.reference

CASES = ["bert", "bert_document_context", "roberta", "xlm_roberta"]


@pytest.fixture(scope="module", params=CASES)
def case(request, shared):
    """A checkpoint and the numbers that belong to it."""
    folder = shared / "reference" / request.param
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    model = SpanMarkerModel.from_pretrained(folder / "model")
    encode = model.tokenizer.encode
    # 1.8.1 cuts sentences that are longer than the model; here they are read in windows.
    model.tokenizer.encode = lambda sentences, truncate=True, **kwargs: encode(sentences, **kwargs)
    return model, expected


def assert_entities(found, expected):
    """Compare entities; scores within 1e-4."""
    assert len(found) == len(expected)
    for row, (entities, others) in enumerate(zip(found, expected, strict=True)):
        assert [list(entity) for entity in entities] == [list(other) for other in others], row
        for entity, other in zip(entities, others, strict=True):
            assert entity == other | {"score": pytest.approx(other["score"], abs=1e-4)}, row
    assert sum(map(len, expected)) >= 3


def test_entities_do_not_overlap_by_default(case):
    model, _ = case
    assert model.config.decoding == "flat"


def test_logits(case):
    model, expected = case
    columns = expected["preprocessed"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    collate = SpanMarkerDataCollator(model.tokenizer)
    for start in range(0, len(rows), 16):
        with torch.no_grad():
            logits = model(**collate(rows[start : start + 16])).logits
        for found, other in zip(logits, expected["logits"][start : start + 16], strict=True):
            torch.testing.assert_close(found[: len(other)], torch.tensor(other), rtol=0, atol=1e-4)


def test_predictions_for_words(case):
    model, expected = case
    inputs = expected["predict"]["inputs"]
    found = model.predict(Dataset.from_dict(inputs) if "document_id" in inputs else inputs["tokens"])
    assert_entities(found, expected["predict"]["entities"])


def test_predictions_for_text(case):
    model, expected = case
    if not expected["predict_text"]:
        pytest.skip("the reference gave none for this case")
    assert_entities(model.predict(expected["predict_text"]["inputs"]), expected["predict_text"]["entities"])


def test_predictions_after_saving_again(case, tmp_path):
    model, expected = case
    model.save_pretrained(tmp_path)
    data = Dataset.from_dict(expected["predict"]["inputs"]).select(range(12))
    assert SpanMarkerModel.from_pretrained(tmp_path).predict(data) == model.predict(data)
