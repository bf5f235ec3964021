"""The two halves of a forward pass, and the span filter, as modules that are traced to one ONNX graph each.

What is traced is the model's own code: the encoder over packed texts or markers, and the steps of its attention.
Nothing that depends on the data is decided while tracing, so that a graph takes any number of texts, tokens and spans:
the indices that pack a batch are inputs, and a batch is one group where [`span_marker.attention.MarkerLayout`] makes
several.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from span_marker.attention import (
    MarkerLayout,
    Text,
    TextMemory,
    attend_text,
    marker_values,
    marker_weights,
    pick_rows,
    share_heads,
    text_biases,
)
from span_marker.encoders import call_encoder
from span_marker.export.extra import quiet
from span_marker.span_filter import SpanFilter

TRACED_ATTENTION = "span_marker_traced"
Axes: TypeAlias = dict[int, str]
"""Axes of a tensor whose size is free, by name."""

_TEXT: Axes = {0: "batch", 1: "text"}
_SPANS: Axes = {0: "rows", 1: "width"}
_MEMORY: Axes = {0: "batch", 2: "text"}


@dataclass(frozen=True)
class TracedLayout(MarkerLayout):
    """A batch that is packed by indices that are given rather than found.

    Attributes:
        packed_text: Index of each text token in the flattened ``[batch, text]``, none in a pass over markers.
            Shape: ``[packed texts]``.
        packed_spans: Index of each span in the flattened ``[batch, spans]``. Shape: ``[packed spans]``.
    """

    packed_text: Tensor
    packed_spans: Tensor

    @cached_property
    def text_index(self) -> Tensor:
        """Index of each text token in the flattened ``[batch, text]``. Shape: ``[packed texts]``."""
        return self.packed_text

    @cached_property
    def span_index(self) -> Tensor:
        """Index of each span in the flattened ``[batch, spans]``. Shape: ``[packed spans]``."""
        return self.packed_spans


def traced_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    marker_layout: MarkerLayout,
    text_memory: TextMemory,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend as [`span_marker.attention.marker_attention`] does, over texts or markers alone, the batch in one group.

    Args:
        module: The calling attention module.
        query: Shape: ``[1, heads, packed, head size]``.
        key: Shape: ``[1, key heads, packed, head size]``; several query heads may share one key head.
        value: Shape: as ``key``.
        attention_mask: Ignored: the layout says what is visible.
        scaling: Factor of the scores. ``None``: one over the square root of the head size.
        dropout: Ignored: graphs are for prediction.
        marker_layout: Where text and markers lie.
        text_memory: Takes the texts' keys and values if it is empty, else gives them to the markers.
        sliding_window: One more than the largest distance that a local layer sees.

    Returns:
        The attended values, shape ``[1, packed, heads, head size]``, and no attention weights.
    """
    key, value = share_heads(query, key, value)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    text_bias, marker_bias = text_biases(marker_layout, sliding_window, query.dtype)
    packed = [states[0].transpose(0, 1) for states in (query, key, value)]
    if not text_memory.is_read:
        text_query, *text = (pick_rows(states, marker_layout.text_rows).transpose(1, 2) for states in packed)
        text_memory.write(Text(*text))
        return attend_text(marker_layout, text_query, Text(*text), text_bias, scaling, 0.0)[None], None
    keys, values = text_memory.read()
    starts, ends = zip(*(states.tensor_split([marker_layout.span_index.shape[0]]) for states in packed), strict=True)
    weights = marker_weights(marker_layout, starts, ends, keys, marker_bias, scaling)
    return torch.cat(marker_values(marker_layout, weights, starts, ends, values))[None], None


AttentionInterface.register(TRACED_ATTENTION, traced_attention)


