"""Scores of the four schemes of SemEval-2013 task 9 (Segura-Bedmar et al. 2013), counted as nervaluate 1.2 counts.

Predicted entities are paired with gold ones that share words with them, each with one at most, and each pair is judged:

========  ===================  ==============
scheme    correct              otherwise
========  ===================  ==============
strict    same words and type  incorrect
exact     same words           incorrect
partial   same words           partial
type      same type            incorrect
========  ===================  ==============

A gold entity without a partner is missed, a predicted one spurious. Precision is ``(correct + partial / 2)`` of the
predicted entities, recall the same of the gold ones.

One word in common makes a pair (nervaluate asks for one in a hundred of the gold entity's words), and entities are
paired from left to right (there, in the order in which they are given). Where entities overlap others of their kind,
which the schemes say nothing of, those of the same words are paired before all others, so that "strict" counts the
predicted entities that are gold ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from span_marker.entity_errors import shared_words
from span_marker.evaluation import FlatEntities, do_overlap, precision_recall_f1
from span_marker.types import BoolArray, IntArray

SCHEMES = ("strict", "exact", "partial", "type")
"""The schemes, from the hardest: "type" is nervaluate's "ent_type"."""


@dataclass(frozen=True)
class SchemeScores:
    """What a scheme counts, and its scores.

    Attributes:
        correct: Predicted entities that are right.
        incorrect: Those that are paired with a gold entity, but are wrong.
        partial: Those that are right in part.
        missed: Gold entities without a partner.
        spurious: Predicted entities without a partner.
        precision: (correct + partial / 2) of the predicted entities; 0.0 without any.
        recall: (correct + partial / 2) of the gold entities; 0.0 without any.
        f1: Harmonic mean of precision and recall.
    """

    correct: int
    incorrect: int
    partial: int
    missed: int
    spurious: int
    precision: float
    recall: float
    f1: float


class _Overlaps(NamedTuple):
    """Pairs of entities that share words, those of a group together, then by predicted entity, then by gold entity.

    Attributes:
        groups: Number of each pair's group. Shape: ``[pairs]``.
        predicted: Index of its predicted entity. Shape: ``[pairs]``.
        gold: Index of its gold entity. Shape: ``[pairs]``.
        same_words: Whether both cover the same words. Shape: ``[pairs]``.
        same_type: Whether both are of the same type. Shape: ``[pairs]``.
        distances: How many words their starts and their ends are apart, added up. Shape: ``[pairs]``.
        is_nested: Whether any entities overlap others of their kind.
    """

    groups: IntArray
    predicted: IntArray
    gold: IntArray
    same_words: BoolArray
    same_type: BoolArray
    distances: IntArray
    is_nested: bool


def score_schemes(
    predicted: FlatEntities, gold: FlatEntities, num_words: int, labels: Sequence[str]
) -> tuple[dict[str, SchemeScores], dict[str, dict[str, SchemeScores]]]:
    """Score predicted entities by each scheme.

    Args:
        predicted: Predicted entities.
        gold: Gold entities.
        num_words: Number of words of all sentences.
        labels: Name of each label id.

    Returns:
        The scores of each scheme over all types; and of each type that occurs, by name, where entities of other types
        are as good as none: one that is found as another type is missed here and spurious there.
    """
    found, wanted, _ = shared_words(predicted, gold, num_words)
    distances: IntArray = np.abs(predicted.starts[found] - gold.starts[wanted])
    distances += np.abs(predicted.ends[found] - gold.ends[wanted])
    same_type = predicted.labels[found] == gold.labels[wanted]
    is_nested = do_overlap(predicted) or do_overlap(gold)
    everything = _Overlaps(np.zeros_like(found), found, wanted, distances == 0, same_type, distances, is_nested)
    (overall,) = _score_groups(everything, np.zeros_like(predicted.labels), np.zeros_like(gold.labels), 1)
    at = np.flatnonzero(same_type)
    at = at[np.argsort(gold.labels[wanted[at]], kind="stable")]
    columns = everything._asdict() | {"groups": gold.labels[wanted]}
    of_type = everything._replace(**{name: column[at] for name, column in columns.items() if name != "is_nested"})
    each = _score_groups(of_type, predicted.labels, gold.labels, len(labels))
    occurring = sorted({*predicted.labels.tolist(), *gold.labels.tolist()}, key=lambda label: labels[label])
    return overall, {labels[label]: each[label] for label in occurring}


