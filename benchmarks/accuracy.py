"""F1 of span markers and of token classification with the same encoder, the same budget and several seeds.

Both fine-tune the encoder for the same number of epochs with the same learning rate, schedule and batch size, take the
model as it is after the last, and are scored by seqeval on the same test sentences, all gold entities counted. With
``--context`` both read each sentence together with its document's neighbouring sentences::

    SPAN_MARKER_SHARED=../shared python benchmarks/accuracy.py --data wnut17 --seeds 0 1 2
    SPAN_MARKER_SHARED=../shared python benchmarks/accuracy.py --data wikigold --context

A line of JSON is added to ``benchmarks/results/accuracy.jsonl`` after each run. Runs that are there already are not
repeated: a benchmark that was stopped goes on where it was, and its table can be printed again at once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import token_classification
import torch
from corpora import DOCUMENT_COLUMNS, ENCODER, LENGTHS, Corpus, encoder_path, read_corpus
from datasets.utils.logging import disable_progress_bar
from seqeval.metrics import classification_report
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging as transformers_logging

import span_marker
from span_marker import SpanMarkerModel, Trainer
from span_marker.demo import DemoError

RESULTS = Path(__file__).resolve().parent / "results" / "accuracy.jsonl"
SPAN, TOKEN = "span", "token"
WARMUP = 0.1
"""Share of the steps in which the learning rate rises; it falls linearly to zero in the others."""
Record: TypeAlias = dict[str, Any]
_COLUMNS = ("f1", "precision", "recall", "macro_f1")


class Progress(TrainerCallback):
    """Prints the mean loss of each epoch.

    Args:
        run: What to call the run.
    """

    def __init__(self, run: str) -> None:
        self._run = run

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Print a line."""
        if logs and "loss" in logs:
            _progress(
                f"{self._run}: epoch {state.epoch:.0f} of {args.num_train_epochs:.0f}, loss {float(logs['loss']):.4f}"
            )


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_once(key: Record, corpus: Corpus, encoder: str) -> Record:
    """Train one model and score it.

    Args:
        key: The settings of the run.
        corpus: The corpus, with documents only if their context is wanted.
        encoder: Path of the encoder.

    Returns:
        Scores and times.
    """
    set_seed(key["seed"])
    evaluate = {SPAN: _span_markers, TOKEN: _token_classification}[key["model"]]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=key["epochs"],
            learning_rate=key["learning_rate"],
            per_device_train_batch_size=key["batch_size"],
            per_device_eval_batch_size=key["batch_size"],
            warmup_steps=WARMUP,
            bf16=key["bf16"],
            use_cpu=not torch.cuda.is_available(),
            seed=key["seed"],
            dataloader_pin_memory=torch.cuda.is_available(),
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        name = f"{key['data']}, {key['model']}, {'' if key['context'] else 'no '}context, seed {key['seed']}"
        return evaluate(corpus, encoder, arguments, Progress(name)) | {"device": arguments.device.type}


def _span_markers(corpus: Corpus, encoder: str, arguments: TrainingArguments, progress: Progress) -> Record:
    """Train and score span markers."""
    model = SpanMarkerModel.from_pretrained(encoder, labels=corpus.labels, **LENGTHS)
    trainer = Trainer(model=model, args=arguments, train_dataset=corpus.splits["train"], callbacks=[progress])
    result = _train(trainer, corpus)
    begin = time.perf_counter()
    found = trainer.evaluate(corpus.splits["test"])
    scores = {name: found[f"eval_overall_{name}"] for name in ("precision", "recall", "f1")}
    return result | scores | {"macro_f1": found["eval_macro_f1"], "evaluation_seconds": time.perf_counter() - begin}


def _token_classification(corpus: Corpus, encoder: str, arguments: TrainingArguments, progress: Progress) -> Record:
    """Train and score token classification."""
    length = LENGTHS["model_max_length"]
    trainer = token_classification.make_trainer(corpus, encoder, length, arguments, [progress])
    result = _train(trainer, corpus)
    test = corpus.splits["test"]
    begin = time.perf_counter()
    predicted = token_classification.predict_tags(trainer, test, corpus.labels, length)
    gold = [[corpus.labels[tag] for tag in row] for row in test["ner_tags"]]
    report = classification_report(gold, predicted, output_dict=True, zero_division=0)
    micro = report["micro avg"]
    scores = {"precision": micro["precision"], "recall": micro["recall"], "f1": micro["f1-score"]}
    scores |= {"macro_f1": report["macro avg"]["f1-score"], "evaluation_seconds": time.perf_counter() - begin}
    return result | {name: float(value) for name, value in scores.items()}


def _train(trainer: Any, corpus: Corpus) -> Record:
    """Train, and tell how long it took, preprocessing included."""
    trainer.remove_callback(PrinterCallback)
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    sentences = len(corpus.splits["train"]) * trainer.args.num_train_epochs
    return {"training_seconds": seconds, "training_sentences_per_second": sentences / seconds}


