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
        is_unread: Whether a span reaches out of its window, which shows the same tokens of a shorter one, so that the
            model cannot tell them apart. Shape: ``[windows, spans]``.
    """

    rows: Tensor
    spans: Tensor
    is_unread: Tensor


def classify_in_windows(
    classify: Callable[[dict[str, Tensor]], tuple[Tensor, ...]],
    batch: dict[str, Tensor],
    size: WindowSize,
    outside_id: int,
) -> tuple[Tensor, ...]:
    """Classify the spans of a batch with sentences of any length.

    Args:
        classify: Classifies a batch that fits the model: label ids, ``[batch, spans]``, and whatever else,
            ``[batch, spans, ...]`` each.
        batch: The collator's output.
        size: What fits.
        outside_id: Label of the spans that no window could show to the model.

    Returns:
        What ``classify`` returns, for the sentences as they are; zeros for padding.
    """
    if batch["input_ids"].shape[1] <= size.tokens:
        return classify(batch)
    results: tuple[Tensor, ...] = ()
    shape = batch["start_positions"].shape
    for window_batch, place in cut_into_windows(batch, size):
        found = classify(window_batch)
        results = results or tuple(tensor.new_zeros(*shape, *tensor.shape[2:]) for tensor in found)
        inside = mask_of(window_batch["num_spans"], place.spans.shape[1])
        target = place.rows[:, None].expand_as(place.spans)[inside], place.spans[inside]
        found = found[0].masked_fill(place.is_unread, outside_id), *found[1:]
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
        yield _window_batch(batch, numbers, nn.utils.rnn.pad_sequence(list(spans), batch_first=True), size)


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
    batch: dict[str, Tensor], numbers: Tensor, spans: Tensor, size: WindowSize
) -> tuple[dict[str, Tensor], Place]:
    """Collate windows.

    Args:
        batch: The batch that is cut.
        numbers: The sentence of each window, how many tokens it lies behind its sentence's beginning, its number of
            tokens (special ones included) and of spans. Shape: ``[4, windows]``.
        spans: Index of each window's spans among its sentence's. Shape: ``[windows, spans]``.
        size: What fits.
    """
    rows, offsets, lengths, counts = numbers
    column = torch.arange(int(lengths.max()), device=rows.device).expand(len(rows), -1)
    from_end = column - lengths[:, None]
    of_text = (column >= size.before) & (from_end < -size.after)
    whole = batch["attention_mask"].sum(dim=1)[rows, None]
    index = torch.where(of_text, column + offsets[:, None], torch.where(from_end < 0, from_end + whole, 0))
    index = torch.where(column < size.before, column, index)
    last = (lengths - size.after - 1)[:, None]
    inside = mask_of(counts, spans.shape[1])
    names = ("start_positions", "end_positions")
    # A span that is longer than what windows share, of words of hundreds of tokens, may reach out of its window.
    reach = torch.stack([batch[name][rows[:, None], spans] for name in names]) - offsets[:, None]
    fitting = torch.minimum(reach.clamp(min=size.before), last)
    starts, ends = fitting.masked_fill(~inside, 0)
    is_cut = inside & (fitting != reach).any(dim=0)
    cutting = is_cut.any(dim=1)
    if cutting.any():
        # All spans of the sentence are laid over these windows alone: over all of them they could fill the memory.
        rows_cut, last_cut = rows[cutting], last[cutting]
        reach = torch.stack([batch[name][rows_cut] for name in names]) - offsets[cutting, None]
        fitting = torch.minimum(reach.clamp(min=size.before), last_cut)
        is_seen = (reach[1] >= size.before) & (reach[0] <= last_cut)
        is_seen &= mask_of(batch["num_spans"][rows_cut], reach.shape[2])
        is_cut[cutting] &= _is_longer(reach, fitting, is_seen).gather(1, spans[cutting])
    cut = {
        "input_ids": batch["input_ids"][rows[:, None], index],
        "attention_mask": from_end < 0,
        "start_positions": starts,
        "end_positions": ends,
        "num_spans": counts,
    }
    if "labels" in batch:
        cut["labels"] = batch["labels"][rows[:, None], spans].masked_fill(~inside, IGNORED_LABEL)
    return cut, Place(rows, spans, is_cut)


def _is_longer(reach: Tensor, fitting: Tensor, is_seen: Tensor) -> Tensor:
    """Find the spans of which a window shows the same tokens as of a shorter one, or of an earlier one as long.

    Args:
        reach: First and last token of each span of the sentence, from the window on. Shape: ``[2, windows, spans]``.
        fitting: The same, cut at the window's ends. Shape: ``[2, windows, spans]``.
        is_seen: Of which spans the window shows anything. Shape: ``[windows, spans]``.

    Returns:
        Shape: ``[windows, spans]``.
    """
    window = torch.arange(len(is_seen), device=is_seen.device)[:, None]
    width, extent = int(fitting.max()) + 1, int(reach.max() - reach.min()) + 1
    shown = ((window * width + fitting[0]) * width + fitting[1]).masked_fill(~is_seen, -1)
    same = torch.unique(shown, return_inverse=True)[1]
    rank = (reach[1] - reach[0]) * extent + reach[0] - reach.min()
    least = rank.new_full((int(same.max()) + 1,), extent**2)
    least.scatter_reduce_(0, same.flatten(), rank.flatten(), "amin")
    return rank > least[same]
