"""Span-based named entity recognition with levitated markers.

Importing the package makes span marker checkpoints known to transformers' auto classes and its ``pipeline``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, AutoModel, TrainingArguments

from span_marker._version import __version__
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import SpanMarkerDataCollator
from span_marker.decoding_modes import Decoding
from span_marker.evaluation_report import EvaluationReport
from span_marker.export import OnnxSpanMarkerModel
from span_marker.label_normalizer import (
    AutoLabelNormalizer,
    LabelNormalizer,
    LabelNormalizerBILOU,
    LabelNormalizerBIOES,
    LabelNormalizerIOB,
    LabelNormalizerNoScheme,
    LabelNormalizerScheme,
)
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.modeling import SpanMarkerModel
from span_marker.output import SpanMarkerOutput
from span_marker.pipeline_component import SpanMarkerPipeline
from span_marker.schemes import Scheme
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.trainer import Trainer
from span_marker.trainer_evaluation import EvaluatedSentences

__all__ = [
    "AutoLabelNormalizer",
    "Decoding",
    "EvaluatedSentences",
    "EvaluationReport",
    "LabelNormalizer",
    "LabelNormalizerBILOU",
    "LabelNormalizerBIOES",
    "LabelNormalizerIOB",
    "LabelNormalizerNoScheme",
    "LabelNormalizerScheme",
    "NERMetric",
    "OnnxSpanMarkerModel",
    "Scheme",
    "SpanMarkerConfig",
    "SpanMarkerDataCollator",
    "SpanMarkerModel",
    "SpanMarkerModelCardData",
    "SpanMarkerOutput",
    "SpanMarkerPipeline",
    "SpanMarkerTokenizer",
    "Trainer",
    "TrainingArguments",
    "__version__",
    "read_dataset",
    "write_dataset",
]

if TYPE_CHECKING:
    from span_marker.ner_metric import NERMetric
    from span_marker.readers import read_dataset, write_dataset

_LAZY = {
    "NERMetric": "span_marker.ner_metric",
    "read_dataset": "span_marker.readers",
    "write_dataset": "span_marker.readers",
}
"""Public names whose modules import much that training and prediction do not need."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


import_module("span_marker.verbosity").follow_transformers()
AutoConfig.register(SpanMarkerConfig.model_type, SpanMarkerConfig)
AutoModel.register(SpanMarkerConfig, SpanMarkerModel)
