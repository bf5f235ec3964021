"""The sentences and entities of splits, a part at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from span_marker.label_columns import NER_TAGS, TOKENS, labels_from_dataset, resolve_tags
from span_marker.label_normalizer import AutoLabelNormalizer, LabelNormalizer
from span_marker.label_summary import MalformedTags
from span_marker.readers.tables import require_lists
from span_marker.schemes import OUTSIDE, LabelScheme, Scheme, prefix_of
from span_marker.types import EntityTable, IntArray

SPANS = "spans"
_BATCH = 10_000
"""Sentences that are looked at together, which bounds the memory."""


@dataclass(frozen=True)
class Sentences:
    """Some sentences of a split.

    Attributes:
        first_row: Index of the first.
        tokens: Their words: an arrow array of lists of strings.
        lengths: Number of words of each. Shape: ``[sentences]``.
        entities: Their entities; rows count from 0, labels are indices of `EntityReader.types`.
        malformed: Transitions between tags that the scheme forbids.
        malformed_as_iob1: Those that IOB1 forbids, where the tags could be IOB1's.
    """

    first_row: int
    tokens: Any
    lengths: IntArray
    entities: EntityTable
    malformed: MalformedTags
    malformed_as_iob1: MalformedTags


@dataclass(frozen=True)
class _Config:
    """What a label normalizer needs of a model's configuration."""

    label_scheme: LabelScheme


