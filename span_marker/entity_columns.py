"""Columns of gold entities: a tag for each word, or spans that may overlap."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from transformers.utils import logging

from span_marker.arrow_lists import as_lists
from span_marker.evaluation import count_overlapping
from span_marker.label_columns import NER_TAGS, TOKENS, labels_from_dataset, resolve_tags
from span_marker.label_normalizer import LabelNormalizer, summarize_labels
from span_marker.label_summary import LabelSummary, MalformedTags
from span_marker.ragged import offsets_of
from span_marker.schemes import OUTSIDE, LabelScheme, Scheme
from span_marker.settings import nearest
from span_marker.span_columns import entity_table
from span_marker.span_lists import Spans, are_spans, class_names, read_spans
from span_marker.types import EntityTable, IntArray

logger = logging.get_logger(__name__)

SPANS: Final = "spans"
_BATCH: Final = 10_000
"""Rows that are read at a time, which bounds the memory."""
_USUAL_TAGS: Final = (NER_TAGS, "tags")


def entity_column(dataset: datasets.Dataset, column: str) -> str:
    """Choose the column of the gold entities.

    Args:
        dataset: A data set.
        column: The column that is asked for.

    Returns:
        This one, or "spans" if the data set has that and not the former.
    """
    return SPANS if column not in dataset.column_names and SPANS in dataset.column_names else column


def holds_spans(dataset: datasets.Dataset, column: str) -> bool:
    """Tell a column of spans from one of tags.

    Args:
        dataset: A data set.
        column: One of its columns.

    Returns:
        Whether its rows are lists of dictionaries or of lists; also of a column "spans" of empty rows.
    """
    kind = dataset.features.arrow_schema.field(column).type
    return are_spans(kind) or (column == SPANS and pa.types.is_null(getattr(kind, "value_type", kind)))


def labels_of_entities(dataset: datasets.Dataset, column: str, scheme: str | None = None) -> list[str] | None:
    """Find the tags that a model of a data set's entities needs.

    Args:
        dataset: A data set.
        column: The column of its entities.
        scheme: The scheme that was asked for, "NONE" for the types themselves.

    Returns:
        As [`labels_from_dataset`]; of spans the IOB2 tags of all types that occur, sorted, so that data sets with tags
        of the same types can be used with the model, too.

    Raises:
        ValueError: There is no such column, it holds neither tags nor spans, or a row is missing.
    """
    if column not in dataset.column_names or not holds_spans(dataset, column):
        return labels_from_dataset(dataset, column)
    types: set[str] = set()
    rows = dataset.select_columns([column]).with_format("arrow")
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH][column].combine_chunks()
        types.update(read_spans(part, class_names(dataset.features[column]), first).types)
    prefixes = [""] if scheme == Scheme.NONE.value else ["B-", "I-"]
    return [OUTSIDE, *(f"{prefix}{label}" for label in sorted(types - {OUTSIDE}) for prefix in prefixes)]


def resolve_entities(dataset: datasets.Dataset, column: str, scheme: LabelScheme) -> datasets.Dataset:
    """Check a data set's gold entities, and turn the names of their types into ids.

    Args:
        dataset: A data set with ``tokens`` and entities: a tag a word, or spans.
        column: The column of the entities.
        scheme: The model's tags.

    Returns:
        The data set with the ids of tags in "ner_tags" (see [`resolve_tags`]), or else with "spans" and without
        "ner_tags": of each row its entities as lists of label id, first word and word after the last, sorted by words,
        without duplicates.

    Raises:
        ValueError: The column is missing or malformed; of spans, one lies outside its sentence, covers no word, has a
            type that is not the model's, or the words of one of another type.
    """
    if column not in dataset.column_names or not holds_spans(dataset, column):
        if SPANS in dataset.column_names and holds_spans(dataset, SPANS):
            logger.warning_once(
                f"The data set has tags in {column!r} and entities in {SPANS!r}, of which the tags are read. For the "
                f"entities, which may overlap, make the Trainer with column={SPANS!r}."
            )
        return resolve_tags(dataset, column, scheme.tags)
    names = class_names(dataset.features[column])
    dataset = dataset.with_format(None)
    replaced = [name for name in {NER_TAGS, SPANS} - {column} if name in dataset.column_names]
    dataset = dataset.remove_columns(replaced)
    if column != SPANS:
        dataset = dataset.rename_column(column, SPANS)
    features = datasets.Features({**dataset.features, SPANS: datasets.Sequence(datasets.Sequence(_NUMBER))})
    if not len(dataset):  # `map` would leave the column as it is
        return datasets.Dataset.from_dict({name: [] for name in features}, features=features)
    mapped = dataset.with_format("arrow").map(
        partial(_convert, names=names, labels=scheme.labels),
        batched=True,
        batch_size=_BATCH,
        with_indices=True,
        features=features,
        desc="Reading the entities",
    )
    return mapped.with_format(None)


_NUMBER = datasets.Value("int64")


def overlooked_tags(dataset: datasets.Dataset, column: str, tags: Sequence[str]) -> str | None:
    """Find the column that seems to hold the tags of a data set, where it is not the one that should.

    Args:
        dataset: The data set.
        column: The column that should.
        tags: The model's tags.

    Returns:
        A column with a usual name, or with one of the model's tags other than "O". ``None``: there is none, or the
        data set has the right one.
    """
    columns: list[str] = dataset.column_names
    for name in () if column in columns else columns:
        if name == TOKENS:
            continue
        try:
            found = labels_from_dataset(dataset, name)
        except ValueError:  # it does not hold a tag a word
            continue
        if name in _USUAL_TAGS or set(found or ()) & set(tags) - {OUTSIDE}:
            return name
    return None


def gold_entities(columns: Mapping[str, Any], normalizer: LabelNormalizer) -> EntityTable:
    """Read gold entities of rows that [`resolve_entities`] has resolved.

    Args:
        columns: "ner_tags" or else "spans" by name, each an arrow column or a list.
        normalizer: Reads tags.

    Returns:
        The entities, with label ids.

    Raises:
        ValueError: The tags are not lists of ids of labels.
    """
    if NER_TAGS in columns:
        return normalizer.entities(columns[NER_TAGS])
    column = columns[SPANS]
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return entity_table(column)
    lists = as_lists(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    values = pc.list_flatten(as_lists(pc.list_flatten(lists))).to_numpy(zero_copy_only=False)
    labels, starts, ends = values.astype(np.int64).reshape(-1, 3).T
    return EntityTable(np.repeat(np.arange(len(counts)), counts), labels, starts, ends)


def summarize_entities(columns: Mapping[str, Any], num_words: IntArray, normalizer: LabelNormalizer) -> LabelSummary:
    """Count what the rows hold that [`resolve_entities`] has resolved.

    Args:
        columns: "ner_tags" or else "spans" by name, as arrow columns.
        num_words: Number of words of each row. Shape: ``[rows]``.
        normalizer: Reads tags.

    Returns:
        The counts.

    Raises:
        ValueError: The tags are not lists of ids of labels.
    """
    if NER_TAGS in columns:
        return summarize_labels(normalizer, columns[NER_TAGS])
    scheme, entities = normalizer.scheme, gold_entities(columns, normalizer)
    counts = np.bincount(entities.labels, minlength=len(scheme.labels)).tolist()
    return LabelSummary(
        scheme=scheme,
        num_sentences=len(num_words),
        num_words=int(num_words.sum()),
        tag_counts={},
        entity_counts={label: counts[index] for index, label in enumerate(scheme.labels) if label != OUTSIDE},
        malformed=MalformedTags(0, []),
        num_overlapping=count_overlapping(entities),
    )


def _convert(table: pa.Table, indices: list[int], names: list[str] | None, labels: Sequence[str]) -> pa.Table:
    """Replace the entities of a batch by lists of numbers."""
    spans = read_spans(table[SPANS].combine_chunks(), names, indices[0])
    kind = table[TOKENS].type
    if not (pa.types.is_null(kind) or hasattr(kind, "value_type")):
        raise ValueError(f"The column {TOKENS!r} must hold a list of words a row, but its type is {kind}.")
    num_words = pc.list_value_length(as_lists(table[TOKENS])).fill_null(0).to_numpy().astype(np.int64)
    ids = _checked_ids(spans, num_words, labels)
    order = np.lexsort((ids, spans.ends, spans.starts, spans.rows))
    rows = np.stack([spans.rows, ids, spans.starts, spans.ends], axis=1)[order]
    again = np.zeros(len(rows), dtype=bool)
    again[1:] = (rows[1:] == rows[:-1]).all(axis=1)
    rows = rows[~again]
    same = np.flatnonzero((rows[1:, [0, 2, 3]] == rows[:-1, [0, 2, 3]]).all(axis=1))
    if len(same):
        (row, one, start, end), other = rows[same[0]].tolist(), labels[rows[same[0] + 1, 1]]
        raise ValueError(
            f"Row {indices[0] + row}: the words {start} to {end} are an entity {labels[one]!r} and one {other!r}. The "
            "same words have one type: keep one of them, or make a type of both."
        )
    triples = pa.ListArray.from_arrays(np.arange(0, 3 * len(rows) + 1, 3, dtype=np.int32), rows[:, 1:].ravel())
    offsets = offsets_of(np.bincount(rows[:, 0], minlength=len(table)))
    lists = pa.ListArray.from_arrays(offsets.astype(np.int32), triples)
    return table.set_column(table.column_names.index(SPANS), SPANS, lists)


def _checked_ids(spans: Spans, num_words: IntArray, labels: Sequence[str]) -> IntArray:
    """Find the label id of each span.

    Raises:
        ValueError: A span lies outside its sentence, covers no word, or has no type of the model.
    """
    words = num_words[spans.rows]
    empty, outside = spans.starts >= spans.ends, (spans.starts < 0) | (spans.ends > words)
    if (empty | outside).any():
        index = int(np.argmax(empty | outside))
        problem = "covers no word" if empty[index] else f"lies outside the sentence of {words[index]} words"
        raise ValueError(
            f"{spans.describe(index)} {problem}. Expected 0 <= start < end <= {words[index]}, the end exclusive."
        )
    types = [label for label in labels if label != OUTSIDE]
    known = {label: index for index, label in enumerate(labels) if label != OUTSIDE}
    ids = np.array([known.get(name, -1) for name in spans.types], dtype=np.int64)[spans.names]
    if (ids < 0).any():
        index = int(np.argmax(ids < 0))
        raise ValueError(
            f"{spans.describe(index)} has a type that is none of the {len(types)} of the model. "
            f"{nearest(spans.types[spans.names[index]], types)} A new model takes the types of its training set, or "
            "those of `labels=`."
        )
    return ids
