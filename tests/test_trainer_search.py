import optuna
import pytest
from conftest import QUICK_TRAINING, make_dataset

from span_marker import SpanMarkerModel, Trainer, TrainingArguments
from span_marker.trainer_search import SEARCH_SPACE, draw_arguments

optuna.logging.set_verbosity(optuna.logging.ERROR)
DRAWN = {
    "learning_rate": 2e-4,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 3,
    "warmup_steps": 0.1,
    "weight_decay": 0.05,
}


class GivesUpLater:
    """A pruner that gives up every trial but the first at its second epoch, and notes when trials were compared."""

    def __init__(self):
        self.steps = []

    def prune(self, study, trial):
        self.steps.append((trial.number, trial.last_step))
        return trial.number > 0 and len(trial.intermediate_values) == 2


@pytest.fixture
def trainer(tiny_encoder, labels, tmp_path):
    def model_init(trial=None):
        return SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=32, entity_max_length=4)

    settings = QUICK_TRAINING | {"eval_strategy": "epoch", "num_train_epochs": 2}
    arguments = TrainingArguments(str(tmp_path), **settings)
    return Trainer(args=arguments, train_dataset=make_dataset(), eval_dataset=make_dataset(), model_init=model_init)


def test_the_space():
    assert draw_arguments(optuna.trial.FixedTrial(DRAWN)) == DRAWN
    assert draw_arguments(optuna.trial.FixedTrial(DRAWN), ["weight_decay"]) == {"weight_decay": 0.05}
    assert draw_arguments(optuna.create_study().ask()).keys() == SEARCH_SPACE.keys()
    assert {name for name in SEARCH_SPACE if not hasattr(TrainingArguments, name)} == set()


def test_trials_are_compared_by_epoch_given_up_and_gone_on_with(trainer, tmp_path):
    pruner = GivesUpLater()
    sizes = iter([2, 3, 6])
    storage = f"sqlite:///{tmp_path / 'search.db'}"
    names = {"storage": storage, "study_name": "ner", "load_if_exists": True, "pruner": pruner}

    def space(trial):
        rate = trial.suggest_float("learning_rate", 1e-5, 1e-4)
        return {"learning_rate": rate, "per_device_train_batch_size": next(sizes)}

    best = trainer.hyperparameter_search(space, n_trials=2, **names)
    assert best.run_id == "0"
    assert 0 <= best.objective <= 1
    trainer.hyperparameter_search(space, n_trials=1, **names)
    study = optuna.load_study(storage=storage, study_name="ner")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "PRUNED"]
    assert pruner.steps == [(number, epoch) for number in range(3) for epoch in (100, 200)]


def test_without_a_space_the_usual_arguments_are_searched(trainer, monkeypatch):
    fixed = {name: value if name != "num_train_epochs" else 1.0 for name, value in DRAWN.items()}
    monkeypatch.setattr("span_marker.trainer_search.draw_arguments", lambda trial: fixed)
    best = trainer.hyperparameter_search(n_trials=1)
    assert best.run_id == "0"
    assert trainer.args.weight_decay == 0.05
