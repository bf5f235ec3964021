"""What the dialects of JSON with texts and character spans have in common."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from span_marker.readers.alignment import TextRow, align_rows
from span_marker.readers.json_files import read_items, write_items
from span_marker.readers.jsonl import read_span
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, place, read_ids
from span_marker.readers.writing import all_spans, refuse
from span_marker.word_splitters import locate_words

Item: TypeAlias = dict[str, Any]
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_rows(path: Path, options: ReadOptions, parse: Callable[[Any, str], TextRow]) -> Iterator[Sentence]:
    """Read a file of texts with character spans.

    Args:
        path: The file: JSON lines, or an array.
        options: How to read: ``split_words``, ``encoding``, ``align``.
        parse: Reads one value; gets its place for errors.

    Yields:
        The sentences.

    Raises:
        ValueError: A value is not JSON or not of the dialect, or an entity does not fit the text.
    """

    def rows() -> Iterator[TextRow]:
        for number, item in read_items(path, options.encoding):
            row = parse(item, place(path, number))
            row.file, row.line = str(path), number
            yield row

    yield from align_rows(rows(), options.split_words, options.misaligned)


def write_rows(sentences: Iterable[Sentence], path: Path, make: Callable[[TextRow], Any]) -> None:
    """Write a file of texts with character spans.

    Args:
        sentences: The sentences. Words of one without text are joined by spaces.
        path: The file; an array if it is called ``.json``, otherwise JSON lines.
        make: Makes the value of a text; all fields but ``file`` and ``line`` are filled in.

    Raises:
        ValueError: A word is empty.
    """
    write_items((make(text_row(sentence)) for sentence in sentences), path)


def text_row(sentence: Sentence) -> TextRow:
    """Find the characters of a sentence's words and entities.

    Args:
        sentence: The sentence.

    Returns:
        Its text, words and entities.

    Raises:
        ValueError: A word is empty, or not in the text.
    """
    if "" in sentence.tokens:
        refuse(
            sentence, f"word {sentence.tokens.index('')} is empty, which has no place in a text. Write JSONL instead."
        )
    text = " ".join(sentence.tokens) if sentence.text is None else sentence.text
    words = locate_words(text, sentence.tokens, sentence.place)
    spans = [(words[start][0], words[end - 1][1], label) for start, end, label in all_spans(sentence)]
    return TextRow(text, spans, words, sentence.ids)


def parse_row(item: Any, where: str, spans: str, ids: Item | None = None) -> TextRow:
    """Read an object with a text and its entities.

    Args:
        item: The object: "text", the entities, and perhaps its words in "tokens".
        where: Its place, for errors.
        spans: The key of the entities.
        ids: What holds "document_id" and "sentence_id", if not the object.

    Returns:
        The text; ``file`` and ``line`` are left to fill in.

    Raises:
        ValueError: It is no such object.
    """
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        raise ValueError(f"{where}: {item!r:.80} has no text. Expected an object with the keys 'text' and {spans!r}.")
    if not item["text"].isascii() and _SURROGATE.search(item["text"]):
        raise ValueError(f"{where}: the text holds half of a surrogate pair, which is no character. Remove it.")
    entities = item.get(spans) or []
    if not isinstance(entities, list):
        raise ValueError(f"{where}: {spans!r} is {entities!r:.60}. Expected a list of entities.")
    return TextRow(
        item["text"],
        [read_span(entity, where) for entity in entities],
        words_of(item["text"], item.get("tokens"), where),
        read_ids(item if ids is None else ids, where),
    )


def words_of(text: str, tokens: Any, where: str) -> list[tuple[int, int]] | None:
    """Read the words of a text.

    Args:
        text: The text.
        tokens: Words, or objects with their "start" and "end"; ``None``: the file has none.
        where: Their place, for errors.

    Returns:
        Start and end (exclusive) of each word; ``None`` where the file has none.

    Raises:
        ValueError: They are neither, or do not fit the text.
    """
    if tokens is None:
        return None
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return locate_words(text, tokens, where)
    try:
        words = [(int(token["start"]), int(token["end"])) for token in tokens]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{where}: the words are {tokens!r:.80}. Expected a list of strings, or of objects with 'start' and 'end'."
        ) from error
    borders = [0, *(border for word in words for border in word), len(text)]
    if borders != sorted(borders):
        raise ValueError(f"{where}: the words {words!r:.80} overlap or lie outside the text. Correct their offsets.")
    return words


def word_texts(row: TextRow) -> list[str]:
    """Return the words of a text, to be written.

    Args:
        row: The text.

    Returns:
        The words.
    """
    return [row.text[start:end] for start, end in row.words or ()]
