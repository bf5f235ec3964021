"""Rows of words and tags to rows that the model is trained and evaluated on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from span_marker.arrow_lists import make_lists, read_lists
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID, add_context, has_documents
from span_marker.entity_columns import entity_column, gold_entities
from span_marker.fingerprints import derive_fingerprint
from span_marker.formats import refuse_transform
from span_marker.label_columns import NER_TAGS
from span_marker.label_normalizer import LabelNormalizer
from span_marker.ragged import offsets_of
from span_marker.span_columns import span_columns, span_labels, spans_with_ends
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.types import Columns, EntityTable, IntArray

__all__ = ["add_context", "encode_rows", "is_preprocessed", "preprocess", "spread_sample"]

BLANK_WORDS = "blank_words"
_BATCH = 1000
_ANY_NUMBER = 2**40
"""Most spans of a training row where markers are only run for the hardest."""
_THREADS = "TOKENIZERS_PARALLELISM"
_SPAN_COLUMNS = ("start_position_ids", "end_position_ids", "labels")
_PREPROCESSED = ("input_ids", "num_spans", "start_position_ids", "end_position_ids")
_NUMBER = datasets.Value("int64")
_NUMBERS = datasets.Sequence(_NUMBER)


def is_preprocessed(dataset: datasets.Dataset) -> bool:
    """Tell whether a data set is what [`preprocess`] returns.

    Args:
        dataset: The data set.
    """
    return set(_PREPROCESSED) <= set(dataset.column_names)


def preprocess(
    dataset: datasets.Dataset,
    normalizer: LabelNormalizer | None,
    tokenizer: SpanMarkerTokenizer,
    *,
    config: SpanMarkerConfig,
    spread: bool,
    for_hardest: bool = False,
    truncate: bool = True,
    for_evaluation: bool = False,
    num_proc: int | None = None,
) -> datasets.Dataset:
    """Encode sentences, add document-level context where their documents are known, and list their candidate spans.

    Args:
        dataset: One row a sentence: ``tokens`` (words) and ``ner_tags`` (ids of tags), or else the ``spans`` of
            [`span_marker.entity_columns.resolve_entities`]; with ``document_id`` and ``sentence_id`` each sentence gets
            its neighbours as context. A preprocessed data set is returned as it is,
            spread where that is asked for and has not been done.
        normalizer: Reads the tags. None: the rows have none, or they are not wanted.
        tokenizer: The tokenizer.
        config: The model's configuration.
        spread: Whether to make rows for training: a sentence's spans are spread over as many rows as [`spread_sample`]
            needs, and a sentence without spans is left out. Otherwise each sentence stays one row.
        for_hardest: Whether markers will be run for the hardest spans only, so that a row holds any number of spans.
        truncate: Whether to cut sentences that are longer than the model.
        for_evaluation: Whether to add ``blank_words``, the index of each word that begins and ends no entity because it
            has no token, and, with a normalizer, ``entities``: all entities of a sentence as lists of reduced label id,
            first word and word after the last, also those that no candidate span covers.
        num_proc: Number of processes. None: this one.

    Returns:
        The rows in their order. Columns: ``document_id`` and ``sentence_id`` where the data set has them,
        ``input_ids``, ``num_spans``, ``start_position_ids``, ``end_position_ids``, ``labels`` (with a normalizer),
        ``num_words`` (number of words that fit the model), ``blank_words`` and ``entities`` (for an evaluation).

    Raises:
        ValueError: A column is missing, a row is not a list of words, or has not one tag a word, or the data set has a
            transform.
    """
    refuse_transform(dataset)
    length, markers = tokenizer.model_max_length, _ANY_NUMBER if for_hardest else config.marker_max_length
    if not is_preprocessed(dataset):
        settings = {"truncate": truncate, "for_evaluation": for_evaluation}
        dataset = _encode(dataset.with_format(None), normalizer, tokenizer, config, settings, num_proc)
        if has_documents(dataset.column_names):
            dataset = add_context(
                dataset,
                length,
                config.max_prev_context,
                config.max_next_context,
                num_special_tokens=tokenizer.num_special_tokens,
            )
    return _spread(dataset, length, markers, num_proc) if spread else dataset


def encode_rows(
    batch: Columns,
    tokenizer: SpanMarkerTokenizer,
    normalizer: LabelNormalizer | None,
    config: SpanMarkerConfig,
    *,
    truncate: bool = True,
    for_evaluation: bool = False,
) -> Columns:
    """Encode a batch of sentences and list their candidate spans.

    Args:
        batch: ``tokens``, and where a normalizer is given ``ner_tags`` or else ``spans``.
        tokenizer: The tokenizer.
        normalizer: Reads the tags. None: no labels.
        config: The model's configuration.
        truncate: Whether to cut sentences that are longer than the model.
        for_evaluation: Whether to add ``blank_words`` and ``entities``.

    Returns:
        The columns that [`preprocess`] names.

    Raises:
        ValueError: A sentence is not a list of words, or a tag is not the id of a label.
    """
    encoded = tokenizer.encode(batch["tokens"], truncate=truncate)
    kept = encoded.kept_words
    columns = span_columns(encoded, config.entity_max_length)
    if normalizer is not None:
        entities = gold_entities(batch, normalizer)
        columns["labels"] = span_labels(entities, kept, config.entity_max_length, config.outside_id)
        for labels, blank in zip(columns["labels"], encoded.blank_words, strict=True):
            if blank.any():  # what the model cannot tell apart cannot be learnt
                labels[spans_with_ends(blank, config.entity_max_length)] = IGNORED_LABEL
    columns["num_words"] = kept.tolist()
    if for_evaluation:
        columns[BLANK_WORDS] = list(map(np.flatnonzero, encoded.blank_words))
    if for_evaluation and normalizer is not None:
        columns["entities"] = _entity_rows(entities, len(kept))
    return columns


def spread_sample(batch: Columns, model_max_length: int, marker_max_length: int) -> Columns:
    """Spread the spans of sentences over several rows, each with as many as a training sample has room for.

    A row of n tokens has room for ``(model_max_length + 2 * marker_max_length - n) // 2`` spans.

    Args:
        batch: The columns of [`preprocess`], and any others, which are repeated.
        model_max_length: Most tokens of a row.
        marker_max_length: Most spans of a row that is full of tokens.

    Returns:
        The same columns. A sentence without spans, which nothing can be learnt from, is left out.
    """
    spread = _spread_table(pa.table(batch), model_max_length=model_max_length, marker_max_length=marker_max_length)
    columns: Columns = spread.to_pydict()
    return columns


def _encode(
    dataset: datasets.Dataset,
    normalizer: LabelNormalizer | None,
    tokenizer: SpanMarkerTokenizer,
    config: SpanMarkerConfig,
    settings: dict[str, bool],
    num_proc: int | None,
) -> datasets.Dataset:
    """Replace all columns of a data set but the ids with the model's columns."""
    _check_rows(dataset, tagged=normalizer is not None and entity_column(dataset, NER_TAGS) == NER_TAGS)
    ids = [name for name in dataset.column_names if name in (DOCUMENT_ID, SENTENCE_ID)]
    features = {name: dataset.features[name] for name in ids}
    features |= {"input_ids": _NUMBERS, "num_spans": _NUMBER}
    features |= {"start_position_ids": _NUMBERS, "end_position_ids": _NUMBERS}
    if normalizer is not None:
        features["labels"] = _NUMBERS
    features["num_words"] = _NUMBER
    if settings["for_evaluation"]:
        features[BLANK_WORDS] = _NUMBERS
    if normalizer is not None and settings["for_evaluation"]:
        features["entities"] = datasets.Sequence(_NUMBERS)
    if not len(dataset):  # `map` would leave the columns as they are
        return datasets.Dataset.from_dict({name: [] for name in features}, features=datasets.Features(features))
    scheme = None if normalizer is None else (type(normalizer).__name__, normalizer.scheme)
    arguments = (tokenizer.fingerprint, config.entity_max_length, scheme, settings)
    with _safe_to_fork(num_proc):
        return dataset.map(
            encode_rows,
            batched=True,
            batch_size=_BATCH,
            fn_kwargs={"tokenizer": tokenizer, "normalizer": normalizer, "config": config, **settings},
            remove_columns=[name for name in dataset.column_names if name not in ids],
            features=datasets.Features(features),
            num_proc=num_proc,
            new_fingerprint=derive_fingerprint(dataset, "encode_rows", arguments),
            desc="Encoding the sentences",
        )


