"""What is kept of a card beside a saved model, so that it can be loaded and saved again."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from span_marker.model_card.checks import is_language
from span_marker.model_card.data import OF_THE_TRAINING, SpanMarkerModelCardData
from span_marker.model_card.evaluations import Evaluation
from span_marker.model_card.sources import cached_metadata
from span_marker.model_card.training_set import TrainingSet

FACTS_FILE = "model_card.json"
_NOT_KEPT = ("model_id", "code_carbon_callback", "model")
"""Where a model lies is no fact of it, and live objects cannot be written."""


def write_facts(data: SpanMarkerModelCardData, base_model: str | None) -> str:
    """Write what is known.

    Args:
        data: What is known.
        base_model: Id of the encoder on the Hub, which a loaded configuration no longer tells.

    Returns:
        JSON.
    """
    training = data.shown_training_set
    names = [entry.name for entry in fields(data) if entry.init and entry.name not in _NOT_KEPT]
    values = {name: getattr(data, name) for name in names} | {"encoder_id": base_model}
    facts = {
        "values": {name: value for name, value in values.items() if value is not None},
        "keeps_hyperparameters": data.keeps_hyperparameters,
        "training_set": training and training.to_dict(),
        "curve": data.curve,
        "environment": data.environment,
        "emissions": data.measured_emissions,
        "encoder_license": encoder_license(data, base_model),
        "evaluations": {name: evaluation.to_dict() for name, evaluation in data.evaluations.items()},
    }
    return json.dumps(facts, indent=1, default=str) + "\n"


def read_facts(text: str) -> SpanMarkerModelCardData:
    """Read what [`write_facts`] wrote.

    Args:
        text: JSON.

    Returns:
        What is known.

    Raises:
        ValueError: It is something else.
    """
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"It does not hold what is known of a model: {error!r}") from error


def encoder_license(data: SpanMarkerModelCardData, base_model: str | None) -> str | None:
    """Find the license of a model's encoder.

    Args:
        data: What is known of the model.
        base_model: Id of the encoder on the Hub.

    Returns:
        Its identifier, where it was recorded or the encoder's card is in the cache of this machine.
    """
    if data.encoder_license or base_model is None:
        return data.encoder_license
    name = cached_metadata(base_model).get("license")
    return name if isinstance(name, str) else None


def look_up_hub(data: SpanMarkerModelCardData, base_model: str | None = None) -> None:
    """Ask the Hub for the language of the training set and the license of the encoder, where they are not known.

    Nothing else in a model card asks the network. Where the Hub does not answer, they stay unknown.

    Args:
        data: What is known; it is completed.
        base_model: Id of the encoder on the Hub. ``None``: the one that was given.
    """
    source, base_model = data.source, base_model or data.encoder_id
    if source.id and not data.languages:
        found = cached_metadata(source.id, "dataset", source.revision, online=True).get("language") or []
        data.language = list(filter(is_language, [found] if isinstance(found, str) else found))
    if base_model and not data.encoder_license:
        found = cached_metadata(base_model, online=True).get("license")
        data.encoder_license = found if isinstance(found, str) else None


def _read(facts: Mapping[str, Any]) -> SpanMarkerModelCardData:
    """Take what is known from the values of a JSON file."""
    values = {name: value for name, value in facts["values"].items() if name not in _NOT_KEPT}
    data = SpanMarkerModelCardData(**values)
    data.keeps_hyperparameters = bool(facts["keeps_hyperparameters"])
    data.training_set = facts["training_set"] and TrainingSet.from_dict(facts["training_set"])
    data.curve = [
        {str(name): float(value) for name, value in row.items()}
        | {"Epoch": float(row["Epoch"]), "Step": int(row["Step"])}
        for row in facts["curve"]
    ]
    data.environment = {str(name): str(value) for name, value in facts["environment"].items()}
    data.emissions = facts["emissions"] and dict(facts["emissions"])
    data.encoder_license = facts["encoder_license"] and str(facts["encoder_license"])
    data.evaluations = {str(name): Evaluation.from_dict(value) for name, value in facts["evaluations"].items()}
    data.loaded = frozenset(values.keys() & {*OF_THE_TRAINING})
    return data
