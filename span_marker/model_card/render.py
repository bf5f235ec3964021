"""From what is known of a model to the text of its card."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import jinja2
from huggingface_hub.utils import HFValidationError, validate_repo_id
from transformers import PreTrainedConfig

from span_marker.configuration import SpanMarkerConfig
from span_marker.model_card.data import SpanMarkerModelCardData
from span_marker.model_card.markdown import escape, number, one_line, table
from span_marker.model_card.metadata import SCORES, sort_metrics, yaml_head
from span_marker.schemes import OUTSIDE

_EXAMPLE = "Ada Lovelace met Charles Babbage in London."


class HasConfig(Protocol):
    """An encoder, of which the card tells the configuration."""

    @property
    def config(self) -> PreTrainedConfig:
        """The encoder's configuration."""


class CardModel(Protocol):
    """A model, as far as its card is concerned."""

    model_card_data: SpanMarkerModelCardData

    @property
    def config(self) -> SpanMarkerConfig:
        """The model's configuration."""

    @property
    def encoder(self) -> HasConfig:
        """The encoder."""


def generate_model_card(model: CardModel) -> str:
    """Write a model's card. Nothing is looked up in the network, and what is not known is left out.

    Args:
        model: A span marker model.

    Returns:
        Markdown with a YAML head, as the Hub shows it.

    Raises:
        ValueError: The model's card data hold a language or an id that the Hub does not allow.
        TypeError: They hold a value of the wrong type.
    """
    data, config = model.model_card_data, model.config
    data.validate()
    training = data.training_set
    base_model = data.encoder_id or _hub_id(model.encoder.config)
    title = one_line(data.model_name or _title(data, base_model))
    return _template().render(
        metadata=yaml_head(data, title, base_model),
        title=title,
        data=data,
        config=config,
        encoder=_encoder(data.encoder_name, base_model, model.encoder.config),
        dataset=_dataset(data),
        languages=[data.language] if isinstance(data.language, str) else data.language,
        labels=_label_rows(config, data),
        evaluations={name: _evaluation(metrics) for name, metrics in data.evaluations.items()},
        load=_load(data.model_id),
        example=one_line(data.predict_example or (training and training.sentence) or _EXAMPLE),
        training_set=training,
        lengths=data.train_set_metrics_list or (training and training.lengths),
        missed=_missed(config, data),
    )


def _hub_id(config: PreTrainedConfig) -> str | None:
    """Return the encoder's id on the Hub, where it is certain.

    A name is not enough: "models/bert" may be a folder. transformers keeps the commit of what came from the Hub, and
    has none for a folder.
    """
    name = getattr(config, "_name_or_path", None)
    if not name or not getattr(config, "_commit_hash", None) or Path(name).exists():
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return str(name)


def _title(data: SpanMarkerModelCardData, base_model: str | None) -> str:
    """Name the model by its parts."""
    encoder, dataset = data.encoder_name or base_model, data.dataset_name or data.dataset_id
    return "SpanMarker" + (f" with {encoder}" if encoder else "") + (f" on {dataset}" if dataset else "")


def _encoder(name: str | None, base_model: str | None, config: PreTrainedConfig) -> str:
    """Name the encoder in Markdown, with its type and size."""
    layers, width = getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", None)
    sizes = [f"{layers} layers" if layers else "", f"hidden size {width}" if width else ""]
    architecture = escape(", ".join(part for part in [config.model_type, *sizes] if part))
    if base_model:
        return f"[{escape(name or base_model)}](https://huggingface.co/{base_model}) ({architecture})"
    return f"{escape(name)} ({architecture})" if name else architecture


def _dataset(data: SpanMarkerModelCardData) -> str | None:
    """Name the data set in Markdown."""
    name = escape(data.dataset_name or data.dataset_id or "")
    if data.dataset_id:
        name = f"[{name}](https://huggingface.co/datasets/{data.dataset_id})"
    return f"{name}, revision {escape(data.dataset_revision)}" if name and data.dataset_revision else name or None


def _load(model_id: str | None) -> str:
    """Write the Python that loads the model."""
    if model_id:
        return f'model = SpanMarkerModel.from_pretrained("{model_id}")'
    comment = "# the folder that holds this file and the model's weights"
    return f'folder = "."  {comment}\nmodel = SpanMarkerModel.from_pretrained(folder)'


def _label_rows(config: SpanMarkerConfig, data: SpanMarkerModelCardData) -> list[dict[str, Any]]:
    """List the entity types, with counts and examples as far as there are any."""
    if data.label_example_list:
        return [dict(row) for row in data.label_example_list]
    if OUTSIDE not in config.labels:  # the labels of transformers' default configuration
        return []
    training = data.training_set
    rows: list[dict[str, Any]] = []
    for label in config.labels:
        if label == OUTSIDE:
            continue
        row: dict[str, Any] = {"Entity type": label}
        if training:
            row["In the training set"] = training.entity_counts.get(label)
            if training.examples and data.label_example_list is None:
                row["Examples"] = ", ".join(f'"{one_line(text)}"' for text in training.examples.get(label, []))
        rows.append(row)
    return rows


def _evaluation(metrics: dict[str, Any]) -> dict[str, Any]:
    """Prepare what the card shows of an evaluation."""
    found = sort_metrics(metrics)
    counts = [scores["number"] for scores in found.types.values() if "number" in scores]
    support = int(sum(counts)) if counts else None
    rows = [_scores(name, scores, scores.get("number")) for name, scores in found.types.items()]
    totals = {"All (micro)": found.overall, "All (macro)": found.macro}
    rows += [_scores(name, scores, support) for name, scores in totals.items() if scores]
    return {"rows": rows, "other": found.other}


def _scores(name: str, scores: dict[str, float], support: float | None) -> dict[str, Any]:
    """Prepare a row of the table of scores."""
    row: dict[str, Any] = {"Entity type": name}
    row |= {score.capitalize(): float(scores[score]) for score in SCORES if score in scores}
    return row if support is None else row | {"Support": int(support)}


def _missed(config: SpanMarkerConfig, data: SpanMarkerModelCardData) -> str:
    """Tell how many of the training set's entities are too long."""
    widths = data.training_set.entity_widths if data.training_set else {}
    if not widths:
        return ""
    total = sum(widths.values())
    missed = sum(count for width, count in widths.items() if width > config.entity_max_length)
    return f" In the training set these are {missed:,} of {total:,} entities ({missed / total:.2%})."


@cache
def _template() -> jinja2.Template:
    """Load the template. Filters escape the values for Markdown and Python; escaping for HTML would spoil both."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"md": escape, "number": number, "rows": table, "literal": repr}
    source = files("span_marker.model_card").joinpath("template.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)
