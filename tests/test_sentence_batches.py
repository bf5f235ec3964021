import pytest
import torch
from tiny_models import SENTENCES, assert_close, make_finder

from span_marker.sentence_batches import TOKENS, SentenceBatches


@pytest.fixture(scope="module")
def model(tiny_encoder):
    return make_finder(tiny_encoder)


def batches(model, batch_size, sentences=SENTENCES):
    source = SentenceBatches(sentences, {}, model.tokenizer, model.config, batch_size)
    found = [(indices, batch["input_ids"].shape) for indices, batch in source.batches(torch.device("cpu"))]
    assert sum(len(indices) for indices, _ in found) == source.num_sentences
    return found


def test_the_longest_sentences_come_first_and_empty_ones_not_at_all(model):
    assert [indices for indices, _ in batches(model, 2)] == [[3, 0], [4, 1]]
    assert all(len(indices) == shape[0] for indices, shape in batches(model, 3))


def test_auto_makes_larger_batches_of_short_sentences(model):
    shapes = [tuple(shape) for _, shape in batches(model, "auto", [["Paris"]] * 500 + [["Paris"] * 300] * 3)]
    long, short = TOKENS // shapes[0][1], TOKENS // shapes[-1][1]
    assert long == 1 < 50 < short
    assert [rows for rows, _ in shapes[:4]] == [1, 1, 1, short]
    assert max(rows * tokens for rows, tokens in shapes) <= TOKENS


@pytest.mark.parametrize("sentences", [[], [[]], SENTENCES * 7], ids=["none", "an empty one", "some"])
def test_auto_predicts_the_same(model, sentences):
    assert_close(model.predict(sentences, batch_size="auto"), model.predict(sentences))