def _spread(dataset: datasets.Dataset, length: int, markers: int, num_proc: int | None) -> datasets.Dataset:
    """Spread all sentences of a data set that need it."""
    spans = dataset.select_columns(["input_ids", "num_spans"]).with_format("arrow")
    for table in spans.iter(batch_size=10 * _BATCH):
        _, tokens = read_lists(table.column("input_ids"))
        count = table.column("num_spans").to_numpy()
        if ((count > _room(tokens, length, markers)) | (count == 0)).any():
            break
    else:
        return dataset
    with _safe_to_fork(num_proc):
        spread = dataset.with_format("arrow").map(
            _spread_table,
            batched=True,
            batch_size=_BATCH,
            fn_kwargs={"model_max_length": length, "marker_max_length": markers},
            features=dataset.features,
            num_proc=num_proc,
            new_fingerprint=derive_fingerprint(dataset, "spread_sample", (length, markers)),
            desc="Spreading the spans over samples",
        )
    return spread.with_format(None)


@contextmanager
def _safe_to_fork(num_proc: int | None) -> Iterator[None]:
    """Keep tokenizers from using threads in the processes to come: these do not survive a fork, of which it warns."""
    if num_proc is None or num_proc < 2 or _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "false"
    try:
        yield
    finally:
        del os.environ[_THREADS]


