import pytest
from datasets import Dataset
from tiny_models import SENTENCES, give_filter, make_finder
from transformers import TrainingArguments

from span_marker import SpanMarkerModel, Trainer
from span_marker.score_calibration import LEAST_ENTITIES

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TIMES = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")


@pytest.fixture
def model(tiny_encoder):
    return make_finder(tiny_encoder)


@pytest.fixture
def trainer(model, tmp_path):
    return Trainer(model, TrainingArguments(tmp_path, use_cpu=True, report_to=[], disable_tqdm=True))


def sentences(model, *, times=10, rightly=True):
    """Sentences with every second of the entities that the model finds as gold, or with none of them."""
    found, rows = model.predict(SENTENCES), []
    for tokens, entities in zip(SENTENCES, found, strict=True):
        tags = ["O"] * len(tokens)
        for entity in entities[::2]:
            start, end = entity["word_start_index"], entity["word_end_index"]
            label = entity["label"] if rightly else {"PER": "LOC", "LOC": "PER"}[entity["label"]]
            tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        rows.append({"tokens": tokens, "ner_tags": [TAGS.index(tag) for tag in tags]})
    return Dataset.from_list(rows * times)


def scores_of(rows):
    return [entity["score"] for row in rows for entity in row]


def without_scores(rows):
    return [[{**entity, "score": None} for entity in row] for row in rows]


def test_the_temperature_lowers_the_error_and_changes_no_entity(trainer, model, tmp_path):
    rows = sentences(model, rightly=False)
    before, metrics = model.predict(SENTENCES), trainer.evaluate(rows)
    assert len(scores_of(before)) * 10 > LEAST_ENTITIES
    temperature = trainer.calibrate_scores(rows)
    assert temperature == model.config.score_temperature > 1
    after, calibrated = model.predict(SENTENCES), trainer.evaluate(rows)
    assert without_scores(after) == without_scores(before)
    assert all(new <= old for new, old in zip(scores_of(after), scores_of(before), strict=True))
    assert calibrated["eval_calibration_error"] < metrics["eval_calibration_error"]
    assert calibrated["eval_overall_f1"] == metrics["eval_overall_f1"]
    model.save_pretrained(tmp_path / "saved")
    assert SpanMarkerModel.from_pretrained(tmp_path / "saved").predict(SENTENCES) == after


def test_calibrating_again_starts_from_the_models_own_scores(trainer, model):
    rows = {"one": sentences(model), "other": sentences(model, times=3)}
    assert trainer.calibrate_scores(rows) == trainer.calibrate_scores(rows)


def test_thresholds_are_those_of_calibrated_scores(trainer, model):
    trainer.calibrate_scores(sentences(model, rightly=False))
    scores = scores_of(model.predict(SENTENCES))
    least = sorted(scores)[len(scores) // 2]
    likely = scores_of(model.predict(SENTENCES, threshold=least))
    assert likely
    assert min(likely) >= least


def test_few_entities_leave_the_scores(trainer, model):
    model.config.score_temperature = 3.0
    assert trainer.calibrate_scores(sentences(model, times=1).select([1, 2])) == 1.0


def test_sentences_without_tags(trainer, model):
    with pytest.raises(ValueError, match="lacks the column 'ner_tags'"):
        trainer.calibrate_scores(sentences(model).remove_columns("ner_tags"))


def test_training_forgets_the_temperature(trainer, model):
    model.config.score_temperature = 3.0
    trainer.train_dataset = sentences(model, times=1)
    trainer.args.max_steps = 1
    trainer.train()
    assert model.config.score_temperature == 1.0


def test_training_with_a_filter_calibrates_scores(tiny_encoder, model, tmp_path, monkeypatch):
    monkeypatch.setattr("span_marker.trainer_calibration.fit_temperature", lambda scores, right: 1.5)
    rows = sentences(model, times=1)
    new = SpanMarkerModel.from_pretrained(tiny_encoder, labels=TAGS, model_max_length=40)
    arguments = TrainingArguments(tmp_path, use_cpu=True, report_to=[], max_steps=1, disable_tqdm=True)
    trainer = Trainer(new, arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert new.config.score_temperature == 1.5


def test_regression_the_card_told_of_the_model_before_it_was_calibrated(model, tmp_path, monkeypatch):
    monkeypatch.setattr("span_marker.trainer_calibration.fit_temperature", lambda scores, right: 3.0)
    settings = {"max_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "learning_rate": 0.0, "disable_tqdm": True}
    rows = sentences(model, times=1)
    arguments = TrainingArguments(tmp_path, use_cpu=True, report_to=[], **settings)
    trainer = Trainer(give_filter(model, vote=0.5), arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "eval_calibration_error" in entry]
    card = trainer.model.model_card_data.evaluations
    recorded = card["evaluation"]
    metrics = trainer.evaluate()
    assert metrics["eval_calibration_error"] != logged["eval_calibration_error"]
    assert recorded.metrics == {name: metrics[name] for name in recorded.metrics}
    assert {*metrics} - {*recorded.metrics} <= {"epoch", *(f"eval_{name}" for name in TIMES)}
    assert recorded.errors == card["evaluation"].errors
    assert recorded.num_sentences == len(rows)
