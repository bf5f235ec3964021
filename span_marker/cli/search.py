"""Hyperparameter search of ``span-marker train --search``: its trials are kept in a file, and can be gone on with."""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from span_marker.cli.configuration import Configuration
from span_marker.cli.search_report import save_plot, show_trials
from span_marker.cli.training import load_splits, make_trainer
from span_marker.trainer_search import SEARCH_SPACE, draw_arguments

STUDY = "search.db"
"""The trials, beside the model."""
_NAME = "span_marker"
_TRIAL = {"save_strategy": "no", "load_best_model_at_end": False, "push_to_hub": False}
"""What is settled for trials: of a model that is not kept nothing is saved."""


def search(configuration: Configuration, trials: int) -> Configuration:
    """Try training arguments for the best F1 on the validation split, and show the results, as a plot too.

    Trials that an earlier search with the same output folder has finished count. With ``eval_strategy``, which is
    "epoch" here unless it is given, a trial is given up that is worse than the median of those before at its epoch.

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
    names = [name for name in SEARCH_SPACE if name not in configuration.training]
    if "validation" not in splits:
        raise ValueError(
            "A search needs a split for validation: validation.conll beside train.conll, or data.validation=."
        )
    if not names:
        raise ValueError(
            f"There is nothing to search: the settings give {', '.join(SEARCH_SPACE)}. Leave some of them out."
        )
    folder = Path(configuration.training["output_dir"])
    storage = _storage(folder)
    study = _open(storage)
    left = trials - sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)
    if left > 0:
        training = {"eval_strategy": "epoch", **configuration.training, **_TRIAL}
        trainer = make_trainer(replace(configuration, training=training), splits)
        with redirect_stdout(sys.stderr):
            trainer.hyperparameter_search(
                partial(draw_arguments, names=names),
                n_trials=left,
                backend="optuna",
                hp_name=lambda trial: f"trial-{trial.number}",
                storage=storage,
                study_name=_NAME,
                load_if_exists=True,
            )
        study = _open(storage)
    valued = [trial for trial in study.trials if trial.value is not None]
    show_trials(valued, names)
    plot = save_plot(valued, names, folder)
    if plot is not None:
        print(f"A plot of the trials is in {plot}.", file=sys.stderr)
    return replace(configuration, training={**study.best_params, **configuration.training})


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
