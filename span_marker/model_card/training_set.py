"""What a training set holds, as the model card tells it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from heapq import nsmallest
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from span_marker.entity_columns import SPANS, gold_entities
from span_marker.label_columns import NER_TAGS, TOKENS
from span_marker.label_normalizer import AutoLabelNormalizer, LabelNormalizer
from span_marker.label_summary import LabelSummary
from span_marker.model_card.markdown import one_line
from span_marker.model_card.sources import DataSource, find_source
from span_marker.schemes import LabelScheme
from span_marker.types import EntityTable, IntArray

_BATCH = 10_000
"""Rows that are read at a time, which bounds the memory."""
_QUANTILES = {"Minimum": 0, "Median": 50, "95 %": 95, "Maximum": 100}
_EXAMPLES = 3
"""Entities of each type, and sentences, that are shown."""
_CANDIDATES = 20
"""Entities of a type that are looked at in each batch for different examples."""
_EXAMPLE_WORDS = (5, 40)
"""Words of a sentence that is short enough to read and long enough to tell something."""
_FEW_WORDS = 20
"""Words of a sentence that is better for an example than a longer one."""


@dataclass(frozen=True)
class TrainingSet:
    """Numbers and examples of a training set.

    Attributes:
        num_sentences: Number of sentences.
        num_words: Number of words.
        entity_counts: Entities per type.
        entity_widths: Number of entities of each length in words.
        cut_off: Number of entities that end after the words that fit the model.
        lengths: Rows of a table: least, median, 95th percentile and most of several lengths.
        examples: For each type a few different entities, in the order of the data.
        sentences: A few sentences, short ones of many types first: their ``tokens`` and the names of their
            ``ner_tags``, or their ``spans``.
        source: Where the data set comes from.
    """

    num_sentences: int
    num_words: int
    entity_counts: dict[str, int]
    entity_widths: dict[int, int] = field(default_factory=dict)
    cut_off: int = 0
    lengths: list[dict[str, Any]] = field(default_factory=list)
    examples: dict[str, list[str]] = field(default_factory=dict)
    sentences: list[dict[str, list[Any]]] = field(default_factory=list)
    source: DataSource = field(default_factory=DataSource)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingSet":
        """Read what `to_dict` wrote.

        Args:
            values: The attributes.

        Returns:
            The training set.
        """
        return cls(
            num_sentences=int(values["num_sentences"]),
            num_words=int(values["num_words"]),
            entity_counts={str(label): int(count) for label, count in values["entity_counts"].items()},
            entity_widths={int(width): int(count) for width, count in values["entity_widths"].items()},
            cut_off=int(values["cut_off"]),
            lengths=[dict(row) for row in values["lengths"]],
            examples={str(label): list(map(str, texts)) for label, texts in values["examples"].items()},
            sentences=[_read_sentence(row) for row in values["sentences"]],
            source=DataSource.from_dict(values["source"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the training set as plain values.

        Returns:
            The attributes.
        """
        return asdict(self)

    def without_text(self) -> "TrainingSet":
        """Leave the text out.

        Returns:
            The numbers alone.
        """
        return replace(self, examples={}, sentences=[])

    @property
    def num_entities(self) -> int:
        """Number of entities of all types."""
        return sum(self.entity_counts.values())


