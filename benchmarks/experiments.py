"""Experiments: one YAML file each in `accuracy/`, what to train and how; ``base`` names one to start from."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml
from candidates import Candidate

from span_marker.demo import DemoError

FOLDER = Path(__file__).resolve().parent / "accuracy"
SPAN, TOKEN = "span", "token"
ARGUMENTS = {
    "num_train_epochs": 4,
    "learning_rate": 2e-4,
    "per_device_train_batch_size": 16,
    "warmup_steps": 0.1,
    "bf16": False,
}
"""Training arguments of every experiment that does not set its own; 10 % of the steps are warm-up."""


@dataclass(frozen=True)
class Experiment:
    """What to train.

    Attributes:
        name: Name of the file.
        model: "span" or "token".
        settings: Arguments of ``SpanMarkerModel.from_pretrained``.
        negative_span_ratio: Share of the negative spans that are trained on. ``None``: all.
        arguments: Training arguments.
        candidate: Ways that are not the package's own: fields of [`Candidate`].
    """

    name: str
    model: str = SPAN
    settings: dict[str, Any] = field(default_factory=dict)
    negative_span_ratio: float | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    candidate: dict[str, Any] = field(default_factory=dict)

    def key(self) -> dict[str, Any]:
        """All that makes the experiment, for the file of results."""
        settings = dict(vars(self))
        return {
            "experiment": settings.pop("name"),
            "recipe": {name: value for name, value in settings.items() if value},
        }


def read_experiment(name: str, arguments: dict[str, Any] | None = None) -> Experiment:
    """Read an experiment.

    Args:
        name: Name of a file in `accuracy/`, without its suffix, or the path of a file.
        arguments: Training arguments that replace the file's.

    Returns:
        The experiment.

    Raises:
        DemoError: There is no such file, or it holds a key that is not known.
    """
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise DemoError(f"There is no experiment {name!r}: expected a YAML file or one of {known}.")
    values: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) or {}
    base = values.pop("base", None)
    _require_known(path, values, Experiment)
    _require_known(path, values.get("candidate", {}), Candidate)
    experiment = Experiment(path.stem, arguments=ARGUMENTS) if base is None else read_experiment(base)
    merged = {
        name: getattr(experiment, name) | value if isinstance(value, dict) else value for name, value in values.items()
    }
    merged["arguments"] = experiment.arguments | values.get("arguments", {}) | (arguments or {})
    return replace(experiment, name=path.stem, **merged)


def _require_known(path: Path, values: dict[str, Any], kind: type[Any]) -> None:
    known = {entry.name for entry in fields(kind)} - {"name"}
    if unknown := sorted(values.keys() - known):
        raise DemoError(f"{path} has {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
