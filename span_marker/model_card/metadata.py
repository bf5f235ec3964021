"""The head of a model card, which the Hub reads."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import yaml
from huggingface_hub import EvalResult, ModelCardData

from span_marker.model_card.data import EVALUATION, SpanMarkerModelCardData
from span_marker.model_card.markdown import one_line

SCORES = ("precision", "recall", "f1")
SPLITS = ("train", "validation", "valid", "dev", "test")
_PARTS = (*SPLITS, EVALUATION)
_ORDER = (
    "language",
    "license",
    "library_name",
    "pipeline_tag",
    "tags",
    "base_model",
    "datasets",
    "metrics",
    "widget",
    "co2_eq_emissions",
    "model-index",
)
_NO_SCORES = ("runtime", "samples_per_second", "steps_per_second", "epoch", "model_preparation_time")


class Evaluation(NamedTuple):
    """One evaluation's metrics, sorted out.

    Attributes:
        overall: Precision, recall and F1 over all entities.
        macro: The means over the types.
        types: Precision, recall, F1 and number of each type.
        other: Further numbers.
    """

    overall: dict[str, float]
    macro: dict[str, float]
    types: dict[str, dict[str, float]]
    other: dict[str, float]


def sort_metrics(metrics: Mapping[str, Any]) -> Evaluation:
    """Sort out metrics as ``Trainer.evaluate`` returns them.

    Args:
        metrics: Metrics, all with the same prefix or none ("eval_overall_f1", "test_overall_f1", "overall_f1").

    Returns:
        The scores over all types, per type, and what else there is.
    """
    marker = min((key for key in metrics if key.endswith("overall_f1")), key=len, default="overall_f1")
    prefix = marker.removesuffix("overall_f1")
    plain = {key.removeprefix(prefix): value for key, value in metrics.items()}
    types = {key: dict(value) for key, value in plain.items() if isinstance(value, Mapping) and "f1" in value}
    overall, macro = (
        {score: float(plain.pop(f"{kind}_{score}")) for score in SCORES if f"{kind}_{score}" in plain}
        for kind in ("overall", "macro")
    )
    other = {
        key: float(value)
        for key, value in plain.items()
        if isinstance(value, Real) and key not in _NO_SCORES and not (key == "f1" and overall)
    }
    return Evaluation(overall, macro, types, other)


def yaml_head(data: SpanMarkerModelCardData, title: str, base_model: str | None) -> str:
    """Write the head.

    Args:
        data: What is known.
        title: The model's name.
        base_model: Id of the encoder on the Hub.

    Returns:
        YAML, without the lines that frame it.
    """
    results = _results(data)
    known = ModelCardData(
        language=data.language,
        license=data.license,
        library_name=data.library_name,
        pipeline_tag=data.pipeline_tag,
        tags=data.tags,
        base_model=base_model,
        datasets=[data.dataset_id] if data.dataset_id else None,
        metrics=data.metrics or None,
        widget=[dict(row) for row in data.widget] if data.widget else None,
        co2_eq_emissions=_emissions(data.code_carbon_callback),
        eval_results=results or None,
        model_name=title if results else None,
    ).to_dict()
    head = {key: known[key] for key in _ORDER if key in known}
    return yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000).strip()


def _results(data: SpanMarkerModelCardData) -> list[EvalResult]:
    """List the scores over all entities of each evaluation set."""
    return [
        EvalResult(
            task_type=data.pipeline_tag,
            task_name=data.task_name,
            metric_type=score,
            metric_name=score.capitalize(),
            metric_value=value,
            **_evaluation_set(data, name),
        )
        for name, metrics in data.evaluations.items()
        for score, value in sort_metrics(metrics).overall.items()
    ]


def _evaluation_set(data: SpanMarkerModelCardData, name: str) -> dict[str, str | None]:
    """Describe an evaluation set for an evaluation result.

    A result must name a type, which is the id on the Hub. A data set without one gets a type that no id can be (it has
    a colon), and each its own, because `huggingface_hub` merges the results of the same type and split.
    """
    if name not in _PARTS:
        return {"dataset_name": one_line(name), "dataset_type": f"local:{one_line(name)}"}
    known = one_line(data.dataset_name or data.dataset_id or name)
    return {
        "dataset_name": known,
        "dataset_type": data.dataset_id or f"local:{known}",
        "dataset_split": name if name in SPLITS else None,
        "dataset_revision": data.dataset_revision,
    }


def _emissions(callback: Any) -> dict[str, Any] | None:
    """Read the emissions that codecarbon measured, in grams of CO2 equivalents."""
    measured = getattr(getattr(callback, "tracker", None), "final_emissions_data", None)
    if measured is None:
        return None
    emissions = {
        "emissions": float(measured.emissions) * 1000,
        "source": "codecarbon",
        "training_type": "fine-tuning",
        "geographical_location": getattr(measured, "country_name", None),
        "hardware_used": getattr(measured, "gpu_model", None) or getattr(measured, "cpu_model", None),
        "hours_used": round(float(measured.duration) / 3600, 3),
    }
    return {key: value for key, value in emissions.items() if value is not None}
