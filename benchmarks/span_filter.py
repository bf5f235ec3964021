"""What the span filter gains and costs: F1 and speed with all spans, with the filter, and of token classification.

A model is trained with its filter (or loaded with ``--model``), the filter calibrated on the validation set, and the
test set predicted in turn by three means, in one process: all candidate spans; those that the filter keeps; and, as the
floor for speed, an untrained token classification model with the same encoder, sentences sorted by length and batched
alike::

    SPAN_MARKER_SHARED=../shared python benchmarks/span_filter.py --data wnut17
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from corpora import ENCODER, LENGTHS, Corpus, encoder_path, read_corpus
from datasets.utils.logging import disable_progress_bar
from transformers import AutoModelForTokenClassification, AutoTokenizer, TrainingArguments, set_seed
from transformers.utils import logging as transformers_logging
from workloads import tag_sentences

from span_marker import SpanMarkerModel, Trainer
from span_marker.demo import DemoError

ALL, FILTERED, TOKEN = "all spans", "filtered", "token classification"


def train(corpus: Corpus, encoder: str, settings: argparse.Namespace) -> Trainer:
    """Train a model with a span filter.

    Args:
        corpus: The corpus.
        encoder: Path of the encoder.
        settings: The parsed arguments.

    Returns:
        The Trainer, whose model's filter is calibrated on the validation set.
    """
    set_seed(settings.seed)
    if settings.model:
        model = SpanMarkerModel.from_pretrained(settings.model)
    else:
        model = SpanMarkerModel.from_pretrained(encoder, labels=corpus.labels, **LENGTHS)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=settings.batch_size,
            warmup_steps=0.1,
            seed=settings.seed,
            bf16=settings.bf16,
            use_cpu=not torch.cuda.is_available(),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=corpus.splits["train"],
            eval_dataset=corpus.splits["validation"],
        )
        begin = time.perf_counter()
        if settings.model:
            trainer.calibrate_span_filter()
        else:
            trainer.train()
        print(f"trained and calibrated in {time.perf_counter() - begin:.0f} s")
    if settings.save:
        model.save_pretrained(settings.save)
    return trainer


def measure(tasks: dict[str, Callable[[], Any]], repetitions: int, clock: str = "wall") -> dict[str, float]:
    """Time tasks in turn.

    Args:
        tasks: The tasks by name.
        repetitions: How often each is timed.
        clock: "wall", or "processor" for the seconds of all threads, which suffer less from other load.

    Returns:
        The median seconds of each.
    """
    now = time.perf_counter if clock == "wall" else time.process_time
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repetitions):
        for name, task in tasks.items():
            begin = now()
            task()
            times[name].append(now() - begin)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def run(settings: argparse.Namespace) -> None:
    """Train, measure and report.

    Args:
        settings: The parsed arguments.

    Raises:
        DemoError: The data set or the encoder is missing.
    """
    corpus, encoder = read_corpus(settings.data), encoder_path(settings.encoder)
    trainer = train(corpus, encoder, settings)
    model, test = trainer.model, corpus.splits["test"]
    config, threshold = model.config, model.config.span_filter_threshold
    scores = {FILTERED: trainer.evaluate(test, metric_key_prefix="test")}
    config.span_filter_threshold = None
    scores[ALL] = trainer.evaluate(test, metric_key_prefix="test")
    config.span_filter_threshold = threshold

    sentences = list(test["tokens"])[: settings.sentences]
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    tagger = AutoModelForTokenClassification.from_pretrained(encoder, num_labels=len(corpus.labels)).eval()
    length = LENGTHS["model_max_length"]
    seconds = measure(
        {
            ALL: lambda: model.predict(sentences, settings.batch_size, span_filter=False),
            FILTERED: lambda: model.predict(sentences, settings.batch_size, span_filter=True),
            TOKEN: lambda: tag_sentences(tagger, tokenizer, sentences, settings.batch_size, length),
        },
        settings.repetitions,
    )
    print(f"threshold {threshold:.2e}; batches of {settings.batch_size}; {len(sentences)} sentences")
    print("\n| | F1 | sentences/s | times token classification's time |\n|---|---|---|---|")
    for name, time_taken in seconds.items():
        f1 = f"{100 * scores[name]['test_f1']:.2f}" if name in scores else ""
        print(f"| {name} | {f1} | {len(sentences) / time_taken:.1f} | {time_taken / seconds[TOKEN]:.2f} |")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, or 2 where something is missing.
    """
    parser = argparse.ArgumentParser(
        description="Measure what the span filter gains and costs.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default="wnut17", help="data set in $SPAN_MARKER_SHARED/data, or a folder")
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--model", type=Path, help="a model with a filter, instead of training one")
    parser.add_argument("--save", type=Path, help="folder for the trained model")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the training sentences")
    parser.add_argument("--learning-rate", type=float, default=2e-4, help="highest learning rate")
    parser.add_argument("--bf16", action="store_true", help="train in mixed precision")
    parser.add_argument("--sentences", type=int, help="test sentences that are timed (default: all)")
    parser.add_argument("--batch-size", type=int, default=16, help="sentences in a batch of prediction")
    parser.add_argument("--repetitions", type=int, default=3, help="timed runs of each")
    disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        run(parser.parse_args(argv))
    except DemoError as error:
        print(f"span_filter: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
