"""The span filter: a classifier of candidate spans on the text alone, which says which of them are worth markers.

All but one or two of a hundred candidate spans are no entity, and the text's own states, which cost no marker, tell
most of them. The filter knows the entity types, too, so that its opinion can count beside that of the markers.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from span_marker.configuration import SpanMarkerConfig
from span_marker.dropout import CheapDropout

INNER_SIZE: Final = 256
"""Size of a span's representation: with 384 states, 200,000 parameters."""
WIDTHS: Final = 32
"""Widths in tokens that have a representation of their own; wider spans share the last."""
PRIOR: Final = -3.0
"""Log-odds that every span starts from: one span in twenty is worth its markers."""
UNCALIBRATED_THRESHOLD: Final = 0.01
"""Probability below which spans are dropped while nothing is known of the entities that the model finds."""
HIGHEST_THRESHOLD: Final = 0.05
"""Highest probability at which calibration lets a span be dropped."""


class SpanFilter(nn.Module):
    """Classifies candidate spans by the states of their first and last token, and their width.

    Args:
        hidden_size: Size of a token's state.
        num_labels: Number of labels.
        outside_id: Label id of "no entity".
        initializer_range: Standard deviation of fresh weights.
        dropout: Dropout rate of the states and of a span's representation.
    """

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        outside_id: int = 0,
        initializer_range: float = 0.02,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(hidden_size, INNER_SIZE)
        self.last = nn.Linear(hidden_size, INNER_SIZE, bias=False)
        self.width = nn.Embedding(WIDTHS, INNER_SIZE)
        self.output = nn.Linear(INNER_SIZE, num_labels)
        self.dropout = CheapDropout(dropout)
        self.outside_id = outside_id
        self.initializer_range = initializer_range
        for layer in self.children():
            self.reset(layer)

    def reset(self, layer: nn.Module) -> None:
        """Start one of the layers anew; with all of them new, every span starts at about the prior.

        Args:
            layer: The layer.
        """
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=self.initializer_range)
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
        if layer is self.output and layer.out_features > 1:
            with torch.no_grad():
                layer.bias[self.outside_id] = math.log(layer.out_features - 1) - PRIOR

    def forward(self, text_states: Tensor, start_positions: Tensor, end_positions: Tensor) -> Tensor:
        """Classify candidate spans.

        Args:
            text_states: Final states of the text. Shape: ``[batch, text, hidden]``.
            start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token. Shape: ``[batch, spans]``.

        Returns:
            Shape: ``[batch, spans, labels]``.
        """
        states = self.dropout(text_states)
        spans = _pick(self.first(states), start_positions) + _pick(self.last(states), end_positions)
        spans = spans + self.width((end_positions - start_positions).clamp(0, WIDTHS - 1))
        logits: Tensor = self.output(self.dropout(nn.functional.gelu(spans)))
        return logits


def make_span_filter(config: SpanMarkerConfig, hidden_size: int) -> SpanFilter:
    """Start a span filter for a model's labels.

    Args:
        config: The configuration.
        hidden_size: Size of a token's state.
    """
    return SpanFilter(hidden_size, config.num_labels, config.outside_id, config.head_std, config.head_dropout)


def is_kept(filter_logits: Tensor, config: SpanMarkerConfig) -> Tensor:
    """Tell which spans the span filter keeps.

    Args:
        filter_logits: Logits of the span filter. Shape: ``[batch, spans, labels]``.
        config: The configuration, with the threshold.

    Returns:
        Shape: ``[batch, spans]``.
    """
    return entity_scores(filter_logits, config.outside_id) >= config.least_filter_score


def _pick(states: Tensor, positions: Tensor) -> Tensor:
    """Look up the state of a token for each span: whole rows of a table. Shape: ``[batch, spans, size]``."""
    first_of_row = torch.arange(states.shape[0], device=states.device)[:, None] * states.shape[1]
    return nn.functional.embedding(positions + first_of_row, states.flatten(0, 1))


def entity_scores(filter_logits: Tensor, outside_id: int) -> Tensor:
    """Tell how likely spans are entities of any type.

    Args:
        filter_logits: Logits of the span filter. Shape: ``[..., labels]``.
        outside_id: Label id of "no entity".

    Returns:
        Log-odds. Shape: ``[...]``.
    """
    logits = filter_logits.float()
    is_outside = torch.arange(logits.shape[-1], device=logits.device) == outside_id
    return logits.masked_fill(is_outside, -torch.inf).logsumexp(-1) - logits[..., outside_id]


def vote(marker_logits: Tensor, filter_logits: Tensor, share: float) -> Tensor:
    """Average what markers and the span filter say of spans.

    Args:
        marker_logits: Shape: ``[..., labels]``.
        filter_logits: Shape: as ``marker_logits``.
        share: Weight of the filter, from 0 to 1.

    Returns:
        The logits of the markers for the share 0, else averaged log-probabilities. Shape: as ``marker_logits``.
    """
    if not share:
        return marker_logits
    of_markers, of_filter = (logits.float().log_softmax(-1) for logits in (marker_logits, filter_logits))
    return torch.lerp(of_markers, of_filter, share)


def calibrated_threshold(scores: npt.ArrayLike, recall: float) -> float:
    """Choose the threshold from the scores of entities that a model finds with all spans.

    A small set does not show how low the rarest entities score: if less than one is to be lost, the tail below the
    lowest is taken to be exponential, halving with every ln 2 of log-odds. Little is won by dropping more than the
    spans below five percent, which are all but one or two of a hundred, so that the threshold is never higher.

    Args:
        scores: Log-odds of entities of held-out sentences. Shape: ``[entities]``.
        recall: Share of the entities to keep, between 0 and 1.

    Returns:
        A probability.
    """
    sorted_scores = np.sort(np.asarray(scores, dtype=np.float64))
    if not len(sorted_scores):
        return UNCALIBRATED_THRESHOLD
    rank = (1 - recall) * (len(sorted_scores) + 1)
    least = sorted_scores[max(int(rank), 1) - 1] + min(math.log(rank), 0.0)
    return min(1 / (1 + math.exp(-least)), HIGHEST_THRESHOLD)
