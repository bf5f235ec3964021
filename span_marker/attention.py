"""Attention over text and levitated markers (PL-Marker, Ye et al. 2022).

A sequence is laid out as ``[text | start markers | end markers]``. Text attends to text. A marker attends to all text,
to itself and to its partner, the other marker of its span. So the attention of a marker is a softmax over T + 2 scores,
and cost and memory grow with markers times text, never with markers squared.

Sentences of one batch differ far more in spans than in words. Batches are therefore packed: the encoder's layers see
one long row of texts and markers without any padding. Only attention, a small part of the work, lays sentences out with
padding, in groups of like size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from span_marker.dropout import cheap_dropout

ATTENTION_NAME = "span_marker"
POSITION_OFFSET = 2
"""Position id of the first token; the two below it are RoBERTa's padding positions, kept for every encoder."""


def mask_of(lengths: Tensor, width: int) -> Tensor:
    """Tell content from padding.

    Args:
        lengths: Number of items in each row. Shape: ``[batch]``.
        width: Number of columns.

    Returns:
        True for content. Shape: ``[batch, width]``.
    """
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def columns_of(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Find the wanted items of each row, to be gathered into fewer columns.

    Args:
        wanted: True for wanted items. Shape: ``[batch, items]``.

    Returns:
        Their columns in order, rows with fewer filled up with columns that are not wanted, and their number in each
        row. Shapes: ``[batch, most wanted items of a row]``, ``[batch]``.
    """
    counts = wanted.sum(dim=1)
    width = int(counts.max()) if len(counts) else 0
    return wanted.byte().argsort(dim=1, descending=True, stable=True)[:, :width], counts


@dataclass(frozen=True)
class MarkerLayout:
    """Where text and markers lie in a batch of sequences ``[text | start markers | end markers]``.

    Attributes:
        text_mask: True for text tokens, false for padding. Shape: ``[batch, text]``.
        span_mask: True for spans, false for padding. Shape: ``[batch, spans]``.
        start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
        end_positions: Index of each span's last token in the text. Shape: ``[batch, spans]``.
    """

    text_mask: Tensor
    span_mask: Tensor
    start_positions: Tensor
    end_positions: Tensor

    @cached_property
    def position_ids(self) -> Tensor:
        """Position of each token; a marker's is that of the token it stands for.

        Padding stands at 1, as in RoBERTa. Shape: ``[batch, text + 2 * spans]``.
        """
        index = torch.arange(self.text_mask.shape[1], device=self.text_mask.device).expand_as(self.text_mask)
        positions = torch.cat([index, self.start_positions, self.end_positions], dim=1) + POSITION_OFFSET
        return positions.masked_fill(~self.token_mask, POSITION_OFFSET - 1)

    @cached_property
    def token_mask(self) -> Tensor:
        """True for tokens and markers, false for padding. Shape: ``[batch, text + 2 * spans]``."""
        return torch.cat([self.text_mask, self.span_mask, self.span_mask], dim=1)

    @cached_property
    def text_index(self) -> Tensor:
        """Index of each text token in the flattened ``[batch, text]``. Shape: ``[packed texts]``."""
        return self.text_mask.flatten().nonzero().squeeze(1)

    @cached_property
    def span_index(self) -> Tensor:
        """Index of each span in the flattened ``[batch, spans]``. Shape: ``[packed spans]``."""
        return self.span_mask.flatten().nonzero().squeeze(1)

    @cached_property
    def text_rows(self) -> Tensor:
        """Index of each text token in the packed texts; padding points anywhere. Shape: ``[batch, text]``."""
        return self.text_mask.flatten().cumsum(0).sub(1).clamp(min=0).view_as(self.text_mask)

    @cached_property
    def span_rows(self) -> Tensor:
        """Index of each span among the packed spans; padding points anywhere. Shape: ``[batch, spans]``."""
        return self.span_mask.flatten().cumsum(0).sub(1).clamp(min=0).view_as(self.span_mask)

    @cached_property
    def groups(self) -> list[tuple[Tensor, "MarkerLayout"]]:
        """The batch cut into sentences of like size, most spans first, so that at most half of a group is padding.

        Each group comes with the rows of the batch that it is made of (shape ``[sentences]``) and its own layout.
        """
        sizes = torch.stack([self.span_mask.sum(1), self.text_mask.sum(1)], dim=1).tolist()
        order = sorted(range(len(sizes)), key=lambda row: -sizes[row][0])
        groups: list[list[int]] = []
        for row in order:
            if not groups or 2 * sizes[row][0] < sizes[groups[-1][0]][0]:
                groups.append([])
            groups[-1].append(row)
        return [self._select(rows, max(sizes[row][1] for row in rows), sizes[rows[0]][0]) for rows in groups]

    def _select(self, rows: list[int], text: int, spans: int) -> tuple[Tensor, "MarkerLayout"]:
        """Cut some rows out, with as many columns of text and spans as they need."""
        index = torch.tensor(rows, device=self.text_mask.device)
        span_columns = (self.span_mask, self.start_positions, self.end_positions)
        return index, MarkerLayout(self.text_mask[index, :text], *(column[index, :spans] for column in span_columns))

    @cached_property
    def packed_index(self) -> Tensor:
        """Index of each packed token in the flattened ``[batch, text + 2 * spans]``.

        Group after group: texts, start markers, end markers. Shape: ``[packed]``.
        """
        return torch.cat([part for parts in self._packed_parts for part in parts])

    @cached_property
    def packed_markers(self) -> Tensor:
        """The same without texts. Shape: ``[packed markers]``."""
        return torch.cat([part for _, *markers in self._packed_parts for part in markers])

    @cached_property
    def _packed_parts(self) -> list[list[Tensor]]:
        """Indices of each group's texts, start markers and end markers in ``[batch, text + 2 * spans]``."""
        text, spans = self.text_mask.shape[1], self.span_mask.shape[1]
        index = torch.arange(self.token_mask.numel(), device=self.text_mask.device).view_as(self.token_mask)
        blocks = torch.split(index, [text, spans, spans], dim=1)
        return [
            [
                block[rows, : mask.shape[1]][mask]
                for block, mask in zip(blocks, (group.text_mask, group.span_mask, group.span_mask), strict=True)
            ]
            for rows, group in self.groups
        ]

    def visible_text(self, window: int | None = None) -> Tensor:
        """Tell which text tokens each token and marker may attend to.

        Args:
            window: Largest distance between positions, for encoders with local attention. ``None``: no limit.

        Returns:
            Shape: ``[batch, 1, 1 or text + 2 * spans, text]``, boolean.
        """
        visible = self.text_mask[:, None, None, :]
        if window is None:
            return visible
        distance = self.position_ids[:, :, None] - self.position_ids[:, None, : self.text_mask.shape[1]]
        return visible & (distance.abs() <= window)[:, None]

    def visible(self) -> Tensor:
        """Tell for each pair of tokens whether the first may attend to the second.

        Returns:
            Shape: ``[batch, text + 2 * spans, text + 2 * spans]``, boolean.
        """
        batch, text = self.text_mask.shape
        spans = torch.arange(self.span_mask.shape[1], device=self.text_mask.device)
        none = torch.full((text,), -1, device=spans.device)
        span = torch.cat([none, spans, spans])
        visible = (span[:, None] == span[None, :]).repeat(batch, 1, 1)
        visible[:, :, :text] = self.text_mask[:, None, :]
        return visible


class Text(NamedTuple):
    """Keys and values of texts with padding. Shape of each: ``[batch, heads, text, head size]``."""

    keys: Tensor
    values: Tensor

    def select(self, rows: Tensor, length: int) -> "Text":
        """Cut some texts out, with as many tokens as they need."""
        return Text(self.keys[rows, :, :length], self.values[rows, :, :length])


class TextMemory:
    """Keys and values of a batch's texts, so that any number of passes over markers can read texts encoded once.

    One pass over texts without spans fills it; the passes after that are over markers alone. Attention calls are told
    apart by their order and not by their module, for ALBERT's layers share one.
    """

    def __init__(self) -> None:
        self._texts: list[Text] = []
        self._next: int | None = None

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> "TextMemory":
        """Make a filled memory, ready for a pass over markers.

        Args:
            tensors: What [`tensors`] has returned.
        """
        memory = cls()
        for keys, values in zip(tensors[::2], tensors[1::2], strict=True):
            memory.write(Text(keys, values))
        memory.rewind()
        return memory

    @property
    def tensors(self) -> list[Tensor]:
        """Keys and values of one attention call after the other. Shape: ``[batch, heads, text, head size]``."""
        return [tensor for text in self._texts for tensor in text]

    def __len__(self) -> int:
        """Number of attention calls whose texts are kept; none before the pass over texts."""
        return len(self._texts)

    def rewind(self) -> None:
        """Begin a pass over markers; the first one ends the pass over texts."""
        self._next = 0

    @property
    def is_read(self) -> bool:
        """Whether a pass over markers is going on."""
        return self._next is not None

    def write(self, text: Text) -> None:
        """Keep what the next attention call of the pass over texts sees.

        Args:
            text: Keys and values.
        """
        self._texts.append(text)

    def read(self) -> Text:
        """Return what the same attention call of the pass over texts has kept."""
        position = self._next or 0
        self._next = position + 1
        return self._texts[position]


def additive_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a boolean mask into one to add to attention scores.

    Args:
        visible: True where attention is allowed.
        dtype: Floating point type of the scores.

    Returns:
        0 where attention is allowed, else the type's minimum: finite, so that a row without any text has no NaN.
    """
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, torch.finfo(dtype).min)


def marker_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    marker_layout: MarkerLayout,
    text_memory: TextMemory | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend over packed text and markers; an attention function for transformers' attention interface.

    Args:
        module: The calling attention module.
        query: Shape: ``[1, heads, packed, head size]``.
        key: Shape: ``[1, key heads, packed, head size]``; several query heads may share one key head.
        value: Shape: as ``key``.
        attention_mask: Ignored: the layout says what is visible.
        scaling: Factor of the scores. ``None``: one over the square root of the head size.
        dropout: Dropout rate of the attention weights.
        marker_layout: Where text and markers lie.
        text_memory: Takes the texts' keys and values if it is empty. If it is filled they are read from it, and only
            markers are packed.
        sliding_window: One more than the largest distance that a local layer sees.

    Returns:
        The attended values, shape ``[1, packed, heads, head size]``, and no attention weights.
    """
    key, value = share_heads(query, key, value)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    known = text_memory.read() if text_memory is not None and text_memory.is_read else None
    sizes = [
        size
        for _, layout in marker_layout.groups
        for size in (len(layout.text_index) if known is None else 0, len(layout.span_index), len(layout.span_index))
    ]
    packed = [torch.split(tensor[0].transpose(0, 1), sizes) for tensor in (query, key, value)]
    attended = []
    for group, (rows, layout) in enumerate(marker_layout.groups):
        if known is not None and not len(layout.span_index):
            continue
        of_text, starts, ends = zip(*(parts[3 * group : 3 * group + 3] for parts in packed), strict=True)
        text_bias, marker_bias = text_biases(layout, sliding_window, query.dtype)
        if known is None:
            text_query, *padded = (pick_rows(states, layout.text_rows).transpose(1, 2) for states in of_text)
            text = Text(*padded)
            attended.append(attend_text(layout, text_query, text, text_bias, scaling, dropout))
            if text_memory is not None:
                text_memory.write(text)
        else:
            text = known.select(rows, layout.text_mask.shape[1])
        if len(layout.span_index):
            weights = marker_weights(layout, starts, ends, text.keys, marker_bias, scaling)
            attended += marker_values(layout, cheap_dropout(weights, dropout), starts, ends, text.values)
    return torch.cat(attended)[None], None


def share_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat keys and values that several query heads share. Shape of each: that of ``query``."""
    sharing = query.shape[1] // key.shape[1]
    if sharing == 1:
        return key, value
    return key.repeat_interleave(sharing, dim=1), value.repeat_interleave(sharing, dim=1)


def text_biases(layout: MarkerLayout, sliding_window: int | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What to add to the scores of text, for text and for markers. Shape: ``[batch, 1, 1 or queries, text]``."""
    if sliding_window is None:
        bias = additive_mask(layout.visible_text(), dtype)
        return bias, bias
    bias = additive_mask(layout.visible_text(sliding_window - 1), dtype)
    text, markers = bias.tensor_split([layout.text_mask.shape[1]], dim=2)
    return text, markers


def attend_text(
    layout: MarkerLayout, query: Tensor, text: Text, bias: Tensor, scaling: float, dropout: float
) -> Tensor:
    """Attend from text to text. Shape: ``[packed texts, heads, head size]``."""
    attended = nn.functional.scaled_dot_product_attention(
        query, text.keys, text.values, attn_mask=bias, dropout_p=dropout, scale=scaling
    )
    return pick_rows(attended.transpose(1, 2).flatten(0, 1), layout.text_index)


def pick_rows(states: Tensor, index: Tensor) -> Tensor:
    """Pick rows; faster than ``states[index]`` when gradients flow back. Shape: that of ``index``, then a row's."""
    return states.index_select(0, index.flatten()).view(*index.shape, *states.shape[1:])


def marker_weights(
    layout: MarkerLayout,
    starts: tuple[Tensor, ...],
    ends: tuple[Tensor, ...],
    text_keys: Tensor,
    bias: Tensor,
    scaling: float,
) -> Tensor:
    """Weigh what each marker attends to: text, itself, its partner. Shape: ``[batch, heads, 2 * spans, text + 2]``."""
    start_query, start_key, _ = starts
    end_query, end_key, _ = ends
    of_start = torch.stack([(start_query * start_key).sum(-1), (start_query * end_key).sum(-1)], dim=-1)
    of_end = torch.stack([(end_query * end_key).sum(-1), (end_query * start_key).sum(-1)], dim=-1)
    query, pair_scores = (
        torch.cat([pick_rows(of_starts, layout.span_rows), pick_rows(of_ends, layout.span_rows)], dim=1).transpose(1, 2)
        for of_starts, of_ends in ((start_query, end_query), (of_start, of_end))
    )
    text_scores = query @ (text_keys * scaling).transpose(-1, -2) + bias
    scores = torch.cat([text_scores, pair_scores * scaling], dim=-1)
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype)


def marker_values(
    layout: MarkerLayout,
    weights: Tensor,
    starts: tuple[Tensor, ...],
    ends: tuple[Tensor, ...],
    text_values: Tensor,
) -> list[Tensor]:
    """Sum the values each marker attends to. Shape of both, starts and ends: ``[packed spans, heads, head size]``."""
    *_, start_value = starts
    *_, end_value = ends
    attended = (weights[..., :-2] @ text_values, weights[..., -2:])
    # Starts lie before ends. Shape of each half: [batch, spans, heads, head size or 2].
    from_text, from_pair = (torch.unflatten(part.transpose(1, 2), 1, (2, -1)).unbind(1) for part in attended)
    start, end = (pick_rows(half.flatten(0, 1), layout.span_index) for half in from_text)
    (start_self, start_other), (end_self, end_other) = (
        pick_rows(half.flatten(0, 1), layout.span_index).chunk(2, dim=-1) for half in from_pair
    )
    return [
        start + start_self * start_value + start_other * end_value,
        end + end_self * end_value + end_other * start_value,
    ]


AttentionInterface.register(ATTENTION_NAME, marker_attention)