def _score_groups(
    overlaps: _Overlaps, predicted_groups: IntArray, gold_groups: IntArray, size: int
) -> list[dict[str, SchemeScores]]:
    """Score groups of entities, each by itself.

    Args:
        overlaps: The pairs of entities of the same group that share words.
        predicted_groups: Number of each predicted entity's group. Shape: ``[predicted]``.
        gold_groups: Number of each gold entity's group. Shape: ``[gold]``.
        size: Number of groups.

    Returns:
        The scores of each scheme, for each group.
    """
    guessed, support = (np.bincount(groups, minlength=size) for groups in (predicted_groups, gold_groups))
    far = overlaps.distances.max(initial=0) + 1
    costs = np.zeros_like(overlaps.gold), np.where(overlaps.same_type, overlaps.distances, far)
    both = overlaps.predicted, overlaps.gold
    if overlaps.is_nested:
        same = overlaps.same_words & overlaps.same_type
        tiers = np.where(same, 0, np.where(overlaps.same_words, 1, 2)), np.where(same, 0, 2)
        leftmost, nearest = (pair_in_turn(*both, *keys) for keys in zip(costs, tiers, strict=True))
    else:
        leftmost, nearest = (pair_greedily(*both, cost) for cost in costs)
    judged = {
        "strict": (leftmost, overlaps.same_words & overlaps.same_type),
        "exact": (leftmost, overlaps.same_words),
        "partial": (leftmost, overlaps.same_words),
        "type": (nearest, overlaps.same_type),
    }
    scores: list[dict[str, SchemeScores]] = [{} for _ in range(size)]
    for scheme, (paired, right) in judged.items():
        correct, other = (np.bincount(overlaps.groups[paired & kind], minlength=size) for kind in (right, ~right))
        nothing = np.zeros_like(other)
        incorrect, partial = (nothing, other) if scheme == "partial" else (other, nothing)
        counts = np.stack([correct, incorrect, partial, support - correct - other, guessed - correct - other])
        shares = precision_recall_f1(correct + 0.5 * partial, guessed, support)
        for group, numbers, values in zip(scores, counts.T.tolist(), shares.T.tolist(), strict=True):
            group[scheme] = SchemeScores(*numbers, *values)
    return scores


def pair_greedily(predicted: IntArray, gold: IntArray, costs: npt.NDArray[np.int64]) -> BoolArray:
    """Pair each predicted entity in turn, from left to right, with a gold entity that it shares words with.

    It gets the cheapest that is not taken yet, and of equals the leftmost. Entities of a kind do not overlap, so that
    it can share only its first gold entity with predicted ones before it. Whether that one is taken is passed on from
    entity to entity: each sets it anew, keeps it or turns it over, and all of these steps are computed at once.

    Args:
        predicted: Index of the predicted entity of each pair that shares words; pairs are sorted by it, then by the
            gold entity. Shape: ``[pairs]``.
        gold: Index of the gold entity of each pair. Shape: ``[pairs]``.
        costs: The costs of each pair. Shape: ``[pairs]``.

    Returns:
        Whether the pair is made. Shape: ``[pairs]``.
    """
    firsts = np.flatnonzero(np.diff(predicted, prepend=-1))
    lasts = np.flatnonzero(np.diff(predicted, append=-1))
    turn = np.repeat(np.arange(len(firsts)), lasts - firsts + 1)
    if_free = np.lexsort((gold, costs, turn))[firsts]
    others = costs.copy()
    others[firsts] = costs.max(initial=0) + 1  # the first one only where there is no other, and then it is not made
    if_taken = np.lexsort((gold, others, turn))[firsts]
    # Whether the first gold entity of a turn is taken at its beginning, by whether that of the turn before was.
    linked = np.append(False, gold[firsts[1:]] == gold[lasts[:-1]])[: len(firsts)]
    was_free, was_taken = (linked & np.append(False, choice == lasts)[: len(firsts)] for choice in (if_free, if_taken))
    anew = np.maximum.accumulate(np.where(was_free == was_taken, np.arange(len(firsts)), 0))
    turned = np.cumsum(was_free & ~was_taken)
    is_taken = was_free[anew] ^ ((turned - turned[anew]) % 2 == 1)
    made = np.zeros(len(predicted), dtype=bool)
    made[np.where(is_taken, if_taken, if_free)[~is_taken | (firsts != lasts)]] = True
    return made


def pair_in_turn(
    predicted: IntArray, gold: IntArray, costs: npt.NDArray[np.int64], tiers: npt.NDArray[np.int64]
) -> BoolArray:
    """Pair entities that may overlap others of their kind: the first tier first, then as [`pair_greedily`] does.

    Args:
        predicted: Index of the predicted entity of each pair that shares words. Shape: ``[pairs]``.
        gold: Index of the gold entity of each pair. Shape: ``[pairs]``.
        costs: The costs of each pair. Shape: ``[pairs]``.
        tiers: The tier of each pair: no pair is made before those of lower tiers that can be. Shape: ``[pairs]``.

    Returns:
        Whether the pair is made. Shape: ``[pairs]``.
    """
    made = np.zeros(len(predicted), dtype=bool)
    busy: tuple[set[int], set[int]] = set(), set()
    for pair in np.lexsort((gold, costs, predicted, tiers)).tolist():
        partners = int(predicted[pair]), int(gold[pair])
        if not any(one in others for one, others in zip(partners, busy, strict=True)):
            made[pair] = True
            for one, others in zip(partners, busy, strict=True):
                others.add(one)
    return made
