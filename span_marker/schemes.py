"""Tagging schemes: which one a label set follows, and what each tag of it means."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt
from datasets import ClassLabel
from transformers.utils import logging

logger = logging.get_logger(__name__)

OUTSIDE = "O"
"""The tag of words in no entity."""
UNNAMED_TYPE = "_"
"""The entity type of a bare "B" or "I" tag, named as seqeval names it."""


class Scheme(str, Enum):
    """How tags mark the words of an entity; names in any case and common other names are accepted.

    * ``IOB1``: "I-X"; "B-X" only for an entity that directly follows another one of its type.
    * ``IOB2`` (also "BIO"): "B-X" begins every entity.
    * ``BIOES`` (also "IOBES"): "E-X" ends an entity, "S-X" is an entity of one word.
    * ``BILOU`` (also "BILUO"): the same with the letters L (last) and U (unit).
    * ``BILO``: BILOU without U: an entity of one word is "B-X" alone.
    * ``NONE``: the tag is the type; adjacent words of one type are one entity.
    """

    IOB1 = "IOB1"
    IOB2 = "IOB2"
    BIOES = "BIOES"
    BILOU = "BILOU"
    BILO = "BILO"
    NONE = "NONE"

    @property
    def letters(self) -> str:
        """The prefixes of the scheme's tags, "" for no scheme."""
        return _LETTERS[self.value]

    @classmethod
    def _missing_(cls, value: object) -> "Scheme":
        name = str(value).upper()
        name = _OTHER_NAMES.get(name, name)
        if name not in cls.__members__:
            raise ValueError(f"Unknown tagging scheme {value!r}. Choose one of {', '.join(cls.__members__)}.")
        return cls[name]


_LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU", "BILO": "BIL", "NONE": ""}
_OTHER_NAMES = {"BIO": "IOB2", "IOBES": "BIOES", "BILUO": "BILOU"}
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_LIKE_A_TAG = re.compile(r"[BIbi][-_].*|[BI]", re.DOTALL)
"""What B and I tags are mistyped as, too."""


def read_tags(tags: Iterable[str] | ClassLabel) -> list[str]:
    """List the tags of a data set.

    Args:
        tags: The tags in the order of their ids, or a ``ClassLabel`` feature that names them.

    Returns:
        The tags in the order of their ids.

    Raises:
        TypeError: They have no order of their own, or are no tags at all.
    """
    if isinstance(tags, ClassLabel):
        return list(tags.names)
    if isinstance(tags, str | bytes | Mapping | set | frozenset) or not isinstance(tags, Iterable):
        raise TypeError(
            f"`labels` is of type {type(tags).__name__}. Expected a list of the tags in the order of their ids, "
            "such as ['O', 'B-PER', 'I-PER'], or a ClassLabel such as dataset.features['ner_tags'].feature."
        )
    return list(tags)


def prefix_of(tag: str) -> str:
    """Return a tag's prefix as every scheme but none reads it.

    Args:
        tag: The tag.

    Returns:
        The letter before the hyphen, "O" for the outside, "" for a tag without a prefix.
    """
    match = _TAG.fullmatch(tag)
    if match is None:
        return OUTSIDE if tag == OUTSIDE else ""
    return match[1]


def detect_scheme(labels: Sequence[str]) -> Scheme:
    """Find the tagging scheme of a label set.

    A set in which any label but "O" has no prefix follows no scheme; if other labels look as if they had one, that is
    warned of. B and I alone are read as IOB2: IOB1 has the same tags and decodes the same.

    Args:
        labels: All tags of a data set.

    Returns:
        The scheme.

    Raises:
        ValueError: All labels have prefixes, but no scheme has this set of prefixes.
    """
    matches = [_TAG.fullmatch(label) for label in labels if label != OUTSIDE]
    used = {match[1] for match in matches if match}
    if not used or None in matches:
        _warn_of_mistyped(labels)
        return Scheme.NONE
    if used & set("BI"):
        for scheme in (Scheme.IOB2, Scheme.BIOES, Scheme.BILO, Scheme.BILOU):
            if used <= set(scheme.letters):
                return scheme
    raise ValueError(
        f"The labels' prefixes {', '.join(sorted(used))} fit none of the schemes IOB1, IOB2, BIOES, BILOU and BILO "
        f"({', '.join(labels[:10])}). Correct the labels, or pass `scheme=`: 'NONE' if these are whole type names."
    )


