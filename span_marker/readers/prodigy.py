"""Prodigy's JSON lines: {"text": ..., "tokens": [...], "spans": [{"start": ..., "end": ..., "label": ...}]}.

Source: https://prodi.gy/docs/api-interfaces#spans.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import Item, parse_row, read_rows, write_rows
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read Prodigy's JSON lines; ids are those in "meta".

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
    meta = item.get("meta") if isinstance(item, dict) else None
    return parse_row(item, where, "spans", ids=meta if isinstance(meta, dict) else None)


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write Prodigy's JSON lines.

    Args:
        sentences: The sentences.
        path: The file.

    Raises:
        ValueError: A word is empty.
    """
    write_rows(sentences, path, _make)


def _make(row: TextRow) -> Item:
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
