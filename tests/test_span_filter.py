import math

import numpy as np
import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, make_dataset
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import SENTENCES, TEXTS, collate, give_filter, make_model
from tokenizers_zoo import wordpiece
from torch import nn
from transformers import AutoModel

from span_marker import SpanMarkerConfig, SpanMarkerModel, Trainer, TrainingArguments
from span_marker.classification import classify_kept_spans, classify_spans, is_span
from span_marker.span_filter import (
    HIGHEST_THRESHOLD,
    PRIOR,
    UNCALIBRATED_THRESHOLD,
    WIDTHS,
    SpanFilter,
    calibrated_threshold,
    entity_scores,
    vote,
)
from span_marker.span_loss import filter_loss, span_loss

NAMES = ("input_ids", "attention_mask", "start_positions", "end_positions", "num_spans")


@pytest.fixture
def filtered(tmp_path):
    """A model with opinions and a filter that keeps about half of the spans."""
    return give_filter(make_model(tmp_path / "model", wordpiece()))


@pytest.fixture
def train(tiny_encoder, tmp_path):
    def train(eval_dataset=None, encoder=tiny_encoder, span_filter=True, recall=0.999, **arguments):
        torch.manual_seed(0)
        model = SpanMarkerModel.from_pretrained(
            encoder,
            labels=LABELS,
            span_filter=span_filter,
            span_filter_recall=recall,
            span_filter_vote=0.0,
            entity_weight=1.0,
            negatives_per_word=None,
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


def test_logits_are_those_of_each_pair_of_tokens():
    torch.manual_seed(0)
    module = SpanFilter(8, 3, initializer_range=1.0).eval()
    states = torch.randn(2, 40, 8)
    starts, ends = torch.tensor([[0, 3, 1], [2, 0, 0]]), torch.tensor([[0, 7, 39], [3, 33, 0]])
    logits = module(states, starts, ends)
    for row in range(2):
        for span in range(3):
            start, end = int(starts[row, span]), int(ends[row, span])
            inner = module.first(states[row, start]) + module.last.weight @ states[row, end]
            inner = inner + module.width.weight[min(end - start, WIDTHS - 1)]
            torch.testing.assert_close(
                logits[row, span], module.output(nn.functional.gelu(inner)), rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("outside_id", [0, 2])
def test_every_span_starts_near_the_prior(outside_id):
    module = SpanFilter(32, 5, outside_id).eval()
    logits = module(torch.randn(1, 5, 32), torch.tensor([[0, 1]]), torch.tensor([[0, 4]]))
    torch.testing.assert_close(entity_scores(logits, outside_id), torch.full((1, 2), PRIOR), rtol=0, atol=0.2)


def test_batches_without_spans_or_text():
    none = torch.zeros(2, 0, dtype=torch.long)
    assert SpanFilter(8, 3)(torch.zeros(2, 3, 8), none, none).shape == (2, 0, 3)


@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3), st.integers(0, 2))
def test_scores_are_the_log_odds_of_any_type(logits, outside_id):
    outside = torch.tensor(logits, dtype=torch.float64).softmax(-1)[outside_id].item()
    score = entity_scores(torch.tensor([logits]), outside_id).item()
    assert 1 / (1 + math.exp(score)) == pytest.approx(outside, rel=1e-3)


