"""What a report of an evaluation holds, as values and as data frames."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from span_marker.evaluation_report.groups import EntityGroup
from span_marker.evaluation_report.semeval import SchemeScores
from span_marker.evaluation_report.sentences import SentenceErrors
from span_marker.evaluation_report.thresholds import ThresholdPoint
from span_marker.types import Row

ALL_TYPES = ""
"""Stands for all types in the column "type" of a data frame; no type is called so."""


@dataclass(frozen=True)
class ReportContents:
    """Where a model goes wrong on a data set.

    Attributes:
        num_sentences: Number of sentences.
        num_words: Number of their words.
        num_gold: Number of gold entities.
        num_predicted: Number of predicted entities.
        metrics: The metrics of [`span_marker.evaluation.compute_metrics`], by the names that it gives them.
        schemes: For each of the schemes of SemEval-2013, by name, what it counts over all types.
        schemes_by_type: The same for each type, by its name, where entities of other types are as good as none.
        types: What became of the entities of each type.
        confusions: Gold type, predicted type and number of gold entities that got it, the most frequent first.
        boundaries: How many entities were predicted too long ("longer"), too short ("shorter") or across the boundaries
            ("shifted"), of whichever type.
        lengths: What became of the entities of each number of words.
        novelties: What became of entities that occur in training with their label ("seen"), with other labels only
            ("other label") or not at all ("unseen"); ``None`` without a training set.
        thresholds: The scores if entities below a probability are left out; ``None`` without probabilities.
        sentences: Sentences with errors, those with the most first; not all of them if there are many.
        num_sentences_with_errors: Number of all sentences with errors.
    """

    num_sentences: int
    num_words: int
    num_gold: int
    num_predicted: int
    metrics: dict[str, Any]
    schemes: dict[str, SchemeScores]
    schemes_by_type: dict[str, dict[str, SchemeScores]]
    types: tuple[EntityGroup, ...]
    confusions: tuple[tuple[str, str, int], ...]
    boundaries: dict[str, int]
    lengths: tuple[EntityGroup, ...]
    novelties: tuple[EntityGroup, ...] | None
    thresholds: tuple[ThresholdPoint, ...] | None
    sentences: tuple[SentenceErrors, ...]
    num_sentences_with_errors: int

    def to_dict(self) -> dict[str, Any]:
        """Write the report as values that JSON can hold.

        Returns:
            The attributes.
        """
        return asdict(self)

    def to_pandas(self, table: str = "schemes") -> pd.DataFrame:
        """Write a part of the report as a data frame, an observation a row.

        Args:
            table: "schemes" (a row for each scheme and type; the type of the rows over all types is ""), "types",
                "lengths" or "novelties" (a row for each group of entities), "confusions", "thresholds", or "entities"
                (a row for each gold and each predicted entity of the listed sentences with errors).

        Returns:
            The data frame, without rows for what the report does not hold.

        Raises:
            ValueError: There is no such part.
        """
        if table not in _FRAMES:
            raise ValueError(f"There is no part {table!r} of the report, but {', '.join(map(repr, _FRAMES))}.")
        columns, rows = _FRAMES[table]
        return pd.DataFrame(list(rows(self)), columns=columns)


def _scheme_rows(contents: ReportContents) -> Iterator[Row]:
    for label, schemes in ({ALL_TYPES: contents.schemes} | contents.schemes_by_type).items():
        for scheme, scores in schemes.items():
            yield {"scheme": scheme, "type": label, **asdict(scores)}


def _confusion_rows(contents: ReportContents) -> Iterator[Row]:
    for gold, predicted, count in contents.confusions:
        yield {"gold": gold, "predicted": predicted, "count": count}


def _entity_rows(contents: ReportContents) -> Iterator[Row]:
    for sentence in contents.sentences:
        for source, entities in (("gold", sentence.gold), ("predicted", sentence.predicted)):
            for entity in entities:
                text = " ".join(sentence.tokens[entity.start : entity.end])
                yield {"row": sentence.row, "source": source, "text": text, **asdict(entity)}


def _group_rows(name: str) -> Callable[[ReportContents], Iterator[Row]]:
    return lambda contents: map(asdict, getattr(contents, name) or ())


_GROUP = [*EntityGroup.__dataclass_fields__]
_FRAMES: dict[str, tuple[list[str], Callable[[ReportContents], Iterator[Row]]]] = {
    "schemes": (["scheme", "type", *SchemeScores.__dataclass_fields__], _scheme_rows),
    "types": (_GROUP, _group_rows("types")),
    "lengths": (_GROUP, _group_rows("lengths")),
    "novelties": (_GROUP, _group_rows("novelties")),
    "confusions": (["gold", "predicted", "count"], _confusion_rows),
    "thresholds": ([*ThresholdPoint.__dataclass_fields__], _group_rows("thresholds")),
    "entities": (["row", "source", "text", "label", "start", "end", "outcome", "score"], _entity_rows),
}
"""Columns and rows of each data frame."""
