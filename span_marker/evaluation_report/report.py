"""The report of an evaluation: from entities to what is in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from span_marker.arrow_lists import as_lists
from span_marker.entity_errors import count_errors, pair_entities
from span_marker.evaluation import FlatEntities, compute_metrics, lay_out
from span_marker.evaluation_report.boundaries import count_boundaries
from span_marker.evaluation_report.contents import ReportContents
from span_marker.evaluation_report.entity_rows import find_labels, read_entities, read_tokens
from span_marker.evaluation_report.groups import EntityGroup, count_groups, group_by_length, group_by_type
from span_marker.evaluation_report.known_entities import NOVELTIES, KnownEntities
from span_marker.evaluation_report.page import write_page
from span_marker.evaluation_report.semeval import score_schemes
from span_marker.evaluation_report.sentences import list_errors
from span_marker.evaluation_report.thresholds import threshold_curve
from span_marker.types import EntityTable, FloatArray, IntArray, Row

MAX_SENTENCES = 200
"""Most sentences with errors that a report lists by default."""


class EvaluationReport(ReportContents):
    """Where a model goes wrong: scores beyond strict F1, what is confused with what, and sentences with errors."""

    @classmethod
    def from_entities(
        cls,
        tokens: Sequence[Sequence[str]],
        gold: Sequence[Sequence[Row]],
        predicted: Sequence[Sequence[Row]],
        *,
        training: tuple[Sequence[Sequence[str]], Sequence[Sequence[Row]]] | None = None,
        max_sentences: int = MAX_SENTENCES,
    ) -> "EvaluationReport":
        """Report on entities of any model.

        Args:
            tokens: Words of each sentence.
            gold: Gold entities of each sentence: dictionaries of ``label``, ``start`` and ``end`` (words, end
                exclusive), as in the column "spans" of data sets.
            predicted: Predicted entities of each sentence in the same form, or as ``model.predict`` returns them for
                lists of words, with or without ``score``.
            training: Words and gold entities of the sentences that the model was trained on.
            max_sentences: Most sentences with errors that are listed.

        Returns:
            The report.

        Raises:
            TypeError: A sentence is a text and no list of words.
            ValueError: The numbers of sentences differ, or an entity is malformed, lies outside its sentence or is
                given twice.
        """
        words = read_tokens(tokens)
        names = find_labels(gold=gold, predicted=predicted)
        wanted, _ = read_entities(gold, names, len(words), "gold")
        found, scores = read_entities(predicted, names, len(words), "predicted")
        known = None if training is None else _read_known(*training)
        return cls.from_tables(words, wanted, found, names, scores=scores, known=known, max_sentences=max_sentences)

    @classmethod
    def from_tables(
        cls,
        tokens: Any,
        gold: EntityTable,
        predicted: EntityTable,
        labels: Sequence[str],
        *,
        scores: FloatArray | None = None,
        known: KnownEntities | None = None,
        max_sentences: int = MAX_SENTENCES,
    ) -> "EvaluationReport":
        """Report on entities in columns, such as [`EvaluatedSentences`] has them.

        Args:
            tokens: Words of each sentence: an arrow column of lists of strings.
            gold: The gold entities, sorted by row, then start. They may overlap.
            predicted: The predicted entities, likewise.
            labels: Name of each label id.
            scores: Probability of each predicted entity. ``None``: unknown. Shape: ``[predicted]``.
            known: The entities of the training set. ``None``: unknown.
            max_sentences: Most sentences with errors that are listed.

        Returns:
            The report.

        Raises:
            ValueError: An entity lies in no sentence or outside its own, has no type, or is given twice.
        """
        tokens = as_lists(tokens)
        num_words = pc.list_value_length(tokens).to_numpy(zero_copy_only=False).astype(np.int64)
        total = int(num_words.sum())
        found, wanted = (
            _lay_out(table, num_words, labels, source) for table, source in ((predicted, "predicted"), (gold, "gold"))
        )
        pairs = pair_entities(found, wanted, total)
        mirrored = pair_entities(wanted, found, total)
        is_right = mirrored.outcomes == 0
        schemes, schemes_by_type = score_schemes(found, wanted, total, labels)
        sentences, num_wrong = list_errors(tokens, (gold, pairs), (predicted, mirrored), scores, labels, max_sentences)
        novelties: list[EntityGroup] | None = None
        if known is not None:
            of_gold, of_predicted = (known.novelties(tokens, table, labels) for table in (gold, predicted))
            novelties = count_groups(NOVELTIES, of_gold, of_predicted, pairs)
        return cls(
            num_sentences=len(num_words),
            num_words=total,
            num_gold=len(wanted.starts),
            num_predicted=len(found.starts),
            metrics=compute_metrics(predicted, gold, num_words, labels),
            schemes=schemes,
            schemes_by_type=schemes_by_type,
            types=group_by_type(pairs, labels),
            confusions=count_errors(pairs, labels).confusions,
            boundaries=count_boundaries(pairs),
            lengths=group_by_length(pairs),
            novelties=None if novelties is None else tuple(novelties),
            thresholds=None if scores is None else threshold_curve(scores, is_right, len(wanted.starts)),
            sentences=sentences,
            num_sentences_with_errors=num_wrong,
        )

    def to_html(self, path: str | Path, title: str = "Evaluation") -> None:
        """Write the report as a web page, one file that needs no other.

        Args:
            path: The file.
            title: Title of the page.
        """
        Path(path).write_text(write_page(self, title), encoding="utf-8")


def _lay_out(entities: EntityTable, num_words: IntArray, labels: Sequence[str], source: str) -> FlatEntities:
    """Lay sorted entities out on the words of all sentences, and refuse those that are given twice.

    Raises:
        ValueError: One is, or lies nowhere or has no type.
    """
    flat, _ = lay_out(entities, num_words, labels, source)
    _, first = np.unique(np.stack(flat, axis=1), axis=0, return_index=True)
    if len(first) < len(flat.starts):
        again = int(np.setdiff1d(np.arange(len(flat.starts)), first)[0])
        row, label, start, end = (int(column[again]) for column in entities)
        raise ValueError(
            f"Row {row}: the {source} entity [{start}, {end}) of type {labels[label]!r} is given twice. Give it once."
        )
    return flat


def _read_known(tokens: Sequence[Sequence[str]], entities: Sequence[Sequence[Row]]) -> KnownEntities:
    """Collect the entities of a training set."""
    words, labels = read_tokens(tokens), find_labels(training=entities)
    known = KnownEntities()
    known.add(words, read_entities(entities, labels, len(words), "training")[0], labels)
    return known
