"""Weights of eight bits."""

import tempfile
from pathlib import Path

from span_marker.export.extra import import_extra, quiet


def quantize_graph(path: Path) -> None:
    """Store the weights of a graph's matrix products in eight bits, a scale for each column, in the file's place.

    Activations are quantised while the graph runs, by their range in the batch ("dynamic quantisation").

    Args:
        path: The graph's file.
    """
    quantization = import_extra("onnxruntime.quantization")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, quiet():
        quantized = Path(folder) / path.name
        quantization.quantize_dynamic(
            path,
            quantized,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
        )
        quantized.replace(path)
