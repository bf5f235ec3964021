"""What an evaluation yields: the entities of every sentence, gathered from the pieces of the evaluation loop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from span_marker.entity_errors import EntityErrors, find_errors
from span_marker.evaluation import compute_metrics, find_right, to_iob2
from span_marker.score_calibration import calibration_error
from span_marker.types import BoolArray, EntityTable, FloatArray, IntArray, Row

NO_ENTITY = -100
"""Fills the rows of packed entities; the value that the evaluation loop pads with."""

Predicted: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
"""A batch's row indices ``[batch]``, packed entities ``[batch, entities, 3]`` and their two scores ``[batch, entities,
2]``: the probability, and the log-odds of the span filter."""
Gold: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
"""A batch's packed entities ``[batch, entities, 3]``, then words, loss and number of spans ``[batch]`` each."""


@dataclass(frozen=True)
class EvaluatedSentences:
    """Predicted and gold entities of an evaluated data set, sentence by sentence in its order.

    This is what ``compute_metrics`` of the Trainer gets, and what ``Trainer.predict`` takes its output from. It unpacks
    like transformers' `EvalPrediction`: ``predictions, references = evaluated``.

    Attributes:
        labels: Name of each label id.
        predicted: The predicted entities, as columns.
        scores: Probability of each predicted entity. Shape: ``[predicted entities]``.
        filter_scores: Log-odds of each by the span filter, infinite without one. Shape: ``[predicted entities]``.
        num_sentences: Number of sentences.
        gold: The gold entities, as columns: all of them, those that cannot be predicted too.
        num_words: Number of words of each sentence as given. Shape: ``[sentences]``.
        losses: Cross entropy of each sentence, summed over its candidate spans. Shape: ``[sentences]``.
        num_spans: Number of candidate spans of each sentence. Shape: ``[sentences]``.
    """

    labels: Sequence[str]
    predicted: EntityTable
    scores: FloatArray
    filter_scores: FloatArray
    num_sentences: int
    gold: EntityTable = field(default_factory=lambda: EntityTable(*np.zeros((4, 0), dtype=np.int64)))
    num_words: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    losses: FloatArray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    num_spans: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def gather(
        cls, predicted: Sequence[Predicted], gold: Sequence[Gold] | None, labels: Sequence[str]
    ) -> "EvaluatedSentences":
        """Put the batches of an evaluation together, in the order of the data set.

        Args:
            predicted: What each batch predicted. Batches may come in any order; a row that several processes
                evaluated counts once.
            gold: What each batch should have predicted. ``None``: the data set has no tags.
            labels: Name of each label id.

        Returns:
            The sentences.
        """
        rows = _join([batch[0] for batch in predicted], np.int64)
        unique, first = np.unique(rows, return_index=True)
        place = np.full(len(rows), -1, dtype=np.int64)
        place[first] = np.arange(len(unique))
        table, at = _unpack([batch[1] for batch in predicted], place)
        scores = _join([np.asarray(batch[2]).reshape(-1, 2) for batch in predicted], np.float32)
        scores, filter_scores = scores.reshape(-1, 2)[at].T
        if gold is None:
            return cls(labels, table, scores, filter_scores, len(unique))
        words, losses, spans = (_join([batch[index] for batch in gold], np.float64)[first] for index in (1, 2, 3))
        return cls(
            labels,
            table,
            scores,
            filter_scores,
            len(unique),
            gold=_unpack([batch[0] for batch in gold], place)[0],
            num_words=words.astype(np.int64),
            losses=losses.astype(np.float32),
            num_spans=spans.astype(np.int64),
        )

    def __iter__(self) -> Iterator[list[list[Row]]]:
        yield self.predictions
        yield self.references

    @property
    def loss(self) -> float:
        """Cross entropy of a candidate span, averaged over all of the data set; 0.0 where there is none."""
        return float(self.losses.sum(dtype=np.float64) / max(int(self.num_spans.sum()), 1))

    @cached_property
    def predictions(self) -> list[list[Row]]:
        """Predicted entities of each sentence: ``label``, ``start``, ``end`` (words, end exclusive) and ``score``."""
        return _by_sentence(self.predicted, self.num_sentences, self.labels, self.scores)

    @cached_property
    def references(self) -> list[list[Row]]:
        """Gold entities of each sentence: ``label``, ``start`` and ``end`` (words, end exclusive)."""
        return _by_sentence(self.gold, self.num_sentences, self.labels)

    @property
    def label_ids(self) -> list[list[Row]]:
        """The references, under transformers' name for them."""
        return self.references

    @cached_property
    def predicted_tags(self) -> list[list[str]]:
        """Predicted entities, which must not overlap, as an IOB2 tag for each word of each sentence."""
        return to_iob2(self.predicted, self.num_words, self.labels)

    @cached_property
    def reference_tags(self) -> list[list[str]]:
        """Gold entities, which must not overlap, as an IOB2 tag for each word of each sentence."""
        return to_iob2(self.gold, self.num_words, self.labels)

    @property
    def errors(self) -> EntityErrors:
        """What the model confuses."""
        return find_errors(self.predicted, self.gold, self.num_words, self.labels)

    @cached_property
    def is_right(self) -> BoolArray:
        """Whether each predicted entity is a gold entity. Shape: ``[predicted entities]``."""
        return find_right(self.predicted, self.gold)

    def metrics(self, *, per_type: bool) -> dict[str, Any]:
        """Score the predictions.

        Args:
            per_type: Whether to add a dictionary for each entity type.

        Returns:
            ``loss``, the metrics of [`span_marker.evaluation.compute_metrics`] and the ``calibration_error`` of the
            entities' scores, without a prefix.
        """
        metrics = compute_metrics(self.predicted, self.gold, self.num_words, self.labels, per_type=per_type)
        return metrics | {"calibration_error": calibration_error(self.scores, self.is_right), "loss": self.loss}


