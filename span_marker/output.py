"""What the model's forward pass returns."""

from dataclasses import dataclass

import torch
from transformers.utils import ModelOutput


@dataclass
class SpanMarkerOutput(ModelOutput):  # type: ignore[misc]
    """Output of [`SpanMarkerModel.forward`].

    Attributes:
        loss: Cross entropy over the labelled spans, of markers and of the span filter; only when labels were given.
            Shape: ``[]``.
        logits: Scores of each candidate span for each label; rows are padded with undefined values to the largest
            number of spans in the batch. Shape: ``[batch, spans, labels]``.
        filter_logits: What the span filter says of each candidate span; only with a span filter, padded as ``logits``.
            Shape: ``[batch, spans, labels]``.
        hidden_states: The encoder's states after the embeddings and after each layer, on request. Shape of each:
            ``[batch, text + 2 * spans, hidden]``.
        attentions: Attention weights of each layer, on request and where the encoder can return them.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    filter_logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None
