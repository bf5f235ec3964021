"""BRAT's standoff format: a folder with a .txt and an .ann file for each document.

Source: https://brat.nlplab.org/standoff.html.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import NamedTuple

from span_marker.readers.alignment import Misalignments, TextRow, align_rows
from span_marker.readers.character_spans import text_row
from span_marker.readers.conll import WHITESPACE, require_words
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, Span, place
from span_marker.readers.text_files import decode, has_mark, line_blocks, numbered_lines
from span_marker.readers.writing import refuse

_ENTITY = re.compile(r"T\d+\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_FILE_NAME = re.compile(r"[^./\\\0][^/\\\0]{0,200}")
_LINE_BREAK = re.compile(r"[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_DEFAULT_NAME = "document"
_MARK = "\ufeff"
"""The byte order mark."""


class _Entity(NamedTuple):
    """An entity as it is annotated.

    Attributes:
        where: Its place, for errors.
        label: Its type.
        pieces: First character and character after the last of each piece.
        quoted: Its text as the annotation has it; ``None`` where it has none.
    """

    where: str
    label: str
    pieces: list[tuple[int, int]]
    quoted: str | None

    def found(self, text: str) -> str:
        """Return what is in the text at its offsets."""
        return " ".join(text[start:end] for start, end in self.pieces)

    def fits(self, text: str) -> bool:
        """Tell whether this is what the annotation has."""
        return self.quoted is None or self.quoted.split() == self.found(text).split()

    def moved(self) -> "_Entity":
        """Return the entity, a character further ahead."""
        return self._replace(pieces=[(start - 1, end - 1) for start, end in self.pieces])


def documents(folder: Path) -> list[Path]:
    """List the annotated documents of a folder.

    Args:
        folder: The folder, or one .ann or .txt file.

    Returns:
        Their .ann files; numbers in names are sorted as numbers.
    """
    if folder.is_file():
        return [folder.with_suffix(".ann")]
    return sorted(folder.glob("*.ann"), key=lambda path: [int(p) if p.isdigit() else p for p in _parts(path.stem)])


def _parts(name: str) -> list[str]:
    """Cut a name into texts and numbers, in turn."""
    return re.split(r"(\d+)", name)


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a folder of documents, a row for each line that is not blank.

    The entities ("T" lines) are read, all other annotations ignored.

    Args:
        path: The folder, or one .ann or .txt file.
        options: How to read: ``split_words``, ``encoding``, ``align``. Entities that are discontinuous or go over a
            line break are never extended, but left out where that is no error.

    Yields:
        The sentences; a document's name is its id.

    Raises:
        ValueError: A document has no text, an entity is malformed or does not fit the text, or a file is no text file.
    """
    for file in documents(path):
        yield from align_rows(_rows(file, options), options.split_words, options.misaligned)


def _rows(file: Path, options: ReadOptions) -> list[TextRow]:
    """Read the lines of a document with their entities."""
    source = file.with_suffix(".txt")
    for wanted, other in ((source, file), (file, source)):
        if not wanted.is_file():
            raise ValueError(f"{other} has no {wanted.name} beside it. Expected the text and its annotations.")
    text = decode(b"".join(block for _, block in line_blocks(source)), source, 1, options.encoding)
    entities = list(_entities(file, options))
    if has_mark(source) and _count_mark(entities, text):
        entities = [entity.moved() for entity in entities]
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))
    spans: list[list[Span]] = [[] for _ in lines]
    rows = [
        TextRow(line.removesuffix("\r"), spans[number], None, {"document_id": file.stem}, str(source), number + 1)
        for number, line in enumerate(lines)
    ]
    for entity in entities:
        _check(entity, text)
        pieces = entity.pieces
        number = bisect_right(starts, pieces[0][0]) - 1
        start, end = pieces[0][0] - starts[number], pieces[-1][1] - starts[number]
        span = (start, end, entity.label)
        if _is_whole(rows[number], span, len(pieces), entity.where, options.misaligned):
            spans[number].append(span)
    kept = [row for row in rows if row.text.strip()]
    for number, row in enumerate(kept):
        row.ids["sentence_id"] = str(number)
    return kept


