"""What a call of `read_dataset` was told, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from span_marker.readers.alignment import ALIGNMENTS, Misalignments
from span_marker.schemes import Scheme
from span_marker.word_splitters import WordSplitter, split_at_punctuation

Column: TypeAlias = int | str
"""A column of a file: its index from 0 (negative: from the end), or its name."""
ENTITY_COLUMNS = ("ner_tags", "spans")
DELIMITERS = (None, "\t", " ", "whitespace", ",", ";")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a data set; see [`read_dataset`] for all but the last.

    Attributes:
        labels: All tags that may occur, by id.
        scheme: Their scheme.
        entity_column: "ner_tags" or "spans".
        token_column: The column of the words, in formats with columns.
        tag_column: The column of the tags.
        delimiter: What separates the columns.
        encoding: Encoding of text files.
        split_words: Splits texts into words.
        misaligned: Takes note of entities that do not begin and end with a word.
        keep_tags: Whether tags stay as they are.
    """

    labels: Sequence[str] | None = None
    scheme: Scheme | None = None
    entity_column: str | None = None
    token_column: Column | None = None
    tag_column: Column | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    split_words: WordSplitter = split_at_punctuation
    misaligned: Misalignments = field(default_factory=Misalignments)
    keep_tags: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("entity_column", self.entity_column, (None, *ENTITY_COLUMNS)),
            ("delimiter", self.delimiter, DELIMITERS),
            ("align", self.misaligned.align, ALIGNMENTS),
        ):
            if value not in choices:
                raise ValueError(f"{name}={value!r}. Choose one of {', '.join(map(repr, choices))}.")
        _check_encoding(self.encoding)
        if self.keep_tags and self.entity_column is not None:
            raise ValueError(
                f"keep_tags=True, but entity_column={self.entity_column!r} asks for another form. Leave one out."
            )


def _check_encoding(encoding: str) -> None:
    """Refuse encodings that Python does not know, and those in which lines cannot be told before they are decoded."""
    try:
        has_lines = b"\n".decode(encoding) == "\n"
    except UnicodeDecodeError:
        has_lines = False
    except LookupError as error:
        raise ValueError(f"encoding={encoding!r}, which Python does not know. Pass one such as 'latin-1'.") from error
    if not has_lines:
        raise ValueError(
            f"encoding={encoding!r}, in which a line feed is not one byte. Save the files as UTF-8, and pass no "
            "encoding."
        )
