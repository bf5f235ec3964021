"""The steps of the demo: load, train, evaluate, predict, save."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import datasets
import numpy as np
import torch
from datasets import DatasetDict, concatenate_datasets
from rich.console import Console
from transformers import PrinterCallback, TrainingArguments, set_seed
from transformers.utils import logging as transformers_logging

from span_marker.demo import SAMPLE, DemoError
from span_marker.demo.corpus import load_corpus
from span_marker.demo.display import Notes, TrainingProgress, colours, highlight, metric_table, print_step
from span_marker.demo.encoder import find_encoder
from span_marker.label_columns import NER_TAGS, TOKENS, labels_from_dataset, resolve_tags
from span_marker.label_normalizer import AutoLabelNormalizer
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.modeling import SpanMarkerModel
from span_marker.schemes import LabelScheme
from span_marker.trainer import Trainer
from span_marker.types import IntArray

SENTENCES: Final = (
    "The Danish architect Jørn Utzon never saw the finished Sydney Opera House.",
    "Toni Morrison left Random House in 1983 and won the Nobel Prize a decade later.",
    "Siemens will build trains for Egypt, its chief executive, Roland Busch, said in Cairo.",
)
"""Sentences to try the model on. They are in no corpus of the demo."""

_STEPS: Final = 6
_MODEL_MAX_LENGTH: Final = 128
_COVERED: Final = 0.995
"""Share of the training set's entities that candidate spans must be long enough for: the rest costs too much time."""
_LONGEST: Final = 8
_LEARNING_RATE: Final = 4e-4
_BATCH_SIZE: Final = 16
_WARMUP: Final = 0.1


@dataclass(frozen=True)
class _Run:
    """What the steps share.

    Attributes:
        console: Where to print.
        model: The model.
        data: The three splits.
        output: Folder for the model.
        started: When the demo started, in seconds.
    """

    console: Console
    model: SpanMarkerModel
    data: DatasetDict
    output: Path
    started: float


def run(data: str, encoder: str, output: Path, epochs: int, seed: int = 0, limit: int | None = None) -> dict[str, Any]:
    """Run the demo.

    Args:
        data: Name or folder of the corpus.
        encoder: "minilm", or folder or Hub id of an encoder.
        output: Folder for the model, made if it does not exist.
        epochs: Number of passes over the training sentences.
        seed: Seed of all random numbers.
        limit: Most training sentences. ``None``: all.

    Returns:
        The scores on the test split, as [`span_marker.evaluation.compute_metrics`] names them.

    Raises:
        DemoError: The corpus, the encoder or the output folder is not usable.
    """
    console, started = Console(), time.monotonic()
    _require_folder(output)
    with _quiet(console):
        corpus = _load_data(console, data, limit)
        model = _load_model(console, corpus, data, encoder, seed)
        steps = _Run(console, model, corpus, output, started)
        trainer = _train(steps, epochs, seed)
        metrics = _evaluate(steps, trainer)
        _predict(steps)
        _save(steps)
    return metrics


def _require_folder(output: Path) -> None:
    """Make the output folder before minutes are spent on what goes into it; an earlier model there is replaced.

    Raises:
        DemoError: The folder cannot be made, or holds something else.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"The folder {output} cannot be made: {error.strerror}. Choose another --output.") from error
    if any(output.iterdir()) and not (output / "model.safetensors").is_file():
        raise DemoError(f"The folder {output} holds other files, which might be overwritten. Choose another --output.")


def _load_data(console: Console, name: str, limit: int | None) -> DatasetDict:
    """Load the corpus, sentence by sentence, without document context."""
    print_step(console, 1, _STEPS, f"Load the corpus {name}")
    corpus = load_corpus(name).select_columns([TOKENS, NER_TAGS])
    if limit is not None:
        corpus["train"] = corpus["train"].select(range(min(limit, len(corpus["train"]))))
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in corpus.items())
    console.print(f"Sentences: {sizes}.")
    return corpus


def _load_model(console: Console, corpus: DatasetDict, data: str, name: str, seed: int) -> SpanMarkerModel:
    """Load the encoder and start a model on it, for the corpus's entity types and their usual lengths."""
    print_step(console, 2, _STEPS, f"Load the encoder {name}")
    source = find_encoder(name)
    labels, lengths = _labels_and_lengths(corpus, data)
    longest = min(int(np.quantile(lengths, _COVERED, method="inverted_cdf")), _LONGEST)
    set_seed(seed)
    try:
        model = SpanMarkerModel.from_pretrained(
            source.path,
            labels=labels,
            model_max_length=_MODEL_MAX_LENGTH,
            entity_max_length=longest,
            model_card_data=SpanMarkerModelCardData(
                model_name=f"SpanMarker with {source.name}",
                encoder_name=source.name,
                encoder_id=source.repository,
                language="en" if data == SAMPLE else None,
                dataset_name="the sample corpus of span_marker" if data == SAMPLE else Path(data).name,
                predict_example=SENTENCES[0],
            ),
        )
    except (OSError, ValueError) as error:
        raise _user_error(f"The encoder {name!r} cannot be used", error) from error
    types = ", ".join(model.config.labels[1:])
    console.print(f"{model.num_parameters():,} parameters. Types: {types}.")
    covered = (lengths <= longest).mean()
    console.print(f"Candidate spans have up to {longest} words, which covers {covered:.1%} of the training entities.")
    return model


