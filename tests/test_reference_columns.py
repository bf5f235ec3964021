"""The columns that span-marker 1.8.1 makes of real sentences."""

import json

import pytest
from datasets import Dataset

from span_marker.configuration import SpanMarkerConfig
from span_marker.label_normalizer import AutoLabelNormalizer
from span_marker.preprocessing import preprocess
from span_marker.tokenizer import SpanMarkerTokenizer

pytestmark = pytest.mark.reference

CASES = ["bert", "roberta", "xlm_roberta", "bert_document_context"]


@pytest.fixture(scope="module", params=CASES)
def case(request, shared):
    folder = shared / "reference" / request.param
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", ["encoder", "initial", "model"])
def test_columns(case, source, tmp_path):
    folder, expected = case
    config = SpanMarkerConfig.from_pretrained(folder / "model")
    tokenizer = SpanMarkerTokenizer.from_pretrained(folder / source, config=config)
    tokenizer.save_pretrained(tmp_path)
    normalizer = AutoLabelNormalizer.from_config(config)
    dataset = Dataset.from_dict(expected["preprocessed"]["rows"])
    columns = expected["preprocessed"]["columns"]
    for current in (tokenizer, SpanMarkerTokenizer.from_pretrained(tmp_path, config=config)):
        assert len(current) == 1502
        assert current.marker_ids == (1500, 1501)
        result = preprocess(dataset, normalizer, current, config=config, spread=True)
        assert result.column_names == list(columns)
        for name, values in columns.items():
            assert result[name] == values


def test_words_of_texts(case):
    folder, expected = case
    config = SpanMarkerConfig.from_pretrained(folder / "model")
    tokenizer = SpanMarkerTokenizer.from_pretrained(folder / "model", config=config)
    # The case with documents has no texts.
    texts = expected.get("predict_text") or {"inputs": [], "entities": []}
    for text, words, entities in zip(texts["inputs"], tokenizer.words(texts["inputs"]), texts["entities"], strict=True):
        starts, ends = zip(*words, strict=True)
        for entity in entities:
            start, end = entity["char_start_index"], entity["char_end_index"]
            assert ends.index(end) - starts.index(start) < config.entity_max_length
            assert text[start:end] == entity["span"]
