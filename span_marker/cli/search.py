"""Hyperparameter search of ``span-marker train --search``: its trials are kept in a file, and can be gone on with."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from span_marker.cli.configuration import Configuration
from span_marker.cli.tables import print_table
from span_marker.cli.training import load_splits, make_trainer

STUDY = "search.db"
"""The trials, beside the model."""
_NAME = "span_marker"
_TRIAL = {"save_strategy": "no", "load_best_model_at_end": False, "push_to_hub": False}
"""What is settled for trials: of a model that is not kept nothing is saved."""

_SPACE: dict[str, Callable[[Any, str], Any]] = {
    "learning_rate": lambda trial, name: trial.suggest_float(name, 1e-5, 3e-4, log=True),
    "per_device_train_batch_size": lambda trial, name: trial.suggest_categorical(name, [8, 16, 32]),
    "num_train_epochs": lambda trial, name: float(trial.suggest_int(name, 2, 6)),
    "warmup_steps": lambda trial, name: trial.suggest_float(name, 0.0, 0.2),
    "weight_decay": lambda trial, name: trial.suggest_float(name, 0.0, 0.1),
}
"""Draws training arguments from the usual ranges for fine-tuning encoders."""


def search(configuration: Configuration, trials: int) -> Configuration:
    """Try training arguments for the best F1 on the validation split, and show the results.

    Trials that an earlier search with the same output folder has finished count. With ``eval_strategy``, which is
    "epoch" here unless it is given, a trial that is worse than the median of the others at the same step is given up.

    Args:
        configuration: The configuration. Arguments that it gives are not searched.
        trials: Number of trials.

    Returns:
        The configuration with the arguments of the best trial.

    Raises:
        ImportError: optuna is missing.
        ValueError: There is no split for validation, or nothing to search.
    """
    splits, _ = load_splits(configuration.data)
    names = [name for name in _SPACE if name not in configuration.training]
    if "validation" not in splits:
        raise ValueError(
            "A search needs a split for validation: validation.conll beside train.conll, or data.validation=."
        )
    if not names:
        raise ValueError(f"There is nothing to search: the settings give {', '.join(_SPACE)}. Leave some of them out.")
    storage = _storage(Path(configuration.training["output_dir"]))
    study = _open(storage)
    left = trials - sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)
    if left > 0:
        training = {"eval_strategy": "epoch", **configuration.training, **_TRIAL}
        trainer = make_trainer(replace(configuration, training=training), splits)
        with redirect_stdout(sys.stderr):
            trainer.hyperparameter_search(
                partial(_draw, names=names),
                n_trials=left,
                backend="optuna",
                storage=storage,
                study_name=_NAME,
                load_if_exists=True,
            )
        study = _open(storage)
    _show(study, names)
    return replace(configuration, training={**study.best_params, **configuration.training})


def _draw(trial: Any, names: list[str]) -> dict[str, Any]:
    return {name: _SPACE[name](trial, name) for name in names}


def _storage(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / STUDY).as_posix()}"


def _open(storage: str) -> Any:
    """Open the trials of earlier searches, or begin anew."""
    try:
        import optuna  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ImportError("A search needs the package optuna: pip install 'span_marker[search]'.") from error
    return optuna.create_study(storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True)


def _show(study: Any, names: list[str]) -> None:
    """Print the trials, the best first."""
    done = [trial for trial in study.trials if trial.value is not None]
    rows = [
        [
            trial.number,
            f"{100 * trial.value:.1f} %",
            trial.state.name.lower(),
            *(f"{trial.params[name]:.3g}" if name in trial.params else "-" for name in names),
        ]
        for trial in sorted(done, key=lambda trial: (trial.state.name != "COMPLETE", -trial.value))
    ]
    print_table("Trials", ["trial", "F1", "state", *names], rows)
