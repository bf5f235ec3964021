"""The search for good training arguments."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from transformers.integrations import is_optuna_available
from transformers.trainer_utils import BestRun

from span_marker.trainer_calibration import CalibratingTrainer

SEARCH_SPACE: Final[dict[str, Callable[[Any, str], Any]]] = {
    "learning_rate": lambda trial, name: trial.suggest_float(name, 1e-5, 3e-4, log=True),
    "per_device_train_batch_size": lambda trial, name: trial.suggest_categorical(name, [8, 16, 32]),
    "num_train_epochs": lambda trial, name: float(trial.suggest_int(name, 2, 6)),
    "warmup_steps": lambda trial, name: trial.suggest_float(name, 0.0, 0.2),
    "weight_decay": lambda trial, name: trial.suggest_float(name, 0.0, 0.1),
}
"""Draws each training argument from the usual range for fine-tuning encoders, given a trial of optuna."""
_OPTUNA = ("optuna", None)
_PARTS_OF_AN_EPOCH: Final = 100


def draw_arguments(trial: Any, names: Iterable[str] = tuple(SEARCH_SPACE)) -> dict[str, Any]:
    """Draw training arguments for a trial.

    Args:
        trial: The trial, optuna's.
        names: Which arguments of [`SEARCH_SPACE`].

    Returns:
        A value for each of them.
    """
    return {name: SEARCH_SPACE[name](trial, name) for name in names}


class SearchingTrainer(CalibratingTrainer):
    """A Trainer that searches for the arguments of the highest F1."""

    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, Any]] | None = None,
        compute_objective: Callable[[dict[str, float]], float] | None = None,
        n_trials: int = 20,
        direction: str | list[str] | None = None,
        backend: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> BestRun | list[BestRun]:
        """Search for good arguments; see `transformers.Trainer.hyperparameter_search`.

        With evaluations during the training, optuna gives trials up that do worse than the median of those before.

        Args:
            hp_space: Draws arguments for a trial. ``None``: learning rate, batch size, epochs, warm-up and weight decay
                from [`SEARCH_SPACE`] with optuna, transformers' own space with another backend.
            compute_objective: Computes from the metrics of an evaluation what to optimize. ``None``: ``overall_f1``,
                averaged over the evaluation sets, where transformers would add up all metrics.
            n_trials: Number of trials.
            direction: "minimize" or "maximize". ``None``: maximize F1, minimize any other objective.
            backend: What searches. ``None``: optuna, if it is installed.
            *args: Handed on to transformers.
            **kwargs: Handed on to transformers, and by it to optuna: ``storage`` and ``study_name`` with
                ``load_if_exists`` to go on with an earlier search, ``pruner``, ``sampler``.

        Returns:
            The best trial, or several for several objectives.

        Raises:
            RuntimeError: The Trainer was made with a model and not with ``model_init``.
        """
        if direction is None:
            direction = "maximize" if compute_objective is None else "minimize"
        if hp_space is None and backend in _OPTUNA and is_optuna_available():
            hp_space = draw_arguments
        objective = compute_objective or _mean_f1
        return super().hyperparameter_search(hp_space, objective, n_trials, direction, backend, *args, **kwargs)

    def _report_to_hp_search(self, trial: Any, step: int, metrics: dict[str, float]) -> None:
        """Report an evaluation by its epoch: trials with other batch sizes are at other steps then."""
        if self.state.epoch is not None:
            step = round(_PARTS_OF_AN_EPOCH * self.state.epoch)
        super()._report_to_hp_search(trial, step, metrics)


def _mean_f1(metrics: dict[str, float]) -> float:
    """Average the F1 over the evaluation sets."""
    scores = [value for name, value in metrics.items() if name.endswith("_overall_f1")]
    return sum(scores) / len(scores)
