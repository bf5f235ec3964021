"""The span filter: which candidate spans are worth a pair of markers.

All but one or two of a hundred candidate spans are no entity, and the text's own states, which cost no marker, tell
most of them. The filter scores every pair of a first and a last token at once: a bilinear form of low rank, as in
biaffine parsing (Dozat and Manning, 2017), two linear terms and one for the width.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL

RANK: Final = 128
"""Rank of the bilinear form: with 384 states, 100,000 parameters."""
WIDTHS: Final = 32
"""Widths in tokens that have a term of their own; wider spans share the last."""
PRIOR: Final = -3.0
"""Score that every span starts from: one span in twenty is worth its markers."""
HIGHEST_THRESHOLD: Final = 0.01
"""Highest probability at which calibration lets a span be dropped."""


class SpanFilter(nn.Module):
    """Scores candidate spans by the states of their first and last token.

    Args:
        hidden_size: Size of a token's state.
        initializer_range: Standard deviation of fresh weights.
    """

    def __init__(self, hidden_size: int, initializer_range: float = 0.02) -> None:
        super().__init__()
        # The last column of each is its linear term.
        self.first = nn.Linear(hidden_size, RANK + 1, bias=False)
        self.last = nn.Linear(hidden_size, RANK + 1, bias=False)
        self.width = nn.Embedding(WIDTHS, 1)
        self.initializer_range = initializer_range
        for layer in self.children():
            self.reset(layer)

    def reset(self, layer: nn.Module) -> None:
        """Start one of the layers anew; with all of them new, every span starts at about the prior.

        Args:
            layer: The layer.
        """
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=self.initializer_range)
        else:
            nn.init.constant_(self.width.weight, PRIOR)

    def forward(self, text_states: Tensor, start_positions: Tensor, end_positions: Tensor) -> Tensor:
        """Score candidate spans.

        Args:
            text_states: Final states of the text. Shape: ``[batch, text, hidden]``.
            start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token. Shape: ``[batch, spans]``.

        Returns:
            Log-odds that the span is an entity. Shape: ``[batch, spans]``.
        """
        first, last = self.first(text_states), self.last(text_states)
        pairs = first[..., :-1] @ last[..., :-1].transpose(1, 2) * RANK**-0.5
        pairs = pairs + first[..., -1:] + last[..., -1:].transpose(1, 2)
        scores: Tensor = pairs.flatten(1).gather(1, start_positions * text_states.shape[1] + end_positions)
        widths = (end_positions - start_positions).clamp(0, WIDTHS - 1)
        scores += self.width(widths).squeeze(-1)
        return scores


def filter_loss(scores: Tensor, labels: Tensor, config: SpanMarkerConfig) -> Tensor:
    """Add up the binary cross entropy of the filter over the labelled spans.

    Args:
        scores: Log-odds of each span. Shape: ``[batch, spans]``.
        labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
        config: The configuration, for the weight of the whole and that of an entity relative to another span: one that
            the filter drops is lost, one that it keeps costs a little time.

    Returns:
        Shape: ``[]``.
    """
    losses = nn.functional.binary_cross_entropy_with_logits(
        scores.float(),
        labels.ne(config.outside_id).float(),
        pos_weight=torch.tensor(config.span_filter_positive_weight, device=scores.device),
        reduction="none",
    )
    total: Tensor = losses.masked_fill(labels == IGNORED_LABEL, 0.0).sum()
    return config.span_filter_loss_weight * total


def calibrated_threshold(scores: npt.ArrayLike, recall: float) -> float:
    """Choose the threshold from the scores of entities that a model finds with all spans.

    A small set does not show how low the rarest entities score: if less than one is to be lost, the tail below the
    lowest is taken to be exponential, halving with every ln 2 of log-odds. Nothing is won by dropping more than the
    spans below one percent, which are all but a few of a hundred, so that the threshold is never higher.

    Args:
        scores: Log-odds of entities of held-out sentences. Shape: ``[entities]``.
        recall: Share of the entities to keep, between 0 and 1.

    Returns:
        A probability.
    """
    sorted_scores = np.sort(np.asarray(scores, dtype=np.float64))
    if not len(sorted_scores):
        return HIGHEST_THRESHOLD
    rank = (1 - recall) * (len(sorted_scores) + 1)
    least = sorted_scores[max(int(rank), 1) - 1] + min(math.log(rank), 0.0)
    return min(1 / (1 + math.exp(-least)), HIGHEST_THRESHOLD)
