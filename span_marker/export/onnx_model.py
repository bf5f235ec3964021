"""A model that was exported to ONNX, run by ONNX Runtime: the same `predict` without its weights in PyTorch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from span_marker.attention import mask_of
from span_marker.configuration import SpanMarkerConfig
from span_marker.export.extra import import_extra
from span_marker.export.graphs import memory_names, packed_index
from span_marker.inference import predict
from span_marker.loading import FILTER_GRAPH, MARKER_GRAPH, TEXT_GRAPH, naming
from span_marker.output import SpanMarkerOutput
from span_marker.span_filter import vote
from span_marker.tokenizer import SpanMarkerTokenizer


class GraphRunner:
    """A graph in a session of ONNX Runtime.

    Args:
        path: The graph's file.
        device: Where to run it: "cpu", or "cuda" with or without an index.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        onnxruntime = import_extra("onnxruntime")
        if not path.is_file():
            raise OSError(
                f"There is no {path.name} in the folder {str(path.parent)!r}. Export the model anew: "
                "SpanMarkerModel.from_pretrained(...).export('onnx', folder)."
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        with naming(f"graph {path.name}", str(path.parent)):
            self._session = onnxruntime.InferenceSession(path, options, providers=_providers(device))
        self._device = device
        self.outputs: list[str] = [output.name for output in self._session.get_outputs()]

    def __call__(self, inputs: Mapping[str, Any], *, to_cpu: bool) -> list[Any]:
        """Run the graph.

        Args:
            inputs: Tensors on the CPU, or values that a graph has returned, by name.
            to_cpu: Whether the outputs are wanted on the CPU rather than where they were computed.

        Returns:
            The outputs, as values of ONNX Runtime.
        """
        binding = self._session.io_binding()
        # Held until the graph has run: a binding does not keep the memory of its inputs alive.
        tensors = {name: value.contiguous() for name, value in inputs.items() if isinstance(value, Tensor)}
        for name, value in inputs.items():
            if name in tensors:
                binding.bind_cpu_input(name, tensors[name].numpy())
            else:
                binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name, *(() if to_cpu else (self._device.type, self._device.index or 0)))
        self._session.run_with_iobinding(binding)
        outputs: list[Any] = binding.get_outputs()
        return outputs


def _providers(device: torch.device) -> list[Any]:
    """Name the ways of ONNX Runtime to compute on a device, the first one preferred.

    Raises:
        ValueError: The installed ONNX Runtime cannot compute there.
    """
    cpu = "CPUExecutionProvider"
    if device.type == "cpu":
        return [cpu]
    name = f"{device.type.upper()}ExecutionProvider"
    available = import_extra("onnxruntime").get_available_providers()
    if device.type != "cuda" or name not in available:
        raise ValueError(
            f"device={str(device)!r}, but the installed ONNX Runtime computes by {', '.join(available)}. Leave the "
            "device out to compute on the CPU; for 'cuda', install onnxruntime-gpu in place of onnxruntime."
        )
    return [(name, {"device_id": device.index or 0}), cpu]


@dataclass(frozen=True)
class OnnxText:
    """Texts that have been encoded once, for any number of spans to be read in them.

    Attributes:
        text_mask: True for text, false for padding. Shape: ``[batch, text]``.
        states: Final states, as a value of ONNX Runtime. Shape: ``[batch, text, hidden]``.
        memory: Keys and values of each layer by name, likewise.
    """

    text_mask: Tensor
    states: Any
    memory: dict[str, Any]


