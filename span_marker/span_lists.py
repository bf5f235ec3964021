"""Arrow columns of spans, a list of them a row, to flat arrays."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from span_marker.ragged import locate, offsets_of
from span_marker.types import IntArray

_PARTS: Final = ("start", "end", "label")
_EXPECTED: Final = (
    "Expected a list of entities a row, each {'start': 0, 'end': 2, 'label': 'PER'} or [0, 2, 'PER']: the first word, "
    "the word after the last, and the type"
)


class Spans:
    """The spans of some rows.

    Attributes:
        rows: Index of the row of each span. Shape: ``[spans]``.
        starts: First words. Shape: ``[spans]``.
        ends: Words after the last. Shape: ``[spans]``.
        names: Which of the types each span has. Shape: ``[spans]``.
        types: Names of the types that occur.

    Args:
        counts: Number of spans of each row. Shape: ``[rows]``.
        starts: First words. Shape: ``[spans]``.
        ends: Words after the last. Shape: ``[spans]``.
        names: Which of the types each span has. Shape: ``[spans]``.
        types: Names of the types that occur.
        first_row: Index of the first row, for errors.
    """

    def __init__(
        self,
        counts: IntArray,
        starts: IntArray,
        ends: IntArray,
        names: IntArray,
        types: list[str],
        first_row: int,
    ) -> None:
        self.rows = np.repeat(np.arange(len(counts)), counts)
        self.starts, self.ends, self.names, self.types = starts, ends, names, types
        self._first_row = first_row

    def describe(self, index: int) -> str:
        """Name a span and its row, for errors.

        Args:
            index: Index of the span.

        Returns:
            The beginning of a sentence.
        """
        name, start, end = self.types[self.names[index]], self.starts[index], self.ends[index]
        return f"Row {self._first_row + self.rows[index]}: the entity {name!r} at words {start} to {end}"


def are_spans(kind: Any) -> bool:
    """Tell columns of spans by their arrow type.

    Args:
        kind: The type.

    Returns:
        Whether rows are lists of dictionaries or of lists.
    """
    inner = getattr(kind, "value_type", kind)
    return bool(pa.types.is_struct(inner) or pa.types.is_list(inner) or pa.types.is_large_list(inner))


def class_names(feature: Any) -> list[str] | None:
    """Find the names of the types of spans where these are a ``ClassLabel``.

    Args:
        feature: The column's feature.

    Returns:
        The names in the order of their ids; ``None`` where types are no ids.
    """
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    label = inner.get("label") if isinstance(inner, dict) else None
    return list(label.names) if isinstance(label, datasets.ClassLabel) else None


def read_spans(column: Any, names: Sequence[str] | None = None, first_row: int = 0) -> Spans:
    """Read a column of spans.

    Args:
        column: An arrow array of lists: of structs with "start", "end" and "label", or of lists of these three, which
            may be texts.
        names: Names of the types where these are ids. ``None``: they are names.
        first_row: Index of the first row, for errors.

    Returns:
        The spans.

    Raises:
        ValueError: A row, a span or a part of it is missing, a start or end is no whole number, or a type no name.
    """
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"Row {row} of the spans is None. {_EXPECTED}; an empty list if there is none.")
    counts = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    entities = column.flatten()
    if pa.types.is_null(entities.type) and not len(entities):
        nothing = np.zeros(0, dtype=np.int64)
        return Spans(counts, nothing, nothing, nothing, [], first_row)

    def refuse(index: int, problem: str) -> NoReturn:
        row = first_row + locate(offsets_of(counts), index)[0]
        raise ValueError(f"Row {row} has an entity {problem}. {_EXPECTED}.")

    parts = _parts(entities, refuse)
    for name, part in zip(_PARTS, parts, strict=True):
        if part.null_count:
            refuse(int(np.argmax(part.is_null().to_numpy(zero_copy_only=False))), f"whose {name} is None")
    starts, ends = (_numbers(part, name, refuse) for name, part in zip(_PARTS[:2], parts[:2], strict=True))
    of_spans, types = _types(parts[2], names, refuse)
    return Spans(counts, starts, ends, of_spans, types, first_row)


def _parts(entities: Any, refuse: Any) -> list[Any]:
    """Take the starts, ends and types of entities apart, as arrow arrays."""
    if pa.types.is_struct(entities.type):
        given = [field.name for field in entities.type]
        if not {*_PARTS} <= {*given}:
            refuse(0, f"of the parts {', '.join(given)}")
        # A span that is missing as a whole has parts that are.
        return [pc.struct_field(entities, name) for name in _PARTS]
    if not are_spans(pa.list_(entities.type)):
        refuse(0, f"of type {entities.type}")
    lengths = pc.list_value_length(entities).fill_null(0).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero(lengths != len(_PARTS))).size:
        refuse(int(wrong[0]), f"of {lengths[wrong[0]]} parts")
    values = entities.flatten()
    return [values.take(pa.array(np.arange(part, len(values), len(_PARTS)))) for part in range(len(_PARTS))]


def _is_json(values: Any) -> bool:
    """Tell values of mixed types, which `datasets` keeps as texts in JSON."""
    return isinstance(values.type, pa.BaseExtensionType)


def _numbers(values: Any, name: str, refuse: Any) -> IntArray:
    """Read whole numbers, which may be written as texts. Shape: ``[spans]``."""
    if _is_json(values):
        values = values.storage
    try:
        numbers: IntArray = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for index, value in enumerate(values.to_pylist()):
            if not str(value).removeprefix("-").isdecimal():
                refuse(index, f"whose {name} is {value!r}")
        raise
    return numbers


def _types(values: Any, names: Sequence[str] | None, refuse: Any) -> tuple[IntArray, list[str]]:
    """Read names of types: which of them each span has, shape ``[spans]``, and the names."""
    decode: Callable[[Any], Any] = json.loads if _is_json(values) else str
    if names is not None:
        decode = list(names).__getitem__
    elif not _is_json(values) and not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        refuse(0, f"whose label is {values[0].as_py()!r}, which is no name of a type")
    encoded = (values.storage if _is_json(values) else values).dictionary_encode()
    indices: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    types: list[str] = [decode(value) for value in encoded.dictionary.to_pylist()]
    for at, name in enumerate(types):
        if not isinstance(name, str) or not name:
            refuse(int(np.argmax(indices == at)), f"whose label is {name!r}, which is no name of a type")
    return indices, types
