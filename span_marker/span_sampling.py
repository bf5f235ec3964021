"""Training on all entities and a part of the other spans, which takes a fraction of the time.

All but a few candidate spans of a sentence are no entity, and most of these teach little. A marker never sees those of
other spans, so that leaving some out changes nothing for the rest.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from span_marker.data_collator import SpanMarkerDataCollator
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