class EntityReader:
    """Reads the entities of all splits of a data set, with the same types everywhere.

    Args:
        splits: The splits: words in "tokens", tags, or entities in "spans", or both, of which the spans count.
        column: The column of the tags.
        labels: All tags in the order of their ids. ``None``: those that occur.
        scheme: The scheme of the tags. ``None``: it is detected.

    Attributes:
        tags: The tags; ``None`` where there are only spans.
        types: The entity types.
        scheme: The scheme of the tags; ``None`` without tags.

    Raises:
        ValueError: A split lacks a column, a row is malformed, tags are numbers without names, or fit no scheme.
    """

    def __init__(
        self,
        splits: Mapping[str, datasets.Dataset],
        column: str = NER_TAGS,
        labels: Sequence[str] | None = None,
        scheme: Scheme | str | None = None,
    ) -> None:
        self.column = column
        self.is_scheme_given = scheme is not None
        self.has_spans = all(SPANS in split.column_names for split in splits.values())
        has_tags = all(column in split.column_names for split in splits.values())
        self.tags = _find_tags(splits, column, labels) if has_tags or not self.has_spans else None
        self._normalizer: LabelNormalizer | None = None
        self._iob1: LabelNormalizer | None = None
        if self.tags is not None and {*self.tags} - {OUTSIDE}:
            self._normalizer = _normalizer(self.tags, LabelScheme.from_labels(self.tags, scheme).scheme)
            if self.scheme is Scheme.IOB2 and scheme is None:
                self._iob1 = _normalizer(self.tags, Scheme.IOB1)
        read = [] if self._normalizer is None else self._normalizer.scheme.labels
        self.types = [label for label in read if label != OUTSIDE]
        if self.has_spans:
            self.types = sorted({*self.types, *_types_of_spans(splits.values())})

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of the tags."""
        return None if self._normalizer is None else self._normalizer.scheme.scheme

    def reason(self) -> str:
        """Say why the tags are read in this scheme."""
        if self.tags is None:
            return "entities are given as spans"
        if self.is_scheme_given:
            return "given"
        prefixes = sorted({prefix_of(tag) for tag in self.tags} - {OUTSIDE, ""})
        if self.scheme is Scheme.NONE:
            plain = next(tag for tag in self.tags if tag != OUTSIDE and not prefix_of(tag))
            return f"{plain!r} has no prefix"
        return f"the prefixes are {', '.join(prefixes)}" if prefixes else "there is no tag but 'O'"

    def read(self, split: datasets.Dataset) -> Iterator[Sentences]:
        """Read a split.

        Args:
            split: The split.

        Yields:
            Its sentences, many at a time.

        Raises:
            ValueError: A row is malformed.
        """
        if self.tags is not None:
            split = resolve_tags(split, self.column, self.tags)
        kept = [name for name in (TOKENS, NER_TAGS, SPANS) if name in split.column_names]
        rows = split.select_columns(kept).with_format("arrow")
        for first in range(0, len(rows), _BATCH):
            table = rows[first : first + _BATCH]
            yield self._sentences(first, {name: table.column(name).combine_chunks() for name in kept})

    def _sentences(self, first: int, columns: Mapping[str, Any]) -> Sentences:
        require_lists(columns[TOKENS], TOKENS, lambda row, word: f"Row {first + row}")
        nothing = MalformedTags(0, [])
        malformed = as_iob1 = nothing
        entities = EntityTable(*np.zeros((4, 0), dtype=np.int64))
        if self._normalizer is not None and NER_TAGS in columns:
            tags = columns[NER_TAGS]
            entities = _with_types(self._normalizer.entities(tags), self._normalizer.scheme.labels, self.types)
            malformed = _moved(self._normalizer.malformed(tags), first)
            as_iob1 = nothing if self._iob1 is None else _moved(self._iob1.malformed(tags), first)
        lengths = _lengths(columns[TOKENS])
        if self.has_spans:
            entities = _entities_of_spans(columns[SPANS], self.types)
            _require_inside(entities, lengths, first)
        return Sentences(first, columns[TOKENS], lengths, entities, malformed, as_iob1)


def _find_tags(splits: Mapping[str, datasets.Dataset], column: str, labels: Sequence[str] | None) -> list[str]:
    """Find all tags of a data set."""
    if labels is not None:
        return list(labels)
    tags: dict[str, None] = {}
    for name, split in splits.items():
        found = labels_from_dataset(split, column)
        if found is None and len(split):
            raise ValueError(
                f"The tags of the split {name!r} are numbers without names. Pass the names in the order of their ids "
                "as `labels`."
            )
        tags |= dict.fromkeys(found or ())
    return list(tags) if OUTSIDE in tags else [OUTSIDE, *tags]


def _normalizer(tags: Sequence[str], scheme: Scheme) -> LabelNormalizer:
    return AutoLabelNormalizer.from_config(_Config(LabelScheme.from_labels(tags, scheme)))


def _with_types(entities: EntityTable, labels: Sequence[str], types: Sequence[str]) -> EntityTable:
    """Number the types of entities by their place among all types."""
    places = np.array([types.index(label) if label in types else -1 for label in labels], dtype=np.int64)
    return entities._replace(labels=places[entities.labels])


def _moved(malformed: MalformedTags, first: int) -> MalformedTags:
    """Count rows from the beginning of the split."""
    return MalformedTags(
        malformed.count, [(first + row, word, before, tag) for row, word, before, tag in malformed.examples]
    )


def _lengths(column: Any) -> IntArray:
    lengths: IntArray = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _types_of_spans(splits: Any) -> set[str]:
    """Find the types of all spans."""
    found: set[str] = set()
    for split in splits:
        rows = split.select_columns([SPANS]).with_format("arrow")
        for first in range(0, len(rows), _BATCH):
            spans = rows[first : first + _BATCH].column(SPANS).combine_chunks().flatten()
            found.update(pc.unique(pc.struct_field(spans, "label")).to_pylist())
    return found


def _entities_of_spans(column: Any, types: Sequence[str]) -> EntityTable:
    """Read a column of spans."""
    rows = np.repeat(np.arange(len(column)), _lengths(column.fill_null([])))
    spans = column.flatten()
    starts, ends = (pc.struct_field(spans, name).to_numpy(zero_copy_only=False) for name in ("start", "end"))
    labels = pc.index_in(pc.struct_field(spans, "label"), pa.array(types, pa.string())).to_numpy(zero_copy_only=False)
    order = np.lexsort((ends, starts, rows))
    return EntityTable(*(values[order].astype(np.int64) for values in (rows, labels, starts, ends)))


def _require_inside(entities: EntityTable, lengths: IntArray, first: int) -> None:
    """Refuse spans outside their sentence."""
    wrong = (entities.starts < 0) | (entities.ends <= entities.starts) | (entities.ends > lengths[entities.rows])
    if wrong.any():
        row, _, start, end = (int(values[np.argmax(wrong)]) for values in entities)
        raise ValueError(
            f"Row {first + row}: the entity at words {start} to {end} lies outside the sentence of {lengths[row]} "
            "words. Expected 0 <= start < end <= words, the end exclusive."
        )


def overlapping(entities: EntityTable) -> IntArray:
    """Find entities that share a word with one before them.

    Args:
        entities: The entities, sorted by row, then start.

    Returns:
        Their indices. Shape: ``[overlapping entities]``.
    """
    if not len(entities.rows):
        return np.zeros(0, dtype=np.int64)
    # Ends that grow from row to row, so that one running maximum serves all of them.
    step = int(entities.ends.max()) + 1
    furthest = np.maximum.accumulate(entities.ends + entities.rows * step)
    begins = entities.starts[1:] + entities.rows[1:] * step
    return np.flatnonzero(begins < furthest[:-1]) + 1
