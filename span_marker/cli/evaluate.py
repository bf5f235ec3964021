"""``span-marker evaluate``: the scores of a model on a data set."""

import json
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import torch

from span_marker.cli.data import choose_split, load_data
from span_marker.cli.tables import print_metrics
from span_marker.decoding import choose_decoding
from span_marker.modeling import SpanMarkerModel
from span_marker.trainer import Trainer
from span_marker.trainer_evaluation import EvaluatedSentences
from span_marker_cli.parsers import decoding_options, reading_options

_PREFIX = "eval"


def run(options: Namespace) -> int:
    """Score a model.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        ValueError: The data set cannot be read, its tags are not the model's, or an option is out of range.
        OSError: The model or the data set is missing.
    """
    splits = load_data(options.data, **reading_options(options))  # type: ignore[arg-type]
    dataset = choose_split(splits, options.split)
    training = splits.get("train") if options.report else None  # of which the report tells what was seen in it
    found: list[EvaluatedSentences] = []
    model = SpanMarkerModel.from_pretrained(options.model)
    decoding = choose_decoding(**decoding_options(options), config=model.config)  # type: ignore[arg-type]
    with TemporaryDirectory() as folder, redirect_stdout(sys.stderr):  # what transformers prints is no result
        settings = {
            "output_dir": folder,
            "per_device_eval_batch_size": options.batch_size,
            "dataloader_pin_memory": torch.cuda.is_available(),
            "disable_tqdm": not sys.stderr.isatty(),
            "report_to": "none",
        }
        trainer = Trainer(
            model,
            settings,
            train_dataset=None if training is dataset else training,
            column=options.column,
            compute_metrics=partial(_keep, found),
            decoding=decoding,
        )
        metrics = trainer.evaluate(dataset, metric_key_prefix=_PREFIX)
        if options.report:
            report = trainer.evaluation_report(dataset, evaluated=found[0])
            report.to_html(options.report, f"Evaluation of {options.model} on {options.data}")
    if options.json:
        print(json.dumps(metrics, indent=2))
    else:
        print_metrics(f"{len(dataset):,} sentences of {options.data}", metrics, _PREFIX)
    return 0


def _keep(found: list[EvaluatedSentences], evaluated: EvaluatedSentences) -> dict[str, Any]:
    """Keep what an evaluation found, and add no metric to it."""
    found.append(evaluated)
    return {}
