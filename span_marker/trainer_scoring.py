"""What an evaluation or training step does to the logits besides decoding: losses, and the span filter's scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.trainer_pt_utils import LabelSmoother

from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.output import SpanMarkerOutput
from span_marker.span_filter import filter_loss
from span_marker.types import FloatArray, IntArray


class SpanScorer:
    """Passes on what a model says of spans, and adds up its loss on the way.

    Args:
        model: The model, perhaps wrapped.
        config: The model's configuration.
        labels: Gold label ids of all spans; ``None``: unknown. Shape: ``[batch, spans]``.
        preprocess: What the user does to the logits.
    """

    def __init__(self, model: nn.Module, config: SpanMarkerConfig, labels: Tensor | None, preprocess: Any) -> None:
        self.model = model
        self.config = config
        self.labels = labels
        self.preprocess = preprocess
        self.losses = torch.zeros(0) if labels is None else labels.new_zeros(len(labels), dtype=torch.float32)
        self._seen = 0
        self._filter_scores: list[Tensor] = []

    def __call__(self, **batch: Any) -> SpanMarkerOutput:
        """Classify the next spans of the batch.

        Args:
            **batch: What the model's forward pass takes.

        Returns:
            Logits, as the user wants them, and the span filter's scores.
        """
        output = self.model(**batch)
        logits = output["logits"]
        start, self._seen = self._seen, self._seen + logits.shape[1]
        labels = None if self.labels is None else self.labels[:, start : self._seen]
        if labels is not None:
            losses = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="none"
            )
            self.losses += losses.view_as(labels).sum(dim=1)
        logits = logits if self.preprocess is None else self.preprocess(logits, labels)
        if self.config.span_filter:
            self._filter_scores.append(output["filter_scores"])
        return SpanMarkerOutput(logits=logits, filter_scores=output.get("filter_scores"))

    def filter_scores(self, rows: IntArray, spans: IntArray) -> FloatArray:
        """Look up the span filter's log-odds of some spans.

        Args:
            rows: Their rows in the batch. Shape: ``[wanted]``.
            spans: Their indices among the candidate spans of the row. Shape: ``[wanted]``.

        Returns:
            The log-odds, infinite without a filter. Shape: ``[wanted]``.
        """
        if not self._filter_scores:
            return np.full(len(spans), np.inf, dtype=np.float32)
        scores: FloatArray = torch.cat(self._filter_scores, dim=1).float().cpu().numpy()[rows, spans]
        return scores


@dataclass
class SpanLabelSmoother(LabelSmoother):  # type: ignore[misc]
    """transformers' smoothing of the classifier's labels, which leaves the model's own loss out, with the filter's.

    Attributes:
        trainer: The Trainer, whose model may change.
    """

    trainer: Any = None

    def __call__(
        self, model_output: Any, labels: Tensor, shift_labels: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Compute the loss of a batch.

        Args:
            model_output: The model's output.
            labels: Gold label ids. Shape: ``[batch, spans]``.
            shift_labels: As transformers has it.
            num_items_in_batch: Number of labelled spans that the loss is averaged over. ``None``: this batch's.

        Returns:
            Shape: ``[]``.
        """
        loss: Tensor = super().__call__(model_output, labels, shift_labels, num_items_in_batch)
        config = self.trainer.model.config
        if not config.span_filter:
            return loss
        count = labels.ne(IGNORED_LABEL).sum() if num_items_in_batch is None else num_items_in_batch
        return loss + filter_loss(model_output["filter_scores"], labels, config) / count
