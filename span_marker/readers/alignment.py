"""Texts with entities as character spans to words with entities as word spans."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from span_marker.readers.sentences import Sentence, Span, place
from span_marker.word_splitters import WordSplitter, find_words

logger = logging.getLogger(__name__)

ALIGNMENTS = ("error", "snap", "drop")
_BATCH = 1000
_EXAMPLES = 10
_CONTEXT = 20


@dataclass(slots=True)
class TextRow:
    """A text of a file.

    Attributes:
        text: The text.
        spans: Its entities: first character, character after the last, type.
        words: Start and end (exclusive) of each word, if the file has them.
        ids: What is known of "document_id" and "sentence_id".
        file: The file that it is from.
        line: Number of its line there, from 1.
    """

    text: str
    spans: Sequence[Span]
    words: Sequence[tuple[int, int]] | None = None
    ids: dict[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """File and line, for errors."""
        return place(self.file, self.line)


@dataclass
class Misalignments:
    """Entities that do not begin and end with a word.

    Attributes:
        align: What to do with them: "error", "snap" or "drop".
        total: How many there are.
        examples: The first few, described.
    """

    align: str = "error"
    total: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, row: TextRow, span: Span, problem: str) -> None:
        """Note an entity.

        Args:
            row: The text.
            span: The entity.
            problem: What is wrong with it.
        """
        self.total += 1
        if len(self.examples) < _EXAMPLES:
            start, end, label = span
            before, after = row.text[max(start - _CONTEXT, 0) : start], row.text[end : end + _CONTEXT]
            quoted = f"{before}[{row.text[start:end]}]{after}"
            self.examples.append(f"{row.place}: {label} at characters {start} to {end} {problem}: {quoted!r}")

    def report(self) -> None:
        """Tell of all that were noted.

        Raises:
            ValueError: There are some, and they are errors.
        """
        if not self.total:
            return
        more = f"\n... and {self.total - len(self.examples):,} more" if self.total > len(self.examples) else ""
        listed = "\n".join(self.examples) + more
        if self.align == "error":
            raise ValueError(
                f"{self.total:,} entities do not begin and end with a word:\n{listed}\nCorrect them, pass other words "
                "with `split_words=`, or pass align='snap' to extend them to whole words, align='drop' to leave them "
                "out."
            )
        done = "were left out" if self.align == "drop" else "were extended to whole words, or left out without any"
        logger.warning("%s entities do not begin and end with a word; they %s:\n%s", f"{self.total:,}", done, listed)


def align_rows(rows: Iterable[TextRow], split_words: WordSplitter, misaligned: Misalignments) -> Iterator[Sentence]:
    """Find the words of texts, and those of their entities.

    Args:
        rows: The texts.
        split_words: Finds the words where the file does not give them.
        misaligned: Takes note of entities that do not begin and end with a word.

    Yields:
        The sentences, with text.

    Raises:
        ValueError: An entity lies outside its text, or what are to be words are none of the text.
    """
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH)):
        unsplit = [row.text for row in batch if row.words is None]
        found = iter(find_words(split_words, unsplit) if unsplit else [])
        for row in batch:
            words = next(found).tolist() if row.words is None else row.words
            words = [(start, end) for start, end in words if start < end]
            yield Sentence(
                tokens=[row.text[start:end] for start, end in words],
                spans=_align(row, words, misaligned),
                text=row.text,
                ids=row.ids,
                file=row.file,
                line=row.line,
            )


def _align(row: TextRow, words: Sequence[tuple[int, int]], misaligned: Misalignments) -> list[Span]:
    """Find the words of a text's entities."""
    firsts = {start: word for word, (start, _) in enumerate(words)}
    lasts = {end: word + 1 for word, (_, end) in enumerate(words)}
    spans: list[Span] = []
    for start, end, label in row.spans:
        if not 0 <= start < end <= len(row.text):
            raise ValueError(
                f"{row.place}: {label} at characters {start} to {end} lies outside the text, which has "
                f"{len(row.text)} characters. Expected 0 <= start < end <= {len(row.text)}: correct the offsets."
            )
        entity = row.text[start:end]
        first = firsts.get(start, firsts.get(end - len(entity.lstrip())))
        last = lasts.get(end, lasts.get(start + len(entity.rstrip())))
        if first is None or last is None or first >= last:
            covered = [word for word, (begin, stop) in enumerate(words) if begin < end and stop > start]
            misaligned.add(row, (start, end, label), "cuts a word" if covered else "covers no word")
            if misaligned.align != "snap" or not covered:
                continue
            first, last = covered[0], covered[-1] + 1
        spans.append((first, last, label))
    return spans