class TextGraph(nn.Module):
    """Texts to their final states and to what markers attend to in each layer.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, text_mask: Tensor, text_index: Tensor) -> tuple[Tensor, ...]:
        """Encode texts.

        Args:
            input_ids: Shape: ``[batch, text]``.
            text_mask: True for text, false for padding. Shape: ``[batch, text]``.
            text_index: Index of each text token in the flattened ``[batch, text]``. Shape: ``[packed texts]``.

        Returns:
            Final states, undefined for padding, shape ``[batch, text, hidden]``; then keys and values of each layer,
            shape ``[batch, heads, text, head size]``.
        """
        batch, text = input_ids.shape
        none = input_ids.new_zeros(batch, 0)
        layout = TracedLayout(text_mask, none.bool(), none, none, text_index, none.flatten())
        memory = TextMemory()
        states = _run(
            self.encoder, input_ids.flatten()[text_index], layout.position_ids.flatten()[text_index], layout, memory
        )
        return states[layout.text_rows.flatten()].view(batch, text, states.shape[-1]), *memory.tensors


class MarkerGraph(nn.Module):
    """Spans of encoded texts to logits.

    Args:
        encoder: The encoder.
        classifier: The classifier over marker pairs.
        marker_ids: Ids of the start marker and of the end marker.
    """

    def __init__(self, encoder: PreTrainedModel, classifier: nn.Linear, marker_ids: Sequence[int]) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        # All other rows of the table would only take room.
        markers = encoder.get_input_embeddings().weight[list(marker_ids)].detach()
        self.encoder.set_input_embeddings(nn.Embedding(len(marker_ids), markers.shape[1], _weight=markers))
        self.classifier = classifier

    def forward(
        self,
        text_mask: Tensor,
        rows: Tensor,
        span_mask: Tensor,
        start_positions: Tensor,
        end_positions: Tensor,
        span_index: Tensor,
        memory: Sequence[Tensor],
    ) -> Tensor:
        """Classify spans.

        Args:
            text_mask: True for text, false for padding. Shape: ``[batch, text]``.
            rows: Which of the texts the spans are of. Shape: ``[rows]``.
            span_mask: True for spans, false for padding. Shape: ``[rows, width]``.
            start_positions: Index of each span's first token in the text. Shape: ``[rows, width]``.
            end_positions: Index of each span's last token in the text. Shape: ``[rows, width]``.
            span_index: Index of each span in the flattened ``[rows, width]``. Shape: ``[packed spans]``.
            memory: Keys and values of each layer. Shape of each: ``[batch, heads, text, head size]``.

        Returns:
            Shape: ``[packed spans, labels]``.
        """
        text_mask, *memory = (tensor.index_select(0, rows) for tensor in (text_mask, *memory))
        layout = TracedLayout(text_mask, span_mask, start_positions, end_positions, span_index[:0], span_index)
        text, width = text_mask.shape[1], span_mask.shape[1]
        _, *positions = layout.position_ids.tensor_split([text, text + width], dim=1)
        ids = torch.stack([torch.zeros_like(span_index), torch.ones_like(span_index)]).flatten()
        packed = torch.cat([part.flatten()[span_index] for part in positions])
        states = _run(self.encoder, ids, packed, layout, TextMemory.of(memory))
        logits: Tensor = self.classifier(torch.cat(states.tensor_split([span_index.shape[0]]), dim=-1))
        return logits


def _run(encoder: PreTrainedModel, ids: Tensor, positions: Tensor, layout: MarkerLayout, memory: TextMemory) -> Tensor:
    """Run an encoder over packed tokens. Shape: ``[packed, hidden]``."""
    output = call_encoder(
        encoder, ids[None], positions[None], attention_mask=None, marker_layout=layout, text_memory=memory
    )
    states: Tensor = output.last_hidden_state[0]
    return states


def packed_index(mask: Tensor) -> Tensor:
    """Find what packing keeps. Shape: ``[packed]``.

    Args:
        mask: True for content, false for padding. Shape: ``[batch, items]``.
    """
    return mask.flatten().nonzero().squeeze(1)


class Graph(NamedTuple):
    """A module and what it is traced with.

    Attributes:
        module: The module.
        inputs: An example of its inputs by name. Sizes that may differ differ, and no tensor is there twice, which
            tracing would take for one input.
        axes: Axes of the inputs whose size is free.
        outputs: Names of the outputs.
    """

    module: nn.Module
    inputs: dict[str, Any]
    axes: dict[str, Any]
    outputs: list[str]


def memory_names(layers: int) -> list[str]:
    """Name the tensors of a text memory.

    Args:
        layers: Number of layers.
    """
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def _example(encoder: PreTrainedModel) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Make two texts, and what markers attend to in them."""
    mask = torch.tensor([[True] * 5, [True] * 4 + [False]])
    text = {"input_ids": mask.long(), "text_mask": mask, "text_index": packed_index(mask)}
    with torch.no_grad():
        _, *memory = TextGraph(encoder)(**text)
    return text, memory


