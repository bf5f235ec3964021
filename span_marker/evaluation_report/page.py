"""A report as a web page that needs no other file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from span_marker.evaluation import SCORES
from span_marker.evaluation_report.contents import ReportContents
from span_marker.evaluation_report.groups import EntityGroup
from span_marker.evaluation_report.heat_map import heat_map
from span_marker.evaluation_report.sentences import cut_sentence, lay_over
from span_marker.evaluation_report.thresholds import ThresholdPoint, best_threshold
from span_marker.pages import Table, render_page

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_SHOWN_THRESHOLDS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
OUTCOME_TEXTS = {
    "found": "found",
    "other_words": "other words",
    "other_type": "other type",
    "other_both": "other words and type",
    "missed": "missed",
    "spurious": "spurious",
}
"""What the page says of an entity."""
_HEADS = OUTCOME_TEXTS | {"other_both": "other both"}


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Attributes:
        name: What it is of.
        points: Its points in a square of 100 by 100, as SVG has them.
    """

    name: str
    points: str


def write_page(contents: ReportContents, title: str) -> str:
    """Write a report as a web page.

    Args:
        contents: What is in the report.
        title: Title of the page.

    Returns:
        HTML. What comes from the data is escaped.
    """
    points = contents.thresholds or ()
    return render_page(
        _TEMPLATE,
        title=title,
        contents=contents,
        summary=_summary(contents),
        schemes=_schemes(contents),
        schemes_by_type=_schemes_by_type(contents),
        types=_types(contents),
        matrix=heat_map(contents.types, contents.confusions),
        boundaries=_boundaries(contents),
        lengths=_groups("By number of words", "words", contents.lengths),
        novelties=_groups("By novelty", "in training", contents.novelties or ()),
        curves=_curves(points),
        best=best_threshold(points) if points else None,
        thresholds=_thresholds(points),
        sentences=list(_sentences(contents)),
        texts=OUTCOME_TEXTS,
    )


def percent(share: float) -> str:
    """Write a share.

    Args:
        share: The share, from 0 to 1.

    Returns:
        Percents with one decimal.
    """
    return f"{100 * share:.1f} %"


def _summary(contents: ReportContents) -> Table:
    counts = {
        "sentences": contents.num_sentences,
        "of these with errors": contents.num_sentences_with_errors,
        "words": contents.num_words,
        "gold entities": contents.num_gold,
        "predicted entities": contents.num_predicted,
    }
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    metrics = contents.metrics
    for average, key in (("micro", "overall"), ("macro", "macro")):
        rows += [[f"{name}, {average} average", percent(metrics[f"{key}_{score}"])] for name, score in _NAMES.items()]
    if "overall_accuracy" in metrics:
        rows.append(["words with the right tag", percent(metrics["overall_accuracy"])])
    return Table("Summary", ["", "value"], rows)


def _schemes(contents: ReportContents) -> Table:
    counts = ("correct", "incorrect", "partial", "missed", "spurious")
    rows = [
        [scheme, *(f"{getattr(scores, name):,}" for name in counts), *_scores(scores)]
        for scheme, scores in contents.schemes.items()
    ]
    return Table("Schemes of SemEval-2013", ["scheme", *counts, *_NAMES], rows)


def _schemes_by_type(contents: ReportContents) -> Table:
    columns = ["type", *(f"{scheme} F1" for scheme in contents.schemes)]
    rows = [
        [label, *(percent(scores.f1) for scores in schemes.values())]
        for label, schemes in contents.schemes_by_type.items()
    ]
    return Table("F1 of each type by scheme", columns, rows)


def _types(contents: ReportContents) -> Table:
    return _groups("By type", "type", contents.types)[0]


def _groups(title: str, head: str, groups: Sequence[EntityGroup]) -> tuple[Table, Sequence[EntityGroup]]:
    """Lay groups of entities out as a table, and hand them on for a chart."""
    counts = ("gold", "predicted", *OUTCOME_TEXTS)
    columns = [head, *_NAMES, *(_HEADS.get(name, name) for name in counts)]
    rows = [[group.name, *_scores(group), *(f"{getattr(group, name):,}" for name in counts)] for group in groups]
    return Table(title, columns, rows), groups


def _boundaries(contents: ReportContents) -> Table:
    rows = [[f"predicted {kind}", f"{count:,}"] for kind, count in contents.boundaries.items()]
    return Table("Wrong boundaries", ["", "gold entities"], rows)


def _curves(points: Sequence[ThresholdPoint]) -> list[Curve]:
    return [
        Curve(name, " ".join(f"{100 * point.threshold:g},{100 - 100 * getattr(point, score):.2f}" for point in points))
        for name, score in (_NAMES.items() if points else ())
    ]


def _thresholds(points: Sequence[ThresholdPoint]) -> Table:
    shown = [point for point in points if point.threshold in _SHOWN_THRESHOLDS]
    rows = [[f"{point.threshold:.2f}", f"{point.predicted:,}", *_scores(point)] for point in shown]
    return Table("By threshold", ["probability at least", "predicted", *_NAMES], rows)


def _sentences(contents: ReportContents) -> Iterable[dict[str, Any]]:
    """Cut the sentences at their entities."""
    for sentence in contents.sentences:
        lines = {"gold": sentence.gold, "predicted": sentence.predicted}
        yield {
            "row": sentence.row,
            "outcomes": sorted(sentence.outcomes),
            "lines": [
                (name, cut_sentence(sentence.tokens, layer))
                for name, entities in lines.items()
                for layer in lay_over(entities)
            ],
        }


_NAMES = {"precision": SCORES[0], "recall": SCORES[1], "F1": SCORES[2]}
"""The scores by what the page calls them."""


def _scores(scored: Any) -> list[str]:
    return [percent(getattr(scored, name)) for name in SCORES]
