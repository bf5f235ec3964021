"""Sentences and entities as Python lists, read into columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from span_marker.types import EntityTable, FloatArray, Row

_PLACES = (("start", "end"), ("word_start_index", "word_end_index"))


def read_tokens(tokens: Sequence[Sequence[str]]) -> Any:
    """Read the words of sentences.

    Args:
        tokens: Words of each sentence.

    Returns:
        An arrow column of lists of strings.

    Raises:
        TypeError: A sentence is a text and no list of words.
    """
    for row, words in enumerate(tokens):
        if isinstance(words, str):
            raise TypeError(f"Row {row} of the tokens is the text {words[:50]!r}. Give the list of its words.")
    return pa.array(list(map(list, tokens)), pa.list_(pa.string()))


def find_labels(**sources: Sequence[Sequence[Row]]) -> list[str]:
    """Find the types of entities.

    Args:
        **sources: Entities of each sentence, by what they are, for the error: "gold", ...

    Returns:
        The types, by name.

    Raises:
        ValueError: An entity has no type.
    """
    labels = set()
    for source, rows in sources.items():
        for row, entities in enumerate(rows):
            for entity in entities:
                if not isinstance(entity.get("label"), str):
                    raise ValueError(f"Row {row}: the {source} entity {entity!r} has no type. It needs a 'label'.")
                labels.add(entity["label"])
    return sorted(labels)


def read_entities(
    rows: Sequence[Sequence[Row]], labels: Sequence[str], num_sentences: int, source: str
) -> tuple[EntityTable, FloatArray | None]:
    """Read the entities of sentences.

    Args:
        rows: Entities of each sentence, in any order.
        labels: Name of each label id.
        num_sentences: Number of sentences.
        source: What the entities are, for the error: "gold", ...

    Returns:
        The entities, sorted, and their scores, ``None`` if one lacks its score. Shape of the scores: ``[entities]``.

    Raises:
        ValueError: The number of sentences is another, or an entity has no place among the words.
    """
    if len(rows) != num_sentences:
        raise ValueError(
            f"There are {source} entities for {len(rows)} sentences, but the words of {num_sentences}. Give one list "
            "for each sentence, an empty one for a sentence without entities."
        )
    ids = {label: index for index, label in enumerate(labels)}
    flat = [(row, entity) for row, entities in enumerate(rows) for entity in entities]
    values = [(row, ids[entity["label"]], *_place(entity, row, source)) for row, entity in flat]
    columns = np.array(values, dtype=np.int64).reshape(-1, 4)
    scores = np.array([entity.get("score", np.nan) for _, entity in flat], dtype=np.float32)
    order = np.lexsort((columns[:, 3], columns[:, 2], columns[:, 0]))
    return EntityTable(*columns[order].T), None if np.isnan(scores).any() else scores[order]


def _place(entity: Row, row: int, source: str) -> tuple[int, int]:
    """Tell which words an entity covers."""
    for start, end in _PLACES:
        if start in entity and end in entity:
            return int(entity[start]), int(entity[end])
    raise ValueError(
        f"Row {row}: the {source} entity {entity!r} has no place among the words. It needs 'label', 'start' and 'end', "
        "the words that it covers, end exclusive; model.predict gives them for lists of words, not for texts."
    )
