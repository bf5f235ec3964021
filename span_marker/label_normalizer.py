"""Tags to entities and back, for every tagging scheme.

Tags that break their scheme are repaired as the CoNLL-2000 evaluation script `conlleval` (and `seqeval` in its default
mode) reads them: an entity begins where a tag says so, where the entity before it ended, or where the type changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from span_marker.label_summary import LabelSummary, MalformedTags
from span_marker.schemes import Kind, LabelScheme, Scheme, begins_entity, forbidden_transitions
from span_marker.tag_rows import FlatTags, TagRows, flatten_tags
from span_marker.types import EntityTable, IntArray

_Mask: TypeAlias = npt.NDArray[np.bool_]

_MAX_EXAMPLES = 5
_BOUNDARY = "(sentence boundary)"
_BEGINS = begins_entity()
_FORBIDDEN = {scheme: forbidden_transitions(scheme) for scheme in Scheme}


class _Transitions(NamedTuple):
    """How each word of many sentences relates to the word before it.

    Attributes:
        flat: The tags.
        previous: Kind of the word before, outside at a sentence's start. Shape: ``[words]``.
        kinds: Kind of the word. Shape: ``[words]``.
        same: 1 where the word before has the same type, else 0. Shape: ``[words]``.
    """

    flat: FlatTags
    previous: IntArray
    kinds: IntArray
    same: IntArray


class HasLabelScheme(Protocol):
    """A configuration that knows its data set's tags."""

    @property
    def label_scheme(self) -> LabelScheme:
        """The tags, taken apart."""


