import math

import numpy as np
import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, make_dataset
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import SENTENCES, TEXTS, collate, make_model
from tokenizers_zoo import wordpiece
from torch import nn

from span_marker import SpanMarkerConfig, SpanMarkerModel, Trainer, TrainingArguments
from span_marker.classification import classify_kept_spans, classify_spans, is_span
from span_marker.span_filter import HIGHEST_THRESHOLD, PRIOR, WIDTHS, SpanFilter, calibrated_threshold, filter_loss

NAMES = ("input_ids", "attention_mask", "start_positions", "end_positions", "num_spans")


@pytest.fixture
def filtered(tmp_path):
    """A model with opinions and a filter that keeps about half of the spans."""
    torch.manual_seed(0)
    model = make_model(tmp_path / "model", wordpiece())
    model.config.span_filter, model.config.span_filter_threshold = True, 0.5
    model.span_filter = SpanFilter(model.encoder.config.hidden_size, initializer_range=0.5)
    nn.init.normal_(model.span_filter.width.weight)
    return model.eval()


@pytest.fixture
def train(tiny_encoder, tmp_path):
    def train(eval_dataset=None, encoder=tiny_encoder, span_filter=True, recall=0.999, **arguments):
        torch.manual_seed(0)
        model = SpanMarkerModel.from_pretrained(
            encoder,
            labels=LABELS,
            span_filter=span_filter,
            span_filter_recall=recall,
            model_max_length=32,
            entity_max_length=4,
        )
        args = TrainingArguments(tmp_path / "output", **(QUICK_TRAINING | arguments))
        trainer = Trainer(model=model, args=args, train_dataset=make_dataset(repeat=3), eval_dataset=eval_dataset)
        trainer.train()
        return trainer

    return train


def losses(trainer):
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


# ---- The scores ----


def test_scores_are_the_bilinear_form_of_each_pair():
    torch.manual_seed(0)
    module = SpanFilter(8, initializer_range=1.0)
    nn.init.normal_(module.width.weight)
    states = torch.randn(2, 40, 8)
    starts, ends = torch.tensor([[0, 3, 1], [2, 0, 0]]), torch.tensor([[0, 7, 39], [3, 33, 0]])
    scores = module(states, starts, ends)
    for row in range(2):
        for span in range(3):
            start, end = int(starts[row, span]), int(ends[row, span])
            first, last = module.first.weight @ states[row, start], module.last.weight @ states[row, end]
            expected = first[:-1] @ last[:-1] / math.sqrt(128) + first[-1] + last[-1]
            expected = expected + module.width.weight[min(end - start, WIDTHS - 1), 0]
            assert scores[row, span].item() == pytest.approx(expected.item(), rel=1e-4)


def test_every_span_starts_at_the_prior():
    scores = SpanFilter(32)(torch.zeros(1, 5, 32), torch.tensor([[0, 1]]), torch.tensor([[0, 4]]))
    assert scores.tolist() == [[PRIOR, PRIOR]]


def test_batches_without_spans_or_text():
    none = torch.zeros(2, 0, dtype=torch.long)
    assert SpanFilter(8)(torch.zeros(2, 3, 8), none, none).shape == (2, 0)


def test_loss_weighs_entities_and_leaves_padding_out():
    config = SpanMarkerConfig({}, span_filter_positive_weight=5.0, span_filter_loss_weight=2.0)
    config.set_labels(["O", "B-LOC", "I-LOC"])
    scores, labels = torch.tensor([[0.3, -1.0, 9.0]]), torch.tensor([[1, 0, -100]])
    positive, negative = math.log(1 + math.exp(-0.3)), math.log(1 + math.exp(-1.0))
    assert filter_loss(scores, labels, config).item() == pytest.approx(2.0 * (5 * positive + negative), rel=1e-5)


# ---- The threshold ----


def test_threshold_keeps_the_wanted_share():
    scores = np.arange(1000.0)[::-1] / 100 - 7
    threshold = calibrated_threshold(scores, 0.99)
    least = math.log(threshold / (1 - threshold))
    assert (scores >= least - 1e-9).mean() == pytest.approx(0.991, abs=0.0011)


def test_few_entities_get_a_margin():
    least = -6.0
    threshold = calibrated_threshold([least, 2.0, 3.0], 0.999)
    # One in four is expected below the lowest of three; an exponential tail of one in a thousand lies log 250 lower.
    assert math.log(threshold / (1 - threshold)) == pytest.approx(least - math.log(250), abs=1e-6)


@pytest.mark.parametrize("scores", [[], [50.0], [np.inf] * 4000])
def test_threshold_is_never_high(scores):
    assert calibrated_threshold(scores, 0.999) == HIGHEST_THRESHOLD


