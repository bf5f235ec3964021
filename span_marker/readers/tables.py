"""Sentences of a file to arrow tables of one schema."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import ID_COLUMNS, Sentence, Span, Where, find_overlap, place, spans_of, tags_of
from span_marker.readers.tags import TagReader

_STRING, _NUMBER = datasets.Value("string"), datasets.Value("int64")
FEATURES = datasets.Features(
    {
        "tokens": datasets.Sequence(_STRING),
        "ner_tags": datasets.Sequence(_STRING),
        "spans": [
            {"start": datasets.Value("int64"), "end": datasets.Value("int64"), "label": datasets.Value("string")}
        ],
        "text": _STRING,
        "document_id": _STRING,
        "sentence_id": _STRING,
        "source_file": _STRING,
        "source_line": _NUMBER,
    }
)
"""All columns that a data set may have. One without any value is left out in the end."""
SCHEMA = FEATURES.arrow_schema
_SPANS = SCHEMA.field("spans").type
_STRINGS = SCHEMA.field("tokens").type


@dataclass(frozen=True)
class ArrowRows:
    """Sentences as arrow columns.

    Attributes:
        columns: "tokens" and "ner_tags" (names, or ids of the labels), each an array of lists; optionally
            "document_id" and "sentence_id", arrays of strings or whole numbers.
        file: The file that they are from.
        lines: Number of each row's line there. Shape: ``[rows]``.
    """

    columns: dict[str, Any]
    file: str
    lines: Sequence[int]


Batch: TypeAlias = Sequence[Sentence] | ArrowRows
"""What formats are read as, a part at a time."""


class TableMaker:
    """Turns what was read into tables, and checks it.

    Args:
        options: How to read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._tags = TagReader(options.labels, options.scheme, keep=options.keep_tags)
        self._keep_tags = options.keep_tags
        self._entity_column = options.entity_column
        self.has_both = False
        """Whether a sentence had tags and spans that differ, so that neither can stand for the other."""

    def make(self, batch: Batch) -> Any:
        """Make a table of sentences.

        Args:
            batch: The sentences.

        Returns:
            An arrow table with the columns of [`FEATURES`].

        Raises:
            ValueError: A sentence is malformed; its file and line are named.
        """
        columns = self._from_arrow(batch) if isinstance(batch, ArrowRows) else self._from_sentences(batch)
        rows = len(columns["tokens"])
        return pa.table(
            [columns.get(name, pa.nulls(rows)).cast(SCHEMA.field(name).type) for name in FEATURES], schema=SCHEMA
        )

    def report(self) -> None:
        """Warn of tags that their scheme forbids, once all were read."""
        self._tags.report()

    def _from_arrow(self, batch: ArrowRows) -> dict[str, Any]:
        columns = dict(batch.columns)

        def where(row: int, word: int) -> str:
            return place(batch.file, batch.lines[row])

        require_lists(columns["tokens"], "tokens", where)
        require_lists(columns["ner_tags"], "ner_tags", where)
        require_one_tag_a_word(columns["tokens"], columns["ner_tags"], where)
        columns["ner_tags"] = self._tags.read(columns["ner_tags"], where)
        if self._entity_column == "spans":
            spans = [spans_of(tags) for tags in columns.pop("ner_tags").to_pylist()]
            columns["spans"] = _span_array(spans)
        rows = len(columns["tokens"])
        columns["source_file"] = pa.repeat(pa.scalar(batch.file), rows)
        columns["source_line"] = pa.array(batch.lines, pa.int64())
        return columns

    def _from_sentences(self, sentences: Sequence[Sentence]) -> dict[str, Any]:
        tokens = _strings([sentence.tokens for sentence in sentences], sentences)
        require_lists(tokens, "tokens", lambda row, word: sentences[row].place_of(word))
        tagged = [index for index, sentence in enumerate(sentences) if sentence.tags is not None]
        tags: list[list[str] | None] = [None] * len(sentences)
        spans: list[list[Span] | None] = [None] * len(sentences)
        if tagged:
            rows = [sentences[index] for index in tagged]
            given = _strings([row.tags for row in rows], rows)
            require_one_tag_a_word(tokens.take(pa.array(tagged)), given, lambda row, word: rows[row].place_of(word))
            read = self._tags.read(given, lambda row, word: rows[row].place_of(word)).to_pylist()
            for index, row in zip(tagged, read, strict=True):
                tags[index] = row
        for index, sentence in enumerate(sentences):
            if sentence.spans is not None:
                spans[index] = self._checked(sentence)
            elif tags[index] is None:
                raise ValueError(f"{sentence.place}: the sentence has neither tags nor spans. Give it one of them.")
            tags[index], spans[index] = self._complete(sentence, tags[index], spans[index])
        return {
            "tokens": tokens,
            "ner_tags": pa.array(tags, _STRINGS),
            "spans": _span_array(spans),
            "text": _strings([sentence.text for sentence in sentences], sentences),
            **{name: _strings([row.ids.get(name) for row in sentences], sentences) for name in ID_COLUMNS},
            "source_file": pa.array([sentence.file for sentence in sentences], pa.string()),
            "source_line": pa.array([sentence.line for sentence in sentences], pa.int64()),
        }

    def _checked(self, sentence: Sentence) -> list[Span]:
        """Sort a sentence's entities, and drop duplicates."""
        number = len(sentence.tokens)
        for start, end, label in sentence.spans or ():
            if not 0 <= start < end <= number:
                raise ValueError(
                    f"{sentence.place}: the entity {label!r} at words {start} to {end} lies outside the sentence of "
                    f"{number} words. Expected 0 <= start < end <= {number}, the end exclusive."
                )
            if not label:
                raise ValueError(f"{sentence.place}: the entity at words {start} to {end} has no type. Give it one.")
            self._tags.check_type(label, sentence.place)
        return sorted(set(sentence.spans or ()))

    def _complete(
        self, sentence: Sentence, tags: list[str] | None, spans: list[Span] | None
    ) -> tuple[list[str] | None, list[Span] | None]:
        """Write a sentence's entities in the form that is wanted; in that of the file and as tags where none is."""
        if self._keep_tags:
            self.has_both = self.has_both or (tags is not None and spans is not None)
            return tags, spans
        if self._entity_column == "spans":
            return None, spans_of(tags or ()) if spans is None else spans
        if self._entity_column == "ner_tags" and tags is not None:
            return tags, None
        if tags is not None and spans is not None and not self.has_both:
            self.has_both = spans_of(tags) != spans
        overlap = None if spans is None else find_overlap(spans)
        if overlap is None:
            return tags_of(spans or (), len(sentence.tokens)) if tags is None else tags, spans
        if self._entity_column == "ner_tags":
            raise ValueError(
                f"{sentence.place}: {describe_overlap(sentence.tokens, overlap)}, which tags cannot express. Remove "
                "one of them, or leave out entity_column='ner_tags' to get the column 'spans'."
            )
        return tags, spans


