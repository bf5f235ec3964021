"""Sentences with errors, to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from span_marker.entity_errors import OUTCOMES, PairedEntities
from span_marker.types import EntityTable, FloatArray, IntArray


@dataclass(frozen=True)
class JudgedEntity:
    """A gold or a predicted entity, and what became of it.

    Attributes:
        label: Its type.
        start: Index of its first word in the sentence.
        end: Index after its last word.
        outcome: One of `span_marker.entity_errors.OUTCOMES`; "spurious" for a predicted entity that shares no word with
            a gold one.
        score: Probability of a predicted entity; ``None`` if unknown.
    """

    label: str
    start: int
    end: int
    outcome: str
    score: float | None = None


@dataclass(frozen=True)
class SentenceErrors:
    """A sentence in which predicted entities differ from gold ones.

    Attributes:
        row: Index of the sentence in its data set.
        tokens: Its words.
        gold: Its gold entities, from left to right.
        predicted: Its predicted entities, from left to right.
    """

    row: int
    tokens: tuple[str, ...]
    gold: tuple[JudgedEntity, ...]
    predicted: tuple[JudgedEntity, ...]

    @property
    def outcomes(self) -> set[str]:
        """What became of its entities."""
        return {entity.outcome for entity in (*self.gold, *self.predicted)}


def list_errors(
    tokens: Any,
    gold: tuple[EntityTable, PairedEntities],
    predicted: tuple[EntityTable, PairedEntities],
    scores: FloatArray | None,
    labels: Sequence[str],
    limit: int,
) -> tuple[tuple[SentenceErrors, ...], int]:
    """List the sentences with the most errors.

    Args:
        tokens: Words of each sentence: an arrow column of lists of strings.
        gold: The gold entities, sorted by row, then start, and what became of them.
        predicted: The predicted entities, sorted likewise, and what became of them as if they were the gold ones.
        scores: Probability of each predicted entity; ``None``: unknown. Shape: ``[predicted]``.
        labels: Name of each label id.
        limit: Most sentences to list.

    Returns:
        The sentences, those with the most errors first, and the number of all sentences with errors.
    """
    errors = sum(
        np.bincount(table.rows[pairs.outcomes != OUTCOMES.index("found")], minlength=len(tokens))
        for table, pairs in (gold, predicted)
    )
    errors = np.asarray(errors)
    worst = np.argsort(-errors, kind="stable")[: min(limit, np.count_nonzero(errors))]
    given = _judge(*gold, None, labels, OUTCOMES, worst)
    found = _judge(*predicted, scores, labels, (*OUTCOMES[:-1], "spurious"), worst)
    words = tokens.take(worst).to_pylist()
    listed = [SentenceErrors(*values) for values in zip(worst.tolist(), map(tuple, words), given, found, strict=True)]
    return tuple(listed), int(np.count_nonzero(errors))


def _judge(
    table: EntityTable,
    pairs: PairedEntities,
    scores: FloatArray | None,
    labels: Sequence[str],
    names: Sequence[str],
    rows: IntArray,
) -> list[tuple[JudgedEntity, ...]]:
    """Write the entities of some sentences."""
    borders = np.stack([np.searchsorted(table.rows, rows, side=side) for side in ("left", "right")], axis=1)
    judged = []
    for first, last in borders.tolist():
        columns = (column[first:last].tolist() for column in (*table[1:], pairs.outcomes))
        values = [None] * (last - first) if scores is None else scores[first:last].tolist()
        judged.append(
            tuple(
                JudgedEntity(labels[label], start, end, names[outcome], score)
                for label, start, end, outcome, score in zip(*columns, values, strict=True)
            )
        )
    return judged


@dataclass(frozen=True)
class Piece:
    """A piece of a sentence.

    Attributes:
        text: Its words.
        entity: The entity that it is; ``None`` for what lies between entities.
    """

    text: str
    entity: JudgedEntity | None = None


def lay_over(entities: Sequence[JudgedEntity]) -> list[list[JudgedEntity]]:
    """Lay entities over each other such that those of a layer do not overlap.

    Args:
        entities: The entities.

    Returns:
        The layers, the outermost entities first, those of each from left to right; one empty layer of no entity.
    """
    layers: list[list[JudgedEntity]] = [[]]
    for entity in sorted(entities, key=lambda entity: (entity.start, -entity.end)):
        layer = next((layer for layer in layers if not layer or layer[-1].end <= entity.start), None)
        if layer is None:
            layers.append([entity])
        else:
            layer.append(entity)
    return layers


def cut_sentence(tokens: Sequence[str], entities: Sequence[JudgedEntity]) -> list[Piece]:
    """Cut a sentence at its entities.

    Args:
        tokens: Words of the sentence.
        entities: Entities that do not overlap, from left to right.

    Returns:
        The pieces, from left to right.
    """
    pieces = []
    borders = [0, *(border for entity in entities for border in (entity.start, entity.end)), len(tokens)]
    for index, (start, end) in enumerate(pairwise(borders)):
        if start < end:
            pieces.append(Piece(" ".join(tokens[start:end]), entities[index // 2] if index % 2 else None))
    return pieces
