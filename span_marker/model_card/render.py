"""From what is known of a model to the text of its card."""

from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import jinja2
from transformers import PreTrainedConfig

from span_marker.configuration import SpanMarkerConfig
from span_marker.model_card.citations import encoder_citation
from span_marker.model_card.data import SpanMarkerModelCardData
from span_marker.model_card.edits import write_card
from span_marker.model_card.facts import encoder_license
from span_marker.model_card.markdown import escape, literal, number, one_line, table
from span_marker.model_card.metadata import yaml_head
from span_marker.model_card.sections import (
    describe_emissions,
    describe_source,
    evaluation_section,
    label_rows,
    limitations,
    predict_example,
    summary,
    tagged_example,
    types_of,
)
from span_marker.model_card.sources import encoder_id
from span_marker.model_card.training_curve import thinned

_TITLE_SIZE = 50
"""Most characters of the entity types in a title."""
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

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, or ``None``."""


def generate_model_card(model: CardModel, plot: str | None = None) -> str:
    """Write a model's card. Nothing is looked up in the network, and what is not known is left out.

    Args:
        model: A span marker model.
        plot: File name of a picture of the training curve beside the card.

    Returns:
        Markdown with a YAML head, as the Hub shows it.

    Raises:
        ValueError: The model's card data hold a language or an id that the Hub does not allow.
        TypeError: They hold a value of the wrong type.
    """
    data, config = model.model_card_data, model.config
    data.validate()
    training = data.shown_training_set
    base_model = base_model_of(model)
    title = one_line(data.model_name or _title(data, base_model, config))
    text = _template().render(
        title=title,
        summary=summary(config, data),
        data=data,
        config=config,
        encoder=_encoder(data, base_model, model.encoder.config),
        dataset=describe_source(data.source),
        labels=label_rows(config, data),
        evaluations={name: evaluation_section(found) for name, found in data.evaluations.items()},
        load=_load(data.model_id),
        example=predict_example(data, _EXAMPLE),
        tagged=tagged_example(config, data),
        training_set=training,
        lengths=data.train_set_metrics_list or (training and training.lengths),
        curve=data.eval_lines_list or thinned(data.curve),
        plot=plot,
        emissions=describe_emissions(data.measured_emissions or {}),
        limitations=limitations(config, data, model.tokenizer),
        encoder_citation=encoder_citation(base_model),
    )
    return write_card(yaml_head(data, title, base_model), text)


def base_model_of(model: CardModel) -> str | None:
    """Find the id of a model's encoder on the Hub.

    Args:
        model: A span marker model.

    Returns:
        The id that was given, or else the one that is certain.
    """
    return model.model_card_data.encoder_id or encoder_id(model.encoder.config)


def _title(data: SpanMarkerModelCardData, base_model: str | None, config: SpanMarkerConfig) -> str:
    """Name the model by its parts; where they have no names, by what it finds."""
    encoder, dataset = data.encoder_name or base_model, data.source.name or data.source.id
    types = ", ".join(types_of(config))
    if not (encoder or dataset):
        return f"SpanMarker for {types}" if 0 < len(types) <= _TITLE_SIZE else "SpanMarker"
    return "SpanMarker" + (f" with {encoder}" if encoder else "") + (f" on {dataset}" if dataset else "")


def _encoder(data: SpanMarkerModelCardData, base_model: str | None, config: PreTrainedConfig) -> str:
    """Name the encoder in Markdown, with its type, size and license."""
    layers, width = getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", None)
    license_id = encoder_license(data, base_model)
    facts = [
        config.model_type,
        f"{layers} layers" if layers else "",
        f"hidden size {width}" if width else "",
        f"license {license_id}" if license_id else "",
    ]
    described, name = escape(", ".join(filter(None, facts))), data.encoder_name
    if base_model:
        return f"[{escape(name or base_model)}](https://huggingface.co/{base_model}) ({described})"
    return f"{escape(name)} ({described})" if name else described


def _load(model_id: str | None) -> str:
    """Write the Python that loads the model."""
    if model_id:
        return f'model = SpanMarkerModel.from_pretrained("{model_id}")'
    comment = "# the folder that holds this file and the model's weights"
    return f'folder = "."  {comment}\nmodel = SpanMarkerModel.from_pretrained(folder)'


@cache
def _template() -> jinja2.Template:
    """Load the template. Filters escape the values for Markdown and Python; escaping for HTML would spoil both."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"md": escape, "number": number, "rows": table, "literal": literal}
    source = files("span_marker.model_card").joinpath("template.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)
