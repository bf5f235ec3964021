import numpy as np
import pytest
from conftest import QUICK_TRAINING, make_dataset
from tiny_models import give_opinions

from span_marker import EvaluationReport, SpanMarkerModel, Trainer


@pytest.fixture
def trainer(model, tmp_path):
    give_opinions(model, outside=-100.0)
    arguments = QUICK_TRAINING | {"output_dir": str(tmp_path)}
    return Trainer(model, arguments, train_dataset=make_dataset().select([0]), eval_dataset=make_dataset())


def test_the_report_agrees_with_the_evaluation(trainer, dataset):
    report = trainer.evaluation_report()
    metrics = trainer.evaluate()
    assert report.num_sentences == 6
    assert report.num_gold == 10
    assert report.num_predicted > 0
    assert {f"eval_{name}": value for name, value in report.metrics.items()}.items() <= metrics.items()
    assert report.thresholds[0].f1 == metrics["eval_f1"]
    assert {found.name: found.gold for found in report.novelties} == {"seen": 3, "other label": 0, "unseen": 7}
    assert report == trainer.evaluation_report(dataset)


def test_the_report_agrees_with_the_predictions(trainer):
    output = trainer.predict(make_dataset())
    training = trainer.predict(make_dataset().select([0])).label_ids
    expected = EvaluationReport.from_entities(
        make_dataset()["tokens"],
        output.label_ids,
        output.predictions,
        training=(make_dataset()["tokens"][:1], training),
    )
    assert trainer.evaluation_report() == expected


def test_what_an_evaluation_found_is_reported_without_another(trainer, monkeypatch):
    found = []
    trainer.compute_metrics = lambda evaluated: found.append(evaluated) or {}
    trainer.evaluate()
    report = trainer.evaluation_report()
    monkeypatch.setattr(trainer, "get_eval_dataloader", None)
    assert trainer.evaluation_report(evaluated=found[0]) == report
    with pytest.raises(ValueError, match="of 6 sentences, 6 of them with tags, but the data set has 2"):
        trainer.evaluation_report(make_dataset().select([0, 1]), evaluated=found[0])


def test_the_model_card_is_not_told(trainer):
    trainer.evaluation_report()
    assert trainer.model.model_card_data.evaluations == {}


def test_data_sets_by_name(trainer):
    trainer.eval_dataset = {"one": make_dataset(), "two": make_dataset().select([3, 4])}
    assert trainer.evaluation_report("two").num_sentences == 2
    with pytest.raises(TypeError, match="Pass one of its splits: one, two"):
        trainer.evaluation_report()


def test_without_a_training_set_nothing_is_seen(model, dataset, tmp_path):
    trainer = Trainer(model, QUICK_TRAINING | {"output_dir": str(tmp_path)})
    assert trainer.evaluation_report(dataset).novelties is None
    trainer.train_dataset = trainer.preprocess_dataset(dataset)  # no words any more
    assert trainer.evaluation_report(dataset).novelties is None


def test_other_column_and_order(tiny_encoder, labels, tmp_path):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=32, entity_max_length=4)
    give_opinions(model, outside=-100.0)
    dataset = make_dataset().rename_column("ner_tags", "tags")
    trainer = Trainer(model, QUICK_TRAINING | {"output_dir": str(tmp_path)}, train_dataset=dataset, column="tags")
    order = np.array([5, 0, 3])
    report = trainer.evaluation_report(dataset.select(order).with_format("numpy"))
    assert {sentence.row: sentence.tokens for sentence in report.sentences} == {
        row: tuple(dataset[int(order[row])]["tokens"]) for row in [sentence.row for sentence in report.sentences]
    }
    assert [found.gold for found in report.novelties][1:] == [0, 0]


def test_an_empty_data_set(trainer, dataset):
    report = trainer.evaluation_report(dataset.select([]))
    assert (report.num_sentences, report.num_gold, report.sentences) == (0, 0, ())
