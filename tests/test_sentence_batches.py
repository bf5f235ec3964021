import pytest
import torch
from tiny_models import SENTENCES, assert_close, make_finder

from span_marker.sentence_batches import SentenceBatches, TokenBudget


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
    sentences = [["Paris"]] * 200 + [SENTENCES[3] * 3] * 3
    sizes = [len(indices) for indices, _ in batches(model, "auto", sentences)]
    assert sizes[0] == 1
    assert max(sizes) > 20
    assert sum(sizes) == 203


@pytest.mark.parametrize("sentences", [[], [[]], SENTENCES * 7], ids=["none", "an empty one", "some"])
def test_auto_predicts_the_same(model, sentences):
    assert_close(model.predict(sentences, batch_size="auto"), model.predict(sentences))


def test_a_budget_grows_while_batches_get_faster():
    budget = TokenBudget()
    sizes = []
    for speed in (100, 150, 200, 205, 500, 1000):
        sizes.append(budget.tokens)
        budget.record(budget.tokens, budget.tokens / speed)
    first = TokenBudget.FIRST
    assert sizes == [first, 2 * first, 4 * first, 8 * first, 4 * first, 4 * first]


def test_a_budget_learns_nothing_from_a_batch_that_is_not_full_and_does_not_grow_for_ever():
    budget = TokenBudget()
    budget.record(10, 1.0)
    assert budget.tokens == TokenBudget.FIRST
    for speed in range(1, 50):
        budget.record(budget.tokens, budget.tokens / 2.0**speed)
    assert budget.tokens == TokenBudget.LARGEST