def pack_entities(entities: EntityTable, num_rows: int) -> npt.NDArray[np.int64]:
    """Lay entities out as one array that processes can exchange.

    Args:
        entities: The entities, sorted by row.
        num_rows: Number of sentences.

    Returns:
        Label, first word and word after the last of each entity, filled up with -100.
        Shape: ``[rows, largest number of entities in a row, 3]``.
    """
    columns = np.stack([entities.labels, entities.starts, entities.ends], axis=-1)
    return _pack(entities.rows, columns, num_rows)


def pack_scores(entities: EntityTable, scores: FloatArray, num_rows: int) -> FloatArray:
    """Lay the scores of entities out as [`pack_entities`] does.

    Args:
        entities: The entities, sorted by row.
        scores: The scores of each. Shape: ``[entities, scores]``.
        num_rows: Number of sentences.

    Returns:
        Shape: ``[rows, largest number of entities in a row, scores]``.
    """
    packed: FloatArray = _pack(entities.rows, scores, num_rows)
    return packed


def add_user_metrics(metrics: dict[str, Any], added: dict[str, Any] | None, prefix: str) -> dict[str, Any]:
    """Add the metrics of a user's ``compute_metrics`` to the built-in ones.

    Args:
        metrics: The built-in metrics, without a prefix.
        added: The user's, with or without the prefix.
        prefix: What their names will begin with, "eval" for instance.

    Returns:
        All metrics, without a prefix.

    Raises:
        TypeError: The user's metrics are no dictionary.
        ValueError: A name is taken.
    """
    if not isinstance(added, dict):
        raise TypeError(f"compute_metrics returned {added!r}. Expected a dictionary of names and values.")
    named = {str(name).removeprefix(f"{prefix}_"): value for name, value in added.items()}
    taken = sorted(named.keys() & metrics.keys())
    if taken:
        raise ValueError(
            f"compute_metrics returned {', '.join(map(repr, taken))}, which the Trainer computes itself. Its metrics "
            "are added to the built-in ones: give them other names."
        )
    return metrics | named


def flatten_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """Name the metrics of each type one by one.

    Args:
        metrics: Metrics, among them dictionaries of metrics.

    Returns:
        ``eval_PER_f1`` in place of ``eval_PER`` with an ``f1``.
    """
    flat: dict[str, Any] = {}
    for name, value in metrics.items():
        flat |= {f"{name}_{key}": number for key, number in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _pack(rows: IntArray, values: npt.NDArray[Any], num_rows: int) -> npt.NDArray[Any]:
    """Lay values out by row. Shape: ``[rows, most values in a row, ...]``."""
    counts = np.bincount(rows, minlength=num_rows)
    # Never without a column: not every backend can exchange empty arrays.
    packed = np.full((num_rows, max(counts.max(initial=0), 1), *values.shape[1:]), NO_ENTITY, dtype=values.dtype)
    packed[rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)] = values
    return packed


def _unpack(batches: Sequence[npt.ArrayLike], place: IntArray) -> tuple[EntityTable, IntArray]:
    """Collect packed entities.

    Args:
        batches: Packed entities. Shape of each: ``[batch, entities, 3]``.
        place: Where each row of all batches goes, -1 for nowhere. Shape: ``[rows]``.

    Returns:
        The entities, and the index of each among all packed slots of all batches. Shape: ``[entities]``.
    """
    arrays = [np.asarray(batch).astype(np.int64) for batch in batches]
    slots = _join([array.reshape(-1, 3) for array in arrays], np.int64).reshape(-1, 3)
    widths = _join([np.full(len(array), array.shape[1]) for array in arrays], np.int64)
    rows = np.repeat(place, widths)
    filled = np.flatnonzero((slots[:, 0] != NO_ENTITY) & (rows >= 0))
    at = filled[np.lexsort((slots[filled, 2], slots[filled, 1], rows[filled]))]
    labels, starts, ends = slots[at].T
    return EntityTable(rows[at], labels, starts, ends), at


def _join(arrays: Sequence[npt.ArrayLike], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Concatenate arrays, of which there may be none."""
    return np.concatenate([np.asarray(array).astype(dtype) for array in arrays]) if arrays else np.zeros(0, dtype)


def _by_sentence(
    entities: EntityTable, num_sentences: int, labels: Sequence[str], scores: FloatArray | None = None
) -> list[list[Row]]:
    """Write entities as dictionaries, one list for each sentence."""
    sentences: list[list[Row]] = [[] for _ in range(num_sentences)]
    for index, (row, label, start, end) in enumerate(zip(*(column.tolist() for column in entities), strict=True)):
        entity: Row = {"label": labels[label], "start": start, "end": end}
        if scores is not None:
            entity["score"] = float(scores[index])
        sentences[row].append(entity)
    return sentences
