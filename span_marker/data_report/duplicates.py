"""Sentences that occur more than once, within a split and in several of them."""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from span_marker.data_report.entities import Sentences
from span_marker.types import IntArray

_BETWEEN_WORDS = "\x1f"
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
"""Odd numbers whose products spread over 64 bits: those of SplitMix64 (Steele et al. 2014)."""
_EXAMPLES = 5


@dataclass(frozen=True)
class Keys:
    """What tells sentences apart: 24 bytes for each.

    Attributes:
        rows: Index of each sentence that has words. Shape: ``[sentences]``.
        words: Hash of its words. Shape: ``[sentences]``.
        entities: Hash of its words and entities. Shape: ``[sentences]``.
    """

    rows: IntArray
    words: IntArray
    entities: IntArray

    @classmethod
    def of(cls, sentences: Sentences) -> "Keys":
        """Hash sentences.

        Args:
            sentences: The sentences.

        Returns:
            Their keys.
        """
        texts = pc.binary_join(sentences.tokens, _BETWEEN_WORDS).to_pylist()
        words = np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts))
        table = sentences.entities
        mixed = np.zeros(len(table.rows), dtype=np.uint64)
        for values, mixer in zip((table.labels, table.starts, table.ends), _MIXERS, strict=True):
            mixed = (mixed ^ (mixed >> np.uint64(29)) ^ (values + 1).astype(np.uint64)) * mixer
        sums = np.zeros(len(texts), dtype=np.uint64)
        np.add.at(sums, table.rows, mixed)
        rows = np.flatnonzero(sentences.lengths)
        return cls(sentences.first_row + rows, words[rows], (words ^ sums.view(np.int64))[rows])

    @classmethod
    def join(cls, parts: "list[Keys]") -> "Keys":
        """Put the keys of a split together.

        Args:
            parts: Keys of its sentences.

        Returns:
            All of them.
        """
        empty = np.zeros(0, dtype=np.int64)
        columns = ([getattr(part, name) for part in parts] for name in ("rows", "words", "entities"))
        return cls(*(np.concatenate([empty, *column]) for column in columns))


@dataclass(frozen=True)
class Repeats:
    """Sentences that occur before.

    Attributes:
        count: Their number.
        examples: The first few: row of the sentence, row of an earlier one with the same words.
    """

    count: int
    examples: list[tuple[int, int]]


def find_duplicates(keys: Keys) -> tuple[Repeats, Repeats]:
    """Find the sentences of a split that occur before.

    Args:
        keys: The split's keys.

    Returns:
        All of them; those whose entities are others than at their first occurrence.
    """
    order = np.argsort(keys.words, kind="stable")
    ordered = keys.words[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    begins = np.diff(again, prepend=-1) > 1
    first = order[again[begins] - 1][np.cumsum(begins) - 1]
    by_row = np.argsort(order[again])
    later, earlier = order[again][by_row], first[by_row]
    differs = keys.entities[later] != keys.entities[earlier]
    rows = keys.rows[earlier]
    return _repeats(keys, later, rows), _repeats(keys, later[differs], rows[differs])


def find_leaks(keys: Keys, others: Keys) -> Repeats:
    """Find the sentences of a split that occur in another one.

    Args:
        keys: The split's keys.
        others: The keys of the other one, such as that of training.

    Returns:
        The sentences, with rows of the other split.
    """
    order = np.argsort(others.words, kind="stable")
    known = others.words[order]
    place = np.searchsorted(known, keys.words)
    place[place == len(known)] = 0
    found = np.flatnonzero(known[place] == keys.words) if len(known) else np.zeros(0, dtype=np.int64)
    return _repeats(keys, found, others.rows[order[place[found]]])


def _repeats(keys: Keys, found: IntArray, earlier: IntArray) -> Repeats:
    """Name sentences by their indices, and rows of earlier ones. Shape: ``[repeats]`` each."""
    examples = zip(keys.rows[found[:_EXAMPLES]].tolist(), earlier[:_EXAMPLES].tolist(), strict=True)
    return Repeats(len(found), list(examples))
