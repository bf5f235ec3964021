"""Sentences longer than the model, as windows that overlap.

Each candidate span is read in one window, the one whose middle is nearest, so that nothing is found twice and there is
nothing to merge: the labels of all windows together are those of the sentence.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from span_marker.attention import mask_of
from span_marker.data_collator import IGNORED_LABEL

LEAST_WINDOWS: Final = 16
"""Windows that make a batch where the batch that is cut has fewer sentences."""
OVERLAP: Final = 4
"""Two windows share a quarter of their tokens, or as many as the longest span has, up to half."""


class WindowSize(NamedTuple):
    """How much text a model reads at once.

    Attributes:
        tokens: Most tokens, special ones included.
        before: Number of special tokens that a text begins with.
        after: Number of special tokens that it ends with.
    """

    tokens: int
    before: int
    after: int


def window_size(tokenizer: Any) -> WindowSize:
    """Tell how much text the model of a tokenizer reads at once.

    Args:
        tokenizer: The model's tokenizer.
    """
    return WindowSize(tokenizer.model_max_length, *tokenizer.num_special_tokens)


class Place(NamedTuple):
    """Where the spans of windows are in the batch that was cut.

    Attributes:
        rows: The sentence of each window. Shape: ``[windows]``.
        spans: Index of each span among its sentence's. Shape: ``[windows, spans]``.
    """

    rows: Tensor
    spans: Tensor


def classify_in_windows(
    classify: Callable[[dict[str, Tensor]], tuple[Tensor, ...]], batch: dict[str, Tensor], size: WindowSize
) -> tuple[Tensor, ...]:
    """Classify the spans of a batch with sentences of any length.

    Args:
        classify: Classifies a batch that fits the model; each tensor it returns has the shape ``[batch, spans]``.
        batch: The collator's output.
        size: What fits.

    Returns:
        What ``classify`` returns, for the sentences as they are; zeros for padding.
    """
    if batch["input_ids"].shape[1] <= size.tokens:
        return classify(batch)
    results: tuple[Tensor, ...] = ()
    for window_batch, place in cut_into_windows(batch, size):
        found = classify(window_batch)
        results = results or tuple(tensor.new_zeros(batch["start_positions"].shape) for tensor in found)
        inside = mask_of(window_batch["num_spans"], place.spans.shape[1])
        target = place.rows[:, None].expand_as(place.spans)[inside], place.spans[inside]
        for result, tensor in zip(results, found, strict=True):
            result[target] = tensor[inside]
    return results


def cut_into_windows(batch: dict[str, Tensor], size: WindowSize) -> Iterator[tuple[dict[str, Tensor], Place]]:
    """Cut a batch into batches of windows.

    Args:
        batch: The collator's output, with or without ``labels``.
        size: What fits.

    Yields:
        Batches of the same tensors, and where their spans come from. A window has at least one span.
    """
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    windows = [
        (row, offset, min(length, size.tokens), spans)
        for row, (length, count) in enumerate(zip(lengths, batch["num_spans"].tolist(), strict=True))
        for offset, spans in _windows(
            batch["start_positions"][row, :count], batch["end_positions"][row, :count], length, size
        )
    ]
    per_call = max(len(lengths), LEAST_WINDOWS)
    for first in range(0, len(windows), per_call):
        rows, offsets, tokens, spans = zip(*windows[first : first + per_call], strict=True)
        counts = [len(found) for found in spans]
        numbers = torch.tensor([rows, offsets, tokens, counts], device=batch["input_ids"].device)
        place = Place(numbers[0], nn.utils.rnn.pad_sequence(list(spans), batch_first=True))
        yield _window_batch(batch, place, numbers[1], numbers[2], numbers[3], size), place


def _windows(starts: Tensor, ends: Tensor, length: int, size: WindowSize) -> Iterator[tuple[int, Tensor]]:
    """Find the windows of a sentence.

    Args:
        starts: Index of each span's first token. Shape: ``[spans]``.
        ends: Index of each span's last token. Shape: ``[spans]``.
        length: Number of tokens of the sentence.
        size: What fits.

    Yields:
        How many tokens each window lies behind the sentence's beginning, and the indices of its spans.
    """
    room = size.tokens - size.before - size.after
    inner = length - size.before - size.after
    if not len(starts):
        return
    longest = int((ends - starts).max()) + 1
    overlap = min(max(longest, room // OVERLAP), room // 2)
    offsets = torch.arange(0, max(inner - room, 0) + room - overlap, room - overlap, device=starts.device)
    offsets = offsets.clamp(max=max(inner - room, 0))
    # Twice the middles, of windows and spans. A span lies between two windows' middles: it goes to the nearer one.
    middles = 2 * offsets + room - 1
    nearest = torch.bucketize(starts + ends - 2 * size.before, (middles[1:] + middles[:-1]) / 2)
    order = nearest.argsort(stable=True)
    counts = torch.bincount(nearest, minlength=len(offsets)).tolist()
    for offset, spans in zip(offsets.tolist(), torch.split(order, counts), strict=True):
        if len(spans):
            yield offset, spans


def _window_batch(
    batch: dict[str, Tensor], place: Place, offsets: Tensor, lengths: Tensor, counts: Tensor, size: WindowSize
) -> dict[str, Tensor]:
    """Collate windows.

    Args:
        batch: The batch that is cut.
        place: Where the windows' spans come from.
        offsets: How many tokens each window lies behind its sentence's beginning. Shape: ``[windows]``.
        lengths: Number of tokens of each window, special ones included. Shape: ``[windows]``.
        counts: Number of spans of each. Shape: ``[windows]``.
        size: What fits.
    """
    rows = place.rows
    column = torch.arange(int(lengths.max()), device=rows.device).expand(len(rows), -1)
    from_end = column - lengths[:, None]
    of_text = (column >= size.before) & (from_end < -size.after)
    whole = batch["attention_mask"].sum(dim=1)[rows, None]
    index = torch.where(of_text, column + offsets[:, None], torch.where(from_end < 0, from_end + whole, 0))
    index = torch.where(column < size.before, column, index)
    last = (lengths - size.after - 1)[:, None]
    # A span that is longer than what windows share, of words of hundreds of tokens, may reach out of its window.
    starts, ends = (
        torch.minimum((batch[name][rows[:, None], place.spans] - offsets[:, None]).clamp(min=size.before), last)
        for name in ("start_positions", "end_positions")
    )
    spans = mask_of(counts, place.spans.shape[1])
    cut = {
        "input_ids": batch["input_ids"][rows[:, None], index],
        "attention_mask": from_end < 0,
        "start_positions": starts.masked_fill(~spans, 0),
        "end_positions": ends.masked_fill(~spans, 0),
        "num_spans": counts,
    }
    if "labels" in batch:
        cut["labels"] = batch["labels"][rows[:, None], place.spans].masked_fill(~spans, IGNORED_LABEL)
    return cut