def _is_whole(row: TextRow, span: Span, pieces: int, where: str, misaligned: Misalignments) -> bool:
    """Tell whether an entity is one piece of one line; take note of it if not."""
    problem = "is discontinuous" if pieces > 1 else "goes over a line break" if span[1] > len(row.text) else ""
    if problem:
        misaligned.add(row, span, f"({where}) {problem}")
    return not problem


def _entities(file: Path, options: ReadOptions) -> Iterator[_Entity]:
    """Read the entities of a document."""
    for number, line in numbered_lines(file, options.encoding):
        if not line.startswith("T"):
            continue
        where = place(file, number)
        match = _ENTITY.fullmatch(line)
        if match is None:
            raise ValueError(f"{where}: {line!r:.80}. Expected an entity: T1, tab, type, start and end, tab, its text.")
        offsets = [piece.split(" ") for piece in match[2].split(";")]
        yield _Entity(where, match[1], [(int(start), int(end)) for start, end in offsets], match[3])


def _count_mark(entities: Sequence[_Entity], text: str) -> bool:
    """Tell whether offsets count the byte order mark, which BRAT takes for a character and many other programs do not.

    Args:
        entities: The entities of a document.
        text: Its text, without the mark.
    """
    return not all(entity.fits(text) for entity in entities) and all(entity.fits(_MARK + text) for entity in entities)


def _check(entity: _Entity, text: str) -> None:
    """Refuse an entity that is not where its annotation says."""
    for start, end in entity.pieces:
        if not 0 <= start < end <= len(text):
            raise ValueError(
                f"{entity.where}: {entity.label} at characters {start} to {end} lies outside the text, which has "
                f"{len(text)} characters. Expected 0 <= start < end <= {len(text)}: correct the offsets."
            )
    if not entity.fits(text):
        breaks = "line breaks too" + (" (here two characters each)" if "\r\n" in text else "")
        raise ValueError(
            f"{entity.where}: the text of the entity is {entity.quoted!r:.60}, but at its offsets is "
            f"{entity.found(text)!r:.60}. Correct the offsets, which count characters, {breaks}."
        )


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a folder of documents with a sentence a line; read it again with ``split_words="whitespace"``.

    Args:
        sentences: The sentences, those of a document one after the other. Words of one without text are joined by
            spaces.
        path: The folder.

    Raises:
        ValueError: A sentence or word is empty, a word or text has whitespace or a line break that the file cannot
            hold, a type has whitespace, a document's id is no file name, or its sentences are scattered.
    """
    path.mkdir(parents=True)
    for document, rows in groupby(sentences, key=lambda sentence: sentence.ids.get("document_id", _DEFAULT_NAME)):
        _write_document(document, rows, path)


def _write_document(document: str, sentences: Iterator[Sentence], folder: Path) -> None:
    first = next(sentences)
    if not _FILE_NAME.fullmatch(document):
        refuse(first, f"the document_id {document!r:.60} is no name for a file. Change it.")
    file = folder / f"{document}.txt"
    if file.exists():
        refuse(first, f"the document {document!r} goes on after another one. Sort the rows by document.")
    position = count = 0
    with (
        file.open("w", encoding="utf-8", newline="\n") as text,
        file.with_suffix(".ann").open("w", encoding="utf-8", newline="\n") as annotations,
    ):
        for sentence in chain([first], sentences):
            row = _writable(sentence)
            if not position and row.text.startswith(_MARK):
                position = text.write("\n")  # at the very beginning it would be taken for the file's byte order mark
            text.write(f"{row.text}\n")
            for start, end, label in row.spans:
                count += 1
                annotations.write(f"T{count}\t{label} {position + start} {position + end}\t{row.text[start:end]}\n")
            position += len(row.text) + 1


def _writable(sentence: Sentence) -> TextRow:
    """Find the characters of a sentence's entities; refuse what a line of text cannot hold."""
    if sentence.text is None:
        require_words(sentence, WHITESPACE, "BRAT's format")
    row = text_row(sentence)
    if not row.text.strip() or _LINE_BREAK.search(row.text):
        refuse(sentence, f"the text {row.text!r:.60} is no line with words. Split it at its line breaks.")
    for _, _, label in row.spans:
        if WHITESPACE.search(label) or "\n" in label:
            refuse(sentence, f"BRAT's format cannot hold the type {label!r}, which has whitespace. Rename it.")
    return row