def text_graph(encoder: PreTrainedModel) -> Graph:
    """Prepare the pass over texts for tracing.

    Args:
        encoder: The encoder.
    """
    text, memory = _example(encoder)
    axes = {"input_ids": _TEXT, "text_mask": _TEXT, "text_index": {0: "packed"}}
    return Graph(TextGraph(encoder), text, axes, ["states", *memory_names(len(memory) // 2)])


def marker_graph(encoder: PreTrainedModel, classifier: nn.Linear, marker_ids: Sequence[int]) -> Graph:
    """Prepare the pass over markers for tracing.

    Args:
        encoder: The encoder.
        classifier: The classifier over marker pairs.
        marker_ids: Ids of the start marker and of the end marker.
    """
    text, memory = _example(encoder)
    mask = torch.arange(7) < torch.tensor([[7], [6], [4]])
    inputs = {
        "text_mask": text["text_mask"],
        "rows": torch.tensor([0, 1, 1]),
        "span_mask": mask,
        "start_positions": mask.long(),
        "end_positions": mask.long(),
        "span_index": packed_index(mask),
        "memory": memory,
    }
    axes: dict[str, Any] = dict.fromkeys(inputs, _SPANS)
    axes |= {"text_mask": _TEXT, "rows": {0: "rows"}, "span_index": {0: "packed"}, "memory": [_MEMORY] * len(memory)}
    return Graph(MarkerGraph(encoder, classifier, marker_ids), inputs, axes, ["logits"])


def filter_graph(span_filter: SpanFilter) -> Graph:
    """Prepare the span filter for tracing.

    Args:
        span_filter: The span filter.
    """
    inputs = {
        "text_states": torch.zeros(2, 5, span_filter.first.in_features),
        "start_positions": torch.zeros(2, 3, dtype=torch.long),
        "end_positions": torch.ones(2, 3, dtype=torch.long),
    }
    spans = {0: "batch", 1: "spans"}
    axes = {"text_states": _TEXT, "start_positions": spans, "end_positions": spans}
    return Graph(span_filter, inputs, axes, ["logits"])


def write_graph(graph: Graph, path: Path) -> None:
    """Trace a module and write it.

    Args:
        graph: The module.
        path: The file; one of more than 2 GB, which protobuf cannot hold, gets another for its weights.

    Raises:
        ValueError: The module cannot be traced.
    """
    names = [name for name in graph.inputs if name != "memory"]
    names += memory_names(len(graph.inputs.get("memory", ())) // 2)
    try:
        with quiet():
            program = torch.onnx.export(
                graph.module.eval().requires_grad_(False),
                kwargs=graph.inputs,
                dynamic_shapes=graph.axes,
                input_names=names,
                output_names=graph.outputs,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # tracing raises errors of many kinds
        raise ValueError(f"The graph {path.name} cannot be traced. Use the model with PyTorch. {error}") from error
    assert program is not None
    program.save(path)
