"""What a model confuses: where predicted entities differ from gold ones, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from span_marker.evaluation import FlatEntities, lay_out
from span_marker.ragged import ranges
from span_marker.types import BoolArray, EntityTable, IntArray

OUTCOMES = ("found", "other_words", "other_type", "other_both", "missed")
"""What can become of a gold entity: predicted as it is, with the type but other words, with its words but another type,
with some of its words as another type, or with none of its words in any predicted entity."""


@dataclass(frozen=True)
class EntityErrors:
    """How predicted entities differ from gold ones.

    A gold entity is paired with the predicted entity that shares words with it, and of several with the one of the same
    words, then of the same type, then of most words in common. Where entities lie within others, one that has a partner
    of its own words is no partner of others: what it contains is missed or spurious by itself.

    Attributes:
        outcomes: For each type that occurs, by name, how many of its gold entities came to each of `OUTCOMES`, and as
            ``spurious`` how many of its predicted entities share no word with a gold one.
        confusions: Gold type, predicted type and number of gold entities that got it, the most frequent first.
    """

    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    confusions: tuple[tuple[str, str, int], ...] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EntityErrors":
        """Read what `to_dict` wrote.

        Args:
            values: The attributes.

        Returns:
            The errors.
        """
        kinds = (*OUTCOMES, "spurious")
        outcomes = {str(name): {kind: int(row[kind]) for kind in kinds} for name, row in values["outcomes"].items()}
        return cls(outcomes, tuple((str(gold), str(found), int(count)) for gold, found, count in values["confusions"]))

    def to_dict(self) -> dict[str, Any]:
        """Write the errors as plain values.

        Returns:
            The attributes.
        """
        return asdict(self)


class PairedEntities(NamedTuple):
    """Gold entities, each with the predicted entity that shares words with it (see [`EntityErrors`]), if there is one.

    Attributes:
        gold: The gold entities.
        predicted: The predicted entities.
        partner: Index of each gold entity's predicted one, -1 for none. Shape: ``[gold]``.
        outcomes: Index in `OUTCOMES` of what became of each gold entity. Shape: ``[gold]``.
        shared: Whether each predicted entity shares a word with a gold one. Shape: ``[predicted]``.
    """

    gold: FlatEntities
    predicted: FlatEntities
    partner: IntArray
    outcomes: IntArray
    shared: BoolArray


class SharedWords(NamedTuple):
    """All pairs of an entity of one kind and an entity of another that have words in common, in their order.

    Attributes:
        first: Index of the entity of one kind. Shape: ``[pairs]``.
        second: Index of the entity of the other kind. Shape: ``[pairs]``.
        words: Number of words in common. Shape: ``[pairs]``.
    """

    first: IntArray
    second: IntArray
    words: IntArray


def find_errors(
    predictions: EntityTable, references: EntityTable, num_words: npt.ArrayLike, labels: Sequence[str]
) -> EntityErrors:
    """Compare predicted with gold entities.

    Args:
        predictions: Predicted entities.
        references: Gold entities.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        labels: Name of each label id.

    Returns:
        What became of the gold entities, and what is spurious.

    Raises:
        ValueError: An entity lies in no sentence or outside its own, or has no type.
    """
    words = np.asarray(num_words, dtype=np.int64)
    predicted, _ = lay_out(predictions, words, labels, "predicted")
    gold, _ = lay_out(references, words, labels, "gold")
    return count_errors(pair_entities(predicted, gold, int(words.sum())), labels)


def count_errors(pairs: PairedEntities, labels: Sequence[str]) -> EntityErrors:
    """Count what became of entities.

    Args:
        pairs: The entities.
        labels: Name of each label id.

    Returns:
        The counts.
    """
    gold, predicted = pairs.gold.labels, pairs.predicted.labels
    counts = count_outcomes(pairs, gold, predicted, len(labels))
    outcomes = {
        labels[label]: dict(zip((*OUTCOMES, "spurious"), counts[label].tolist(), strict=True))
        for label in sorted({*gold.tolist(), *predicted.tolist()}, key=lambda label: labels[label])
    }
    found_as = np.full(len(gold), -1)
    matched = pairs.partner >= 0
    found_as[matched] = predicted[pairs.partner[matched]]
    wrong = matched & (found_as != gold)
    return EntityErrors(outcomes, _confusions(gold[wrong], found_as[wrong], labels))


def count_outcomes(pairs: PairedEntities, gold_groups: IntArray, predicted_groups: IntArray, size: int) -> IntArray:
    """Count what became of entities, by groups of them.

    Args:
        pairs: The entities.
        gold_groups: Number of each gold entity's group. Shape: ``[gold]``.
        predicted_groups: Number of each predicted entity's group. Shape: ``[predicted]``.
        size: Number of groups.

    Returns:
        How many gold entities of each group came to each of `OUTCOMES`, and how many of its predicted entities are
        spurious. Shape: ``[groups, outcomes + 1]``.
    """
    counts = np.zeros((size, len(OUTCOMES) + 1), dtype=np.int64)
    np.add.at(counts, (gold_groups, pairs.outcomes), 1)
    counts[:, -1] = np.bincount(predicted_groups[~pairs.shared], minlength=size)
    return counts


def pair_entities(predicted: FlatEntities, gold: FlatEntities, num_words: int) -> PairedEntities:
    """Pair gold entities with predicted ones that share words with them.

    Args:
        predicted: The predicted entities.
        gold: The gold entities.
        num_words: Number of words of all sentences.

    Returns:
        The pairs, and what became of the gold entities.
    """
    mine, other, common = shared_words(gold, predicted, num_words)
    same_words = (gold.starts[mine] == predicted.starts[other]) & (gold.ends[mine] == predicted.ends[other])
    same_type = gold.labels[mine] == predicted.labels[other]
    has_own, is_own = (np.zeros(len(entities.starts), dtype=bool) for entities in (gold, predicted))
    has_own[mine[same_words]], is_own[other[same_words]] = True, True
    kept = same_words | ~(has_own[mine] | is_own[other])
    mine, other, common, same_words, same_type = (
        column[kept] for column in (mine, other, common, same_words, same_type)
    )
    worst_first = np.lexsort((-other, common, same_type, same_words))
    # Of several the last, which is the best, remains.
    partner = np.full(len(gold.starts), -1)
    partner[mine[worst_first]] = other[worst_first]
    outcomes = np.full(len(partner), len(OUTCOMES) - 1)
    outcomes[mine[worst_first]] = (np.where(same_words, 0, 1) + np.where(same_type, 0, 2))[worst_first]
    shared = np.zeros(len(predicted.starts), dtype=bool)
    shared[other] = True
    return PairedEntities(gold, predicted, partner, outcomes, shared)


def shared_words(first: FlatEntities, second: FlatEntities, num_words: int) -> SharedWords:
    """Find the pairs of entities that have words in common.

    Args:
        first: Entities of one kind.
        second: Entities of another kind, on the same words.
        num_words: Number of words of all sentences.

    Returns:
        The pairs, sorted by the first entity, then the second.
    """
    (words, owners), (other_words, others) = (_entities_of_words(entities) for entities in (first, second))
    order = np.argsort(other_words, kind="stable")
    counts = np.bincount(other_words, minlength=num_words)
    before = np.cumsum(counts) - counts
    # A word in an entity of one kind makes a pair with each entity of the other kind that it is in.
    owners = np.repeat(owners, counts[words])
    return SharedWords(*_count_pairs(owners, others[order[ranges(before[words], counts[words])]]))


def _entities_of_words(entities: FlatEntities) -> tuple[IntArray, IntArray]:
    """List the words of entities, and the entity of each. Shape of each: ``[words of all entities]``."""
    lengths = entities.ends - entities.starts
    return ranges(entities.starts, lengths), np.repeat(np.arange(len(lengths)), lengths)


def _confusions(gold: IntArray, found: IntArray, labels: Sequence[str]) -> tuple[tuple[str, str, int], ...]:
    """Count pairs of gold and predicted types, the most frequent first."""
    pairs = zip(*(column.tolist() for column in _count_pairs(gold, found)), strict=True)
    rows = [(labels[one], labels[other], count) for one, other, count in pairs]
    return tuple(sorted(rows, key=lambda row: (-row[2], row[:2])))


def _count_pairs(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """List the different pairs of numbers from 0, and how often each occurs. Shape of each: ``[pairs]``."""
    base = second.max(initial=0) + 1
    pairs, counts = np.unique(first * base + second, return_counts=True)
    return pairs // base, pairs % base, counts
