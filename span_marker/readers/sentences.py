"""What all formats are read into and written from: a sentence with its entities, and where it came from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from span_marker.schemes import OUTSIDE

Where: TypeAlias = Callable[[int, int], str]
"""Names the place of a word for errors, given the indices of its row and of the word."""
ID_COLUMNS = ("document_id", "sentence_id")
Span: TypeAlias = tuple[int, int, str]
"""An entity: first word, word after the last, type."""


@dataclass(slots=True)
class Sentence:
    """A sentence of a file.

    Attributes:
        tokens: Its words.
        tags: One tag a word, or ``None`` where the entities are given as spans.
        spans: The entities, or ``None`` where they are given as tags.
        text: The text that the words were cut from, if known.
        ids: What is known of "document_id" and "sentence_id".
        file: The file that it is from.
        line: Number of its first line there, from 1; of a format without lines its row.
        lines_per_word: 1 in formats with a word a line, otherwise 0.
    """

    tokens: list[str]
    tags: list[str] | None = None
    spans: list[Span] | None = None
    text: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 0
    lines_per_word: int = 0

    @property
    def place(self) -> str:
        """File and line, for errors."""
        return place(self.file, self.line)

    def place_of(self, word: int) -> str:
        """Name the place of a word.

        Args:
            word: Its index.

        Returns:
            File and line, for errors.
        """
        return place(self.file, self.line + word * self.lines_per_word)


def place(file: object, line: int) -> str:
    """Name a place in a file.

    Args:
        file: The file.
        line: Number of the line, from 1; 0: the file as a whole.

    Returns:
        What errors begin with.
    """
    return f"{file}, line {line}" if line else str(file)


def read_ids(holder: Mapping[str, object], where: str) -> dict[str, str]:
    """Read the ids of a document and of a sentence.

    Args:
        holder: What may have values for "document_id" and "sentence_id": strings or whole numbers.
        where: Its place, for errors.

    Returns:
        Those that it has, as strings.

    Raises:
        ValueError: One is something else.
    """
    ids = {name: holder[name] for name in ID_COLUMNS if holder.get(name) is not None}
    for name, value in ids.items():
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"{where}: {name!r} is {value!r:.60}. Expected a string or a whole number.")
    return {name: str(value) for name, value in ids.items()}


def find_overlap(spans: Sequence[Span]) -> tuple[Span, Span] | None:
    """Find two entities that share a word.

    Args:
        spans: The entities of a sentence, sorted.

    Returns:
        The first such pair, or ``None``.
    """
    furthest: Span | None = None
    for span in spans:
        if furthest is not None and span[0] < furthest[1]:
            return furthest, span
        furthest = span
    return None


def tags_of(spans: Sequence[Span], num_words: int) -> list[str]:
    """Write entities as IOB2 tags.

    Args:
        spans: The entities of a sentence; no two of them share a word.
        num_words: Number of its words.

    Returns:
        One tag a word.
    """
    tags = [OUTSIDE] * num_words
    for start, end, label in spans:
        tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags


def spans_of(tags: Sequence[str]) -> list[Span]:
    """Read entities off IOB2 tags.

    Args:
        tags: One valid tag a word.

    Returns:
        The entities, sorted.
    """
    return list(_spans_of(tags))


def _spans_of(tags: Sequence[str]) -> Iterator[Span]:
    start = -1
    for word, tag in enumerate([*tags, OUTSIDE]):
        if start >= 0 and not tag.startswith("I-"):
            yield start, word, tags[start][2:]
            start = -1
        if tag.startswith("B-"):
            start = word
