"""``span-marker train``: a configuration to a trained, evaluated and saved model."""

import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
import transformers

from span_marker._version import __version__
from span_marker.cli.configuration import Configuration
from span_marker.cli.search import search
from span_marker.cli.tables import print_metrics
from span_marker.cli.training import load_splits, make_trainer
from span_marker.model_card.data import EVALUATION

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
        ImportError: A search needs optuna.
    """
    output = {"training": {"output_dir": options.output}} if options.output else {}
    configuration = Configuration.read(options.settings, **output)
    if options.dry_run:
        print(configuration.to_yaml(_versions()), end="")
        return 0
    if options.search:
        configuration = search(configuration, options.search)
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
    splits, used = load_splits(configuration.data)
    trainer = make_trainer(configuration, splits)
    arguments = trainer.args
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    evaluations = trainer.model.model_card_data.evaluations
    if EVALUATION in evaluations:
        evaluations["validation"] = evaluations.pop(EVALUATION)  # which is known here
    name = next((split for split in ("test", "validation") if split in splits), "")
    metrics = trainer.evaluate(splits[name], metric_key_prefix=name) if name else {}
    if trainer.is_world_process_zero():
        data = {**configuration.data, **used}
        training = {"seed": arguments.seed, **configuration.training}
        resolved = Configuration(configuration.model, data, training, configuration.trainer, configuration.card)
        (Path(arguments.output_dir) / SAVED).write_text(resolved.to_yaml(_versions()), encoding="utf-8")
    trainer.save_model()  # pushes it, too, if the arguments say so
    return name, len(splits[name]) if name else 0, metrics


def _versions() -> str:
    return f"span_marker {__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
