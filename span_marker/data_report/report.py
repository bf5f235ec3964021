"""A data set to a report of what it holds, what is wrong with it, and which lengths a model should have."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import datasets

from span_marker.data_report.entities import EntityReader
from span_marker.data_report.findings import Finding, find_all
from span_marker.data_report.lengths import Lengths, recommend_lengths
from span_marker.data_report.splits import SplitReport, report_split
from span_marker.formats import refuse_transform
from span_marker.label_columns import NER_TAGS
from span_marker.schemes import Scheme
from span_marker.tokenizer import SpanMarkerTokenizer

TEST = "test"
"""The split that settings must not depend on."""


@dataclass(frozen=True)
class DataReport:
    """What a data set holds.

    Attributes:
        scheme: The tagging scheme; ``None`` without tags.
        reason: Why it is taken for this one.
        splits: What each split holds.
        lengths: The recommended lengths, for all splits but that of test.
        findings: What is wrong or worth knowing, problems first.
        encoder: The encoder whose tokenizer was tried.
    """

    scheme: Scheme | None
    reason: str
    splits: Mapping[str, SplitReport]
    lengths: Lengths
    findings: Sequence[Finding]
    encoder: str | None = None

    @property
    def has_problems(self) -> bool:
        """Whether something should be put right."""
        return any(finding.is_problem for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can hold."""
        return {
            "scheme": self.scheme and self.scheme.value,
            "reason": self.reason,
            "encoder": self.encoder,
            "splits": {name: _split_values(split, self.encoder is not None) for name, split in self.splits.items()},
            "lengths": asdict(self.lengths),
            "problems": [finding.text for finding in self.findings if finding.is_problem],
            "notes": [finding.text for finding in self.findings if not finding.is_problem],
        }


def check_dataset(
    data: datasets.Dataset | Mapping[str, datasets.Dataset],
    *,
    column: str = NER_TAGS,
    labels: Sequence[str] | None = None,
    scheme: Scheme | str | None = None,
    encoder: str | Path | None = None,
) -> DataReport:
    """Look at a data set before a model is trained on it.

    It is read a part at a time: data sets of millions of sentences take tens of megabytes.

    Args:
        data: The data set, or its splits by name: words in "tokens", and tags or "spans" (see
            [`span_marker.read_dataset`], which leaves tags as they are with ``keep_tags=True``).
        column: The column of the tags.
        labels: All tags in the order of their ids. ``None``: those that occur.
        scheme: The scheme of the tags. ``None``: it is detected.
        encoder: Folder of the encoder whose tokenizer is tried on the words, or its name on the Hub.

    Returns:
        The report.

    Raises:
        ValueError: A split lacks a column or has a transform, a row is malformed, or tags fit no scheme.
        OSError: The encoder's tokenizer cannot be loaded.
    """
    splits = dict(data) if isinstance(data, Mapping) else {"train": data}
    for name, split in splits.items():
        refuse_transform(split, name)
    reader = EntityReader(splits, column, labels, scheme)
    tokenizer = None if encoder is None else SpanMarkerTokenizer.from_pretrained(encoder)
    reports = {name: report_split(split, reader, tokenizer) for name, split in splits.items()}
    found, reason = reader.scheme, reader.reason()
    if _is_iob1(reader, reports):
        found, reason = Scheme.IOB1, "no tag breaks IOB1, but some break IOB2, which has the same prefixes"
        for report in reports.values():
            report.malformed = report.malformed_as_iob1
    learnt = [report for name, report in reports.items() if name != TEST] or list(reports.values())
    lengths = recommend_lengths(learnt, tokenizer)
    findings = find_all(reports, lengths)
    return DataReport(found, reason, reports, lengths, findings, None if encoder is None else str(encoder))


def _is_iob1(reader: EntityReader, reports: Mapping[str, SplitReport]) -> bool:
    """Tell IOB1 from IOB2, whose prefixes are the same, by what each of them forbids."""
    if reader.scheme is not Scheme.IOB2 or reader.is_scheme_given:
        return False
    malformed = sum(report.malformed.count for report in reports.values())
    return malformed > 0 and not any(report.malformed_as_iob1.count for report in reports.values())


def _split_values(split: SplitReport, was_tokenized: bool) -> dict[str, Any]:
    """Return what a split holds as values that JSON can hold."""
    values: dict[str, Any] = {
        "sentences": split.sentences,
        "empty_sentences": split.empty,
        "words": split.words,
        "entities": split.entities,
        "types": split.types,
        "malformed_tags": asdict(split.malformed),
        "overlapping_entities": split.overlapping,
        "duplicates": asdict(split.duplicates),
        "contradictions": asdict(split.contradictions),
        "sentence_lengths": split.sentence_lengths.quantiles(),
        "entity_lengths": split.entity_lengths.quantiles(),
    }
    if was_tokenized:
        fit = split.fit
        values["tokenizer"] = {
            "tokens": fit.text_lengths.sum,
            "text_lengths": fit.text_lengths.quantiles(),
            "words_with_unknown_tokens": fit.unknown,
            "words_without_tokens": fit.blank,
        }
    return values
