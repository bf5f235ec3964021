"""Document-level context: the sentences around a sentence, as far as the model has room.

Each sentence is given the tokens of the next sentence of its document, of the previous one, of the next but one and so
on, until the model is full; the last of them in part. The tokens that a sentence ends up with are therefore one range
of its document's tokens, and finding all ranges takes a few array operations on the whole corpus.
"""

import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from transformers.utils import logging

from span_marker.arrow_lists import make_lists, read_lists
from span_marker.fingerprints import derive_fingerprint
from span_marker.formats import arrow_column, refuse_transform
from span_marker.progress import progress_bars
from span_marker.ragged import offsets_of, ranges
from span_marker.types import IntArray

logger = logging.get_logger(__name__)

DOCUMENT_ID = "document_id"
SENTENCE_ID = "sentence_id"

_BATCH = 1000
_REWRITTEN = ("input_ids", "start_position_ids", "end_position_ids")


class _Contexts(NamedTuple):
    """The range of document tokens that each sentence gets.

    Attributes:
        tokens: All tokens but the special ones, document by document. Shape: ``[tokens]``.
        starts: Index in ``tokens`` of the first token of each row. Shape: ``[rows]``.
        lengths: Number of tokens of each row, context and the sentence itself. Shape: ``[rows]``.
        before: Number of those that come before the sentence. Shape: ``[rows]``.
    """

    tokens: IntArray
    starts: IntArray
    lengths: IntArray
    before: IntArray


def has_documents(columns: Collection[str]) -> bool:
    """Tell whether sentences get document-level context; warn where only half of what it needs is there.

    Args:
        columns: Names of the data set's columns.
    """
    present = [name for name in (DOCUMENT_ID, SENTENCE_ID) if name in columns]
    if len(present) == 1:
        missing = SENTENCE_ID if present == [DOCUMENT_ID] else DOCUMENT_ID
        logger.warning_once(
            f"The data set has {present[0]!r} but no {missing!r}, so that its sentences get no document-level context. "
            f"Add the column {missing!r} for context, or remove {present[0]!r}."
        )
    return len(present) == 2


def add_context(
    dataset: datasets.Dataset,
    model_max_length: int,
    max_prev_context: int | None = None,
    max_next_context: int | None = None,
    show_progress_bar: bool = True,
    *,
    num_special_tokens: tuple[int, int] = (1, 1),
) -> datasets.Dataset:
    """Add the surrounding sentences of each sentence's document.

    Args:
        dataset: One row a sentence, in any order, with the columns ``input_ids``, ``start_position_ids``,
            ``end_position_ids``, ``document_id`` and ``sentence_id``. Ids are numbers, dates or strings; sentences are
            ordered by theirs, those with equal ids as they come. Strings are ordered as numbers where all of them are
            different numbers, or else with the digits within them as numbers: "s2" before "s10", "1.2" before "1.10".
        model_max_length: Most tokens of a row, special tokens included.
        max_prev_context: Most sentences before. None: no limit.
        max_next_context: Most sentences after. None: no limit.
        show_progress_bar: Whether to show progress.
        num_special_tokens: Number of special tokens that each row begins and ends with.

    Returns:
        The rows in their order, the three columns with tokens and positions rewritten and moved to the end.

    Raises:
        ValueError: A column is missing, a row has no id, ids are lists or the like, or the data set has a transform.
    """
    _check(dataset)
    columns = [*(name for name in dataset.column_names if name not in _REWRITTEN), *_REWRITTEN]
    if not len(dataset):
        return dataset.select_columns(columns).with_format(None)
    contexts = _find_contexts(dataset, model_max_length, (max_prev_context, max_next_context), num_special_tokens)
    arguments = (model_max_length, max_prev_context, max_next_context, num_special_tokens)
    with progress_bars(show_progress_bar):
        rewritten = dataset.with_format("arrow").map(
            _rewrite,
            with_indices=True,
            batched=True,
            batch_size=_BATCH,
            remove_columns=dataset.column_names,
            features=datasets.Features({name: dataset.features[name] for name in columns}),
            fn_kwargs={"contexts": contexts, "columns": columns, "specials": num_special_tokens},
            new_fingerprint=derive_fingerprint(dataset, "add_context", arguments),
            desc="Adding document-level context",
        )
    return rewritten.with_format(None)


def _check(dataset: datasets.Dataset) -> None:
    """Refuse a data set without the columns, or with rows that belong to no document.

    Raises:
        ValueError: A column is missing, a row has no id, ids are lists or the like, or the data set has a transform.
    """
    refuse_transform(dataset)
    for name in (*_REWRITTEN, DOCUMENT_ID, SENTENCE_ID):
        if name not in dataset.column_names:
            raise ValueError(
                f"Document-level context needs the column {name!r}; the data set has "
                f"{', '.join(map(repr, dataset.column_names))}."
            )
    for name in (DOCUMENT_ID, SENTENCE_ID):
        ids = arrow_column(dataset, name)
        if pa.types.is_nested(ids.type):
            raise ValueError(
                f"The column {name!r} holds values of type {ids.type}. Expected numbers, dates or strings: give each "
                "row one such id."
            )
        missing = pc.is_null(ids, nan_is_null=True).to_numpy()
        if missing.any():
            raise ValueError(
                f"Row {int(np.argmax(missing))} has no {name}. Give every row one, or leave both columns out."
            )


