"""doccano's JSON lines: {"text": ..., "label": [[start, end, type], ...]}.

Source: https://doccano.github.io/doccano/tutorial/; with relations, entities are objects in "entities".
"""

from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import Item, parse_row, word_texts

KEYS = ("label", "labels", "entities")


def parse(item: Any, where: str) -> TextRow:
    """Read a line of doccano.

    Args:
        item: The value.
        where: Its place, for errors.

    Returns:
        The text, its words and its entities.

    Raises:
        ValueError: It is no such object.
    """
    key = next((key for key in KEYS if isinstance(item, dict) and key in item), KEYS[0])
    if key == "entities" and isinstance(item[key], list):
        item = {**item, key: [_span(entity) for entity in item[key]]}
    return parse_row(item, where, key)


def _span(entity: Any) -> Any:
    if not isinstance(entity, dict):
        return entity
    return [entity.get("start_offset"), entity.get("end_offset"), entity.get("label")]


def make(row: TextRow) -> Item:
    """Make a line of doccano; the words are in "tokens", which doccano keeps as metadata.

    Args:
        row: The text, its words and its entities.
    """
    return {"text": row.text, "label": row.spans, "tokens": word_texts(row), **row.ids}
