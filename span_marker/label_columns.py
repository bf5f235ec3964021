"""Tag columns of data sets: find the labels, check every row, turn names into ids."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from transformers.utils import logging

from span_marker.ragged import locate, offsets_of
from span_marker.schemes import OUTSIDE, prefix_of
from span_marker.types import IntArray

logger = logging.get_logger(__name__)

TOKENS = "tokens"
NER_TAGS = "ner_tags"
_BATCH = 10_000
"""Rows that are read at a time, which bounds the memory."""


def labels_from_dataset(dataset: datasets.Dataset, column: str = NER_TAGS) -> list[str] | None:
    """Find the names of a data set's tags.

    Args:
        dataset: A data set with one list of tags a row.
        column: The column of the tags.

    Returns:
        The names of a ``ClassLabel`` feature, in the order of their ids; of string tags all that occur, "O" first, then
        by type; ``None`` for plain integers, and where the names are only the ids ("0", "1", ...).

    Raises:
        ValueError: There is no such column, it holds no lists of integers or strings, or a row or a tag is missing.
    """
    names = _class_names(dataset, column)
    if not _holds_strings(dataset, column):
        return names
    found: set[str] = set()
    for first_row, table in _batches(dataset, column):
        found.update(pc.unique(_read(table, column, first_row)[0]).to_pylist())
    return sorted(found, key=lambda tag: (tag != OUTSIDE, tag.partition("-")[::-1]))


def resolve_tags(
    dataset: datasets.Dataset, column: str = NER_TAGS, labels: Sequence[str] | None = None
) -> datasets.Dataset:
    """Check a data set's tags, and give it the column "ner_tags" of tag ids.

    The names of a ``ClassLabel`` feature are matched with the labels by name. Where they share none but "O", and there
    are as many of them with the same prefix at each id, the labels are taken as new names for the same ids, which is
    warned of.

    Args:
        dataset: A data set with one list of tags a row: names, or ids of labels.
        column: The column of the tags. Another column called "ner_tags" is replaced by it.
        labels: All tags, by id. ``None``: the data set's own names.

    Returns:
        The data set with the tags of ``column`` as ids in "ner_tags" and the other columns as they were, in plain
        Python format.

    Raises:
        ValueError: There is no such column, it holds no lists of integers or strings, a row or a tag is missing, a tag
            is an unknown name or an id out of range, or a row has not one tag a token.
    """
    names = _class_names(dataset, column)
    strings = _holds_strings(dataset, column)
    known = labels_from_dataset(dataset, column) if labels is None else list(labels)
    if names is not None and known is not None and _renames(names, known):
        pairs = [f"{name!r} as {label!r}" for name, label in zip(names, known, strict=True) if name != OUTSIDE]
        logger.warning_once(
            "The data set has other names for its tags than the model, but the same prefixes, so that its ids are read "
            f"as the model's: {', '.join(pairs[:20])}. If these differ in meaning, give the model the data set's names "
            "as `labels=`."
        )
        names = None
    names = known if names is None else names
    dataset = _plain(dataset)
    if not strings and names == known:
        for first_row, table in _batches(dataset, column):
            flat, lengths = _read(table, column, first_row)
            _ids(flat, lengths, first_row, names, known)
        return _as_ner_tags(dataset, column)
    dataset = _as_ner_tags(dataset, column)
    features = datasets.Features({**dataset.features, NER_TAGS: datasets.Sequence(datasets.Value("int64"))})
    convert = partial(_convert, names=None if strings else names, known=known)
    mapped = dataset.with_format("arrow").map(
        convert, batched=True, batch_size=_BATCH, with_indices=True, features=features, desc="Reading the tags"
    )
    return mapped.with_format(None)


def _plain(dataset: datasets.Dataset) -> datasets.Dataset:
    """Reset the format, but keep the very data set (and its fingerprint, on which caches rest) where it is plain."""
    plain = dataset.format["type"] is None and set(dataset.format["columns"]) == set(dataset.column_names)
    return dataset if plain else dataset.with_format(None)


def _as_ner_tags(dataset: datasets.Dataset, column: str) -> datasets.Dataset:
    """Call the column of the tags "ner_tags"."""
    if column == NER_TAGS:
        return dataset
    replaced = [NER_TAGS] if NER_TAGS in dataset.column_names else []
    return dataset.remove_columns(replaced).rename_column(column, NER_TAGS)


def _class_names(dataset: datasets.Dataset, column: str) -> list[str] | None:
    """Return the names of a column of ``ClassLabel`` lists, ``None`` where they are only the ids."""
    if column not in dataset.column_names:
        raise ValueError(
            f"The data set has no column {column!r} with the tags, but {', '.join(dataset.column_names) or 'none'}. "
            "Pass the name of the right one as `column=`."
        )
    feature = dataset.features[column]
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    if not isinstance(inner, datasets.ClassLabel) or inner.names == [str(index) for index in range(len(inner.names))]:
        return None
    return list(inner.names)


def _holds_strings(dataset: datasets.Dataset, column: str) -> bool:
    """Tell lists of strings from lists of integers, and refuse anything else."""
    kind = dataset.features.arrow_schema.field(column).type
    if _is_list(kind) or pa.types.is_null(kind):
        # Without any value there is no type: no row, or every row is missing, which is reported with the rows.
        inner = kind.value_type if _is_list(kind) else kind
        if pa.types.is_string(inner) or pa.types.is_large_string(inner):
            return True
        if pa.types.is_integer(inner) or pa.types.is_null(inner):
            return False
    raise ValueError(
        f"The column {column!r} holds values of type {kind}. Expected lists of integers or strings, with one tag "
        "a token. Pass the name of another column as `column=`, or convert this one."
    )


def _is_list(kind: pa.DataType) -> bool:
    """Tell whether an arrow type is one of the list types."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _renames(names: list[str], labels: list[str]) -> bool:
    """Tell whether labels are new names for the same ids: none but "O" shared, and the same prefix at each id."""
    if set(names) & set(labels) - {OUTSIDE}:
        return False
    return [prefix_of(name) for name in names] == [prefix_of(label) for label in labels]