def _labels_and_lengths(corpus: DatasetDict, data: str) -> tuple[list[str], IntArray]:
    """Find all tags of a corpus, and the number of words of each of its training entities.

    Raises:
        DemoError: The tags follow no scheme, or there is no entity.
    """
    try:
        labels = labels_from_dataset(concatenate_datasets(list(corpus.values()))) or []
        normalizer = AutoLabelNormalizer.from_config(SimpleNamespace(label_scheme=LabelScheme.from_labels(labels)))
        entities = normalizer.entities(resolve_tags(corpus["train"], labels=labels)[NER_TAGS])
    except ValueError as error:
        raise _user_error(f"The corpus {data} cannot be used", error) from error
    if not len(entities.rows):
        count = len(corpus["train"])
        raise DemoError(
            f"The first {count:,} of the training sentences hold no entity. Raise --limit, or check the tags."
        )
    return labels, entities.ends - entities.starts


def _train(steps: _Run, epochs: int, seed: int) -> Trainer:
    """Train the model."""
    print_step(steps.console, 3, _STEPS, "Train")
    steps.console.print("The span filter learns all candidate spans; markers learn entities and the hardest others.")
    arguments = TrainingArguments(
        output_dir=str(steps.output),
        num_train_epochs=epochs,
        learning_rate=_LEARNING_RATE,
        warmup_steps=_WARMUP,
        per_device_train_batch_size=_BATCH_SIZE,
        per_device_eval_batch_size=2 * _BATCH_SIZE,
        train_sampling_strategy="group_by_length",
        logging_strategy="epoch",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=seed,
    )
    trainer = Trainer(
        steps.model,
        arguments,
        train_dataset=steps.data["train"],
        callbacks=[TrainingProgress(steps.console)],
    )
    trainer.remove_callback(PrinterCallback)
    begin = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - begin
    rate = epochs * len(steps.data["train"]) / seconds
    steps.console.print(f"Trained for {seconds:.0f} seconds: {rate:.1f} sentences a second.")
    return trainer


def _evaluate(steps: _Run, trainer: Trainer) -> dict[str, Any]:
    """Score the model on the test split."""
    print_step(steps.console, 4, _STEPS, "Evaluate")
    metrics = trainer.evaluate(steps.data["test"], metric_key_prefix="test")
    scores = {name.removeprefix("test_"): value for name, value in metrics.items()}
    steps.console.print(metric_table(scores, steps.model.config.labels))
    return scores


def _predict(steps: _Run) -> None:
    """Show what the model finds in new sentences."""
    print_step(steps.console, 5, _STEPS, "Predict")
    palette = colours(steps.model.config.labels[1:])
    found = steps.model.predict(list(SENTENCES), is_split_into_words=False)
    for sentence, entities in zip(SENTENCES, found, strict=True):
        line = highlight(sentence, entities, palette, brackets=steps.console.color_system is None)  # type: ignore[arg-type]
        steps.console.print(line)


def _save(steps: _Run) -> None:
    """Save the model, and tell what to do with it."""
    print_step(steps.console, 6, _STEPS, "Save")
    steps.model.save_pretrained(steps.output)
    folder = steps.output
    minutes, seconds = divmod(round(time.monotonic() - steps.started), 60)
    steps.console.print(
        f"The model is in {folder}, its card in {folder / 'README.md'}. Total: {minutes} min {seconds} s."
    )
    steps.console.print("Use it from Python:")
    lines = (
        "from span_marker import SpanMarkerModel",
        f"model = SpanMarkerModel.from_pretrained({str(folder)!r})",
        f"model.predict({SENTENCES[0]!r})",
    )
    for line in lines:
        steps.console.print(f"    {line}", markup=False, soft_wrap=True)


def _user_error(what: str, error: Exception) -> DemoError:
    """Put an error of a library into one line."""
    return DemoError(f"{what}: {' '.join(str(error).split())}")


@contextmanager
def _quiet(console: Console) -> Iterator[None]:
    """Silence the libraries' bars and notes, and show the package's own in short. All is put back at the end."""
    package, notes = logging.getLogger("span_marker"), Notes(console)
    propagate, verbosity = package.propagate, transformers_logging.get_verbosity()
    bars, hub_bars = not datasets.are_progress_bars_disabled(), transformers_logging.is_progress_bar_enabled()
    package.addHandler(notes)
    package.propagate = False
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        package.removeHandler(notes)
        package.propagate = propagate
        transformers_logging.set_verbosity(verbosity)
        if hub_bars:
            transformers_logging.enable_progress_bar()
        if bars:
            datasets.enable_progress_bars()