class LabelNormalizer(ABC):
    """Turns a data set's tags into entities with reduced label ids, and back.

    Args:
        config: The model's configuration.

    Raises:
        ValueError: The configuration's tagging scheme is not this class's.
    """

    schemes: ClassVar[tuple[Scheme, ...]] = ()

    def __init__(self, config: HasLabelScheme) -> None:
        self.config = config
        self.scheme = config.label_scheme
        if self.scheme.scheme not in self.schemes:
            raise ValueError(
                f"{type(self).__name__} reads {', '.join(self.schemes)}, but the labels follow "
                f"{self.scheme.scheme.value}. Use AutoLabelNormalizer.from_config."
            )
        self._kinds = np.array(self.scheme.kinds, dtype=np.int64)
        self._reduced = np.array(self.scheme.reduced_ids, dtype=np.int64)

    def __call__(self, tokens: Sequence[Sequence[str]], ner_tags: TagRows) -> dict[str, list[Any]]:
        """Turn a batch's tags into entities.

        Args:
            tokens: Words of each sentence.
            ner_tags: Tag ids of each sentence's words.

        Returns:
            ``ner_tags``: per sentence a list of entities (reduced label id, first word, word after the last);
            ``entity_count`` and ``word_count``: per sentence.

        Raises:
            ValueError: A sentence has not one tag a word, or the tags are not lists of ids of labels.
        """
        flat = flatten_tags(ner_tags)
        word_count = [len(words) for words in tokens]
        tag_count = np.diff(flat.offsets).tolist()
        if len(word_count) != len(tag_count):
            raise ValueError(f"There are {len(word_count)} rows of tokens but {len(tag_count)} rows of tags.")
        for row, (words, tags) in enumerate(zip(word_count, tag_count, strict=True)):
            if words != tags:
                raise ValueError(f"Row {row} has {words} tokens but {tags} tags. Give each token one tag.")
        table = self._decode(self._transitions(flat))
        found = list(zip(table.labels.tolist(), table.starts.tolist(), table.ends.tolist(), strict=True))
        borders = np.searchsorted(table.rows, np.arange(len(word_count) + 1)).tolist()
        entities = [found[start:end] for start, end in pairwise(borders)]
        return {"ner_tags": entities, "entity_count": [len(row) for row in entities], "word_count": word_count}

    def ner_tags_to_entities(self, ner_tags: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Find the entities of one sentence.

        Args:
            ner_tags: Tag id of each word.

        Yields:
            Reduced label id, first word, word after the last.

        Raises:
            ValueError: A tag is not the id of a label.
        """
        table = self.entities([ner_tags])
        yield from zip(table.labels.tolist(), table.starts.tolist(), table.ends.tolist(), strict=True)

    def entities(self, ner_tags: TagRows) -> EntityTable:
        """Find the entities of many sentences.

        Args:
            ner_tags: Tag ids of each sentence's words.

        Returns:
            The entities, with reduced label ids.

        Raises:
            ValueError: The tags are not lists of ids of labels.
        """
        return self._decode(self._transitions(flatten_tags(ner_tags)))

    def malformed(self, ner_tags: TagRows) -> MalformedTags:
        """Count the transitions between tags that the scheme forbids.

        Args:
            ner_tags: Tag ids of each sentence's words; all of a data set, where IOB1 is to be told from IOB2.

        Returns:
            Their number and the first few.

        Raises:
            ValueError: The tags are not lists of ids of labels.
        """
        return self._malformed(self._transitions(flatten_tags(ner_tags)))

    def to_tags(self, entities: EntityTable, lengths: npt.ArrayLike) -> list[list[int]]:
        """Write entities as tags of the scheme.

        Args:
            entities: Entities with reduced label ids, none overlapping another.
            lengths: Number of words of each sentence. Shape: ``[sentences]``.

        Returns:
            Tag ids of each sentence's words.

        Raises:
            ValueError: An entity lies outside its sentence, overlaps another, or needs a tag that is not among the
                labels; or, without a scheme, follows directly on another of its type.
        """
        sizes = np.asarray(lengths, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows, labels, starts, ends = entities
        adjacent = self._check_entities(entities, sizes)
        widths = ends - starts
        which = np.repeat(np.arange(len(rows)), widths)
        position = np.arange(len(which)) - np.repeat(np.cumsum(widths) - widths, widths)
        kinds = self._written_kinds(position == 0, position == widths[which] - 1, adjacent[which])
        tags = self._tag_table()[kinds, labels[which]]
        if (tags < 0).any():
            word = int(np.argmax(tags < 0))
            missing = (
                f"{self.scheme.scheme.letters[kinds[word] - Kind.BEGIN]}-{self.scheme.labels[labels[which[word]]]}"
            )
            raise ValueError(f"The labels have no tag {missing!r}: {', '.join(self.scheme.tags[:10])}. Add it.")
        flat = np.full(offsets[-1], self.scheme.types.index(None), dtype=np.int64)
        flat[offsets[rows[which]] + starts[which] + position] = tags
        return [flat[start:end].tolist() for start, end in pairwise(offsets.tolist())]

    def _transitions(self, flat: FlatTags) -> _Transitions:
        """Look up what each tag says and what comes before it."""
        wrong = (flat.tags < 0) | (flat.tags >= len(self._kinds))
        if wrong.any():
            row, word = flat.locate(int(np.argmax(wrong)))
            raise ValueError(
                f"Row {row}, word {word}: the tag {flat.tags[wrong][0]} is no id of the {len(self._kinds)} labels "
                f"(0 to {len(self._kinds) - 1}). Pass the complete `labels` of the data set."
            )
        kinds, types = self._kinds[flat.tags], self._reduced[flat.tags]
        follows = np.ones(len(kinds) + 1, dtype=np.bool_)
        follows[flat.offsets] = False
        follows = follows[:-1]
        previous = np.where(follows, np.roll(kinds, 1), Kind.OUTSIDE)
        return _Transitions(flat, previous, kinds, (follows & _equals_previous(types)).astype(np.int64))

    def _decode(self, words: _Transitions) -> EntityTable:
        """Find the entities: each lasts until the next one begins or a word is outside."""
        begins = _BEGINS[words.previous, words.kinds, words.same]
        inside = words.kinds != Kind.OUTSIDE
        continued = np.append((inside & ~begins)[1:], False)
        first, last = np.flatnonzero(begins), np.flatnonzero(inside & ~continued)
        offsets = words.flat.offsets
        rows = np.searchsorted(offsets, first, side="right") - 1
        labels = self._reduced[words.flat.tags[first]]
        return EntityTable(rows, labels, first - offsets[rows], last + 1 - offsets[rows])

    def _malformed(self, words: _Transitions) -> MalformedTags:
        """Find the transitions that the scheme forbids, those to the sentences' ends among them."""
        forbidden = _FORBIDDEN[self._scheme_of(words)]
        flat = words.flat
        bad = np.flatnonzero(forbidden[words.previous, words.kinds, words.same])
        last = flat.offsets[1:][np.diff(flat.offsets) > 0] - 1
        bad_last = last[forbidden[words.kinds[last], Kind.OUTSIDE, 0]]
        examples = []
        for word in bad[:_MAX_EXAMPLES].tolist():
            row, position = flat.locate(word)
            before = self.scheme.tags[flat.tags[word - 1]] if position else _BOUNDARY
            examples.append((row, position, before, self.scheme.tags[flat.tags[word]]))
        for word in bad_last[:_MAX_EXAMPLES].tolist():
            row, position = flat.locate(word)
            examples.append((row, position + 1, self.scheme.tags[flat.tags[word]], _BOUNDARY))
        return MalformedTags(len(bad) + len(bad_last), sorted(examples)[:_MAX_EXAMPLES])

    def _scheme_of(self, words: _Transitions) -> Scheme:
        """Tell IOB1 from IOB2, whose tags are the same, by how entities begin that follow none."""
        scheme = self.scheme.scheme
        if scheme is not Scheme.IOB2 or not self.scheme.detected:
            return scheme
        openers = words.kinds[(words.previous == Kind.OUTSIDE) & (words.kinds != Kind.OUTSIDE)]
        return Scheme.IOB1 if len(openers) and (openers == Kind.INSIDE).all() else scheme

    def _check_entities(self, entities: EntityTable, sizes: IntArray) -> _Mask:
        """Refuse entities that tags cannot express; tell which directly follow another of their type."""
        rows, labels, starts, ends = entities
        follows = _equals_previous(rows)
        before = np.roll(ends, 1)
        adjacent: _Mask = follows & _equals_previous(labels) & (starts == before)
        problems = {
            "has no id of an entity label": ~np.isin(labels, self._reduced[self._kinds != Kind.OUTSIDE]),
            "lies outside its sentence": (starts < 0) | (ends <= starts) | (ends > sizes[rows]),
            "overlaps the one before it": follows & (starts < before),
        }
        if self.scheme.scheme is Scheme.NONE:
            problems["directly follows one of its type, which only a tagging scheme can express"] = adjacent
        for problem, wrong in problems.items():
            if wrong.any():
                first = int(np.argmax(wrong))
                raise ValueError(f"Row {rows[first]}: the entity at words {starts[first]} to {ends[first]} {problem}.")
        return adjacent

    @abstractmethod
    def _written_kinds(self, first: _Mask, last: _Mask, adjacent: _Mask) -> IntArray:
        """Choose what the tags of entities' words say.

        Args:
            first: Whether a word is its entity's first. Shape: ``[words]``.
            last: Whether it is the last. Shape: ``[words]``.
            adjacent: Whether its entity directly follows one of the same type. Shape: ``[words]``.

        Returns:
            Kind of each word. Shape: ``[words]``.
        """

    def _tag_table(self) -> IntArray:
        """Tabulate the id of the tag for a kind and a reduced label, -1 where there is none."""
        table = np.full((len(Kind), len(self.scheme.labels)), -1, dtype=np.int64)
        table[self._kinds, self._reduced] = np.arange(len(self._kinds))
        return table


class LabelNormalizerNoScheme(LabelNormalizer):
    """Reads tags that are the entity types themselves."""

    schemes: ClassVar[tuple[Scheme, ...]] = (Scheme.NONE,)

    def _written_kinds(self, first: _Mask, last: _Mask, adjacent: _Mask) -> IntArray:
        return np.full(len(first), Kind.INSIDE, dtype=np.int64)


class LabelNormalizerScheme(LabelNormalizer):
    """Reads tags of any scheme with prefixes."""

    schemes: ClassVar[tuple[Scheme, ...]] = (Scheme.IOB1, Scheme.IOB2, Scheme.BIOES, Scheme.BILOU, Scheme.BILO)

    def _written_kinds(self, first: _Mask, last: _Mask, adjacent: _Mask) -> IntArray:
        letters = self.scheme.scheme.letters
        begins = first & adjacent if self.scheme.scheme is Scheme.IOB1 else first
        kinds = np.where(begins, Kind.BEGIN, Kind.INSIDE).astype(np.int64)
        if len(letters) >= Kind.END:
            kinds[last & ~first] = Kind.END
        if len(letters) >= Kind.SINGLE:
            kinds[last & first] = Kind.SINGLE
        return kinds


class LabelNormalizerIOB(LabelNormalizerScheme):
    """Reads tags with the prefixes B and I."""

    schemes: ClassVar[tuple[Scheme, ...]] = (Scheme.IOB1, Scheme.IOB2)


class LabelNormalizerBIOES(LabelNormalizerScheme):
    """Reads tags with the prefixes B, I, E and S."""

    schemes: ClassVar[tuple[Scheme, ...]] = (Scheme.BIOES,)


class LabelNormalizerBILOU(LabelNormalizerScheme):
    """Reads tags with the prefixes B, I, L and, perhaps, U."""

    schemes: ClassVar[tuple[Scheme, ...]] = (Scheme.BILOU, Scheme.BILO)


class AutoLabelNormalizer:
    """Chooses the label normalizer for a configuration."""

    @staticmethod
    def from_config(config: HasLabelScheme) -> LabelNormalizer:
        """Create the label normalizer that reads a configuration's tagging scheme.

        Args:
            config: The model's configuration.

        Returns:
            The label normalizer.
        """
        scheme = config.label_scheme.scheme
        choices = (LabelNormalizerNoScheme, LabelNormalizerIOB, LabelNormalizerBIOES, LabelNormalizerBILOU)
        return next(choice for choice in choices if scheme in choice.schemes)(config)


def summarize_labels(normalizer: LabelNormalizer, ner_tags: TagRows) -> LabelSummary:
    """Count tags, entities and broken transitions of a data set.

    Args:
        normalizer: Reads the tags.
        ner_tags: Tag ids of each sentence's words.

    Returns:
        The counts.

    Raises:
        ValueError: The tags are not lists of ids of labels.
    """
    words = normalizer._transitions(flatten_tags(ner_tags))
    scheme, flat = normalizer.scheme, words.flat
    tags = np.bincount(flat.tags, minlength=len(scheme.tags)).tolist()
    entities = np.bincount(normalizer._decode(words).labels, minlength=len(scheme.labels)).tolist()
    return LabelSummary(
        scheme=scheme,
        num_sentences=len(flat.offsets) - 1,
        num_words=len(flat.tags),
        tag_counts=dict(zip(scheme.tags, tags, strict=True)),
        entity_counts={label: entities[i] for i, label in enumerate(scheme.labels) if i != scheme.outside_id},
        malformed=normalizer._malformed(words),
    )


def _equals_previous(values: IntArray) -> _Mask:
    """Compare each value with the one before it; the first has none. Shape: ``[values]``."""
    equal: _Mask = np.zeros(len(values), dtype=np.bool_)
    equal[1:] = values[1:] == values[:-1]
    return equal
