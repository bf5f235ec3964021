"""doccano's JSON lines: {"text": ..., "label": [[start, end, type], ...]}.

Source: https://doccano.github.io/doccano/tutorial/; with relations, entities are objects in "entities".
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import Item, parse_row, read_rows, word_texts, write_rows
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence

KEYS = ("label", "labels", "entities")


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read doccano's JSON lines.

    Args:
        path: The file.
        options: How to read; see `read_rows`.

    Yields:
        The sentences.

    Raises:
        ValueError: A line is not such an object, or an entity does not fit the text.
    """
    yield from read_rows(path, options, _parse)


def _parse(item: Any, where: str) -> TextRow:
    key = next((key for key in KEYS if isinstance(item, dict) and key in item), KEYS[0])
    if key == "entities" and isinstance(item[key], list):
        item = {**item, key: [_span(entity) for entity in item[key]]}
    return parse_row(item, where, key)


def _span(entity: Any) -> Any:
    if not isinstance(entity, dict):
        return entity
    return [entity.get("start_offset"), entity.get("end_offset"), entity.get("label")]


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write doccano's JSON lines; the words are in "tokens", which doccano keeps as metadata.

    Args:
        sentences: The sentences.
        path: The file.

    Raises:
        ValueError: A word is empty.
    """
    write_rows(sentences, path, _make)


def _make(row: TextRow) -> Item:
    return {"text": row.text, "label": row.spans, "tokens": word_texts(row), **row.ids}
