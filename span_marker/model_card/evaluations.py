"""Evaluations, as a model card records them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from span_marker.entity_errors import EntityErrors
from span_marker.model_card.sources import DataSource, find_source


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        metrics: Metrics as ``Trainer.evaluate`` returns them, with any prefix.
        errors: What the model confused.
        source: Where the data set comes from.
        num_sentences: Number of its sentences.
    """

    metrics: dict[str, Any]
    errors: EntityErrors | None = None
    source: DataSource = field(default_factory=DataSource)
    num_sentences: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evaluation":
        """Read what `to_dict` wrote.

        Args:
            values: The attributes.

        Returns:
            The evaluation.
        """
        errors = values["errors"] and EntityErrors.from_dict(values["errors"])
        return cls(dict(values["metrics"]), errors, DataSource.from_dict(values["source"]), values["num_sentences"])

    def to_dict(self) -> dict[str, Any]:
        """Write the evaluation as plain values.

        Returns:
            The attributes.
        """
        errors = self.errors and self.errors.to_dict()
        return {
            "metrics": self.metrics,
            "errors": errors,
            "source": self.source.to_dict(),
            "num_sentences": self.num_sentences,
        }


def record_evaluation(metrics: Mapping[str, Any], errors: EntityErrors | None, dataset: Any) -> Evaluation:
    """Record an evaluation.

    Args:
        metrics: Metrics as ``Trainer.evaluate`` returns them.
        errors: What the model confused.
        dataset: The evaluation set.

    Returns:
        A record that shares nothing with them.
    """
    rows = None if dataset is None else len(dataset)
    return Evaluation({name: _plain(value) for name, value in metrics.items()}, errors, find_source(dataset), rows)


def _plain(value: Any) -> Any:
    """Copy a value as Python's own numbers, texts and dictionaries."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else str(value)