def test_a_vote_averages_log_probabilities():
    markers, text = torch.tensor([0.8, 0.2]).log() + 5, torch.tensor([0.2, 0.8]).log()
    assert vote(markers, text, 0.0) is markers
    torch.testing.assert_close(vote(markers, text, 0.5).softmax(-1), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(vote(markers, text, 1.0).softmax(-1), torch.tensor([0.2, 0.8]))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_losses_weigh_entities_and_leave_padding_out(smoothing):
    config = SpanMarkerConfig({}, span_filter_positive_weight=5.0, span_filter_loss_weight=2.0)
    config.set_labels(["O", "B-LOC", "I-LOC"])
    logits, labels = torch.tensor([[[0.3, 1.0], [2.0, -1.0], [9.0, 9.0]]]), torch.tensor([[1, 0, -100]])
    logs = logits[0].log_softmax(-1)
    entity, other = (
        -((1 - smoothing) * logs[row, label] + smoothing * logs[row].mean()) for row, label in ((0, 1), (1, 0))
    )
    loss = filter_loss(logits, labels, config, smoothing).item()
    assert loss == pytest.approx(2.0 * (5 * entity + other).item(), rel=1e-5)
    assert span_loss(logits, labels, None, 0.0, smoothing).item() == pytest.approx((entity + other).item(), rel=1e-5)


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


@pytest.mark.parametrize("scores", [[50.0], [np.inf] * 4000])
def test_threshold_is_never_high(scores):
    assert calibrated_threshold(scores, 0.999) == HIGHEST_THRESHOLD


def test_threshold_where_the_model_finds_nothing():
    assert calibrated_threshold([], 0.999) == UNCALIBRATED_THRESHOLD


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
        ("span_filter_vote", 1.0),
        ("span_filter_vote", -0.1),
        ("entity_weight", 0),
        ("negatives_per_word", 0.0),
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
    kept = spans & (entity_scores(output.filter_logits, filtered.config.outside_id) >= 0.0)
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
    filtered.span_filter.output.bias.data[filtered.config.outside_id] = 1000.0
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
        logits = model(**{name: batch[name] for name in NAMES}).filter_logits
    scores = entity_scores(logits, model.config.outside_id)
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
    outside, span = filtered.config.outside_id, torch.tensor([0])
    labels = torch.full_like(batch["start_positions"], -100)
    labels[0, 0] = 1
    filtered.config.span_filter_loss_weight, filtered.config.span_filter_positive_weight = 1.0, 1.0
    with torch.no_grad():
        output = filtered(**batch, labels=labels)
        shifted = filtered(**batch, labels=labels, negative_share=torch.full((len(SENTENCES),), 0.25))
    logits = output.filter_logits[0, 0].clone()
    logits[outside] -= math.log(4)  # among a quarter of the others an entity is four times as likely
    lost = nn.functional.cross_entropy(output.filter_logits[0, 0], span[0] + 1)
    expected = output.loss - lost + nn.functional.cross_entropy(logits, span[0] + 1)
    torch.testing.assert_close(shifted.loss, expected)


def test_label_smoothing_trains_the_filter_too(filtered):
    batch = {name: tensor for name, tensor in collate(filtered, SENTENCES).items() if name in NAMES}
    labels = torch.zeros_like(batch["start_positions"])
    plain, smooth = (filtered(**batch, labels=labels, label_smoothing=share).loss for share in (0.0, 0.1))
    filtered.config.span_filter_loss_weight = 1e-9
    alone = filtered(**batch, labels=labels, label_smoothing=0.1).loss
    assert alone < smooth != plain


def test_without_an_evaluation_set_the_threshold_is_not_calibrated(train):
    trainer = train()
    assert trainer.model.config.span_filter_threshold == UNCALIBRATED_THRESHOLD
    assert trainer.calibrate_span_filter({"a": make_dataset(), "b": make_dataset()}) <= HIGHEST_THRESHOLD
    assert trainer.model.config.filters_spans


def test_training_again_forgets_the_threshold(train):
    trainer = train(make_dataset())
    trainer.model.config.span_filter_threshold = 1e-5
    trainer.eval_dataset = None
    trainer.train()
    assert trainer.model.config.span_filter_threshold == UNCALIBRATED_THRESHOLD


def test_calibration_that_fails_leaves_the_threshold(train):
    trainer = train(make_dataset())
    trainer.model.config.span_filter_threshold = 0.004
    trainer.eval_dataset = None
    with pytest.raises(ValueError, match="Evaluation needs sentences"):
        trainer.calibrate_span_filter()
    assert trainer.model.config.span_filter_threshold == 0.004


def test_calibration_runs_all_spans_where_the_filter_has_few_votes(filtered, tmp_path):
    filtered.config.span_filter_vote = 0.01
    filtered.span_filter.output.bias.data[filtered.config.outside_id] = 20.0  # no span is an entity
    rows = make_dataset()
    arguments = TrainingArguments(tmp_path / "output", use_cpu=True, report_to=[])
    trainer = Trainer(model=filtered, args=arguments, train_dataset=rows, eval_dataset=rows)
    expected = [len(entities) for entities in filtered.predict(rows, span_filter=False)]
    assert sum(expected) > 3
    trainer.calibrate_span_filter()
    assert [len(entities) for entities in filtered.predict(rows)] == expected


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
    assert loaded.span_filter.output.bias[0] == math.log(loaded.config.num_labels - 1) - PRIOR
    assert 0 < loaded.span_filter.first.weight.std() < 0.1


def test_what_goes_without_its_filter_is_warned_of(tiny_encoder, tmp_path, caplog):
    SpanMarkerModel.from_pretrained(tiny_encoder, labels=LABELS).save_pretrained(tmp_path / "saved")
    SpanMarkerModel.from_pretrained(tmp_path / "saved")
    assert "no entity until it is trained again" not in caplog.text
    SpanMarkerModel.from_pretrained(tmp_path / "saved", span_filter=False).save_pretrained(tmp_path / "without")
    assert "no entity until it is trained again" in caplog.text
    again = SpanMarkerModel.from_pretrained(tmp_path / "without", span_filter=True)
    assert again.config.span_filter_threshold is None


def test_other_labels_start_another_filter(filtered):
    filtered.set_labels(["O", "B-DISEASE", "I-DISEASE"])
    assert filtered.span_filter.output.out_features == 2
    assert filtered.config.span_filter_threshold is None
    assert not filtered.span_filter.training


def test_a_filter_drops_out_as_the_encoder_does(tiny_encoder):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=LABELS, hidden_dropout_prob=0.0)
    assert model.span_filter.dropout.p == model.dropout.p == 0.0