def narrow(corpus: Corpus, *, context: bool, limit: int | None) -> Corpus:
    """Choose what of a corpus is used.

    Args:
        corpus: The corpus.
        context: Whether to keep the documents.
        limit: Most sentences of each split. ``None``: all.

    Returns:
        The part.

    Raises:
        DemoError: Its documents are wanted but not known.
    """
    if context and not corpus.has_documents:
        raise DemoError("The data set has no document_id and sentence_id: there is no --context.")
    columns = ["tokens", "ner_tags", *(DOCUMENT_COLUMNS if context else ())]
    splits = {
        name: rows.select_columns(columns).select(range(min(limit or len(rows), len(rows))))
        for name, rows in corpus.splits.items()
    }
    return replace(corpus, splits=splits)


def read_results(path: Path) -> list[Record]:
    """Read the runs that are finished.

    Args:
        path: File of one JSON object a line; it need not exist.
    """
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line] if path.is_file() else []


def find(records: list[Record], key: Record) -> Record | None:
    """Find the latest run with the given settings."""
    return next((record for record in reversed(records) if key.items() <= record.items()), None)


def table(records: list[Record]) -> str:
    """Sum up runs that differ in their seeds.

    Args:
        records: The runs.

    Returns:
        A Markdown table: means and, from two seeds on, their standard errors.
    """
    lines = [
        "| data | model | context | type | seeds | F1 | precision | recall | macro F1 | sentences/s | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record["data"], record["model"], record["context"], record["bf16"]), []).append(record)
    for (data, model, context, bf16), runs in groups.items():
        scores = [
            mean_and_error([100 * run[name] for run in runs]) for name in ("f1", "precision", "recall", "macro_f1")
        ]
        rate = statistics.mean(run["training_sentences_per_second"] for run in runs)
        minutes = statistics.mean(run["training_seconds"] + run["evaluation_seconds"] for run in runs) / 60
        seeds = " ".join(str(run["seed"]) for run in runs)
        kind = "bf16" if bf16 else "fp32"
        cells = (data, model, "yes" if context else "no", kind, seeds, *scores, f"{rate:.1f}", f"{minutes:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mean_and_error(values: Sequence[float]) -> str:
    """Write a mean and its standard error.

    Args:
        values: One value a seed.
    """
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) / len(values) ** 0.5:.2f}"


def environment() -> Record:
    """Tell what a run was made with."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        git = subprocess.run(command, cwd=RESULTS.parents[1], capture_output=True, text=True, check=False)
        commit = git.stdout.strip() or None
    except OSError:  # no git here
        commit = None
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "span_marker": span_marker.__version__,
        "transformers": version("transformers"),
        "torch": version("torch"),
        "threads": torch.get_num_threads(),
    }


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare the accuracy of span markers and token classification.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default="wnut17", help="data set in $SPAN_MARKER_SHARED/data, or a folder")
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--models", nargs="+", choices=[SPAN, TOKEN], default=[SPAN, TOKEN], help="what to train")
    parser.add_argument("--context", action=argparse.BooleanOptionalAction, default=False, help="use documents")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="a run each")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the training sentences")
    parser.add_argument("--learning-rate", type=float, default=2e-4, help="highest learning rate")
    parser.add_argument("--batch-size", type=int, default=16, help="rows in a training step")
    parser.add_argument("--bf16", action="store_true", help="train and score in mixed precision")
    parser.add_argument("--limit", type=int, help="use only so many sentences of each split (for a trial)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished runs, added to")
    return parser.parse_args(argv)


def run(settings: argparse.Namespace) -> list[Record]:
    """Make the runs that are not finished yet.

    Args:
        settings: The parsed arguments.

    Returns:
        All that were asked for.

    Raises:
        DemoError: The data set or the encoder is missing.
    """
    corpus = narrow(read_corpus(settings.data), context=settings.context, limit=settings.limit)
    encoder = encoder_path(settings.encoder)
    settings.results.parent.mkdir(parents=True, exist_ok=True)
    records = []
    for seed, model in product(settings.seeds, settings.models):
        key = {
            "data": Path(settings.data).name,
            "model": model,
            "context": settings.context,
            "seed": seed,
            "epochs": settings.epochs,
            "learning_rate": settings.learning_rate,
            "batch_size": settings.batch_size,
            "warmup": WARMUP,
            "bf16": settings.bf16,
            "encoder": Path(settings.encoder).name,
            "limit": settings.limit,
            **LENGTHS,
        }
        record = find(read_results(settings.results), key)
        if record is None:
            record = key | run_once(key, corpus, encoder) | environment()
            with settings.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        _progress(f"{key['data']}, {model}, seed {seed}: F1 {100 * record['f1']:.2f}")
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
    disable_progress_bar()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    try:
        print(table(run(settings)))
    except DemoError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
