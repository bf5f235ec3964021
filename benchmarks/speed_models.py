"""The models that `report.py` measures: trained ones, found or trained, and fresh ones with any number of labels."""

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import accuracy
import span_filter
import torch
from corpora import LENGTHS, Corpus
from experiments import read_experiment
from transformers import set_seed

from span_marker import SpanMarkerModel
from span_marker.classification import is_span
from span_marker.inference import evaluating
from span_marker.sentence_batches import SentenceBatches
from span_marker.span_filter import entity_scores

SPAN, TOKEN = "default", "token_classification"
EPOCHS = {SPAN: 6, TOKEN: 10}
"""Passes over the training sentences: at about equal training time, as in docs/accuracy.md."""
_SEED = 0
_OUTSIDE_BIAS = 5.0
"""What "O" starts with in the classifier of a fresh model, which would otherwise take every span for an entity."""


class Models(NamedTuple):
    """The two models of a data set.

    Attributes:
        span: Folder of the span marker model.
        tagger: Folder of the token classification model. ``None``: an untrained one is enough.
    """

    span: Path
    tagger: Path | None


def models_of(data: str, corpus: Corpus, encoder: str, settings: argparse.Namespace) -> Models:
    """Find a data set's models, and train what is missing.

    Args:
        data: Name of the data set.
        corpus: The data set.
        encoder: Path of the encoder.
        settings: The parsed arguments: the folder of ``models``, ``bf16``, ``untrained_tagger``.

    Returns:
        Their folders.
    """
    folder = settings.models.resolve()
    corpus = accuracy.narrow(corpus, context=False, sentences=None)
    span = find_model(folder, data, SPAN)
    if span is None:
        span = folder / data
        training = argparse.Namespace(
            model=None,
            save=span,
            seed=_SEED,
            epochs=EPOCHS[SPAN],
            learning_rate=2e-4,
            bf16=settings.bf16,
            batch_size=32,
        )
        span_filter.train(corpus, encoder, training)
    tagger = find_model(folder, data, TOKEN)
    if tagger is None and not settings.untrained_tagger:
        experiment = read_experiment(TOKEN, {"num_train_epochs": EPOCHS[TOKEN], "bf16": settings.bf16})
        accuracy.run_once(experiment, corpus, encoder, {"data": data, "seed": _SEED, "split": "validation"}, folder)
        tagger = find_model(folder, data, TOKEN)
    return Models(span, tagger)


def find_model(folder: Path, data: str, experiment: str) -> Path | None:
    """Find a model among those that were trained.

    Args:
        folder: Holds a folder for each model, such as those of ``accuracy.py --save``.
        data: Name of the data set.
        experiment: Name of the experiment; a span marker model's folder may have the name of the data set alone.
    """
    candidates = [folder / data] if experiment == SPAN else []
    candidates += sorted(folder.glob(f"{data}-{experiment}-*"))
    files = ("config.json", "model.safetensors")
    return next((path for path in candidates if all((path / name).is_file() for name in files)), None)


def digest(folder: Path | None) -> str | None:
    """Tell models apart by their weights.

    Args:
        folder: Folder of a model.
    """
    if folder is None:
        return None
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]


def save_for_reference(model: Path, encoder: str, folder: Path) -> str:
    """Make a model's folder that span-marker 1.8.1 can load: it looks for the encoder at the path in the configuration.

    Args:
        model: Folder of the model.
        encoder: Path of the encoder on this machine.
        folder: Folder to write, with links to the model's files.

    Returns:
        The folder written.
    """
    folder.mkdir()
    for file in model.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((model / "config.json").read_text("utf-8"))
    config["encoder"]["_name_or_path"] = encoder
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return str(folder)


def save_onnx(model: Path, folder: Path, quantize: str | None) -> str:
    """Export a model.

    Args:
        model: Folder of the model.
        folder: Folder to write.
        quantize: "int8" or ``None``.

    Returns:
        The folder written.
    """
    SpanMarkerModel.from_pretrained(model).export("onnx", folder, quantize=quantize)
    return str(folder)


def save_fresh(encoder: str, num_types: int, sentences: Sequence[Sequence[str]], kept: float, folder: Path) -> None:
    """Save a model that is not trained, whose span filter keeps a given share of the spans of some sentences.

    It takes none of them for an entity.

    Args:
        encoder: Path of the encoder.
        num_types: Number of entity types.
        sentences: The sentences.
        kept: The share.
        folder: Where to save it.
    """
    set_seed(_SEED)
    model = SpanMarkerModel.from_pretrained(encoder, labels=["O", *(f"type{i}" for i in range(num_types))], **LENGTHS)
    config = model.config
    scores = []
    with evaluating(model):
        model.classifier.bias[config.outside_id] = _OUTSIDE_BIAS
        for _, batch in SentenceBatches(sentences, {}, model.tokenizer, config, 16).batches(model.device):
            text = model.read_text(batch["input_ids"], batch["attention_mask"])
            logits = model.span_filter(text.states, batch["start_positions"], batch["end_positions"])
            scores.append(entity_scores(logits, config.outside_id)[is_span(batch)])
    config.span_filter_threshold = float(torch.cat(scores).quantile(1 - kept).sigmoid())
    model.save_pretrained(folder)
