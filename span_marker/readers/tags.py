"""Tags of any scheme to IOB2, many sentences at a time, with errors that name the line."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from span_marker.arrow_lists import make_lists
from span_marker.label_normalizer import AutoLabelNormalizer, LabelNormalizer
from span_marker.ragged import flatten, locate, offsets_of
from span_marker.readers.sentences import Where
from span_marker.schemes import OUTSIDE, LabelScheme, Scheme, prefix_of
from span_marker.types import IntArray

logger = logging.getLogger(__name__)

_BY_LETTERS = (Scheme.IOB2, Scheme.BIOES, Scheme.BILOU)


@dataclass(frozen=True)
class _Config:
    """What a label normalizer needs of a model's configuration."""

    label_scheme: LabelScheme


class TagReader:
    """Reads the tags of a file: checks them, and turns them into IOB2.

    Args:
        labels: All tags that may occur, by id. ``None``: any.
        scheme: Their scheme. ``None``: it is told by the prefixes of the tags.
        keep: Whether to leave tags as they are, except that numbers get names.
    """

    def __init__(self, labels: Sequence[str] | None, scheme: Scheme | None, *, keep: bool = False) -> None:
        self.labels = None if labels is None else list(labels)
        self.scheme = scheme
        self.keep = keep
        self.types = None if labels is None else set(LabelScheme.from_labels(labels, scheme).types)
        self._letters: set[str] = set()
        self._is_iob1 = True
        self._malformed = 0
        self._example = ""

    def read(self, tags: Any, where: Where) -> Any:
        """Read the tags of sentences.

        Args:
            tags: An arrow array of lists of tags: names, or ids of the labels. No value is missing.
            where: Names the place of a word, for errors.

        Returns:
            An arrow array of lists of IOB2 tags; the same one if they already are.

        Raises:
            ValueError: A tag is unknown, out of range, or without a prefix.
        """
        lengths: IntArray = pc.list_value_length(tags).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = tags.flatten()
        if pa.types.is_integer(flat.type):
            flat = self._names(flat, lengths, where)
            tags = _lists(flat, lengths)
        if self.keep:
            return tags
        encoded = pc.dictionary_encode(flat)
        names: list[str] = encoded.dictionary.to_pylist()
        ids: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        for index, name in enumerate(names):
            if problem := self._problem(name):
                row, word = locate(offsets_of(lengths), int(np.argmax(ids == index)))
                raise ValueError(f"{where(row, word)}: the tag of word {word}, {name!r}, {problem}")
        if set(names) <= {OUTSIDE}:
            return tags
        names += [OUTSIDE] if OUTSIDE not in names else []
        normalizer = _normalizer(names, self.scheme or self._scheme_by_letters())
        rows = make_lists(ids, lengths)
        clean = self._note_malformed(normalizer, rows, where)
        if clean and normalizer.scheme.scheme is Scheme.IOB2:
            return tags
        return _rewritten(normalizer, rows, lengths)

    def check_type(self, label: str, where: str) -> None:
        """Refuse an entity type that the labels lack.

        Args:
            label: The type.
            where: Its place, for errors.

        Raises:
            ValueError: It is unknown.
        """
        if self.types is not None and label not in self.types:
            known = sorted(str(type_) for type_ in self.types if type_ is not None)
            raise ValueError(
                f"{where}: the entity type {label!r} is none of those of `labels=`. {_nearest(label, known)}"
            )

    def report(self) -> None:
        """Warn of tags that the scheme forbids, once all were read."""
        by_iob1 = self.scheme is None and self._letters <= set("BI") and self._is_iob1
        if self._malformed and not by_iob1:
            logger.warning(
                "%s tags break their scheme, the first in %s. They were read as conlleval does: an entity begins "
                "wherever the type changes or an entity ended before. Correct the tags, or pass the right `scheme=`.",
                f"{self._malformed:,}",
                self._example,
            )

    def _names(self, ids: Any, lengths: IntArray, where: Where) -> Any:
        """Replace ids by the names of the labels."""
        values: IntArray = ids.to_numpy(zero_copy_only=False).astype(np.int64)
        known = self.labels or []
        wrong = (values < 0) | (values >= len(known))
        if wrong.any():
            row, word = locate(offsets_of(lengths), int(np.argmax(wrong)))
            tag = values[np.argmax(wrong)]
            remedy = (
                f"Expected 0 to {len(known) - 1}." if known else "Pass the names of the ids, in order, as `labels=`."
            )
            raise ValueError(
                f"{where(row, word)}: the tag of word {word} is the number {tag}, which has no name. {remedy}"
            )
        return pa.array(known, pa.string()).take(pa.array(values))

    def _problem(self, tag: str) -> str | None:
        """Say what is wrong with a tag, if anything."""
        if tag == OUTSIDE:
            return None
        if self.labels is not None and tag not in self.labels:
            return f"is none of `labels=`. {_nearest(tag, self.labels)}"
        if self.scheme is Scheme.NONE:
            return None
        letter = prefix_of(tag)
        allowed = "BIESLU" if self.scheme is None else self.scheme.letters
        if not letter or letter not in allowed:
            return (
                f"is neither 'O' nor a tag such as 'B-PER', with one of the prefixes {', '.join(allowed)}. Correct it; "
                "pass scheme='NONE' if tags are whole type names."
            )
        self._letters.add(letter)
        if self.scheme is None and not any(self._letters <= set(scheme.letters) for scheme in _BY_LETTERS):
            return (
                f"does not fit those before it: no scheme has all the prefixes {', '.join(sorted(self._letters))}. "
                "Correct it; pass scheme='NONE' if tags are whole type names."
            )
        return None

    def _scheme_by_letters(self) -> Scheme:
        """Choose the scheme that has the prefixes so far; all of them are read alike."""
        return next(scheme for scheme in _BY_LETTERS if self._letters <= set(scheme.letters))

    def _note_malformed(self, normalizer: LabelNormalizer, rows: Any, where: Where) -> bool:
        """Count tags that the scheme forbids; tell whether there are none."""
        found = normalizer.malformed(rows)
        if found.count and not self._malformed:
            row, word, before, tag = found.examples[0]
            self._example = f"{where(row, word)}, word {word} ({before} {tag})"
        self._malformed += found.count
        if self._is_iob1 and normalizer.scheme.scheme is Scheme.IOB2:
            self._is_iob1 = not _normalizer(normalizer.scheme.tags, Scheme.IOB1).malformed(rows).count
        return not found.count


def _normalizer(tags: Sequence[str], scheme: Scheme) -> LabelNormalizer:
    return AutoLabelNormalizer.from_config(_Config(LabelScheme.from_labels(tags, scheme)))


def _rewritten(normalizer: LabelNormalizer, rows: Any, lengths: IntArray) -> Any:
    """Write the entities of tags as IOB2 tags."""
    types = [label for label in normalizer.scheme.labels if label != OUTSIDE]
    target = _normalizer([OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in "BI")], Scheme.IOB2)
    places = np.array([target.scheme.labels.index(label) for label in normalizer.scheme.labels], dtype=np.int64)
    entities = normalizer.entities(rows)
    written, _ = flatten(target.to_tags(entities._replace(labels=places[entities.labels]), lengths))
    return _lists(pa.array(target.scheme.tags, pa.string()).take(pa.array(written)), lengths)


def _lists(flat: Any, lengths: IntArray) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), flat)


def _nearest(name: str, known: Sequence[str]) -> str:
    """Suggest names."""
    nearest = get_close_matches(name, known, n=3, cutoff=0.5) or known[:10]
    return f"Correct it, or add it to them (nearest: {', '.join(nearest)})."
