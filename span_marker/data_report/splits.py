"""What is counted of a split, a part at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import datasets
import numpy as np

from span_marker.data_report.duplicates import Keys, Repeats, find_duplicates
from span_marker.data_report.entities import EntityReader, Sentences, overlapping
from span_marker.data_report.histogram import Histogram
from span_marker.data_report.tokenization import TokenizerFit
from span_marker.label_summary import MalformedTags
from span_marker.readers.sentences import place
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.types import IntArray

_EXAMPLES = 5


@dataclass
class SplitReport:
    """What a split holds.

    Attributes:
        types: Entities per type.
        sentence_lengths: Words of each sentence.
        entity_lengths: Words of each entity.
        malformed: Transitions between tags that the scheme forbids.
        malformed_as_iob1: Those that IOB1 forbids.
        overlapping: Entities that share a word with one before them.
        overlap_examples: The first few: row, first word, word after the last.
        duplicates: Sentences that occur before.
        contradictions: Those of them with other entities than before.
        fit: What the encoder's tokenizer made of it; without an encoder nothing.
        keys: What tells its sentences apart.
        place: Names the place of a sentence, given its row: with file and line, where they are known.
    """

    types: dict[str, int]
    sentence_lengths: Histogram = field(default_factory=Histogram)
    entity_lengths: Histogram = field(default_factory=Histogram)
    malformed: MalformedTags = field(default_factory=lambda: MalformedTags(0, []))
    malformed_as_iob1: MalformedTags = field(default_factory=lambda: MalformedTags(0, []))
    overlapping: int = 0
    overlap_examples: list[tuple[int, int, int]] = field(default_factory=list)
    duplicates: Repeats = field(default_factory=lambda: Repeats(0, []))
    contradictions: Repeats = field(default_factory=lambda: Repeats(0, []))
    fit: TokenizerFit = field(default_factory=TokenizerFit)
    keys: Keys = field(default_factory=lambda: Keys.join([]))
    place: Callable[[int], str] = "row {}".format

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return self.sentence_lengths.total

    @property
    def words(self) -> int:
        """Number of words."""
        return self.sentence_lengths.sum

    @property
    def empty(self) -> int:
        """Number of sentences without words."""
        return int(self.sentence_lengths.counts[0])

    @property
    def entities(self) -> int:
        """Number of entities."""
        return self.entity_lengths.total


def report_split(
    split: datasets.Dataset, reader: EntityReader, tokenizer: SpanMarkerTokenizer | None = None
) -> SplitReport:
    """Count what a split holds. 24 bytes a sentence are kept; otherwise the memory does not depend on their number.

    Args:
        split: The split.
        reader: Reads its entities.
        tokenizer: The tokenizer of an encoder, to be tried on its words.

    Returns:
        The counts.

    Raises:
        ValueError: A row is malformed.
    """
    report = SplitReport(dict.fromkeys(reader.types, 0), place=partial(_place, split))
    counts: IntArray = np.zeros(len(reader.types), dtype=np.int64)
    keys = []
    for sentences in reader.read(split):
        _add(report, sentences)
        counts += np.bincount(sentences.entities.labels, minlength=len(counts))
        keys.append(Keys.of(sentences))
        if tokenizer is not None:
            report.fit.add(sentences, tokenizer)
    report.types = dict(zip(reader.types, counts.tolist(), strict=True))
    report.keys = Keys.join(keys)
    report.duplicates, report.contradictions = find_duplicates(report.keys)
    return report


def _place(split: datasets.Dataset, row: int) -> str:
    """Name the place of a sentence."""
    if not {"source_file", "source_line"} <= {*split.column_names}:
        return f"row {row}"
    found = split.select_columns(["source_file", "source_line"]).with_format(None)[row]
    return f"row {row} ({place(Path(found['source_file']).name, found['source_line'])})"


def _add(report: SplitReport, sentences: Sentences) -> None:
    """Count sentences."""
    entities = sentences.entities
    report.sentence_lengths.add(sentences.lengths)
    report.entity_lengths.add(entities.ends - entities.starts)
    report.malformed = _joined(report.malformed, sentences.malformed)
    report.malformed_as_iob1 = _joined(report.malformed_as_iob1, sentences.malformed_as_iob1)
    overlaps = overlapping(entities)
    report.overlapping += len(overlaps)
    for index in overlaps[: _EXAMPLES - len(report.overlap_examples)].tolist():
        row, start, end = (int(values[index]) for values in (entities.rows, entities.starts, entities.ends))
        report.overlap_examples.append((sentences.first_row + row, start, end))


def _joined(one: MalformedTags, other: MalformedTags) -> MalformedTags:
    return MalformedTags(one.count + other.count, [*one.examples, *other.examples][:_EXAMPLES])
