import logging

import pytest
import torch
from datasets import Dataset

from span_marker import SpanMarkerConfig
from span_marker.span_loss import filter_loss, fix_class_weights, marker_loss, span_loss

LOGITS = torch.tensor([[[0.3, 1.0, -0.5], [2.0, -1.0, 0.0], [0.1, 0.2, 0.3], [9.0, 9.0, 9.0]]])
LABELS = torch.tensor([[1, 0, 2, -100]])
"""A LOC, an O, a PER and padding."""


def make_config(**settings):
    config = SpanMarkerConfig({}, **settings)
    config.set_labels(["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
    return config


def each(smoothing=0.0, gamma=0.0):
    """The losses of the three spans by the formulas of the papers."""
    logs = LOGITS[0].log_softmax(-1)
    for row, label in enumerate((1, 0, 2)):
        loss = -((1 - smoothing) * logs[row, label] + smoothing * logs[row].mean())
        yield ((1 - logs[row, label].exp()) ** gamma * loss).item()


@pytest.mark.parametrize(("smoothing", "gamma"), [(0.0, 0.0), (0.2, 0.0), (0.0, 2.0), (0.1, 0.5)])
def test_the_loss_is_that_of_the_papers(smoothing, gamma):
    loc, other, per = each(smoothing, gamma)
    plain = span_loss(LOGITS, LABELS, None, gamma, smoothing).item()
    assert plain == pytest.approx(loc + other + per, rel=1e-5)
    weighed = span_loss(LOGITS, LABELS, [1.0, 5.0, 0.5], gamma, smoothing).item()
    assert weighed == pytest.approx(5 * loc + other + 0.5 * per, rel=1e-5)


def test_both_classifiers_weigh_types():
    config = make_config(
        entity_weight=3.0,
        span_filter_positive_weight=4.0,
        span_filter_loss_weight=0.5,
        class_weights={"PER": 10.0},
        focal_gamma=1.5,
        label_smoothing=0.1,
    )
    loc, other, per = each(0.1, 1.5)
    assert marker_loss(LOGITS, LABELS, config).item() == pytest.approx(3 * loc + other + 30 * per, rel=1e-5)
    assert filter_loss(LOGITS, LABELS, config).item() == pytest.approx(0.5 * (4 * loc + other + 40 * per), rel=1e-5)


def test_smoothing_that_is_given_goes_before_the_configuration():
    config, (loc, other, per) = make_config(label_smoothing=0.3), each(0.1)
    assert marker_loss(LOGITS, LABELS, config, 0.1).item() == pytest.approx(loc + other + per, rel=1e-5)
    assert marker_loss(LOGITS, LABELS, config, 0.0).item() == pytest.approx(sum(each()), rel=1e-5)


def test_focal_loss_of_a_certain_span_has_a_gradient():
    logits = torch.tensor([[[200.0, 0.0]]], requires_grad=True)
    span_loss(logits, torch.tensor([[0]]), None, 0.5).backward()
    assert logits.grad.isfinite().all()


def test_a_model_computes_the_configured_loss(model, dataset):
    batch = model.tokenizer({"tokens": dataset["tokens"][:1], "ner_tags": [[(1, 0, 2), (2, 4, 5)]]})
    rows = [{name: values[0] for name, values in batch.items()}]
    from span_marker import SpanMarkerDataCollator

    batch = SpanMarkerDataCollator(model.tokenizer)(rows)
    model.eval()
    settings = {"class_weights": {"PER": 7.0}, "focal_gamma": 1.0, "label_smoothing": 0.2}
    losses = [model(**batch).loss.item()]
    for name, value in settings.items():
        assert model.config.override({name: value}) == {}
        losses.append(model(**batch).loss.item())
    assert len({round(loss, 6) for loss in losses}) == 4
    assert model(**batch, label_smoothing=0.0).loss.item() != pytest.approx(losses[-1])


def test_weights_are_balanced_by_what_is_trained_on():
    rows = Dataset.from_dict({"labels": [[0, 1, 1, 0], [2, 0, 1]]})
    config = make_config(class_weights="balanced")
    assert fix_class_weights(config, rows) is True
    assert config.class_weights == {"LOC": 0.6667, "PER": 2.0}
    assert fix_class_weights(config, rows) is False
    config = make_config(class_weights={"PERS": 2.0})
    with pytest.raises(ValueError, match="Did you mean 'PER'"):
        fix_class_weights(config, rows)


def test_a_training_balances_and_says_so(model, dataset, tmp_path, caplog):
    from conftest import QUICK_TRAINING

    from span_marker import Trainer

    model.config.override({"class_weights": "balanced", "focal_gamma": 2.0})
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        trainer = Trainer(
            model, QUICK_TRAINING | {"output_dir": str(tmp_path), "log_level": "info"}, train_dataset=dataset
        )
        trainer.train()
    finally:
        logger.removeHandler(caplog.handler)
    expected = {"LOC": round(10 / 2 / 6, 4), "PER": round(10 / 2 / 4, 4)}
    assert model.config.class_weights == expected
    assert f"config.class_weights is {expected} from now on." in caplog.text
    assert model.model_card_data.hyperparameters["class_weights"] == expected
    assert model.model_card_data.hyperparameters["focal_gamma"] == 2.0
    trainer.save_model(tmp_path / "saved")
    loaded = SpanMarkerConfig.from_pretrained(tmp_path / "saved")
    assert (loaded.class_weights, loaded.focal_gamma, loaded.label_smoothing) == (expected, 2.0, 0.0)
