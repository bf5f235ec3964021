"""F1 of the modes of decoding on nested entities: GENIA, whose validation set is trained on and whose test set scored.

GENIA's training set is not among the shared data: the figures are those of a small training set, not to be compared
with published ones. One model is trained on all entities, those within others too, and scored with each mode::

    python benchmarks/nested.py --bf16 --threads 1

A line of JSON is added to ``results/nested.jsonl``; runs that are there already are not repeated.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpora import ENCODER, encoder_path
from datasets import Dataset
from quiet import set_up
from records import ROOT, Record, append, environment, find, mean_and_error, read_results
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed

from span_marker import Decoding, SpanMarkerModel, Trainer, read_dataset
from span_marker.decoding_modes import MODES
from span_marker.demo import DemoError
from span_marker.demo.corpus import SHARED_VARIABLE
from span_marker.types import Row

DATA = "genia_nested_devtest"
RESULTS = ROOT / "benchmarks" / "results" / "nested.jsonl"
LENGTHS = {"model_max_length": 256, "entity_max_length": 12}
ARGUMENTS = {"learning_rate": 2e-4, "per_device_train_batch_size": 16, "warmup_steps": 0.1}
_COLUMNS = ("precision", "recall", "f1", "recall_within", "recall_others")


class Progress(TrainerCallback):
    """Prints the mean loss of each epoch."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Print a line."""
        if logs and "loss" in logs:
            print(f"epoch {state.epoch:.0f}, loss {float(logs['loss']):.4f}", file=sys.stderr, flush=True)


def run_once(splits: dict[str, Dataset], encoder: str, key: Record) -> Record:
    """Train a model and score it with each mode.

    Args:
        splits: The data.
        encoder: Path of the encoder.
        key: The settings of the run.

    Returns:
        Scores and times.
    """
    set_seed(key["seed"])
    model = SpanMarkerModel.from_pretrained(encoder, **LENGTHS)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=not torch.cuda.is_available(),
            seed=key["seed"],
            num_train_epochs=key["epochs"],
            bf16=key["bf16"],
            per_device_eval_batch_size=32,
            dataloader_pin_memory=torch.cuda.is_available(),
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **ARGUMENTS,
        )
        trainer = Trainer(model, arguments, train_dataset=splits["validation"], callbacks=[Progress()])
        trainer.remove_callback(PrinterCallback)
        begin, processor_begin = time.perf_counter(), time.process_time()
        trainer.train()
        record: Record = {
            "training_seconds": time.perf_counter() - begin,
            "training_processor_seconds": time.process_time() - processor_begin,
            "default_decoding": model.config.decoding,
            "share_within": share_within(splits["test"]),
        }
        for mode in MODES:
            trainer.decoding = Decoding(mode)
            found = trainer.predict(splits["test"])
            scores = {name: found.metrics[f"test_overall_{name}"] for name in ("precision", "recall", "f1")}
            record[mode] = scores | recalls(found.predictions, found.label_ids)
    return record


def within_others(entities: Sequence[Row]) -> list[bool]:
    """Tell which entities of a sentence another one contains.

    Args:
        entities: The entities, no two with the same words.
    """
    return [
        any(other is not one and other["start"] <= one["start"] and one["end"] <= other["end"] for other in entities)
        for one in entities
    ]


def share_within(rows: Dataset) -> float:
    """Compute the share of the entities that lie within others.

    Args:
        rows: Sentences with "spans".
    """
    return float(np.mean([inside for spans in rows["spans"] for inside in within_others(spans)]))


def recalls(predicted: Sequence[Sequence[Row]], gold: Sequence[Sequence[Row]]) -> dict[str, float]:
    """Compute the recall of entities within others, and of all others.

    Args:
        predicted: The predicted entities of each sentence.
        gold: The gold entities of each sentence.
    """
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for found, entities in zip(predicted, gold, strict=True):
        places = {(row["start"], row["end"], row["label"]) for row in found}
        for row, inside in zip(entities, within_others(entities), strict=True):
            hits[inside].append((row["start"], row["end"], row["label"]) in places)
    return {"recall_within": float(np.mean(hits[True])), "recall_others": float(np.mean(hits[False]))}


def table(records: list[Record]) -> str:
    """Sum up runs that differ in their seeds.

    Args:
        records: The runs.

    Returns:
        A Markdown table.
    """
    lines = [
        "| decoding | precision | recall | F1 | recall of entities within others | recall of other entities |",
        "|---|---|---|---|---|---|",
    ]
    for mode in MODES:
        cells = [mean_and_error([100 * record[mode][name] for record in records]) for name in _COLUMNS]
        lines.append(f"| {mode} | {' | '.join(cells)} |")
    share = 100 * records[0]["share_within"]
    minutes = mean_and_error([record["training_processor_seconds"] / 60 for record in records])
    return "\n".join(
        [*lines, f"\n{share:.1f} % of the gold entities lie within others. Minutes of training: {minutes}."]
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare modes of decoding on GENIA.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--data", help=f"folder of the data set (default: {DATA} of the shared data)")
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="a run each")
    parser.add_argument("--epochs", type=float, default=4, help="passes over the training set")
    parser.add_argument("--bf16", action="store_true", help="train and score in mixed precision")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--sentences", type=int, help="first sentences of each split (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished runs, added to")
    return parser.parse_args(argv)


def _default_folder() -> Path:
    return Path(os.environ.get(SHARED_VARIABLE) or "../shared") / "data" / DATA


def run(settings: argparse.Namespace) -> list[Record]:
    """Make the runs that are not finished yet.

    Args:
        settings: The parsed arguments.

    Returns:
        All that were asked for.

    Raises:
        DemoError: The encoder or the data set is missing.
    """
    folder, encoder = Path(settings.data or _default_folder()), encoder_path(settings.encoder)
    if not folder.is_dir():
        raise DemoError(f"There is no folder {folder}. Give one with --data.")
    records = []
    for seed in settings.seeds:
        key = {
            "data": folder.name,
            "encoder": Path(settings.encoder).name,
            "seed": seed,
            "epochs": settings.epochs,
            "bf16": settings.bf16,
            "sentences": settings.sentences,
            **LENGTHS,
            **ARGUMENTS,
        }
        record = find(read_results(settings.results), key)
        if record is None:
            splits = {
                name: rows.select(range(min(settings.sentences or len(rows), len(rows))))
                for name, rows in read_dataset(folder, entity_column="spans").items()
            }
            record = key | run_once(splits, encoder, key) | environment()
            append(settings.results, record)
        records.append(record)
    return records


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, or 2 where something is missing.
    """
    settings = _parse(argv)
    set_up(settings.threads)
    try:
        print(table(run(settings)))
    except DemoError as error:
        print(f"nested: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