def _find_contexts(
    dataset: datasets.Dataset,
    model_max_length: int,
    max_context: tuple[int | None, int | None],
    num_special_tokens: tuple[int, int],
) -> _Contexts:
    """Find the range of tokens that each sentence gets."""
    before, after = num_special_tokens
    documents, order = _order(dataset)
    values, lengths = read_lists(arrow_column(dataset, "input_ids"))
    inner = np.maximum(lengths - before - after, 0)[order]
    tokens = values[ranges(offsets_of(lengths)[:-1][order] + before, inner)]
    room = np.maximum(model_max_length - before - after - inner, 0)
    previous, following = _fill(inner, documents[order], room, max_context)

    starts = np.empty_like(inner)
    sizes, shifts = np.empty_like(inner), np.empty_like(inner)
    starts[order] = offsets_of(inner)[:-1] - previous
    sizes[order] = previous + inner + following
    shifts[order] = previous
    return _Contexts(tokens, starts, sizes, shifts)


def _fill(
    lengths: IntArray, documents: IntArray, room: IntArray, max_context: tuple[int | None, int | None]
) -> tuple[IntArray, IntArray]:
    """Share each sentence's room out: next sentence, previous one, next but one, ...

    Args:
        lengths: Tokens of each sentence, sentences of a document behind each other. Shape: ``[sentences]``.
        documents: Number of the document of each sentence. Shape: ``[sentences]``.
        room: Most tokens of context of each sentence. Shape: ``[sentences]``.
        max_context: Most sentences before and after.

    Returns:
        Tokens of context before and after each sentence. Shape: ``[sentences]`` each.
    """
    total = len(lengths)
    sentence = np.arange(total)
    offsets = offsets_of(lengths)
    borders = np.flatnonzero(np.diff(documents, prepend=-1, append=-1))
    document = np.searchsorted(borders, sentence, side="right") - 1
    most_before = np.minimum(sentence - borders[:-1][document], total if max_context[0] is None else max_context[0])
    most_after = np.minimum(borders[1:][document] - 1 - sentence, total if max_context[1] is None else max_context[1])

    def taken(rounds: IntArray) -> tuple[IntArray, IntArray]:
        back, ahead = np.minimum(rounds, most_before), np.minimum(rounds, most_after)
        return offsets[sentence] - offsets[sentence - back], offsets[sentence + 1 + ahead] - offsets[sentence + 1]

    # The most whole rounds (one sentence on either side) that fit, by bisection for all sentences at once.
    low, high = np.zeros(total, dtype=np.int64), np.maximum(most_before, most_after)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = sum(taken(middle)) <= room
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    before, after = taken(low)
    next_before, next_after = taken(low + 1)
    left = room - before - after
    more_after = np.minimum(next_after - after, left)
    more_before = np.minimum(next_before - before, left - more_after)
    return before + more_before, after + more_after


def _rewrite(
    table: Any, indices: list[int], *, contexts: _Contexts, columns: list[str], specials: tuple[int, int]
) -> Any:
    """Give a batch of rows their context."""
    rows = np.asarray(indices, dtype=np.int64)
    first, last = specials
    values, old_lengths = read_lists(table.column("input_ids"))
    old = offsets_of(old_lengths)
    inner = contexts.lengths[rows]
    lengths = inner + first + last
    new = offsets_of(lengths)
    ids = np.empty(new[-1], dtype=np.int64)
    ids[ranges(new[:-1] + first, inner)] = contexts.tokens[ranges(contexts.starts[rows], inner)]
    for place in range(first):
        ids[new[:-1] + place] = values[old[:-1] + place]
    for place in range(1, last + 1):
        ids[new[1:] - place] = values[old[1:] - place]
    rewritten = {"input_ids": make_lists(ids, lengths)}
    for name in _REWRITTEN[1:]:
        positions, spans = read_lists(table.column(name))
        rewritten[name] = make_lists(positions + np.repeat(contexts.before[rows], spans), spans)
    return pa.table({name: rewritten[name] if name in rewritten else table.column(name) for name in columns})


def _order(dataset: datasets.Dataset) -> tuple[IntArray, IntArray]:
    """Number the documents of the rows, and sort the rows by document and sentence. Shape: ``[rows]`` each."""
    documents = pc.dictionary_encode(arrow_column(dataset, DOCUMENT_ID)).combine_chunks().indices.to_numpy()
    sentences = pc.dictionary_encode(arrow_column(dataset, SENTENCE_ID)).combine_chunks()
    keys = _sort_keys(sentences.dictionary.to_pylist())
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return documents.astype(np.int64), np.lexsort((ranks[sentences.indices.to_numpy()], documents))


def _sort_keys(names: list[Any]) -> list[Any]:
    """Find what to sort different ids by: strings by their values if they are different numbers, or else naturally."""
    if not all(isinstance(name, str) for name in names):
        return names
    try:
        numbers = [Decimal(name) for name in names]  # exact, unlike floats, for ids of any length
    except InvalidOperation:
        numbers = []
    if all(map(Decimal.is_finite, numbers)) and len(set(numbers)) == len(names):
        return numbers
    return [_natural(name) for name in names]


def _natural(name: str) -> list[Any]:
    """Sort strings with the digits within them as numbers: "s2" before "s10"."""
    parts = re.split(r"([0-9]+)", name)
    parts[1::2] = [digits.lstrip("0") for digits in parts[1::2]]
    return [(len(part), part) if place % 2 else part for place, part in enumerate(parts)]
