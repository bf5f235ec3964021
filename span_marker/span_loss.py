"""What training minimises: the cross entropy of spans, of which some weigh more than others."""

from collections.abc import Sequence

import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch import Tensor, nn

from span_marker.class_weights import BALANCED, balanced_weights
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.formats import arrow_column

_SURE = 1e-6
"""Least share of a span that focal loss takes for certain, so that its gradient stays finite."""


def span_loss(
    logits: Tensor,
    labels: Tensor,
    label_weights: Sequence[float] | None = None,
    focal_gamma: float = 0.0,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Add up the cross entropy over the labelled spans.

    Args:
        logits: Logits of each span. Shape: ``[batch, spans, labels]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        label_weights: Weight of a span by its label. ``None``: 1. Shape: ``[labels]``.
        focal_gamma: Exponent of focal loss (Lin et al., 2017): a span whose label has the probability p counts
            (1 - p) ** gamma.
        label_smoothing: Share of each target that is spread over all labels (Szegedy et al., 2016).

    Returns:
        Shape: ``[]``.
    """
    scores, targets = logits.flatten(0, 1).float(), labels.flatten()
    losses = nn.functional.cross_entropy(
        scores, targets, ignore_index=IGNORED_LABEL, reduction="none", label_smoothing=label_smoothing
    )
    known = targets.clamp(min=0)
    if focal_gamma:
        probabilities = scores.softmax(-1).gather(1, known[:, None])[:, 0]
        losses = losses * (1 - probabilities).clamp(min=_SURE) ** focal_gamma
    if label_weights is not None and any(weight != 1.0 for weight in label_weights):
        losses = torch.tensor(label_weights, device=losses.device)[known] * losses
    return losses.sum()


def marker_loss(
    logits: Tensor, labels: Tensor, config: SpanMarkerConfig, label_smoothing: float | None = None
) -> Tensor:
    """Add up the markers' loss over the labelled spans.

    Args:
        logits: Logits of each span. Shape: ``[batch, spans, labels]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        config: The configuration, for the weights of labels and the kind of loss.
        label_smoothing: As in [`span_loss`]. ``None``: as the configuration says.

    Returns:
        Shape: ``[]``.
    """
    return _configured_loss(logits, labels, config, config.entity_weight, label_smoothing)


def filter_loss(
    filter_logits: Tensor, labels: Tensor, config: SpanMarkerConfig, label_smoothing: float | None = None
) -> Tensor:
    """Add up the span filter's loss over the labelled spans.

    An entity that the filter drops is lost, and another span that it keeps costs a little time: hence the weight of
    entities.

    Args:
        filter_logits: Logits of each span. Shape: ``[batch, spans, labels]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        config: The configuration, for the weight of the whole, the weights of labels and the kind of loss.
        label_smoothing: As in [`span_loss`]. ``None``: as the configuration says.

    Returns:
        Shape: ``[]``.
    """
    entity_weight = config.span_filter_positive_weight
    loss = _configured_loss(filter_logits, labels, config, entity_weight, label_smoothing)
    return config.span_filter_loss_weight * loss


def _configured_loss(
    logits: Tensor, labels: Tensor, config: SpanMarkerConfig, entity_weight: float, label_smoothing: float | None
) -> Tensor:
    """Add up the loss of the kind that the configuration asks for. Shape: ``[]``."""
    smoothing = config.label_smoothing if label_smoothing is None else label_smoothing
    return span_loss(logits, labels, config.label_weights(entity_weight), config.focal_gamma, smoothing)


def fix_class_weights(config: SpanMarkerConfig, rows: Dataset) -> bool:
    """Put numbers in place of class weights that are to be balanced, and refuse those that fit no entity type.

    Args:
        config: The configuration, changed in place.
        rows: What is trained on, with a column ``labels``: the label id of each candidate span.

    Returns:
        Whether there are such numbers now.

    Raises:
        ValueError: A class weight is given for what is no entity type.
    """
    if config.class_weights != BALANCED:
        config.label_weights(config.entity_weight)
        return False
    counted = pc.value_counts(pc.list_flatten(arrow_column(rows, "labels")))
    counts = {row["values"]: row["counts"] for row in counted.to_pylist()}
    config.class_weights = balanced_weights(
        {label: counts.get(index, 0) for index, label in enumerate(config.labels) if index != config.outside_id}
    )
    return True
