"""The model card: what is known of a model, and the README that says it."""

from span_marker.model_card.data import SpanMarkerModelCardData
from span_marker.model_card.render import generate_model_card

__all__ = ["SpanMarkerModelCardData", "generate_model_card"]
