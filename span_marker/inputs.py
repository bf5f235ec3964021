"""What `predict` takes, in one form: texts or lists of words, all at once or as a stream."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import datasets
import pyarrow as pa
import torch
from datasets import Dataset, IterableDataset
from transformers.utils import logging

from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID, has_documents
from span_marker.formats import refuse_transform
from span_marker.types import Columns, Sentences

logger = logging.get_logger(__name__)

BLOCK: Final = 1024
"""Sentences of a stream that are looked at together."""
_IterableColumn: Final = getattr(datasets.iterable_dataset, "IterableColumn", IterableDataset)  # from datasets 4 on
_LONGEST_WORD: Final = 40
_SENTENCE_ENDS: Final = ("\u3002", "\uff01", "\uff1f")  # of Chinese and Japanese


@dataclass(frozen=True)
class Inputs:
    """The inputs of `predict` in one form.

    Attributes:
        sentences: Texts or lists of words.
        is_single: Whether one sentence was given alone, so that its entities are returned alone.
        documents: The columns ``document_id`` and ``sentence_id``, or none.
    """

    sentences: Sentences
    is_single: bool
    documents: Columns


def parse_inputs(inputs: Any, is_split_into_words: bool | None) -> Inputs:
    """Bring the inputs of `predict` into one form.

    Raises:
        TypeError: They are none of the accepted forms, or ``is_split_into_words`` is no truth value.
        ValueError: A data set lacks ``tokens`` or has a transform, or the inputs are not what ``is_split_into_words``
            says.
    """
    if not isinstance(is_split_into_words, bool | None):
        raise TypeError(f"is_split_into_words must be True, False or None, but it is {is_split_into_words!r}.")
    if isinstance(inputs, Dataset):
        refuse_transform(inputs)
        inputs = inputs.with_format(None)
        if "tokens" not in inputs.column_names:
            raise ValueError(f"The data set needs a column 'tokens', but it has {', '.join(inputs.column_names)}.")
        ids = (DOCUMENT_ID, SENTENCE_ID) if has_documents(inputs.column_names) else ()
        documents = {name: list(inputs[name]) for name in ids}
        return Inputs(_checked(list(inputs["tokens"]), is_split_into_words), False, documents)
    if isinstance(inputs, str):
        _require_agreement([inputs], is_split_into_words)
        return Inputs([inputs], True, {})
    if not isinstance(inputs, Sequence) or isinstance(inputs, bytes):
        raise TypeError(f"{_EXPECTED}, but got {type(inputs).__name__}.")
    inputs = list(inputs)  # a data set's column may be one that reads itself anew at each step
    if inputs and all(isinstance(item, str) for item in inputs):
        if is_split_into_words is None:
            is_split_into_words = len(inputs) > 1 and not any(" " in item for item in inputs)
            if is_split_into_words:
                _suspect_texts(inputs)
        return Inputs([inputs], True, {}) if is_split_into_words else Inputs(inputs, False, {})
    return Inputs(_checked(inputs, is_split_into_words), False, {})


def is_stream(inputs: Any) -> bool:
    """Tell whether inputs come one after the other, and may be more than memory holds."""
    return isinstance(inputs, Iterator | IterableDataset | _IterableColumn | torch.utils.data.IterableDataset)


def read_stream(stream: Iterable[Any], is_split_into_words: bool | None, size: int = BLOCK) -> Iterator[Inputs]:
    """Cut a stream into blocks that fit into memory; a document is never cut.

    Args:
        stream: Texts, lists of words, or rows with ``tokens`` and perhaps ``document_id`` and ``sentence_id``.
        is_split_into_words: As in `parse_inputs`.
        size: Number of sentences in a block; it may be more for the sake of a document.

    Yields:
        The blocks.

    Raises:
        TypeError: An item is none of these, or of another kind than the first of its block.
        ValueError: A row lacks a column, a document goes on after others, or items are not what
            ``is_split_into_words`` says.
    """
    if isinstance(stream, IterableDataset):
        stream = stream.with_format(None)
    block: list[Any] = []
    first_row, read_documents = 0, set[Any]()
    for item in stream:
        if len(block) >= size and not _same_document(block[-1], item):
            yield _parse_block(block, first_row, is_split_into_words, read_documents)
            first_row, block = first_row + len(block), []
        block.append(item)
    if block:
        yield _parse_block(block, first_row, is_split_into_words, read_documents)


def _same_document(item: Any, other: Any) -> bool:
    """Tell whether two items are sentences of the same document."""
    rows = isinstance(item, Mapping) and isinstance(other, Mapping) and {DOCUMENT_ID, SENTENCE_ID} <= item.keys()
    return rows and bool(item[DOCUMENT_ID] == other.get(DOCUMENT_ID))


def _parse_block(
    items: list[Any], first_row: int, is_split_into_words: bool | None, read_documents: set[Any]
) -> Inputs:
    """Bring a block into one form, and note its documents among those that were read."""
    if not isinstance(items[0], Mapping):
        return Inputs(_checked(items, is_split_into_words, first_row), False, {})
    ids = (DOCUMENT_ID, SENTENCE_ID) if has_documents(items[0].keys()) else ()
    for row, item in enumerate(items, first_row):
        missing = [name for name in ("tokens", *ids) if not isinstance(item, Mapping) or name not in item]
        if missing:
            given = ", ".join(item) if isinstance(item, Mapping) else f"{item!r:.60}"
            raise ValueError(f"Row {row} of the stream needs {missing[0]!r}, but it is {given}.")
    columns = {name: [item[name] for item in items] for name in ("tokens", *ids)}
    for name in ids:
        _require_ids(columns[name], name, first_row)
    documents = dict.fromkeys(columns.get(DOCUMENT_ID, ()))
    if again := read_documents & documents.keys():
        row = first_row + next(row for row, name in enumerate(columns[DOCUMENT_ID]) if name in again)
        raise ValueError(
            f"Row {row} of the stream goes on with document {columns[DOCUMENT_ID][row - first_row]!r} after others. A "
            "stream is read one document after the other: sort it, or pass a Dataset."
        )
    read_documents.update(documents)
    return Inputs(_checked(columns.pop("tokens"), is_split_into_words, first_row), False, columns)


def _require_ids(values: list[Any], name: str, first_row: int) -> None:
    """Refuse what is no id, and ids of several kinds, which have no order.

    Raises:
        ValueError: With the first row whose id does not fit.
    """
    if not any(isinstance(value, list | tuple | Mapping | None) for value in values) and _are_alike(values):
        return
    for row, value in enumerate(values, first_row):
        if isinstance(value, list | tuple | Mapping | None) or not _are_alike([value]):
            raise ValueError(
                f"Row {row} of the stream has the {name} {value!r:.60}. Expected a number, a date or a string: give "
                "every row one, or leave both columns out."
            )
        if not _are_alike([values[0], value]):
            raise ValueError(
                f"Row {row} of the stream has the {name} {value!r:.60}, of type {type(value).__name__}, but row "
                f"{first_row} has {values[0]!r:.60}, of type {type(values[0]).__name__}. Give all rows ids of one "
                "type, such as strings."
            )


def _are_alike(values: list[Any]) -> bool:
    """Tell whether values can be a column."""
    try:
        return not pa.types.is_nested(pa.array(values).type)
    except (pa.ArrowException, OverflowError):
        return False


def _suspect_texts(words: list[str]) -> None:
    """Warn of words that are more likely texts of a script without spaces."""
    texts = [word for word in words if len(word) > _LONGEST_WORD or word.endswith(_SENTENCE_ENDS)]
    if len(texts) > 1:
        logger.warning_once(
            "A list of strings without any space was read as one sentence of words, but these look like texts: "
            f"{texts[0]!r:.60}. If they are, pass is_split_into_words=False."
        )


_EXPECTED: Final = (
    "Expected a text, a list of texts, a list of words, a list of lists of words, a Dataset or an iterator"
)


def _require_agreement(sentences: list[Any], is_split_into_words: bool | None) -> None:
    """Refuse texts that are said to be split into words, and lists of words that are said not to be.

    Raises:
        ValueError: With the first of them.
    """
    if is_split_into_words is None or not sentences or is_split_into_words is not isinstance(sentences[0], str):
        return
    given, remedy = (
        ("a text", "Pass its words as a list, for instance text.split(), or leave the argument out.")
        if is_split_into_words
        else ("a list of words", "Pass texts, or leave the argument out.")
    )
    raise ValueError(f"is_split_into_words={is_split_into_words}, but got {given}: {sentences[0]!r:.60}. {remedy}")


def _checked(sentences: list[Any], is_split_into_words: bool | None, first_row: int = 0) -> Sentences:
    """Refuse what is neither all texts nor all lists of words, or not of the kind that it is said to be.

    Raises:
        TypeError: With the first row that does not fit.
        ValueError: The rows are all of the other kind.
    """
    kind = str if sentences and isinstance(sentences[0], str) else list | tuple
    for row, sentence in enumerate(sentences, first_row):
        if not isinstance(sentence, kind):
            given = f"{sentence!r:.60}" if isinstance(sentence, str) else type(sentence).__name__
            raise TypeError(f"{_EXPECTED}, all of one kind, but row {row} is {given}.")
        try:
            "".join(sentence)  # checks all words in one call
        except TypeError as error:
            place, word = next((place, word) for place, word in enumerate(sentence) if not isinstance(word, str))
            raise TypeError(f"{_EXPECTED}, but word {place} of row {row} is {word!r:.60}.") from error
    _require_agreement(sentences, is_split_into_words)
    return sentences
