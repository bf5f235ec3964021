"""What training minimises: the cross entropy of spans, entities weighing more than others."""

import torch
from torch import Tensor, nn

from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL


def span_loss(
    logits: Tensor, labels: Tensor, outside_id: int, entity_weight: float = 1.0, label_smoothing: float = 0.0
) -> Tensor:
    """Add up the cross entropy over the labelled spans.

    Args:
        logits: Logits of each span. Shape: ``[batch, spans, labels]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        outside_id: Label id of "no entity".
        entity_weight: Weight of an entity relative to another span.
        label_smoothing: Share of each target that is spread over all labels (Szegedy et al., 2016).

    Returns:
        Shape: ``[]``.
    """
    losses = nn.functional.cross_entropy(
        logits.flatten(0, 1).float(),
        labels.flatten(),
        ignore_index=IGNORED_LABEL,
        reduction="none",
        label_smoothing=label_smoothing,
    )
    if entity_weight != 1.0:
        losses = torch.where(labels.flatten() == outside_id, losses, entity_weight * losses)
    return losses.sum()


def filter_loss(
    filter_logits: Tensor, labels: Tensor, config: SpanMarkerConfig, label_smoothing: float = 0.0
) -> Tensor:
    """Add up the span filter's cross entropy over the labelled spans.

    An entity that the filter drops is lost, and another span that it keeps costs a little time: hence the weight of
    entities.

    Args:
        filter_logits: Logits of each span. Shape: ``[batch, spans, labels]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        config: The configuration, for the weight of the whole and that of an entity.
        label_smoothing: As in [`span_loss`].

    Returns:
        Shape: ``[]``.
    """
    weight = config.span_filter_positive_weight
    return config.span_filter_loss_weight * span_loss(filter_logits, labels, config.outside_id, weight, label_smoothing)
