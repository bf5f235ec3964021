"""GLiNER's training data: {"tokenized_text": [...], "ner": [[first word, last word, type], ...]}.

Source: https://github.com/urchade/GLiNER; the last word is inclusive.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from span_marker.readers.json_files import read_items, write_items
from span_marker.readers.jsonl import read_span
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, place, read_ids
from span_marker.readers.writing import all_spans


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read GLiNER's training data.

    Args:
        path: The file: an array, or an object a line.
        options: How to read: ``encoding``.

    Yields:
        The sentences.

    Raises:
        ValueError: A value is not such an object.
    """
    for number, item in read_items(path, options.encoding):
        where = place(path, number)
        tokens = item.get("tokenized_text") if isinstance(item, dict) else None
        entities = item.get("ner") or [] if isinstance(item, dict) else None
        if not isinstance(tokens, list) or not isinstance(entities, list):
            raise ValueError(f"{where}: {item!r:.80}. Expected an object with the lists 'tokenized_text' and 'ner'.")
        spans = [read_span(entity, where) for entity in entities]
        yield Sentence(
            tokens=tokens,
            spans=[(first, last + 1, label) for first, last, label in spans],
            file=str(path),
            line=number,
            ids=read_ids(item, where),
        )


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write GLiNER's training data.

    Args:
        sentences: The sentences.
        path: The file; an array if it is called ``.json``, otherwise an object a line.
    """
    write_items(map(_item, sentences), path)


def _item(sentence: Sentence) -> dict[str, Any]:
    entities = [[start, end - 1, label] for start, end, label in all_spans(sentence)]
    return {"tokenized_text": sentence.tokens, "ner": entities, **sentence.ids}
