"""Parquet and Arrow files with the columns "tokens" and "ner_tags" or "spans"."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet

from span_marker.label_columns import labels_from_dataset
from span_marker.readers.jsonl import read_span
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import ID_COLUMNS, Sentence, place, read_ids
from span_marker.readers.tables import ArrowRows, Batch
from span_marker.readers.writing import require_columns

_BATCH = 1000
_OPTIONAL = ("text", *ID_COLUMNS)


def read_parquet(path: Path, options: ReadOptions) -> Iterator[Batch]:
    """Read a Parquet file.

    Args:
        path: The file.
        options: How to read: ``token_column`` and ``tag_column``, names of columns; ``labels`` for tags that are
            numbers without names.

    Yields:
        Sentences, many at a time.

    Raises:
        ValueError: It is no such file, or lacks a column.
    """
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: no Parquet file ({error}). Restore it, or pass the right `format=`.") from error
    with closing(file):
        yield from _read(file.schema_arrow, file.iter_batches(batch_size=_BATCH), path, options)


def read_arrow(path: Path, options: ReadOptions) -> Iterator[Batch]:
    """Read an Arrow file, in the streaming format, as `datasets` writes it, or in the file format.

    Args:
        path: The file.
        options: How to read; see [`read_parquet`].

    Yields:
        Sentences, many at a time.

    Raises:
        ValueError: It is no such file, or lacks a column.
    """
    with pa.memory_map(str(path)) as source:
        try:
            stream = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            source.seek(0)
        else:
            yield from _read(stream.schema, stream, path, options)
            return
        try:
            file = pa.ipc.open_file(source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path}: no Arrow file ({error}). Restore it, or pass the right `format=`.") from error
        batches = (file.get_batch(index) for index in range(file.num_record_batches))
        yield from _read(file.schema, batches, path, options)


def _read(schema: Any, batches: Iterable[Any], path: Path, options: ReadOptions) -> Iterator[Batch]:
    """Read record batches."""
    tokens, tags = str(options.token_column or "tokens"), str(options.tag_column or "ner_tags")
    if tokens not in schema.names or not {tags, "spans"} & {*schema.names}:
        raise ValueError(
            f"{path}: the columns are {', '.join(schema.names) or 'none'}. Expected {tokens!r} and {tags!r} or "
            "'spans'. Name the right ones: `token_column=`, `tag_column=`."
        )
    names = labels_from_dataset(datasets.Dataset(schema.empty_table()), tags) if tags in schema.names else None
    first = 1
    for batch in batches:
        columns = {name: batch.column(name) for name in _OPTIONAL if name in schema.names}
        columns["tokens"] = batch.column(tokens)
        if tags in schema.names:
            columns["ner_tags"] = _named(batch.column(tags), names)
        lines = range(first, first + len(batch))
        if "spans" in schema.names:
            yield _sentences(columns, batch.column("spans"), path, first)
        else:
            yield ArrowRows(columns, str(path), lines)
        first += len(batch)


def _named(tags: Any, names: list[str] | None) -> Any:
    """Replace the ids of a ``ClassLabel`` feature by their names."""
    if not names or not pa.types.is_integer(tags.type.value_type) or tags.null_count:
        return tags
    return pa.ListArray.from_arrays(
        tags.offsets.cast(pa.int32()), pa.array(names, pa.string()).take(tags.values.cast(pa.int64()))
    )


def _sentences(columns: dict[str, Any], spans: Any, path: Path, first: int) -> list[Sentence]:
    """Read rows that have spans."""
    values = {name: column.to_pylist() for name, column in columns.items()}
    sentences = []
    for row, entities in enumerate(spans.to_pylist()):
        where = place(path, first + row)
        sentences.append(
            Sentence(
                tokens=values["tokens"][row],
                tags=values["ner_tags"][row] if "ner_tags" in values else None,
                spans=None if entities is None else [read_span(span, where) for span in entities],
                text=values["text"][row] if "text" in values else None,
                file=str(path),
                line=first + row,
                ids=read_ids({name: values[name][row] for name in ID_COLUMNS if name in values}, where),
            )
        )
    return sentences


def write_parquet(dataset: datasets.Dataset, path: Path) -> None:
    """Write a Parquet file.

    Args:
        dataset: The data set; its columns "source_file" and "source_line" are left out.
        path: The file.

    Raises:
        ValueError: A column is missing.
    """
    require_columns(dataset).to_parquet(str(path))


def write_arrow(dataset: datasets.Dataset, path: Path) -> None:
    """Write an Arrow file in the streaming format, which `datasets.Dataset.from_file` maps into memory.

    Args:
        dataset: The data set; its columns "source_file" and "source_line" are left out.
        path: The file.

    Raises:
        ValueError: A column is missing.
    """
    dataset = require_columns(dataset)
    with pa.ipc.new_stream(str(path), dataset.features.arrow_schema) as stream:
        for table in dataset.with_format("arrow").iter(batch_size=_BATCH):
            stream.write_table(table)
