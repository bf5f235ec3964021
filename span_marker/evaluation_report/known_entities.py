"""Which entities a training set holds, and which others are new."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset

from span_marker.label_columns import NER_TAGS, TOKENS, resolve_tags
from span_marker.label_normalizer import LabelNormalizer
from span_marker.ragged import offsets_of, ranges
from span_marker.types import EntityTable, IntArray

NOVELTIES = ("seen", "other label", "unseen")
"""Whether an entity, its words without regard to case, is an entity of the training set: with its label, with others
only, or not at all."""


_BATCH = 10_000
"""Sentences that are read at a time, which bounds the memory."""


class KnownEntities:
    """The entities of a training set."""

    def __init__(self) -> None:
        self._labels: dict[str, set[str]] = {}

    @classmethod
    def from_dataset(cls, dataset: Dataset, normalizer: LabelNormalizer, column: str = NER_TAGS) -> "KnownEntities":
        """Collect the entities of a training set.

        Args:
            dataset: One row a sentence: words in "tokens", and tags.
            normalizer: Reads the tags.
            column: The column of the tags.

        Returns:
            The entities.

        Raises:
            ValueError: A column is missing, or a tag is unknown.
        """
        known = cls()
        tagged = resolve_tags(dataset, column, normalizer.scheme.tags)
        rows = tagged.select_columns([TOKENS, NER_TAGS]).with_format("arrow")
        for first in range(0, len(rows), _BATCH):
            part = rows[first : first + _BATCH]
            known.add(part[TOKENS], normalizer.entities(part[NER_TAGS]), normalizer.scheme.labels)
        return known

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, tokens: Any, entities: EntityTable, labels: Sequence[str]) -> None:
        """Add the entities of some sentences.

        Args:
            tokens: Words of each sentence: an arrow column of lists of strings.
            entities: The entities.
            labels: Name of each label id.
        """
        for surface, label in zip(surfaces(tokens, entities), entities.labels.tolist(), strict=True):
            self._labels.setdefault(surface, set()).add(labels[label])

    def novelties(self, tokens: Any, entities: EntityTable, labels: Sequence[str]) -> IntArray:
        """Tell whether entities are known.

        Args:
            tokens: Words of each sentence: an arrow column of lists of strings.
            entities: The entities.
            labels: Name of each label id.

        Returns:
            Indices in `NOVELTIES`. Shape: ``[entities]``.
        """
        found = [self._labels.get(surface) for surface in surfaces(tokens, entities)]
        return np.array(
            [
                2 if known is None else int(labels[label] not in known)
                for known, label in zip(found, entities.labels.tolist(), strict=True)
            ],
            dtype=np.int64,
        )


def surfaces(tokens: Any, entities: EntityTable) -> list[str]:
    """Write entities as text to compare them by: their words, without regard to case, with spaces between.

    Args:
        tokens: Words of each sentence: an arrow column of lists of strings.
        entities: The entities.

    Returns:
        The text of each entity.
    """
    sentences = offsets_of(pc.list_value_length(tokens).to_numpy(zero_copy_only=False).astype(np.int64))
    lengths = entities.ends - entities.starts
    words = pc.list_flatten(tokens).take(ranges(sentences[entities.rows] + entities.starts, lengths)).to_pylist()
    return [" ".join(words[start:end]).casefold() for start, end in pairwise(offsets_of(lengths).tolist())]
