"""Prodigy's JSON lines: {"text": ..., "tokens": [...], "spans": [{"start": ..., "end": ..., "label": ...}]}.

Source: https://prodi.gy/docs/api-interfaces#spans.
"""

from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import Item, parse_row


def parse(item: Any, where: str) -> TextRow:
    """Read a line of Prodigy.

    Args:
        item: The value.
        where: Its place, for errors.

    Returns:
        The text, its words and its entities.

    Raises:
        ValueError: It is no such object.
    """
    meta = item.get("meta") if isinstance(item, dict) else None
    return parse_row(item, where, "spans", ids=meta if isinstance(meta, dict) else None)


def make(row: TextRow) -> Item:
    """Make a line of Prodigy; ids are in "meta".

    Args:
        row: The text, its words and its entities.
    """
    words = row.words or ()
    firsts = {start: number for number, (start, _) in enumerate(words)}
    lasts = {end: number for number, (_, end) in enumerate(words)}
    item: Item = {
        "text": row.text,
        "tokens": [
            {"text": row.text[start:end], "start": start, "end": end, "id": number}
            for number, (start, end) in enumerate(words)
        ],
        "spans": [
            {"start": start, "end": end, "token_start": firsts[start], "token_end": lasts[end], "label": label}
            for start, end, label in row.spans
        ],
    }
    if row.ids:
        item["meta"] = row.ids
    return item