def _batches(dataset: datasets.Dataset, column: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield parts of a data set as arrow tables, with the index of their first row."""
    columns = [name for name in dict.fromkeys([TOKENS, column]) if name in dataset.column_names]
    rows = dataset.select_columns(columns).with_format("arrow")
    for first_row in range(0, len(rows), _BATCH):
        yield first_row, rows[first_row : first_row + _BATCH]


def _read(table: pa.Table, column: str, first_row: int) -> tuple[pa.Array, IntArray]:
    """Take the tags of a table's rows, all in one array, and the number of tags of each row."""
    tags = table[column].combine_chunks()
    if tags.null_count:
        row = first_row + _first_missing(tags)
        raise ValueError(f"Row {row} of the column {column!r} is None. Expected a list with one tag a token.")
    lengths: IntArray = pc.list_value_length(tags).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = tags.flatten()
    if flat.null_count:
        place = _place(_first_missing(flat), lengths, first_row)
        raise ValueError(f"{place}: the tag is None. Give each token a tag, 'O' if none.")
    if TOKENS in table.column_names and _is_list(table[TOKENS].type):
        tokens = table[TOKENS].combine_chunks()
        if tokens.null_count:
            row = first_row + _first_missing(tokens)
            raise ValueError(f"Row {row} has no tokens. Use an empty list for a sentence without words.")
        counts = pc.list_value_length(tokens).to_numpy(zero_copy_only=False)
        wrong = counts != lengths
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"Row {first_row + row} has {counts[row]} tokens but {lengths[row]} tags. Give each token one tag."
            )
    return flat, lengths


def _ids(
    flat: pa.Array, lengths: IntArray, first_row: int, names: list[str] | None, known: list[str] | None
) -> IntArray:
    """Turn tags into ids of labels.

    Args:
        flat: The tags: names, or ids.
        lengths: Number of tags of each row. Shape: ``[rows]``.
        first_row: Index of the first row.
        names: What the ids stand for. ``None``: the tags are names, or nothing is known of them.
        known: The labels.

    Returns:
        Ids in ``known``. Shape: ``[tags]``.
    """
    if pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type):
        encoded = flat.dictionary_encode()
        flat, names = encoded.indices, encoded.dictionary.to_pylist()
    ids: IntArray = flat.cast(pa.int64()).to_numpy(zero_copy_only=False)
    wrong = ids < 0 if names is None else (ids < 0) | (ids >= len(names))
    if wrong.any():
        word = int(np.argmax(wrong))
        allowed = "0 or more" if names is None else f"0 to {len(names) - 1}, one of the {len(names)} labels"
        raise ValueError(
            f"{_place(word, lengths, first_row)}: the tag {ids[word]} is out of range. Expected {allowed}. Pass the "
            "complete `labels` of the data set."
        )
    if names is None or known is None or names == known:
        return ids
    positions = {label: index for index, label in enumerate(known)}
    targets = np.array([positions.get(name, -1) for name in names], dtype=np.int64)[ids]
    if (targets < 0).any():
        word = int(np.argmax(targets < 0))
        tag = names[ids[word]]
        nearest = get_close_matches(tag, known, n=3, cutoff=0.5) or known[:10]
        raise ValueError(
            f"{_place(word, lengths, first_row)}: the tag {tag!r} is none of the {len(known)} labels (nearest: "
            f"{', '.join(nearest)}). The data set's tags are {', '.join(names[:10])}; the labels are "
            f"{', '.join(known[:10])}. Correct the tag, or give SpanMarkerModel.from_pretrained `labels=` with it; a "
            "trained model also needs ignore_mismatched_sizes=True, which starts a new classifier."
        )
    return targets


def _convert(table: pa.Table, indices: list[int], names: list[str] | None, known: list[str] | None) -> pa.Table:
    """Replace the tags of a batch by ids of labels."""
    flat, lengths = _read(table, NER_TAGS, indices[0])
    ids = _ids(flat, lengths, indices[0], names, known)
    rows = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), pa.array(ids))
    return table.set_column(table.column_names.index(NER_TAGS), NER_TAGS, rows)


def _first_missing(array: pa.Array) -> int:
    """Return the index of the first null of an array that has one."""
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def _place(word: int, lengths: IntArray, first_row: int) -> str:
    """Name the row and the word of a tag, given its index among all of a batch."""
    row, position = locate(offsets_of(lengths), word)
    return f"Row {first_row + row}, word {position}"
