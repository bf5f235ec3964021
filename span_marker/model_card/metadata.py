"""The head of a model card, which the Hub reads."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

from huggingface_hub import EvalResult, ModelCardData

from span_marker.model_card.data import EVALUATION, SpanMarkerModelCardData
from span_marker.model_card.edits import dump_yaml
from span_marker.model_card.evaluations import Evaluation
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
    "base_model_relation",
    "datasets",
    "metrics",
    "widget",
    "co2_eq_emissions",
    "model-index",
)
_NO_SCORES = ("runtime", "samples_per_second", "steps_per_second", "epoch", "model_preparation_time")


class Scores(NamedTuple):
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


def sort_metrics(metrics: Mapping[str, Any]) -> Scores:
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
    return Scores(overall, macro, types, other)


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
        language=data.language or _one_or_more(data.languages),
        license=data.license,
        library_name=data.library_name,
        pipeline_tag=data.pipeline_tag,
        tags=data.tags,
        base_model=base_model,
        base_model_relation="finetune" if base_model else None,
        datasets=[data.source.id] if data.source.id else None,
        metrics=data.metrics or None,
        widget=data.widget if data.widget is not None else _widget(data),
        co2_eq_emissions=data.measured_emissions,
        eval_results=results or None,
        model_name=title if results else None,
    ).to_dict()
    head = {key: known[key] for key in _ORDER if known.get(key)}
    return dump_yaml(head)


def _one_or_more(values: list[str]) -> str | list[str] | None:
    """Write a list of one as the value alone, as the Hub does."""
    return values[0] if len(values) == 1 else values or None


def _widget(data: SpanMarkerModelCardData) -> list[dict[str, str]]:
    """Take sentences of the training set for the widget."""
    training = data.shown_training_set
    return [{"text": one_line(" ".join(row["tokens"]))} for row in training.sentences] if training else []


def _results(data: SpanMarkerModelCardData) -> list[EvalResult]:
    """List the scores over all entities of each evaluation set."""
    results: list[EvalResult] = []
    taken: set[tuple[str | None, ...]] = set()
    for name, evaluation in data.evaluations.items():
        place = _evaluation_set(data, name, evaluation)
        # Results of the same place would become one: of several parts of a data set, the later get names of their own.
        if _identity(place) in taken:
            place = _local(name)
        taken.add(_identity(place))
        results += [
            EvalResult(
                task_type=data.pipeline_tag,
                task_name=data.task_name,
                metric_type=score,
                metric_name=score.capitalize(),
                metric_value=value,
                **place,
            )
            for score, value in sort_metrics(evaluation.metrics).overall.items()
        ]
    return results


def _identity(place: Mapping[str, str | None]) -> tuple[str | None, ...]:
    """Tell what `huggingface_hub` tells evaluation sets apart by."""
    return tuple(place.get(f"dataset_{name}") for name in ("type", "config", "split", "revision"))


def _evaluation_set(data: SpanMarkerModelCardData, name: str, evaluation: Evaluation) -> dict[str, str | None]:
    """Describe an evaluation set for an evaluation result."""
    source = evaluation.source
    if source.id:
        return {
            "dataset_name": one_line(source.name or source.id),
            "dataset_type": source.id,
            "dataset_config": source.config,
            "dataset_split": source.split,
            "dataset_revision": source.revision,
        }
    if name not in _PARTS:
        return _local(name)
    known = one_line(data.dataset_name or data.dataset_id or name)
    return {
        "dataset_name": known,
        "dataset_type": data.dataset_id or _local(known)["dataset_type"],
        "dataset_split": name if name in SPLITS else None,
        "dataset_revision": data.dataset_revision,
    }


def _local(name: str) -> dict[str, str | None]:
    """Describe an evaluation set that is not on the Hub.

    A result must name a type, which is the id on the Hub. A data set without one gets a type that no id can be (it has
    a colon).
    """
    return {"dataset_name": one_line(name), "dataset_type": f"local:{one_line(name)}"}