class OnnxSpanMarkerModel(nn.Module):
    """A model that was exported to ONNX. It predicts as [`span_marker.SpanMarkerModel`] does, and cannot be trained.

    Attributes:
        config: The configuration.
        tokenizer: The tokenizer.
        device: Where batches are made: the CPU, whatever device the graphs run on.

    Args:
        config: The configuration.
        tokenizer: The tokenizer with the markers.
        text_graph: Texts to states, keys and values.
        marker_graph: Spans of encoded texts to logits.
        filter_graph: States and spans to logits of the span filter; ``None`` without a span filter.
    """

    def __init__(
        self,
        config: SpanMarkerConfig,
        tokenizer: SpanMarkerTokenizer,
        text_graph: GraphRunner,
        marker_graph: GraphRunner,
        filter_graph: GraphRunner | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.tokenizer = tokenizer
        self.device = torch.device("cpu")
        self._read_text = text_graph
        self._read_spans = marker_graph
        self._filter = filter_graph
        self.eval()

    predict = predict

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: str | torch.device = "cpu"
    ) -> "OnnxSpanMarkerModel":
        """Load an exported model.

        Args:
            folder: What ``SpanMarkerModel.export("onnx", folder)`` has written; it may have been moved since.
            device: Where to run the graphs: "cpu", with as many threads as PyTorch has now, or "cuda", which needs
                onnxruntime-gpu.

        Returns:
            The model.

        Raises:
            ImportError: ONNX Runtime is not installed.
            OSError: A file is missing or damaged.
            ValueError: ONNX Runtime cannot compute on the device.
        """
        path, device = Path(folder), torch.device(device)
        text_graph = GraphRunner(path / TEXT_GRAPH, device)
        with naming("configuration", str(path)):
            config = SpanMarkerConfig.from_pretrained(path, local_files_only=True)
        with naming("tokenizer", str(path)):
            tokenizer = SpanMarkerTokenizer.from_pretrained(
                path, config=config, local_files_only=True, trust_remote_code=False
            )
        filter_graph = GraphRunner(path / FILTER_GRAPH, device) if config.span_filter else None
        return cls(config, tokenizer, text_graph, GraphRunner(path / MARKER_GRAPH, device), filter_graph)

    @property
    def span_filter(self) -> Any:
        """The span filter: a function of encoded texts' states, starts and ends to logits, or ``None``."""
        return None if self._filter is None else self._filter_spans

    def _filter_spans(self, states: Any, start_positions: Tensor, end_positions: Tensor) -> Tensor:
        """Classify candidate spans on the text alone. Shape: ``[batch, spans, labels]``."""
        assert self._filter is not None
        inputs = {"text_states": states, "start_positions": start_positions, "end_positions": end_positions}
        return _tensor(self._filter(inputs, to_cpu=True)[0])

    def read_text(self, input_ids: Tensor, attention_mask: Tensor) -> OnnxText:
        """Encode texts, the first half of a forward pass.

        Args:
            input_ids: Text with special tokens. Shape: ``[batch, text]``.
            attention_mask: True (or 1) for text, false (or 0) for padding. Shape: ``[batch, text]``.

        Returns:
            What [`read_spans`] needs.
        """
        mask = attention_mask.bool()
        inputs = {"input_ids": input_ids, "text_mask": mask, "text_index": packed_index(mask)}
        states, *memory = self._read_text(inputs, to_cpu=False)
        return OnnxText(mask, states, dict(zip(memory_names(len(memory) // 2), memory, strict=True)))

    def read_spans(
        self,
        text: OnnxText,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        filter_logits: Tensor | None = None,
    ) -> Tensor:
        """Classify spans of encoded texts, the second half of a forward pass; may be called again with other spans.

        Args:
            text: The texts.
            start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in the text. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.
            filter_logits: What the span filter says of these spans, where that is known. Shape: ``[batch, spans,
                labels]``.

        Returns:
            Logits, undefined for padding. Shape: ``[batch, spans, labels]``.
        """
        span_mask = mask_of(num_spans, start_positions.shape[1])
        logits = torch.zeros(*span_mask.shape, self.config.num_labels)
        rows = num_spans.nonzero().squeeze(1)
        if len(rows):
            inputs = {
                "text_mask": text.text_mask,
                "rows": rows,
                "span_mask": span_mask[rows],
                "start_positions": start_positions[rows],
                "end_positions": end_positions[rows],
                "span_index": packed_index(span_mask[rows]),
            }
            (packed,) = self._read_spans(inputs | text.memory, to_cpu=True)
            logits[span_mask] = _tensor(packed)
        share, span_filter = self.config.span_filter_vote, self.span_filter
        if filter_logits is None and share and span_filter is not None:
            filter_logits = span_filter(text.states, start_positions, end_positions)
        return logits if filter_logits is None else vote(logits, filter_logits, share)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        **_: Any,
    ) -> SpanMarkerOutput:
        """Classify candidate spans.

        Args:
            input_ids: Text with special tokens. Shape: ``[batch, text]``.
            attention_mask: True (or 1) for text, false (or 0) for padding. Shape: ``[batch, text]``.
            start_positions: Index of each span's first token in ``input_ids``. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in ``input_ids``. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.
            **_: What else a collated batch holds.

        Returns:
            Logits of each span and, with a span filter, those of the filter.
        """
        text, span_filter = self.read_text(input_ids, attention_mask), self.span_filter
        filter_logits = None if span_filter is None else span_filter(text.states, start_positions, end_positions)
        return SpanMarkerOutput(
            logits=self.read_spans(text, start_positions, end_positions, num_spans, filter_logits),
            filter_logits=filter_logits,
        )


def _tensor(value: Any) -> Tensor:
    """Read a value of ONNX Runtime that lies on the CPU."""
    return torch.from_numpy(value.numpy())