def test_a_model_without_labels_may_have_a_filter(tiny_encoder):
    encoder = AutoModel.from_pretrained(tiny_encoder)
    assert SpanMarkerModel(SpanMarkerConfig(encoder.config, span_filter=True), encoder).span_filter is not None


def test_a_filter_that_is_missing_in_the_file_is_an_error(model, tmp_path):
    model.config.span_filter, model.span_filter = True, None
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(OSError, match=r"span_filter\.first\.weight"):
        SpanMarkerModel.from_pretrained(tmp_path / "saved")


@pytest.fixture
def opinionated(tmp_path):
    """A model that takes some spans for entities, but not most."""
    return make_model(tmp_path / "model", wordpiece(), outside=0.5)


def test_fitting_leaves_the_model_as_it_is_and_keeps_its_entities(opinionated):
    model, before = opinionated, {name: value.clone() for name, value in opinionated.state_dict().items()}
    expected = model.predict(SENTENCES)
    report = model.fit_span_filter(SENTENCES * 8, batch_size=4, epochs=30)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert after.keys() - before.keys() == {
        f"span_filter.{name}"
        for name in ("first.weight", "first.bias", "last.weight", "width.weight", "output.weight", "output.bias")
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


def test_fitting_replaces_a_filter_and_its_vote(filtered):
    filtered.config.span_filter_vote = 0.0
    expected = filtered.predict(SENTENCES, span_filter=False)
    filtered.config.span_filter_vote = 0.9
    assert filtered.predict(SENTENCES, span_filter=False) != expected
    filtered.fit_span_filter(SENTENCES * 8, batch_size=4, epochs=1)
    assert filtered.config.span_filter_vote == 0.0
    assert filtered.predict(SENTENCES, span_filter=False) == expected


def test_fitting_is_not_for_markers_that_know_hard_spans_only(filtered):
    filtered.config.negatives_per_word, filtered.config.span_filter_vote = 0.3, 0.5
    with pytest.raises(ValueError, match=r"trained along with its span filter.*calibrate_span_filter"):
        filtered.fit_span_filter(SENTENCES * 8, batch_size=4)
    assert filtered.config.span_filter_vote == 0.5


def test_fitting_that_fails_leaves_the_vote(filtered):
    filtered.config.span_filter_vote = 0.5
    filtered.classifier.bias.data[filtered.config.outside_id] = 1000.0
    with pytest.raises(ValueError, match="finds no entity"):
        filtered.fit_span_filter(SENTENCES * 8, batch_size=4)
    assert filtered.config.span_filter_vote == 0.5


def test_fitting_says_what_it_needs(opinionated):
    with pytest.raises(ValueError, match=r"2 sentences make 1 batch\(es\) of 16"):
        opinionated.fit_span_filter(SENTENCES[:2])
    opinionated.classifier.bias.data[opinionated.config.outside_id] = 1000.0
    with pytest.raises(ValueError, match="finds no entity in the 20 sentences"):
        opinionated.fit_span_filter(SENTENCES * 4, batch_size=4)
