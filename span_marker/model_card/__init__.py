"""The model card: what is known of a model, and the README that says it."""

from span_marker.model_card.data import SpanMarkerModelCardData
from span_marker.model_card.facts import look_up_hub
from span_marker.model_card.files import load_card_data, published_card, write_model_card
from span_marker.model_card.render import base_model_of, generate_model_card

__all__ = [
    "SpanMarkerModelCardData",
    "base_model_of",
    "generate_model_card",
    "load_card_data",
    "look_up_hub",
    "published_card",
    "write_model_card",
]
