"""A report as tables, for the terminal and for web pages."""

from collections.abc import Iterator
from typing import Any

from span_marker.data_report.report import DataReport
from span_marker.pages import Table


def tables_of(report: DataReport) -> Iterator[Table]:
    """Lay a report out as tables.

    Args:
        report: The report.

    Yields:
        The tables.
    """
    splits = report.splits
    scheme = "none: " if report.scheme is None else f"{report.scheme.value}: "
    counts: dict[str, list[int]] = {
        "sentences": [split.sentences for split in splits.values()],
        "words": [split.words for split in splits.values()],
        "entities": [split.entities for split in splits.values()],
        "tags that break the scheme": [split.malformed.count for split in splits.values()],
        "overlapping entities": [split.overlapping for split in splits.values()],
        "sentences that occur before": [split.duplicates.count for split in splits.values()],
        "of these with other entities": [split.contradictions.count for split in splits.values()],
    }
    if report.encoder is not None:
        counts["tokens"] = [split.fit.text_lengths.sum for split in splits.values()]
        counts["words with unknown tokens"] = [split.fit.unknown for split in splits.values()]
        counts["words without tokens"] = [split.fit.blank for split in splits.values()]
    yield _counts(f"Scheme {scheme}{report.reason}", "", list(splits), counts)
    labels = sorted({label for split in splits.values() for label in split.types})
    per_type = {label: [split.types.get(label, 0) for split in splits.values()] for label in labels}
    yield _counts("Entities per type", "type", list(splits), per_type)
    yield _quantiles(report)
    yield _lengths(report)


def _counts(title: str, head: str, columns: list[str], rows: dict[str, list[int]]) -> Table:
    cells = [[name, *(f"{number:,}" for number in numbers)] for name, numbers in rows.items()]
    return Table(title, [head, *columns], cells)


def _quantiles(report: DataReport) -> Table:
    """Lay out lengths: the share of the sentences or entities that are no longer."""
    rows: list[list[str]] = []
    columns: list[str] = []
    for name, split in report.splits.items():
        lengths = {"words of a sentence": split.sentence_lengths, "words of an entity": split.entity_lengths}
        if report.encoder is not None:
            lengths["tokens of a sentence"] = split.fit.text_lengths
        for what, histogram in lengths.items():
            found: dict[str, Any] = histogram.quantiles()
            columns = [*found]
            rows.append(
                [
                    f"{name}: {what}",
                    *(f"{value:,.1f}" if key == "mean" else f"{value:,}" for key, value in found.items()),
                ]
            )
    return Table("Lengths that a share does not exceed", ["", *columns], rows)


def _lengths(report: DataReport) -> Table:
    """Lay out the recommended lengths."""
    lengths = report.lengths
    rows = [
        ["entity_max_length", _or_none(lengths.entity_max_length), f"loses {lengths.entity_loss:.3%} of the entities"]
    ]
    if report.encoder is None:
        rows.append(["model_max_length", "-", "--encoder tells"])
    else:
        lost = f"loses {lengths.text_loss:.3%} of the entities"
        rows.append(["model_max_length", _or_none(lengths.model_max_length), lost])
    spans = f"{lengths.spans_per_sentence:,.1f}"
    rows.append(
        ["candidate spans of a sentence", spans, f"{lengths.cost:,.1f} times the tokens of token classification"]
    )
    return Table("Recommended", ["setting", "value", "what it means"], rows)


def _or_none(length: int | None) -> str:
    return "-" if length is None else str(length)