def describe_overlap(tokens: Sequence[str], overlap: tuple[Span, Span]) -> str:
    """Name two entities that overlap.

    Args:
        tokens: The words of the sentence.
        overlap: The entities.

    Returns:
        The beginning of a sentence.
    """
    one, other = (f"{' '.join(tokens[start:end])!r} ({label})" for start, end, label in overlap)
    return f"the entities {one} and {other} overlap"


def _span_array(rows: Sequence[Sequence[Span] | None]) -> Any:
    """Make a column of entities."""
    return pa.array(
        [
            None if row is None else [{"start": start, "end": end, "label": label} for start, end, label in row]
            for row in rows
        ],
        _SPANS,
    )


def _strings(rows: Sequence[Any], sentences: Sequence[Sentence]) -> Any:
    """Make a column of strings, or of lists of strings."""
    kind = _STRINGS if any(isinstance(row, list) for row in rows) else pa.string()
    try:
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError, TypeError):
        for row, sentence in zip(rows, sentences, strict=True):
            try:
                pa.array([row], kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError, TypeError) as error:
                raise ValueError(
                    f"{sentence.place}: {row!r:.80} holds what is no text ({error}). Expected strings of Unicode "
                    "characters, without halves of surrogate pairs."
                ) from error
        raise


def require_lists(column: Any, name: str, where: Where) -> None:
    """Refuse rows without a list, and lists with a value that is missing.

    Args:
        column: An arrow array of lists.
        name: Its name.
        where: Names the place of a word, for errors.

    Raises:
        ValueError: There is one.
    """
    if column.null_count:
        raise ValueError(f"{where(_first(column.is_null()), 0)}: the sentence has no {name!r}. Give it a list.")
    flat = column.flatten()
    if flat.null_count:
        lengths = np.cumsum(pc.list_value_length(column).to_numpy(zero_copy_only=False))
        row = int(np.searchsorted(lengths, _first(flat.is_null()), side="right"))
        raise ValueError(f"{where(row, 0)}: a value of {name!r} is null. Give each word its text and its tag.")


def require_one_tag_a_word(tokens: Any, tags: Any, where: Where) -> None:
    """Refuse rows with more or fewer tags than words.

    Args:
        tokens: An arrow array of lists of words.
        tags: One of lists of tags.
        where: Names the place of a word, for errors.

    Raises:
        ValueError: There is one.
    """
    words, found = pc.list_value_length(tokens), pc.list_value_length(tags)
    wrong = pc.not_equal(words, found)
    if pc.any(wrong).as_py():
        row = _first(wrong)
        raise ValueError(f"{where(row, 0)}: {words[row]} words but {found[row]} tags. Give each word one tag.")


def _first(mask: Any) -> int:
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))
