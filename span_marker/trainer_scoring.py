"""What an evaluation step does to the logits besides decoding: losses, and the span filter's scores."""

from typing import Any

import torch
from torch import Tensor, nn

from span_marker.classification import classify_spans
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.output import SpanMarkerOutput
from span_marker.span_filter import entity_scores


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
        filter_logits = output.get("filter_logits")
        self.filter_scores.append(
            losses.new_full((), torch.inf).expand_as(losses)
            if filter_logits is None
            else entity_scores(filter_logits, self.config.outside_id)
        )
        logits = logits if self.preprocess is None else self.preprocess(logits, labels)
        return SpanMarkerOutput(logits=logits, filter_logits=filter_logits)


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
