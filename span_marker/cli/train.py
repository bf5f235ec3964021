"""``span-marker train``: a configuration to a trained, evaluated and saved model."""

import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import set_seed

from span_marker._version import __version__
from span_marker.arguments import read_arguments
from span_marker.cli.configuration import Configuration
from span_marker.cli.data import SPLITS, load_data
from span_marker.cli.tables import print_metrics
from span_marker.label_columns import NER_TAGS
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.modeling import SpanMarkerModel
from span_marker.trainer import Trainer

SAVED = "span_marker.yaml"
"""The configuration beside a model."""


def run(options: Namespace) -> int:
    """Train a model.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        ValueError: A setting or the data cannot be used.
        TypeError: A setting is unknown, or a value of another type.
        OSError: A file, the encoder or the data set is missing.
    """
    output = {"training": {"output_dir": options.output}} if options.output else {}
    configuration = Configuration.read(options.settings, **output)
    if options.dry_run:
        print(configuration.to_yaml(_versions()), end="")
        return 0
    with redirect_stdout(sys.stderr):  # what transformers prints of a training is no result
        name, scored, metrics = train(configuration)
    if metrics:
        print_metrics(f"{scored:,} sentences of {name}", metrics, name)
    print(f"The model is in {configuration.training['output_dir']}.", file=sys.stderr)
    return 0


def train(configuration: Configuration) -> tuple[str, int, dict[str, Any]]:
    """Train, evaluate and save a model, and the configuration beside it.

    Args:
        configuration: The configuration.

    Returns:
        Name of the split that the model was evaluated on, its number of sentences, and the metrics, with the name as
        prefix; no metrics where there is no split but that of training.

    Raises:
        ValueError: A setting or the data cannot be used.
        TypeError: The model does not take a setting.
        OSError: The encoder or the data set is missing.
    """
    arguments = read_arguments({"dataloader_pin_memory": torch.cuda.is_available(), **configuration.training})
    splits, used = load_splits(configuration.data)
    set_seed(arguments.seed)
    trainer = Trainer(
        make_model(configuration),
        arguments,
        train_dataset=splits["train"],
        eval_dataset=splits.get("validation"),
        column=configuration.data.get("column", NER_TAGS),
        **configuration.trainer,
    )
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    name = next((split for split in ("test", "validation") if split in splits), "")
    metrics = trainer.evaluate(splits[name], metric_key_prefix=name) if name else {}
    trainer.save_model()
    if trainer.is_world_process_zero():
        data = {**configuration.data, **used}
        training = {"seed": arguments.seed, **configuration.training}
        resolved = Configuration(configuration.model, data, training, configuration.trainer, configuration.card)
        (Path(arguments.output_dir) / SAVED).write_text(resolved.to_yaml(_versions()), encoding="utf-8")
    if arguments.push_to_hub:
        trainer.push_to_hub()
    return name, len(splits[name]) if name else 0, metrics


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
        raise ValueError(
            f"The splits of {data['path']!r} are {', '.join(found)}. Say which is for training: data.train="
        )
    return {split: found[name] for split, name in used.items() if name is not None}, used


def _versions() -> str:
    return f"span_marker {__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
