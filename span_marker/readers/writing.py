"""Data sets to sentences that can be written, and errors that name the row."""

from collections.abc import Iterator
from typing import Any, NoReturn

import datasets
import pyarrow as pa

from span_marker.formats import refuse_transform
from span_marker.label_columns import labels_from_dataset
from span_marker.readers.sentences import ID_COLUMNS, Sentence, Span, find_overlap, place, spans_of, tags_of
from span_marker.readers.tables import describe_overlap, require_lists, require_one_tag_a_word
from span_marker.readers.tags import TagReader

_BATCH = 1000
_COLUMNS = ("tokens", "ner_tags", "spans", "text", "document_id", "sentence_id")
_SOURCES = ("source_file", "source_line")


def require_columns(dataset: datasets.Dataset) -> datasets.Dataset:
    """Select the columns that are written.

    Args:
        dataset: A data set.

    Returns:
        It, without other columns and in plain Python format.

    Raises:
        ValueError: A column is missing, or it has a transform.
    """
    refuse_transform(dataset)
    columns = [name for name in _COLUMNS if name in dataset.column_names]
    if "tokens" not in columns or not {"ner_tags", "spans"} & {*columns}:
        raise ValueError(
            f"The data set has the columns {', '.join(dataset.column_names) or 'none'}. Expected 'tokens' and "
            "'ner_tags' or 'spans'. Rename its columns: dataset.rename_column(..., 'tokens')."
        )
    return dataset.select_columns(columns).with_format(None)


def sentences_of(dataset: datasets.Dataset) -> Iterator[Sentence]:
    """Read the sentences of a data set.

    Args:
        dataset: A data set with the columns of `read_dataset`, or any with "tokens" and "ner_tags".

    Yields:
        The sentences, with IOB2 tags. ``file`` is what errors begin with: the row and, where they are known, the file
        and line that it is from.

    Raises:
        ValueError: A column is missing, or a row is malformed.
    """
    sources = [name for name in _SOURCES if name in dataset.column_names]
    columns = [*require_columns(dataset).column_names, *sources]
    labels = labels_from_dataset(dataset, "ner_tags") if _has_ids(dataset) else None
    reader = TagReader(labels, None)
    rows = dataset.select_columns(columns).with_format("arrow")
    for first in range(0, len(rows), _BATCH):
        yield from _sentences(rows[first : first + _BATCH], first, reader)
    reader.report()


def _has_ids(dataset: datasets.Dataset) -> bool:
    """Tell whether the tags are numbers."""
    if "ner_tags" not in dataset.column_names:
        return False
    kind = dataset.features.arrow_schema.field("ner_tags").type
    return bool(pa.types.is_integer(getattr(kind, "value_type", kind)))


def _sentences(table: Any, first: int, reader: TagReader) -> Iterator[Sentence]:
    """Read the sentences of a part of a data set."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    values = {name: column.to_pylist() for name, column in columns.items() if name != "ner_tags"}
    nothing = [None] * len(table)

    def where(row: int, word: int = 0) -> str:
        file, line = (values.get(name, nothing)[row] for name in ("source_file", "source_line"))
        return f"Row {first + row}" + (f" ({place(file, line)})" if file else "")

    for name in ("tokens", "ner_tags", "spans"):
        if name in columns:
            require_lists(columns[name], name, where)
    if "ner_tags" in columns:
        require_one_tag_a_word(columns["tokens"], columns["ner_tags"], where)
    tags = reader.read(columns["ner_tags"], where).to_pylist() if "ner_tags" in columns else nothing
    for row, tokens in enumerate(values["tokens"]):
        spans = values.get("spans", nothing)[row]
        ids = {name: values[name][row] for name in ID_COLUMNS if name in values}
        yield Sentence(
            tokens=tokens,
            tags=tags[row],
            spans=None if spans is None else _as_spans(spans, len(tokens), where(row)),
            text=values.get("text", nothing)[row],
            ids={name: str(value) for name, value in ids.items() if value is not None},
            file=where(row),
        )


def _as_spans(spans: list[Any], num_words: int, where: str) -> list[Span]:
    """Read the entities of a row: structs, or lists of start, end and type."""
    read = [tuple(span.values()) if isinstance(span, dict) else tuple(span) for span in spans]
    for start, end, label in read:
        if not 0 <= start < end <= num_words:
            raise ValueError(f"{where}: the entity {label!r} at words {start} to {end} lies outside the sentence.")
    return sorted(read)


def refuse(sentence: Sentence, problem: str) -> NoReturn:
    """Refuse to write a sentence.

    Args:
        sentence: The sentence.
        problem: What is wrong with it, and how to fix it.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{sentence.place}: {problem}")


def flat_tags(sentence: Sentence, what: str) -> list[str]:
    """Return the tags of a sentence for a format that holds tags only.

    Args:
        sentence: The sentence. Its spans count, if it has any.
        what: What to call the file.

    Returns:
        One IOB2 tag a word.

    Raises:
        ValueError: Entities overlap.
    """
    if sentence.spans is None:
        return sentence.tags or []
    if overlap := find_overlap(sentence.spans):
        refuse(
            sentence,
            f"{describe_overlap(sentence.tokens, overlap)}, which {what} cannot hold. Write JSONL, or remove the "
            "column 'spans' to write 'ner_tags'.",
        )
    return tags_of(sentence.spans, len(sentence.tokens))


def all_spans(sentence: Sentence) -> list[Span]:
    """Return the entities of a sentence, from whichever column has them.

    Args:
        sentence: The sentence. Its spans count, if it has any.

    Returns:
        The entities, sorted.
    """
    return spans_of(sentence.tags or ()) if sentence.spans is None else sentence.spans
