"""What an evaluation or training step does to the logits besides decoding: losses, and the span filter's scores."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.trainer_pt_utils import LabelSmoother

from span_marker.classification import classify_spans
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.output import SpanMarkerOutput
from span_marker.span_filter import filter_loss


class SpanScorer:
    """Passes on what a model says of spans, and keeps the losses and the span filter's scores on the way.

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
        self.losses: list[Tensor] = []
        self.filter_scores: list[Tensor] = []
        self._seen = 0

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
        if labels is None:
            losses = logits.new_zeros(logits.shape[:2], dtype=torch.float32)
        else:
            losses = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="none"
            ).view_as(labels)
        self.losses.append(losses)
        self.filter_scores.append(
            output["filter_scores"] if self.config.span_filter else losses.new_full((), torch.inf).expand_as(losses)
        )
        logits = logits if self.preprocess is None else self.preprocess(logits, labels)
        return SpanMarkerOutput(logits=logits, filter_scores=output.get("filter_scores"))


def score_spans(
    model: nn.Module, config: SpanMarkerConfig, preprocess: Any, batch: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Classify the spans of a batch, and compute their losses.

    Args:
        model: The model, perhaps wrapped.
        config: The model's configuration.
        preprocess: What the user does to the logits.
        batch: The collator's output, with or without ``labels``.

    Returns:
        Best label ids, their probabilities, the cross entropy (0 without labels), and the span filter's log-odds
        (infinite without one). Shape of each: ``[batch, spans]``.
    """
    scorer: Any = SpanScorer(model, config, batch.get("labels"), preprocess)
    best, probabilities = classify_spans(scorer, batch, filtered=config.filters_spans)
    return best, probabilities, torch.cat(scorer.losses, dim=1), torch.cat(scorer.filter_scores, dim=1).float()


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