def _warn_of_mistyped(labels: Sequence[str]) -> None:
    """Warn of labels that follow no scheme, though some look like the tags of one."""
    alike = [label for label in labels if _LIKE_A_TAG.fullmatch(label)]
    odd = [label for label in labels if label != OUTSIDE and not _TAG.fullmatch(label)]
    if alike:
        logger.warning_once(
            f"The labels {', '.join(alike[:5])} look like tags of a scheme, but {', '.join(odd[:5])} fit none, so that "
            "each label is read as an entity type of its own. Write all tags like 'B-PER', or pass `scheme=`: 'NONE' "
            "if these are whole type names, 'IOB2' if 'B' and 'I' stand alone."
        )


class Kind(IntEnum):
    """What a tag says about its word, whatever letter its scheme uses. Sentence boundaries count as outside."""

    OUTSIDE = 0
    BEGIN = 1
    INSIDE = 2
    END = 3
    SINGLE = 4


_KINDS = {"O": Kind.OUTSIDE, "B": Kind.BEGIN, "I": Kind.INSIDE, "": Kind.INSIDE}
_KINDS |= {"E": Kind.END, "L": Kind.END, "S": Kind.SINGLE, "U": Kind.SINGLE}


@dataclass(frozen=True)
class LabelScheme:
    """A data set's tags, taken apart.

    Attributes:
        scheme: The tagging scheme.
        tags: The tags as given, by id.
        prefixes: Prefix of each tag: "O" for the outside, "" in no scheme.
        types: Entity type of each tag; ``None`` for the outside.
        labels: The labels of entities, by reduced id: "O", then the types sorted; the tags as given in no scheme.
        reduced_ids: Id in ``labels`` of each tag.
        outside_id: Id of "O" in ``labels``.
        detected: Whether the scheme was read off the tags, which cannot tell IOB1 from IOB2.
    """

    scheme: Scheme
    tags: tuple[str, ...]
    prefixes: tuple[str, ...]
    types: tuple[str | None, ...]
    labels: tuple[str, ...]
    reduced_ids: tuple[int, ...]
    outside_id: int
    detected: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What each tag says about its word."""
        return tuple(_KINDS[prefix] for prefix in self.prefixes)

    @classmethod
    def from_labels(cls, labels: Iterable[str] | ClassLabel, scheme: Scheme | str | None = None) -> "LabelScheme":
        """Take the tags of a data set apart.

        Types are split off at the first "-". A bare "B" or "I" is accepted where a scheme is given, as a tag of the
        type "_".

        Args:
            labels: All tags, by id.
            scheme: The tagging scheme. ``None``: detect it.

        Returns:
            The tags' scheme, types and reduced ids.

        Raises:
            TypeError: The labels are no list.
            ValueError: There is no label, no "O", nothing but "O", a duplicate, a label that does not fit the scheme,
                an entity type "O", or an unknown scheme.
        """
        tags = tuple(read_tags(labels))
        _check_labels(tags)
        name = detect_scheme(tags) if scheme is None else Scheme(scheme)
        if name is Scheme.NONE:
            prefixes = tuple(OUTSIDE if tag == OUTSIDE else "" for tag in tags)
            types = tuple(None if tag == OUTSIDE else tag for tag in tags)
            reduced = tags
        else:
            pairs = [_split(tag, name) for tag in tags]
            prefixes = tuple(prefix for prefix, _ in pairs)
            types = tuple(type_ for _, type_ in pairs)
            reduced = (OUTSIDE, *sorted({type_ for type_ in types if type_ is not None}))
        ids = {label: index for index, label in enumerate(reduced)}
        return cls(
            scheme=name,
            tags=tags,
            prefixes=prefixes,
            types=types,
            labels=reduced,
            reduced_ids=tuple(ids[OUTSIDE if type_ is None else type_] for type_ in types),
            outside_id=ids[OUTSIDE],
            detected=scheme is None,
        )


def _check_labels(tags: tuple[str, ...]) -> None:
    """Refuse label sets that cannot describe entities."""
    if not tags:
        raise ValueError("`labels` is empty. Pass all tags of the data set, e.g. ['O', 'B-PER', 'I-PER'].")
    wrong = [tag for tag in tags if not isinstance(tag, str)]
    if wrong:
        raise ValueError(f"`labels` must be strings, got {wrong[0]!r}. Pass the tags' names in the order of their ids.")
    duplicates = [tag for tag, count in Counter(tags).items() if count > 1]
    if duplicates:
        raise ValueError(f"`labels` holds {', '.join(map(repr, duplicates))} more than once. Give each tag one id.")
    if OUTSIDE not in tags:
        raise ValueError(f"`labels` has no 'O' for words in no entity: {', '.join(tags[:10])}. Add 'O'.")
    if len(tags) == 1:
        raise ValueError("`labels` holds only 'O'. Add the tags of at least one entity type.")


def _split(tag: str, scheme: Scheme) -> tuple[str, str | None]:
    """Split a tag into its prefix and its type; ``None`` for the outside."""
    if tag == OUTSIDE:
        return OUTSIDE, None
    match = _TAG.fullmatch(tag)
    prefix, type_ = (match[1], match[2]) if match else (tag, UNNAMED_TYPE)
    if len(prefix) != 1 or prefix not in scheme.letters:
        allowed = ", ".join(f"'{letter}-'" for letter in scheme.letters)
        raise ValueError(
            f"The label {tag!r} does not fit the scheme {scheme.value}, whose labels are 'O' or begin with {allowed}. "
            "Correct the label or `scheme=`."
        )
    if type_ == OUTSIDE:
        raise ValueError(
            f"The label {tag!r} names an entity type 'O', the name of words in no entity. Rename the type."
        )
    return prefix, type_


def begins_entity() -> npt.NDArray[np.bool_]:
    """Tabulate whether a word begins an entity, given the word before.

    Source: `start_of_chunk` and `end_of_chunk` of the evaluation script `conlleval` of CoNLL-2000, extended to E and S
    as in seqeval 1.2.2 (default mode).

    Returns:
        Truth by kind before, kind, and whether both have the same type. Shape: ``[5, 5, 2]``.
    """
    begins = np.zeros((len(Kind), len(Kind), 2), dtype=np.bool_)
    begins[:, :, 0] = True
    begins[:, [Kind.BEGIN, Kind.SINGLE]] = True
    begins[[Kind.OUTSIDE, Kind.END, Kind.SINGLE]] = True
    begins[:, Kind.OUTSIDE] = False
    return begins


def forbidden_transitions(scheme: Scheme) -> npt.NDArray[np.bool_]:
    """Tabulate the transitions between words that a scheme forbids.

    Args:
        scheme: The tagging scheme.

    Returns:
        Truth by kind before, kind, and whether both have the same type. Shape: ``[5, 5, 2]``.
    """
    forbidden = np.zeros((len(Kind), len(Kind), 2), dtype=np.bool_)
    if scheme is Scheme.NONE:
        return forbidden
    if scheme is Scheme.IOB1:
        forbidden[:, Kind.BEGIN, 0] = True
        forbidden[Kind.OUTSIDE, Kind.BEGIN] = True
        return forbidden
    for continues in (Kind.INSIDE, Kind.END):
        forbidden[:, continues, 0] = True
        forbidden[[Kind.OUTSIDE, Kind.END, Kind.SINGLE], continues] = True
    if scheme is not Scheme.IOB2:
        # In BILO a lone "B" is an entity of one word.
        unfinished = [Kind.INSIDE] if scheme is Scheme.BILO else [Kind.BEGIN, Kind.INSIDE]
        for closes in (Kind.OUTSIDE, Kind.BEGIN, Kind.SINGLE):
            forbidden[unfinished, closes] = True
    return forbidden
