"""CSV and TSV files with a word a row.

Source of the quoting: RFC 4180.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from span_marker.readers.conll import count_columns
from span_marker.readers.options import Column, ReadOptions
from span_marker.readers.sentences import ID_COLUMNS, Sentence, place
from span_marker.readers.text_files import numbered_lines
from span_marker.readers.writing import flat_tags, refuse

TOKEN_NAMES = ("token", "word", "tokens", "words", "form")
TAG_NAMES = ("ner_tag", "ner_tags", "tag", "tags", "ner", "label", "labels")
_SENTENCE_NAMES = ("sentence", "sentence #", "sentence_id", "sent_id")
_DOCUMENT_NAMES = ("document_id", "doc_id", "document")


class _Columns(NamedTuple):
    """Where the columns of a file are.

    Attributes:
        token: Index of the words.
        tag: Index of the tags.
        sentences: Indices of the columns that change with the sentence.
        ids: Indices of the columns of "document_id" and "sentence_id", where there are any.
        width: Number of columns.
    """

    token: int
    tag: int
    sentences: tuple[int, ...]
    ids: tuple[int | None, int | None]
    width: int


def read_csv(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a file of values separated by commas, or by ``options.delimiter``; see [`read_table`]."""
    return read_table(path, options, options.delimiter or ",")


def read_tsv(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a file of values separated by tabs; see [`read_table`]."""
    return read_table(path, options, "\t")


def read_table(path: Path, options: ReadOptions, delimiter: str) -> Iterator[Sentence]:
    """Read a file with a header and a word a row.

    A sentence ends where a row is blank, or where a column "sentence", "Sentence #" or "sentence_id" changes, a blank
    cell meaning that it goes on.

    Args:
        path: The file.
        options: How to read: ``token_column``, ``tag_column`` (names, or indices), ``encoding``.
        delimiter: What separates the columns.

    Yields:
        The sentences.

    Raises:
        ValueError: A column is missing, a row has not as many as the header, or a word or tag is empty.
    """
    rows = _rows(path, options.encoding, delimiter)
    _, header = next(rows, (1, None))
    if header is None:
        return
    columns = _find_columns(header, options, place(path, 1))
    sentence, key = Sentence([], [], file=str(path), lines_per_word=1), [""] * len(columns.sentences)
    for number, row in rows:
        changed = [row[index] or old for index, old in zip(columns.sentences, key, strict=True)] if any(row) else None
        if sentence.tokens and changed != key:
            yield sentence
            sentence = Sentence([], [], file=str(path), lines_per_word=1)
        if changed is None:
            continue
        key = changed
        if len(row) != columns.width:
            raise ValueError(
                f"{place(path, number)}: {count_columns(len(row))}, but the header has {columns.width}. Quote "
                "cells that hold a delimiter or a quote."
            )
        if not row[columns.token] or not row[columns.tag]:
            missing = columns.tag if row[columns.token] else columns.token
            raise ValueError(f"{place(path, number)}: the column {header[missing]!r} is empty. Give each word a tag.")
        if not sentence.tokens:
            sentence.line = number
            cells = {name: row[index] for name, index in zip(ID_COLUMNS, columns.ids, strict=True) if index is not None}
            sentence.ids = {name: cell for name, cell in cells.items() if cell}
        sentence.tokens.append(row[columns.token])
        sentence.tags.append(row[columns.tag])  # type: ignore[union-attr]
    if sentence.tokens:
        yield sentence


def _rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Read rows with the number of their first line; quoted cells may go over several."""
    reader = csv.reader((f"{line}\n" for _, line in numbered_lines(path, encoding)), delimiter=delimiter)
    first = 1
    try:
        for row in reader:
            yield first, row
            first = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{place(path, first)}: {error}. Check that all quotes are closed.") from error


def _find_columns(header: list[str], options: ReadOptions, where: str) -> _Columns:
    names = [name.strip().lower() for name in header]

    def find(usual: tuple[str, ...]) -> int | None:
        return next((names.index(name) for name in usual if name in names), None)

    def require(argument: str, wanted: Column | None, usual: tuple[str, ...]) -> int:
        index = find(usual) if wanted is None else None
        if isinstance(wanted, str) and wanted in header:
            index = header.index(wanted)
        elif isinstance(wanted, int) and -len(header) <= wanted < len(header):
            index = wanted
        if index is None:
            expected = " or ".join(map(repr, usual)) if wanted is None else repr(wanted)
            raise ValueError(
                f"{where}: the header {', '.join(map(repr, header)) or 'is empty and'} has no column {expected}. Name "
                f"the right one: `{argument}=`."
            )
        return index

    document, sentence_id = find(_DOCUMENT_NAMES), find(("sentence_id", "sent_id"))
    running = find(_SENTENCE_NAMES[:2])
    sentences = (running,) if running is not None else tuple(i for i in (document, sentence_id) if i is not None)
    if running is None and sentence_id is None:
        sentences = ()
    return _Columns(
        require("token_column", options.token_column, TOKEN_NAMES),
        require("tag_column", options.tag_column, TAG_NAMES),
        sentences,
        (document, sentence_id),
        len(header),
    )


def write_csv(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a file of values separated by commas; see [`write_table`]."""
    write_table(sentences, path, ",")


def write_tsv(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a file of values separated by tabs; see [`write_table`]."""
    write_table(sentences, path, "\t")


def write_table(sentences: Iterable[Sentence], path: Path, delimiter: str) -> None:
    """Write a file with the columns sentence (a running number), token, ner_tag, document_id and sentence_id.

    Args:
        sentences: The sentences.
        path: The file.
        delimiter: What separates the columns.

    Raises:
        ValueError: A sentence or a word is empty, a word holds a carriage return or a null character, or entities
            overlap.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        write_row: Callable[[Iterable[object]], object] = csv.writer(
            file, delimiter=delimiter, lineterminator="\n"
        ).writerow
        write_row(("sentence", "token", "ner_tag", *ID_COLUMNS))
        for number, sentence in enumerate(sentences):
            tags = flat_tags(sentence, "a table")
            if not sentence.tokens:
                refuse(sentence, "a table cannot hold a sentence without words. Leave it out, or write JSONL instead.")
            ids = [sentence.ids.get(name, "") for name in ID_COLUMNS]
            for value in (*sentence.tokens, *tags, *ids):
                if "\r" in value or "\0" in value:
                    refuse(sentence, f"a table cannot hold {value!r:.60}. Change it, or write JSONL instead.")
            if "" in sentence.tokens:
                word = sentence.tokens.index("")
                refuse(sentence, f"a table cannot hold word {word}, which is empty. Write JSONL instead.")
            for token, tag in zip(sentence.tokens, tags, strict=True):
                write_row((number, token, tag, *ids))
