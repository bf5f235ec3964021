"""A collated batch to the best label of each candidate span: of all of them, or of those that the span filter keeps."""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from span_marker.attention import columns_of, mask_of
from span_marker.configuration import SpanMarkerConfig
from span_marker.decoding import reduce_logits, reduce_probabilities
from span_marker.span_filter import is_kept

SPANS_PER_CALL = 16_384
"""Most candidate spans in one pass over markers; a batch with more takes several."""


class SpanClassifier(Protocol):
    """What classification needs of a model."""

    config: SpanMarkerConfig

    def __call__(self, **batch: Any) -> Any:
        """Classify a collated batch; the output has ``logits`` and, with a span filter, ``filter_logits``."""


class SpanReader(Protocol):
    """What filtered classification needs of a model: the two halves of its forward pass."""

    config: SpanMarkerConfig
    span_filter: Any

    def read_text(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Encode texts; the result has their ``states``."""

    def read_spans(
        self,
        text: Any,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        filter_logits: Tensor | None = None,
    ) -> Tensor:
        """Classify spans of encoded texts. Shape: ``[batch, spans, labels]``."""


def classify_spans(
    model: SpanClassifier, batch: dict[str, Tensor], *, filtered: bool = False, distributions: bool = False
) -> tuple[Tensor, ...]:
    """Find the best label of each candidate span.

    Args:
        model: The model, perhaps wrapped.
        batch: The collator's output, on the model's device; ``labels`` and what else forward does not need is ignored.
        filtered: Whether to run only those that the model's span filter keeps and to label the others "O". The labels
            are those of [`classify_kept_spans`], which cannot call a model that is wrapped.
        distributions: Whether to return the probabilities of all labels, too.

    Returns:
        Label ids (int32) and their probabilities (float32); padding is undefined. Shape of each: ``[batch, spans]``.
        With ``distributions`` the probabilities of all labels as well. Shape: ``[batch, spans, labels]``.
    """
    starts, ends = batch["start_positions"], batch["end_positions"]
    pieces = []
    for columns, num_spans in _pieces(batch["num_spans"], starts.shape[1]):
        output = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            start_positions=starts[:, columns],
            end_positions=ends[:, columns],
            num_spans=num_spans,
            filtered=filtered,
            return_dict=True,
        )
        best, *probabilities = _reduce(output.logits, distributions)
        if filtered:
            best = best.masked_fill(~is_kept(output.filter_logits, model.config), model.config.outside_id)
        pieces.append((best, *probabilities))
    return tuple(torch.cat(parts, dim=1) for parts in zip(*pieces, strict=True))


def _reduce(logits: Tensor, distributions: bool) -> tuple[Tensor, ...]:
    """Reduce logits to best labels and their probabilities; with all probabilities on request."""
    if not distributions:
        return reduce_logits(logits)
    probabilities = logits.float().softmax(dim=-1)
    return *reduce_probabilities(probabilities), probabilities


def classify_kept_spans(
    model: SpanReader, batch: dict[str, Tensor], *, distributions: bool = False
) -> tuple[Tensor, ...]:
    """Find the best label of each candidate span, running only those that the model's span filter keeps.

    Args:
        model: The model, with a calibrated span filter.
        batch: The collator's output, on the model's device.
        distributions: As in [`classify_spans`].

    Returns:
        As [`classify_spans`]; spans that were dropped, and padding, have the label "O" and the probability 0.
    """
    starts, ends = batch["start_positions"], batch["end_positions"]
    text = model.read_text(batch["input_ids"], batch["attention_mask"])
    filter_logits = model.span_filter(text.states, starts, ends)
    kept = is_span(batch) & is_kept(filter_logits, model.config)
    return read_labels(model, text, batch, kept, filter_logits, distributions=distributions)


def is_span(batch: dict[str, Tensor]) -> Tensor:
    """Tell spans from padding. Shape: ``[batch, spans]``."""
    return mask_of(batch["num_spans"], batch["start_positions"].shape[1])


def _pieces(counts: Tensor, width: int) -> Iterator[tuple[slice, Tensor]]:
    """Cut the columns of a batch's spans so that a pass over markers stays small; each piece with its spans a row."""
    size = max(SPANS_PER_CALL // max(len(counts), 1), 1)
    for offset in range(0, width, size):
        yield slice(offset, offset + size), (counts - offset).clamp(0, size)


def read_labels(
    model: SpanReader,
    text: Any,
    batch: dict[str, Tensor],
    wanted: Tensor,
    filter_logits: Tensor | None = None,
    *,
    distributions: bool = False,
) -> tuple[Tensor, ...]:
    """Find the best label of some spans of encoded texts.

    Args:
        model: The model.
        text: The batch's texts, as `model.read_text` encodes them.
        batch: The collator's output, on the model's device.
        wanted: Which spans to read. Shape: ``[batch, spans]``.
        filter_logits: What the span filter says of all spans, where that is known. Shape: ``[batch, spans, labels]``.
        distributions: As in [`classify_spans`].

    Returns:
        Label ids (int32) and their probabilities (float32); "O" and 0 for what is not wanted. Shape of each:
        ``[batch, spans]``. With ``distributions`` the probabilities of all labels as well, undefined for what is not
        wanted. Shape: ``[batch, spans, labels]``.
    """
    starts, ends = batch["start_positions"], batch["end_positions"]
    labels = torch.full(starts.shape, model.config.outside_id, dtype=torch.int32, device=starts.device)
    scores = torch.zeros(starts.shape, dtype=torch.float32, device=starts.device)
    all_scores = scores.new_zeros(*starts.shape, model.config.num_labels) if distributions else None
    columns, counts = columns_of(wanted)
    for part, num_spans in _pieces(counts, columns.shape[1]):
        piece = columns[:, part]
        known = None if filter_logits is None else filter_logits.take_along_dim(piece[..., None], dim=1)
        logits = model.read_spans(text, starts.gather(1, piece), ends.gather(1, piece), num_spans, known)
        best, probabilities, *distribution = _reduce(logits, distributions)
        labels.scatter_(1, piece, best)
        scores.scatter_(1, piece, probabilities)
        if all_scores is not None:
            all_scores.scatter_(1, piece[..., None].expand_as(logits), *distribution)
    found = labels.masked_fill(~wanted, model.config.outside_id), scores.masked_fill(~wanted, 0.0)
    return found if all_scores is None else (*found, all_scores)
