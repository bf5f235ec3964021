"""A model to a folder that runs without its weights in PyTorch."""

import copy
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import nn

from span_marker._version import __version__
from span_marker.encoders import SharedAttention
from span_marker.export.extra import import_extra
from span_marker.export.graphs import TRACED_ATTENTION, filter_graph, marker_graph, text_graph, write_graph
from span_marker.export.onnx_model import OnnxSpanMarkerModel
from span_marker.export.parity import f1_score, largest_difference, require_tagged, sample_sentences
from span_marker.export.quantization import quantize_graph
from span_marker.loading import FILTER_GRAPH, MARKER_GRAPH, TEXT_GRAPH

PARITY = "parity.json"
_TOLERANCE = 1e-3
"""Largest difference of the logits of 32 bits, relative to the largest logit, that is taken for rounding."""
_NUM_COMPARED = 64
"""Sentences of a data set whose logits are compared."""


def export_model(
    model: Any,
    format: str,
    folder: str | os.PathLike[str],
    *,
    quantize: str | None = None,
    dataset: Dataset | None = None,
) -> dict[str, Any]:
    """Write a model for another engine, as ``SpanMarkerModel.export`` describes it."""
    _require_arguments(format, quantize)
    for name in ("onnx", "onnxruntime", "onnxscript"):
        import_extra(name)
    _require_exportable(model)
    if dataset is not None:
        dataset = require_tagged(dataset, model.config)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # What is refused leaves nothing behind that could be loaded.
    with tempfile.TemporaryDirectory(dir=path) as unfinished:
        report = {"span_marker_version": __version__, "format": format, "quantize": quantize}
        report |= _write(model, Path(unfinished), quantize, dataset)
        (Path(unfinished) / PARITY).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        for file in Path(unfinished).iterdir():
            file.replace(path / file.name)
    return report


def _write(model: Any, folder: Path, quantize: str | None, dataset: Dataset | None) -> dict[str, Any]:
    """Write all that loading needs, and compare it with the model.

    Raises:
        ValueError: It is not the same model.
    """
    model.config.span_marker_version = __version__
    model.config.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    _write_graphs(model, folder)
    sentences = sample_sentences(model.tokenizer) if dataset is None else list(dataset["tokens"])[:_NUM_COMPARED]
    exported = OnnxSpanMarkerModel.from_pretrained(folder)
    difference, scale = largest_difference(model, exported, sentences)
    if model.dtype == torch.float32 and difference > _TOLERANCE * max(scale, 1.0):
        raise ValueError(
            f"The exported {type(model.encoder).__name__} is not the model: their logits differ by {difference:.2g}. "
            "Use the model with PyTorch, and report this with the encoder's name."
        )
    if quantize:
        for name in (TEXT_GRAPH, MARKER_GRAPH):
            quantize_graph(folder / name)
        exported = OnnxSpanMarkerModel.from_pretrained(folder)
        difference, _ = largest_difference(model, exported, sentences)
    f1 = None if dataset is None else {"torch": f1_score(model, dataset), "onnx": f1_score(exported, dataset)}
    return {"largest_logit_difference": difference, "f1": f1}


def _require_arguments(format: str, quantize: str | None) -> None:
    """Refuse what is not supported.

    Raises:
        ValueError: The format or the way of quantising is unknown.
    """
    if format != "onnx":
        raise ValueError(f"Models are exported to 'onnx', but the format is {format!r}.")
    if quantize not in (None, "int8"):
        raise ValueError(f"quantize must be 'int8' or None, but it is {quantize!r}.")


def _require_exportable(model: Any) -> None:
    """Refuse a model that cannot be traced, or could not predict.

    Raises:
        ValueError: It has no entity types, or its encoder does not use transformers' attention interface.
    """
    if not model.has_labels:
        raise ValueError("The model has no entity types yet. Train it, or load a trained one.")
    if not SharedAttention.supports(model.encoder):
        raise ValueError(
            f"{type(model.encoder).__name__} cannot be exported: only encoders that use transformers' attention "
            "interface can, such as BERT, RoBERTa, XLM-RoBERTa, ELECTRA, DistilBERT, ALBERT or ModernBERT."
        )


def _write_graphs(model: Any, folder: Path) -> None:
    """Trace copies of the model's parts."""

    def copied(module: nn.Module) -> Any:
        return copy.deepcopy(module).to("cpu", torch.float32).eval()

    encoder = copied(model.encoder)
    encoder.set_attn_implementation(TRACED_ATTENTION)
    marker_ids = model.tokenizer.marker_ids
    write_graph(text_graph(encoder), folder / TEXT_GRAPH)
    write_graph(marker_graph(encoder, copied(model.classifier), marker_ids), folder / MARKER_GRAPH)
    if model.span_filter is not None:
        write_graph(filter_graph(copied(model.span_filter)), folder / FILTER_GRAPH)
