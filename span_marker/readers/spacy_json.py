"""spaCy's training data as JSON: [text, {"entities": [[start, end, type], ...]}].

Source: https://spacy.io/api/data-formats#dict-input; the words are in "words", as there.
"""

from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import parse_row, word_texts


def parse(item: Any, where: str) -> TextRow:
    """Read a pair of spaCy's training data.

    Args:
        item: The value.
        where: Its place, for errors.

    Returns:
        The text, its words and its entities.

    Raises:
        ValueError: It is no such pair.
    """
    match item:
        case [str() as text, dict() as annotations]:
            row = {"text": text, "entities": annotations.get("entities"), "tokens": annotations.get("words")}
            return parse_row(row, where, "entities", ids=annotations)
    raise ValueError(f"{where}: {item!r:.80}. Expected [text, {{'entities': [[start, end, type], ...]}}].")


def make(row: TextRow) -> list[Any]:
    """Make a pair of spaCy's training data.

    Args:
        row: The text, its words and its entities.
    """
    return [row.text, {"entities": row.spans, "words": word_texts(row), **row.ids}]