def _spread_table(table: Any, *, model_max_length: int, marker_max_length: int) -> Any:
    """Spread the spans of a batch. Their order is kept, so that only the borders between rows change."""
    _, tokens = read_lists(table.column("input_ids"))
    _, spans = read_lists(table.column("start_position_ids"))
    room = _room(tokens, model_max_length, marker_max_length)
    parts = -(-spans // room)
    rows = np.repeat(np.arange(len(spans)), parts)
    part = np.arange(len(rows)) - np.repeat(offsets_of(parts)[:-1], parts)
    sizes = np.minimum(room[rows], spans[rows] - part * room[rows])
    columns = {}
    for name in table.column_names:
        if name == "num_spans":
            columns[name] = pa.array(sizes)
        elif name in _SPAN_COLUMNS:
            columns[name] = make_lists(read_lists(table.column(name))[0], sizes)
        else:
            columns[name] = table.column(name).take(rows)
    return pa.table(columns)


def _room(tokens: IntArray, model_max_length: int, marker_max_length: int) -> IntArray:
    """Compute how many spans a training sample holds beside its tokens, one at least. Shape: ``[rows]``."""
    return np.maximum((model_max_length + 2 * marker_max_length - tokens) // 2, 1)


def _entity_rows(entities: EntityTable, num_rows: int) -> list[list[list[int]]]:
    """List the entities of each row."""
    borders = np.searchsorted(entities.rows, np.arange(num_rows + 1)).tolist()
    found = np.stack([entities.labels, entities.starts, entities.ends], axis=1).tolist()
    return [found[start:end] for start, end in pairwise(borders)]


def _check_rows(dataset: datasets.Dataset, *, tagged: bool) -> None:
    """Refuse rows that are not lists of words with one tag a word.

    Raises:
        ValueError: A column is missing or not a list, a row or a word is missing, or their numbers differ.
    """
    columns = ["tokens", "ner_tags"] if tagged else ["tokens"]
    for name in columns:
        if name not in dataset.column_names:
            raise ValueError(
                f"The data set has no column {name!r}, only {', '.join(map(repr, dataset.column_names))}. Rename one: "
                f"dataset.rename_column(..., {name!r})."
            )
    first_row = 0
    for table in dataset.select_columns(columns).with_format("arrow").iter(batch_size=10 * _BATCH):
        words = _lengths(table.column("tokens"), "tokens", first_row)
        if tagged:
            tags = _lengths(table.column("ner_tags"), "ner_tags", first_row)
            wrong = np.flatnonzero(words != tags)
            if len(wrong):
                row = int(wrong[0])
                raise ValueError(
                    f"Row {first_row + row} has {words[row]} tokens but {tags[row]} tags. Give each token one tag."
                )
        first_row += len(table)


def _lengths(column: Any, name: str, first_row: int) -> IntArray:
    """Count the elements of each row of a list column. Shape: ``[rows]``.

    Raises:
        ValueError: The column holds no lists, or a row or an element is missing.
    """
    kind = column.type
    inner = getattr(kind, "value_type", None)
    wanted = (pa.types.is_string, pa.types.is_large_string) if name == "tokens" else (pa.types.is_integer,)
    if inner is None or not any(check(inner) for check in (*wanted, pa.types.is_null)):
        raise ValueError(
            f"The column {name!r} must hold a list of {'words' if name == 'tokens' else 'tag ids'} a row, but its type "
            f"is {kind}."
        )
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy()))
        raise ValueError(f"Row {row} has no {name}. Use an empty list for a sentence without words.")
    lengths: IntArray = pc.list_value_length(column).to_numpy().astype(np.int64)
    missing = np.flatnonzero(pc.list_flatten(column).is_null().to_numpy())
    if len(missing):
        row = first_row + int(np.searchsorted(offsets_of(lengths), missing[0], side="right")) - 1
        raise ValueError(f"Row {row} has an element of {name!r} that is missing (None). Give it a value.")
    return lengths
