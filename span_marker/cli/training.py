"""A configuration to a model, its data and its Trainer."""

import sys
from functools import partial
from typing import Any

import datasets
import torch
from transformers.integrations import is_tensorboard_available

from span_marker.cli.configuration import Configuration
from span_marker.cli.data import SPLITS, load_data
from span_marker.label_columns import NER_TAGS
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.modeling import SpanMarkerModel
from span_marker.trainer import Trainer


def make_trainer(configuration: Configuration, splits: dict[str, datasets.Dataset]) -> Trainer:
    """Make a Trainer that makes its models itself, so that each training begins with the seed.

    Args:
        configuration: The configuration.
        splits: The splits by what they are for.

    Returns:
        The Trainer.

    Raises:
        ValueError: A setting is out of range.
        TypeError: The model does not take a setting.
        OSError: The encoder is missing.
    """
    return Trainer(
        args={**_defaults(), **configuration.training},
        train_dataset=splits["train"],
        eval_dataset=splits.get("validation"),
        model_init=partial(make_model, configuration),
        column=configuration.data.get("column", NER_TAGS),
        **configuration.trainer,
    )


def _defaults() -> dict[str, Any]:
    """Return the training arguments that depend on the machine, where the settings do not give them."""
    return {
        "dataloader_pin_memory": torch.cuda.is_available(),
        "disable_tqdm": not sys.stderr.isatty(),
        "report_to": "tensorboard" if is_tensorboard_available() else "none",
    }


def make_model(configuration: Configuration) -> SpanMarkerModel:
    """Start a new model, or load one to train further.

    Args:
        configuration: The configuration.

    Returns:
        The model.

    Raises:
        ValueError: A setting is out of range.
        TypeError: The model does not take a setting.
        OSError: The encoder is missing.
    """
    settings = dict(configuration.model)
    card = SpanMarkerModelCardData(**configuration.card) if configuration.card else None
    return SpanMarkerModel.from_pretrained(settings.pop("name"), model_card_data=card, **settings)


def load_splits(data: dict[str, Any]) -> tuple[dict[str, datasets.Dataset], dict[str, str | None]]:
    """Load the splits to train and to evaluate on.

    Args:
        data: The section "data".

    Returns:
        The splits by what they are for, and the name that each has in the data set, ``None`` if there is none.

    Raises:
        ValueError: There is no such split, or the data set cannot be read.
        FileNotFoundError: The data set is missing.
    """
    reading = {name: value for name, value in data.items() if name not in SPLITS}
    found = load_data(reading.pop("path"), **reading)
    used = {split: data.get(split, split if split in found else None) for split in SPLITS}
    for split, name in used.items():
        if name is not None and name not in found:
            raise ValueError(f"data.{split} is {name!r}, but the splits of {data['path']!r} are {', '.join(found)}.")
    if used["train"] is None:
        raise ValueError(f"The splits of {data['path']!r} are {', '.join(found)}. Choose one with data.train=.")
    return {split: found[name] for split, name in used.items() if name is not None}, used