def describe_training_set(dataset: Any, summary: LabelSummary) -> TrainingSet:
    """Measure a training set and pick examples.

    Args:
        dataset: The sentences, with the columns "tokens" and "ner_tags" of tag ids, or "spans" as
            [`span_marker.entity_columns.resolve_entities`] makes them. Of anything else, such as a stream, only the
            summary is told.
        summary: The counts of its labels.

    Returns:
        The numbers and examples.
    """
    counts = dict(summary.entity_counts)
    column = NER_TAGS if summary.tag_counts else SPANS
    if not isinstance(dataset, Dataset) or not {TOKENS, column} <= set(dataset.column_names):
        return TrainingSet(summary.num_sentences, summary.num_words, counts, source=find_source(dataset))
    normalizer = AutoLabelNormalizer.from_config(SimpleNamespace(label_scheme=summary.scheme))
    examples: dict[str, list[str]] = {label: [] for label in counts}
    words: list[IntArray] = []
    entities: list[IntArray] = []
    widths: list[IntArray] = []
    sentences: list[tuple[int, int, int]] = []
    for tokens, table in _batches(dataset, column, normalizer):
        words.append(pc.list_value_length(tokens).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
        first = sum(map(len, entities))
        entities.append(np.bincount(table.rows, minlength=len(tokens)))
        widths.append(table.ends - table.starts)
        _add_examples(examples, tokens, table, summary.scheme.labels)
        sentences = nsmallest(_EXAMPLES, [*sentences, *_telling_sentences(words[-1], table, first)])
    sizes = np.concatenate([np.zeros(0, dtype=np.int64), *widths])
    lengths = {"Words per sentence": words, "Entities per sentence": entities, "Words per entity": widths}
    return TrainingSet(
        num_sentences=summary.num_sentences,
        num_words=summary.num_words,
        entity_counts=counts,
        entity_widths={width: int(count) for width, count in enumerate(np.bincount(sizes)) if count},
        lengths=[
            {"Training set": name, **_quantiles(values)} for name, values in lengths.items() if any(map(len, values))
        ],
        examples={label: found for label, found in examples.items() if found},
        sentences=[_named(dataset[row], column, summary.scheme) for *_, row in sentences],
        source=find_source(dataset),
    )


def _batches(dataset: Dataset, column: str, normalizer: LabelNormalizer) -> Iterator[tuple[pa.ListArray, EntityTable]]:
    """Yield the tokens and the entities of a data set, part by part."""
    rows = dataset.select_columns([TOKENS, column]).with_format("arrow")
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH]
        yield part[TOKENS].combine_chunks(), gold_entities({column: part[column]}, normalizer)


def _quantiles(values: list[IntArray]) -> dict[str, int]:
    """Tell how long things are, by lengths that occur."""
    found = np.percentile(np.concatenate(values), list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, map(int, found), strict=True))


def _add_examples(
    examples: dict[str, list[str]], tokens: pa.ListArray, table: EntityTable, labels: tuple[str, ...]
) -> None:
    """Add different entities of each type until there are enough."""
    for label_id, label in enumerate(labels):
        found = examples.get(label)
        if found is None or len(found) >= _EXAMPLES:
            continue
        for at in np.flatnonzero(table.labels == label_id)[:_CANDIDATES].tolist():
            text = " ".join(tokens[int(table.rows[at])].as_py()[table.starts[at] : table.ends[at]])
            if one_line(text) and text not in found:
                found.append(text)
            if len(found) == _EXAMPLES:
                break


def _telling_sentences(words: IntArray, table: EntityTable, first: int) -> list[tuple[int, int, int]]:
    """List the best sentences: whether they are long, minus the number of their types, and their row."""
    least, most = _EXAMPLE_WORDS
    base = table.labels.max(initial=0) + 1
    types = np.bincount(np.unique(table.rows * base + table.labels) // base, minlength=len(words))
    fitting = np.flatnonzero((words >= least) & (words <= most) & (types > 0))
    best = fitting[np.lexsort((-types[fitting], words[fitting] > _FEW_WORDS))][:_EXAMPLES]
    return [(int(words[row] > _FEW_WORDS), -int(types[row]), first + int(row)) for row in best]


def _named(row: Mapping[str, Any], column: str, scheme: LabelScheme) -> dict[str, list[Any]]:
    """Name the tags or the types of a sentence."""
    if column == NER_TAGS:
        return {TOKENS: list(row[TOKENS]), NER_TAGS: [scheme.tags[tag] for tag in row[NER_TAGS]]}
    spans = [{"start": start, "end": end, "label": scheme.labels[label]} for label, start, end in row[SPANS]]
    return {TOKENS: list(row[TOKENS]), SPANS: spans}


def _read_sentence(row: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Read what [`_named`] made."""
    tokens = list(map(str, row[TOKENS]))
    if NER_TAGS in row:
        return {TOKENS: tokens, NER_TAGS: list(map(str, row[NER_TAGS]))}
    spans = [{"start": int(s["start"]), "end": int(s["end"]), "label": str(s["label"])} for s in row[SPANS]]
    return {TOKENS: tokens, SPANS: spans}
