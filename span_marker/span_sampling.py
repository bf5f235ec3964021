"""Training on all entities and a part of the other spans, which takes a fraction of the time.

All but a few candidate spans of a sentence are no entity, and most of these teach little. A marker never sees those of
other spans, so that leaving some out changes nothing for the rest. Some can be drawn at random, before the model sees
them, or those be taken that the span filter finds hardest, which are those that markers see in prediction.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from span_marker.data_collator import IGNORED_LABEL, SpanMarkerDataCollator
from span_marker.types import Row

_SPAN_COLUMNS: Final = ("start_position_ids", "end_position_ids", "labels")


class SamplingCollator:
    """Draws spans of each row before a collator pads them.

    Args:
        collate: The collator.
        outside_id: Label id of "no entity".
        share: Share of the spans of that label to keep, from 0 to 1, drawn anew each time.
    """

    def __init__(self, collate: SpanMarkerDataCollator, outside_id: int, share: float) -> None:
        self.collate = collate
        self.outside_id = outside_id
        self.share = share

    def __call__(self, features: Sequence[Row]) -> dict[str, Tensor]:
        """Collate training rows.

        Args:
            features: Rows with the collator's columns, ``labels`` among them.

        Returns:
            The collator's batch: all entities, and some of the other spans; and ``negative_share``, the share of those
            that are in it. Shape: ``[batch]``.
        """
        batch = self.collate([self._draw(row) for row in features])
        return {**batch, "negative_share": torch.full((len(features),), self.share)}

    def _draw(self, row: Row) -> Row:
        """Leave out spans of one row."""
        labels = np.asarray(row["labels"])
        # torch's generator, which the Trainer seeds and which checkpoints keep.
        kept = (labels != self.outside_id) | (torch.rand(len(labels)).numpy() < self.share)
        return row | {name: np.asarray(row[name])[kept] for name in _SPAN_COLUMNS}


def hardest_spans(scores: Tensor, labels: Tensor, start_positions: Tensor, per_word: float, outside_id: int) -> Tensor:
    """Choose all entities, and of the other spans those that are taken for entities most.

    Args:
        scores: Log-odds that a span is an entity. Shape: ``[batch, spans]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        start_positions: Index of each span's first token; spans of a word stand side by side. Shape:
            ``[batch, spans]``.
        per_word: Number of other spans for each word at which spans start, rounded up to a whole number a row.
        outside_id: Label id of "no entity".

    Returns:
        True for the chosen ones. Shape: ``[batch, spans]``.
    """
    is_span, is_other = labels != IGNORED_LABEL, labels == outside_id
    is_first = torch.cat([is_span[:, :1], is_span[:, 1:] & (start_positions.diff(dim=1) != 0)], dim=1)
    most = (is_first.sum(1, keepdim=True) * per_word).ceil()
    order = scores.masked_fill(~is_other, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return (is_span & ~is_other) | (is_other & (order.argsort(dim=1) < most))
