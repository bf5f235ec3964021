"""Trained models in a form that other engines run: ONNX Runtime."""

from span_marker.export.exporting import export_model
from span_marker.export.onnx_model import OnnxSpanMarkerModel

__all__ = ["OnnxSpanMarkerModel", "export_model"]
