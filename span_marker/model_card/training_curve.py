"""How a training went, as a table and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PLOT_FILE = "training_curve.png"
_MOST_ROWS = 20
_MEASURES = {
    "loss": "Validation loss",
    "overall_precision": "Precision",
    "overall_recall": "Recall",
    "overall_f1": "F1",
}
"""What is shown of an evaluation, by its name without a prefix."""
_TRAINING_LOSS = "Training loss"
_SHARES = ("Precision", "Recall", "F1")


def training_curve(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Read the course of a training off the Trainer's log.

    Args:
        history: ``trainer.state.log_history``.

    Returns:
        A row for each step that something was logged at: "Epoch", "Step", the training loss and scores, as far as they
        were logged. The columns of evaluation sets with names end in the name.
    """
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        scores = {_TRAINING_LOSS: float(entry["loss"])} if "loss" in entry else {}
        measured = [(measure, name, key) for key in entry for name, measure in _take_apart(key)]
        for measure, name, key in sorted(measured, key=lambda one: list(_MEASURES).index(one[0])):
            scores[_MEASURES[measure] + (f" ({name})" if name else "")] = float(entry[key])
        if scores and "step" in entry:
            step = int(entry["step"])
            rows.setdefault(step, {"Epoch": round(float(entry.get("epoch") or 0), 2), "Step": step}).update(scores)
    return [rows[step] for step in sorted(rows)]


def _take_apart(key: str) -> list[tuple[str, str]]:
    """Take "eval_dev_overall_f1" apart into the evaluation set's name "dev" and the measure "overall_f1"."""
    name = key.removeprefix("eval_")
    return [
        (name.removesuffix(measure).removesuffix("_"), measure)
        for measure in _MEASURES
        if name != key and (name == measure or name.endswith(f"_{measure}"))
    ]


def thinned(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Choose the rows to show in a table.

    Args:
        rows: The rows of [`training_curve`].

    Returns:
        The evaluations, if there were any, with the training loss last logged before; else the training losses. At
        most some twenty of them, evenly spread, with the last.
    """
    filled: list[dict[str, Any]] = []
    loss = None
    for row in rows:
        loss = row.get(_TRAINING_LOSS, loss)
        before = {} if loss is None else {_TRAINING_LOSS: loss}
        filled.append({"Epoch": f"{row['Epoch']:g}", "Step": row["Step"], **before, **_scores(row)})
    shown = [row for row in filled if _scores(row).keys() - {_TRAINING_LOSS}] or filled
    stride = -(-len(shown) // _MOST_ROWS)
    return shown[::-1][:: max(stride, 1)][::-1]


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out when the scores were measured."""
    return {name: value for name, value in row.items() if name not in ("Epoch", "Step")}


def save_plot(rows: Sequence[Mapping[str, Any]], folder: Path) -> bool:
    """Draw the course of a training into a folder, if matplotlib is installed (``pip install 'span_marker[plots]'``).

    Args:
        rows: The rows of [`training_curve`].
        folder: Where to write the file.

    Returns:
        Whether there was anything to draw, and something to draw with.
    """
    if len(rows) < 2:
        return False
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        return False
    # Not pyplot's figures, which are global and need a display.
    figure = Figure(figsize=(8, 4), layout="constrained")
    columns = list(dict.fromkeys(name for row in rows for name in row))[2:]
    losses = [name for name in columns if "loss" in name]
    shares = [name for name in columns if name.startswith(_SHARES)]
    panels = [panel for panel in (losses, shares) if panel]
    for axes, names in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name in names:
            points = [(row["Step"], row[name]) for row in rows if name in row]
            axes.plot(*zip(*points, strict=True), marker="." if len(points) < 2 * _MOST_ROWS else None, label=name)
        axes.set_xlabel("Step")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(folder / PLOT_FILE, dpi=100, metadata={"Software": None})
    return True
