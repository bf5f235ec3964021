"""spaCy's training data as JSON: [text, {"entities": [[start, end, type], ...]}].

Source: https://spacy.io/api/data-formats#dict-input; the words are in "words", as there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import parse_row, read_rows, word_texts, write_rows
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read spaCy's training data.

    Args:
        path: The file: JSON lines, or an array.
        options: How to read; see `read_rows`.

    Yields:
        The sentences.

    Raises:
        ValueError: A value is not such a pair, or an entity does not fit the text.
    """
    yield from read_rows(path, options, _parse)


def _parse(item: Any, where: str) -> TextRow:
    match item:
        case [str() as text, dict() as annotations]:
            row = {"text": text, "entities": annotations.get("entities"), "tokens": annotations.get("words")}
            return parse_row(row, where, "entities", ids=annotations)
    raise ValueError(f"{where}: {item!r:.80}. Expected [text, {{'entities': [[start, end, type], ...]}}].")


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write spaCy's training data.

    Args:
        sentences: The sentences.
        path: The file; an array if it is called ``.json``, otherwise JSON lines.

    Raises:
        ValueError: A word is empty.
    """
    write_rows(sentences, path, _make)


def _make(row: TextRow) -> list[Any]:
    return [row.text, {"entities": row.spans, "words": word_texts(row), **row.ids}]
