"""Rows of a preprocessed data set to the tensors of a batch."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from span_marker.types import IntArray, Row

IGNORED_LABEL = -100


class HasPadding(Protocol):
    """What the collator needs of a tokenizer."""

    @property
    def pad_token_id(self) -> int:
        """Id of the padding token."""


class SpanMarkerDataCollator:
    """Pad rows to the longest text and the largest number of spans of their batch.

    >>> from types import SimpleNamespace
    >>> collate = SpanMarkerDataCollator(SimpleNamespace(pad_token_id=0))
    >>> batch = collate([
    ...     {"input_ids": [2, 7, 8, 3], "start_position_ids": [1, 1, 2], "end_position_ids": [1, 2, 2]},
    ...     {"input_ids": [2, 9, 3], "start_position_ids": [1], "end_position_ids": [1]},
    ... ])
    >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    ([[2, 7, 8, 3], [2, 9, 3, 0]], [[True, True, True, True], [True, True, True, False]])
    >>> batch["start_positions"].tolist(), batch["end_positions"].tolist()
    ([[1, 1, 2], [1, 0, 0]], [[1, 2, 2], [1, 0, 0]])
    >>> batch["num_spans"].tolist()
    [3, 1]

    Args:
        tokenizer: The tokenizer, for its ``pad_token_id``.
        marker_max_length: Accepted for compatibility; batches are padded to their own size.
    """

    def __init__(self, tokenizer: HasPadding, marker_max_length: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.marker_max_length = marker_max_length

    def __call__(self, features: Sequence[Row]) -> dict[str, Tensor]:
        """Collate rows.

        Args:
            features: Rows with the columns ``input_ids``, ``start_position_ids``, ``end_position_ids`` and, for
                training and evaluation, ``labels`` (one label id a span).

        Returns:
            ``input_ids`` and the boolean ``attention_mask``, shape ``[batch, text]``; ``start_positions`` and
            ``end_positions``, the indices of each span's first and last token, padded with 0, and ``labels`` where
            given, padded with -100, shape ``[batch, spans]``; ``num_spans``, shape ``[batch]``.
        """
        lengths = np.array([len(row["input_ids"]) for row in features], dtype=np.int64)
        batch: dict[str, Any] = {
            "input_ids": _pad(features, "input_ids", self.tokenizer.pad_token_id),
            "attention_mask": np.arange(lengths.max(initial=1)) < lengths[:, None],
            "start_positions": _pad(features, "start_position_ids", 0),
            "end_positions": _pad(features, "end_position_ids", 0),
            "num_spans": np.array([len(row["start_position_ids"]) for row in features], dtype=np.int64),
        }
        if features and features[0].get("labels") is not None:
            batch["labels"] = _pad(features, "labels", IGNORED_LABEL)
        return {name: torch.from_numpy(array) for name, array in batch.items()}


def _pad(rows: Sequence[Row], column: str, value: int) -> IntArray:
    """Stack one column of all rows into an array, padded on the right. Shape: ``[rows, longest]``."""
    values = [np.asarray(row[column], dtype=np.int64) for row in rows]
    lengths = np.array([len(array) for array in values], dtype=np.int64)
    padded = np.full((len(values), lengths.max(initial=1)), value, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(values) if values else []
    return padded
