"""Training markers on entities and on the spans that the span filter takes for entities most."""

import copy
import math

import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, make_dataset
from encoder_zoo import FAMILIES, ROWS, build
from hypothesis import given
from hypothesis import strategies as st
from test_encoders import TOKENIZER, gradients, make_batch
from tiny_models import SENTENCES, collate, give_filter, make_model
from tokenizers_zoo import wordpiece

from span_marker import SpanMarkerConfig, SpanMarkerModel, Trainer, TrainingArguments
from span_marker.attention import columns_of
from span_marker.span_filter import entity_scores, vote
from span_marker.span_sampling import hardest_spans

ALL = 1000.0


def start(family, dropout=False, **settings):
    """A model in training that has a span filter."""
    encoder = build(family)
    config = SpanMarkerConfig(encoder.config, model_max_length=16, span_filter=True, **settings)
    config.set_labels(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    model = SpanMarkerModel(config, encoder).train()
    model.set_tokenizer(TOKENIZER)
    for module in () if dropout else model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    return model


def step(model, **more):
    torch.manual_seed(0)
    output = model(**make_batch(), **more)
    output.loss.backward()
    return output


# ---- Which spans ----


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), max_size=12), min_size=1, max_size=4),
    st.integers(1, 16).map(lambda quarters: quarters / 4),
)
def test_entities_and_the_others_with_the_highest_scores(rows, per_word):
    width = max(map(len, rows))
    labels, scores = (
        torch.tensor([[item[part] for item in row] + [-1] * (width - len(row)) for row in rows]).view(len(rows), width)
        for part in (0, 1)
    )
    labels[labels == -1] = -100
    starts = (torch.arange(width) // 3).expand(len(rows), -1)
    chosen = hardest_spans(scores.float(), labels, starts, per_word, outside_id=1)
    for row in range(len(rows)):
        is_span, is_other = labels[row] != -100, labels[row] == 1
        assert chosen[row][is_span & ~is_other].all()
        assert not chosen[row][~is_span].any()
        others, left = scores[row][chosen[row] & is_other], scores[row][~chosen[row] & is_other]
        assert not len(others) or not len(left) or others.min() >= left.max()
        words = len({int(start) for start in starts[row][is_span]})
        assert len(others) == min(math.ceil(words * per_word), int(is_other.sum()))


def test_no_spans():
    none = torch.zeros(2, 0, dtype=torch.long)
    assert hardest_spans(none.float(), none, none, 1.0, 0).shape == (2, 0)
    assert [tensor.tolist() for tensor in columns_of(none.bool())] == [[[], []], [0, 0]]
    assert columns_of(none[:0].bool())[0].shape == (0, 0)


def test_columns_keep_the_order():
    columns, counts = columns_of(torch.tensor([[True, False, True, True], [False, False, False, True]]))
    assert counts.tolist() == [3, 1]
    assert columns[0].tolist() == [0, 2, 3]
    assert columns[1, 0] == 3


# ---- The loss ----


@pytest.mark.parametrize("family", FAMILIES)
def test_with_all_spans_it_is_the_plain_loss(family):
    plain = start(family, entity_weight=3.0)
    hardest = copy.deepcopy(plain)
    hardest.config.negatives_per_word = ALL
    losses = [step(model, label_smoothing=0.1).loss.item() for model in (plain, hardest)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    expected, found = gradients(plain), gradients(hardest)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=2e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "albert"])  # has no such layers
def test_gradient_checkpointing(family):
    model = start(family, negatives_per_word=0.5)
    twin = copy.deepcopy(model)
    (getattr(twin, "activation_checkpointing_enable", None) or twin.gradient_checkpointing_enable)()
    losses = [step(each).loss.item() for each in (model, twin)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for name, gradient in gradients(twin).items():
        torch.testing.assert_close(gradient, gradients(model)[name], rtol=2e-3, atol=1e-5, msg=name)


def test_few_markers_are_run(monkeypatch):
    model, sizes = start("bert", negatives_per_word=0.1), []
    read = model._read_markers
    monkeypatch.setattr(
        model, "_read_markers", lambda text, *spans: sizes.append(spans[2].tolist()) or read(text, *spans)
    )
    output = step(model)
    entities = [2, 1, 0, 1]
    assert sizes == [[min(count + 1, len(row[1])) for count, row in zip(entities, ROWS, strict=True)]]
    assert output.logits.shape[:2] == make_batch()["labels"].shape
    model.eval()
    step(model)
    assert len(sizes) == 1  # evaluation runs all spans


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "megatron-bert"])
def test_batches_without_spans(family):
    model = start(family, negatives_per_word=0.5)
    batch = {name: tensor[2:3] for name, tensor in make_batch().items()}
    batch = {
        name: tensor[:, :0] if name in ("labels", "start_positions", "end_positions") else tensor
        for name, tensor in batch.items()
    }
    loss = model(**batch).loss
    loss.backward()
    assert loss.item() == 0.0


# ---- The vote ----


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_markers_and_filter_vote(tmp_path, share):
    model = give_filter(make_model(tmp_path / "model", wordpiece()), share)
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        output = model(**batch)
        model.config.span_filter_vote = 0.0
        alone = model(**batch).logits
    torch.testing.assert_close(output.logits, vote(alone, output.filter_logits, share))


def test_forward_runs_what_the_filter_keeps(tmp_path):
    model = give_filter(make_model(tmp_path / "model", wordpiece()), 0.3)
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        every, kept = model(**batch), model(**batch, filtered=True)
    is_kept = entity_scores(every.filter_logits, 0) >= 0.0
    is_span = torch.arange(is_kept.shape[1]) < batch["num_spans"][:, None]
    assert 0.2 < is_kept[is_span].float().mean() < 0.8
    torch.testing.assert_close(kept.logits[is_kept & is_span], every.logits[is_kept & is_span])
    torch.testing.assert_close(kept.logits[~is_kept & is_span], every.filter_logits[~is_kept & is_span])


# ---- Training ----


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation_steps": 3}, {"label_smoothing_factor": 0.1}])
def test_the_trainer_trains_so(tiny_encoder, tmp_path, settings):
    torch.manual_seed(0)
    model = SpanMarkerModel.from_pretrained(
        tiny_encoder,
        labels=LABELS,
        model_max_length=32,
        entity_max_length=4,
        span_filter=True,
        span_filter_vote=0.5,
        entity_weight=5.0,
        negatives_per_word=0.3,
    )
    arguments = TrainingArguments(
        tmp_path, **(QUICK_TRAINING | {"num_train_epochs": 30, "learning_rate": 3e-3} | settings)
    )
    rows = make_dataset(repeat=3)
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert trainer.evaluate()["eval_f1"] > 0.9
    model.save_pretrained(tmp_path / "saved")
    loaded = SpanMarkerModel.from_pretrained(tmp_path / "saved")
    assert loaded.config.negatives_per_word == 0.3
    assert loaded.predict(rows) == model.predict(rows)