@given(st.lists(st.floats(-30, 30), max_size=60), st.floats(0.5, 0.9999))
def test_threshold_is_one_that_a_configuration_takes(scores, recall):
    threshold = calibrated_threshold(scores, recall)
    assert 0 < threshold <= HIGHEST_THRESHOLD
    SpanMarkerConfig({}, span_filter_threshold=threshold)
    lost = sum(1 / (1 + math.exp(-score)) < threshold - 1e-12 for score in scores)
    assert lost <= (1 - recall) * (len(scores) + 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("span_filter", "yes"),
        ("span_filter_threshold", 0.0),
        ("span_filter_threshold", 1),
        ("span_filter_recall", 1.0),
        ("span_filter_loss_weight", -1),
        ("span_filter_positive_weight", True),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*{value!r}"):
        SpanMarkerConfig({}, **{name: value})


# ---- Prediction ----


def test_dropped_spans_are_outside_and_kept_ones_as_without_a_filter(filtered):
    batch = collate(filtered, SENTENCES)
    with torch.no_grad():
        output = filtered(**batch)
        labels, scores = classify_spans(filtered, batch)
        found, probabilities = classify_kept_spans(filtered, batch)
        masked, _ = classify_spans(filtered, batch, filtered=True)
    spans = is_span(batch)
    kept = spans & (output.filter_scores >= 0.0)
    assert 0.2 < (kept.sum() / spans.sum()) < 0.8
    assert torch.equal(found[kept], labels[kept])
    assert torch.allclose(probabilities[kept], scores[kept], atol=1e-5)
    assert (found[~kept] == filtered.config.outside_id).all()
    assert torch.equal(masked[spans], found[spans])


def test_predict_uses_the_filter_where_it_is_calibrated(filtered):
    without = filtered.predict(SENTENCES, span_filter=False)
    with_filter = filtered.predict(SENTENCES)
    assert filtered.predict(SENTENCES, span_filter=True) == with_filter
    assert with_filter != without
    filtered.config.span_filter_threshold = None
    assert filtered.predict(SENTENCES) == without


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_the_filter_changes_no_entity_that_it_keeps(filtered, batch_size):
    filtered.config.span_filter_threshold = 1e-9
    without, found = (filtered.predict(TEXTS, batch_size, span_filter=use) for use in (False, True))
    assert [[entity["span"] for entity in row] for row in found] == [[e["span"] for e in row] for row in without]


def test_a_filter_that_keeps_nothing(filtered):
    nn.init.constant_(filtered.span_filter.width.weight, -1000.0)
    assert filtered.predict(SENTENCES) == [[] for _ in SENTENCES]


def test_an_untrained_filter_is_not_asked(model):
    with pytest.raises(ValueError, match=r"no calibrated span filter.*fit_span_filter"):
        model.predict("Paris", span_filter=True)


def test_evaluate_equals_predict(filtered, tmp_path):
    rows = make_dataset()
    arguments = TrainingArguments(tmp_path / "output", use_cpu=True, report_to=[])
    output = Trainer(model=filtered, args=arguments, eval_dataset=rows).predict(rows)
    predicted = filtered.predict(rows)
    assert [[(e["label"], e["start"], e["end"]) for e in row] for row in output.predictions] == [
        [(e["label"], e["word_start_index"], e["word_end_index"]) for e in row] for row in predicted
    ]
    assert predicted != filtered.predict(rows, span_filter=False)


# ---- Training ----


def test_training_fits_and_calibrates_the_filter(train):
    trainer = train(make_dataset(), num_train_epochs=25, learning_rate=3e-3, recall=0.7)
    model = trainer.model
    (batch,) = trainer.get_eval_dataloader()
    with torch.no_grad():
        scores = model(**{name: batch[name] for name in NAMES}).filter_scores
    assert scores[batch["labels"] > 0].mean() > scores[batch["labels"] == 0].mean() + 2
    assert 0 < model.config.span_filter_threshold <= HIGHEST_THRESHOLD
    rows = make_dataset()
    found, expected = ([len(row) for row in model.predict(rows, span_filter=use)] for use in (True, False))
    assert 0.7 * sum(expected) - 1 <= sum(found) > 0


def test_the_filters_loss_is_added(train):
    with_filter, without = (
        train(max_steps=1, learning_rate=0.0, span_filter=use, seed=1, logging_steps=1) for use in (True, False)
    )
    assert losses(with_filter)[0] > losses(without)[0]


def test_a_part_of_the_spans_teaches_how_likely_an_entity_is_among_all(filtered):
    batch = {name: tensor for name, tensor in collate(filtered, SENTENCES).items() if name in NAMES}
    with torch.no_grad():
        scores = filtered(**batch).filter_scores
        shifted = filtered(**batch, negative_share=torch.full((len(SENTENCES),), 0.25)).filter_scores
    # Among a quarter of the others an entity is four times as likely.
    torch.testing.assert_close(shifted, scores + math.log(4))


def test_label_smoothing_trains_the_filter_too(train):
    trainer = train(label_smoothing_factor=0.1, num_train_epochs=3, learning_rate=1e-2)
    assert (trainer.model.span_filter.width.weight != PRIOR).any()
    plain = train(label_smoothing_factor=0.1, span_filter=False)
    assert plain.model.span_filter is None


def test_without_an_evaluation_set_all_spans_are_run(train, caplog):
    trainer = train()
    assert trainer.model.config.span_filter_threshold is None
    assert trainer.calibrate_span_filter({"a": make_dataset(), "b": make_dataset()}) <= HIGHEST_THRESHOLD
    assert trainer.model.config.filters_spans


def test_training_again_forgets_the_threshold(train):
    trainer = train(make_dataset())
    trainer.eval_dataset = None
    trainer.train()
    assert trainer.model.config.span_filter_threshold is None


def test_calibration_needs_a_filter(train):
    trainer = train(make_dataset(), span_filter=False)
    with pytest.raises(ValueError, match=r"no span filter.*span_filter=True"):
        trainer.calibrate_span_filter()


# ---- Saving, loading, fitting ----


def test_a_filter_is_saved_with_the_model(filtered, tmp_path):
    filtered.save_pretrained(tmp_path / "saved")
    loaded = SpanMarkerModel.from_pretrained(tmp_path / "saved")
    assert loaded.config.span_filter_threshold == filtered.config.span_filter_threshold
    assert loaded.predict(SENTENCES) == filtered.predict(SENTENCES)
    without = SpanMarkerModel.from_pretrained(tmp_path / "saved", span_filter=False)
    assert without.span_filter is None
    assert without.predict(SENTENCES) == filtered.predict(SENTENCES, span_filter=False)


def test_a_saved_model_can_be_given_a_fresh_filter(model, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    loaded = SpanMarkerModel.from_pretrained(tmp_path / "saved", span_filter=True)
    assert (loaded.span_filter.width.weight == PRIOR).all()
    assert 0 < loaded.span_filter.first.weight.std() < 0.1


def test_a_filter_that_is_missing_in_the_file_is_an_error(model, tmp_path):
    model.config.span_filter = True
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(OSError, match=r"span_filter\.first\.weight"):
        SpanMarkerModel.from_pretrained(tmp_path / "saved")


@pytest.fixture
def opinionated(tmp_path):
    """A model that takes some spans for entities, but not most."""
    return make_model(tmp_path / "model", wordpiece(), outside=4.0)


def test_fitting_leaves_the_model_as_it_is_and_keeps_its_entities(opinionated):
    model, before = opinionated, {name: value.clone() for name, value in opinionated.state_dict().items()}
    expected = model.predict(SENTENCES)
    report = model.fit_span_filter(SENTENCES * 8, batch_size=4, epochs=30)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert after.keys() - before.keys() == {
        f"span_filter.{name}" for name in ("first.weight", "last.weight", "width.weight")
    }
    assert report.threshold == model.config.span_filter_threshold
    assert report.kept_entities == 1.0
    assert report.num_entities > 0
    assert 0 < report.kept_spans <= 1
    assert not model.training
    found = model.predict(SENTENCES, span_filter=True)
    assert [[e["span"] for e in row] for row in found] == [[e["span"] for e in row] for row in expected]


def test_fitting_is_repeatable_and_leaves_the_random_state(opinionated):
    thresholds = set()
    for _ in range(2):
        torch.manual_seed(7)
        thresholds.add(opinionated.fit_span_filter(TEXTS * 4, batch_size=4, epochs=2).threshold)
        assert torch.rand(1).item() == pytest.approx(torch.Generator().manual_seed(7) and 0.5349, abs=1e-4)
    assert len(thresholds) == 1


def test_fitting_takes_documents(opinionated):
    rows = Dataset.from_dict(
        {"tokens": SENTENCES * 4, "document_id": [0] * 20, "sentence_id": list(range(20))},
    )
    assert opinionated.fit_span_filter(rows, batch_size=4, epochs=1).num_entities > 0


def test_fitting_says_what_it_needs(opinionated, model):
    with pytest.raises(ValueError, match=r"2 sentences make 1 batch\(es\) of 16"):
        opinionated.fit_span_filter(SENTENCES[:2])
    model.classifier.bias.data[model.config.outside_id] = 100.0
    with pytest.raises(ValueError, match="finds no entity in the 20 sentences"):
        model.fit_span_filter(SENTENCES * 4, batch_size=4)
