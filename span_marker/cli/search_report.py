"""What a hyperparameter search found: a table of the trials, and a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from span_marker.cli.tables import print_table

PLOT_FILE = "search.png"
_LOGARITHMIC = ("learning_rate",)


def show_trials(trials: Sequence[Any], names: Sequence[str]) -> None:
    """Print the trials, the best first and those that were given up last.

    Args:
        trials: Trials of optuna that have a value.
        names: The arguments that were searched.
    """
    rows = [
        [
            trial.number,
            f"{100 * trial.value:.1f} %",
            trial.state.name.lower(),
            *(f"{trial.params[name]:.3g}" if name in trial.params else "-" for name in names),
        ]
        for trial in sorted(trials, key=lambda trial: (_is_pruned(trial), -trial.value))
    ]
    print_table("Trials", ["trial", "F1", "state", *names], rows)


def save_plot(trials: Sequence[Any], names: Sequence[str], folder: Path) -> Path | None:
    """Draw F1 over each argument, if matplotlib is installed (``pip install 'span_marker[plots]'``).

    Args:
        trials: Trials of optuna that have a value.
        names: The arguments that were searched.
        folder: Where to write the file.

    Returns:
        The file; ``None`` if there is nothing to draw, or to draw with.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        return None
    if not trials or not names:
        return None
    # Not pyplot's figures, which are global and need a display.
    figure = Figure(figsize=(3 * len(names), 3), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False, sharey=True)[0], names, strict=True):
        for is_pruned, label in ((False, "finished"), (True, "given up")):
            found = [trial for trial in trials if _is_pruned(trial) == is_pruned and name in trial.params]
            points = [(trial.params[name], 100 * trial.value) for trial in found]
            if points:
                axes.scatter(*zip(*points, strict=True), marker="x" if is_pruned else "o", label=label)
        axes.set_xscale("log" if name in _LOGARITHMIC else "linear")
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    first = figure.axes[0]
    first.set_ylabel("F1, %")
    first.legend()
    figure.savefig(folder / PLOT_FILE, dpi=100, metadata={"Software": None})
    return folder / PLOT_FILE


def _is_pruned(trial: Any) -> bool:
    return bool(trial.state.name != "COMPLETE")
