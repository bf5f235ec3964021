"""Column files: a word a line with its tag, a blank line after each sentence.

Sources: the shared tasks of CoNLL-2002 (https://aclanthology.org/W02-2024/) and CoNLL-2003
(https://aclanthology.org/W03-0419/); the comments are those of CoNLL-U.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, place
from span_marker.readers.text_files import numbered_lines
from span_marker.readers.writing import flat_tags, refuse

_DOCUMENT_START = re.compile(r"-DOCSTART-([ \t]|$)")
_COMMENT = re.compile(r"# +((newdoc|newpar|sent_id|text|id|global\.columns)\b|[\w.:]+ += )")
_WORD_AND_TAG = re.compile(r" (O|[BIESLU]-\S+)$")
_SETTING = re.compile(r"#\s*(newdoc|sent_id)(?:\s+id)?(?:\s*=\s*(.*?))?\s*$")
WHITESPACE = re.compile(r"[ \t\v\f\r\x1c-\x1f\x85\u2028\u2029]|^$", re.MULTILINE)
"""Finds an empty word, and what separates words or lines in some program's eyes, line feeds aside.

U+00A0, U+3000 and the like may be part of a word."""
_TAB_OR_LINE_BREAK = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")


class Documents:
    """Names the documents and sentences of a file by its comments, or by counting them."""

    def __init__(self) -> None:
        self._document: str | None = None
        self._count = 0
        self._sentence = 0
        self._sentence_id: str | None = None

    def begin(self, name: str | None = None) -> None:
        """Begin a document.

        Args:
            name: Its id. ``None``: its number, from 0.
        """
        self._document = name or str(self._count)
        self._count += 1
        self._sentence = 0

    def comment(self, line: str) -> None:
        """Read a comment.

        Args:
            line: The comment.
        """
        match = _SETTING.match(line)
        if match and match[1] == "newdoc":
            self.begin(match[2])
        elif match:
            self._sentence_id = match[2]

    def name(self, sentence: Sentence) -> Sentence:
        """Give a sentence its ids.

        Args:
            sentence: The next sentence of the file, changed in place.

        Returns:
            The same.
        """
        if self._document is not None:
            sentence.ids = {"document_id": self._document, "sentence_id": str(self._sentence)}
        if self._sentence_id:
            sentence.ids["sentence_id"] = self._sentence_id
        self._sentence += 1
        self._sentence_id = None
        return sentence


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a column file.

    Columns are separated by tabs if the first line with a word has one, otherwise by spaces. By default the word is in
    the first column, the tag in the last.

    Args:
        path: The file.
        options: How to read: ``token_column``, ``tag_column``, ``delimiter``, ``encoding``.

    Yields:
        The sentences. Documents begin with "-DOCSTART-" or "# newdoc"; "# sent_id" names a sentence.

    Raises:
        ValueError: A line has not as many columns as the first, or an empty word or tag.
    """
    yield from read_lines(numbered_lines(path, options.encoding), path, options)


def read_lines(numbered: Iterable[tuple[int, str]], path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read the lines of a column file.

    Args:
        numbered: Numbers of the lines, and the lines without their ends.
        path: What errors call the file.
        options: As in [`read`]. With the same column for words and tags the tags are not looked at, and there may be
            but one column.

    Yields:
        The sentences.

    Raises:
        ValueError: As in [`read`].
    """
    reader = _LineReader(path, options)
    documents = Documents()
    lines: list[str] = []
    first = 1
    for number, line in numbered:
        if line.strip(" \t"):
            lines.append(line)
            continue
        if sentence := reader.sentence(lines, first, documents):
            yield documents.name(sentence)
        lines, first = [], number + 1
    if sentence := reader.sentence(lines, first, documents):
        yield documents.name(sentence)


class _LineReader:
    """Takes the words and the tags from lines."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self._delimiter = options.delimiter
        self._token = _as_index("token_column", options.token_column, 0)
        self._tag = _as_index("tag_column", options.tag_column, -1)
        self._first = 0
        self._width = 0

    def sentence(self, lines: list[str], first: int, documents: Documents) -> Sentence | None:
        """Read the lines between two blank ones.

        Args:
            lines: The lines.
            first: Number of the first.
            documents: Takes note of comments.

        Returns:
            The sentence; ``None`` if there are no words.
        """
        while lines and self._is_mark(lines[0], documents):
            lines, first = lines[1:], first + 1
        lines = [line for line in lines if line[0] not in "#-" or not self._is_mark(line, documents)]
        if not lines:
            return None
        self._settle(lines[0], first)
        rows = self._split(lines)
        if any(len(row) != self._width for row in rows):
            index = next(index for index, row in enumerate(rows) if len(row) != self._width)
            self._refuse_width(lines[index], first + index, len(rows[index]))
        tokens, tags = [row[self._token] for row in rows], [row[self._tag] for row in rows]
        for name, cells in (("word", tokens), ("tag", tags)):
            if "" in cells:
                raise ValueError(
                    f"{place(self._path, first + cells.index(''))}: the {name} is empty. Each line needs a word and "
                    "its tag, 'O' for none; a sentence ends with a blank line."
                )
        return Sentence(tokens, tags, file=str(self._path), line=first, lines_per_word=1)

    def _is_mark(self, line: str, documents: Documents) -> bool:
        """Tell comments and beginnings of documents from words, and take note of them."""
        if _DOCUMENT_START.match(line):
            documents.begin()
            return True
        if line[0] != "#" or not self._is_comment(line):
            return False
        documents.comment(line)
        return True

    def _is_comment(self, line: str) -> bool:
        """Tell a comment from a word that begins with a number sign."""
        if _COMMENT.match(line):
            return True
        if self._token == self._tag:
            return False
        return "\t" not in line and (self._delimiter == "\t" or not _WORD_AND_TAG.search(line))

    def _settle(self, line: str, number: int) -> None:
        """Find the delimiter and the number of columns by the first line with a word."""
        if self._width:
            return
        self._first = number
        self._delimiter = self._delimiter or ("\t" if "\t" in line else " ")
        self._width = len(self._split([line])[0])
        least = 1 if self._token == self._tag else 2
        needed = max(least, *(column + 1 if column >= 0 else -column for column in (self._token, self._tag)))
        if self._width < needed:
            raise ValueError(
                f"{place(self._path, number)}: {count_columns(self._width)}, separated by {self._delimiter!r}. "
                f"Expected at least {needed}, with the word and its tag. Pass the right `delimiter=`, `token_column=` "
                "and `tag_column=`."
            )

    def _split(self, lines: Sequence[str]) -> list[list[str]]:
        if self._delimiter not in (" ", "whitespace"):
            return [line.split(self._delimiter) for line in lines]
        if self._delimiter == "whitespace":
            lines = [line.replace("\t", " ") for line in lines]
        rows = [line.split(" ") for line in lines]
        return [[cell for cell in row if cell] if "" in row else row for row in rows]

    def _refuse_width(self, line: str, number: int, width: int) -> None:
        other = "\t" if self._delimiter == " " else " "
        mixed = (
            f" The line has {'a tab' if other == chr(9) else 'spaces'}, but the columns of line {self._first} are "
            f"separated by {self._delimiter!r}: use one of them, or pass delimiter='whitespace'."
            if other in line and self._delimiter in ("\t", " ")
            else " Give each line the same columns."
        )
        where = place(self._path, number)
        raise ValueError(f"{where}: {count_columns(width)}, but line {self._first} has {self._width}.{mixed}")


def count_columns(number: int) -> str:
    """Say how many columns there are.

    Args:
        number: How many.

    Returns:
        Such as "2 columns".
    """
    return "1 column" if number == 1 else f"{number} columns"


def _as_index(name: str, column: int | str | None, default: int) -> int:
    if isinstance(column, str):
        raise ValueError(f"{name}={column!r}, but a column file has no names. Pass the index of the column, from 0.")
    return default if column is None else column


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a column file: word, tab, tag; documents and sentences are named by comments.

    Args:
        sentences: The sentences.
        path: The file.

    Raises:
        ValueError: A sentence is empty, its entities overlap, or the file cannot hold one of its words or ids.
    """
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_lines(sentences, file.write)


def write_lines(sentences: Iterable[Sentence], write_text: Callable[[str], object]) -> None:
    """Write the lines of a column file.

    Args:
        sentences: The sentences.
        write_text: Writes text.

    Raises:
        ValueError: As in [`write`].
    """
    document = None
    unwritable = re.compile(rf"{WHITESPACE.pattern}|^-DOCSTART-$", re.MULTILINE)
    for number, sentence in enumerate(sentences):
        tags = flat_tags(sentence, "a column file")
        require_words(sentence, unwritable, "a column file", tags)
        if not number and sentence.tokens[0].startswith("\ufeff"):
            write_text("\n")  # at the very beginning it would be taken for the file's byte order mark
        document = write_ids(sentence, document, write_text)
        rows = zip(sentence.tokens, tags, strict=True)
        write_text("\n".join(map("\t".join, rows)) + "\n\n")


def require_words(sentence: Sentence, unwritable: re.Pattern[str], what: str, tags: Sequence[str] = ()) -> None:
    """Refuse a sentence without words, or with a word or tag that a format cannot hold.

    Args:
        sentence: The sentence.
        unwritable: What a word must not contain, besides a line feed; it is matched with words that are lines.
        what: What to call the file.
        tags: Its tags, which must not contain a tab or line break.

    Raises:
        ValueError: It is such a sentence.
    """
    if not sentence.tokens:
        refuse(sentence, f"{what} cannot hold a sentence without words. Leave it out, or write JSONL instead.")
    lines = "\n".join(sentence.tokens)
    if unwritable.search(lines) or lines.count("\n") != len(sentence.tokens) - 1:
        for number, token in enumerate(sentence.tokens):
            if "\n" in token or unwritable.search(token):
                refuse(sentence, f"{what} cannot hold word {number}, {token!r:.60}. Change it, or write JSONL instead.")
    if _TAB_OR_LINE_BREAK.search("".join(tags)):
        tag = next(tag for tag in tags if _TAB_OR_LINE_BREAK.search(tag))
        refuse(sentence, f"{what} cannot hold the tag {tag!r:.60}. Rename the entity type.")


def write_ids(sentence: Sentence, document: str | None, write_text: Callable[[str], object]) -> str | None:
    """Write the comments that name a sentence, and its document where a new one begins.

    Args:
        sentence: The sentence.
        document: The document so far.
        write_text: Writes text.

    Returns:
        The sentence's document.

    Raises:
        ValueError: A comment cannot hold an id, or a document's end.
    """
    for name, value in sentence.ids.items():
        if value != value.strip() or len(value.splitlines()) != 1:
            refuse(sentence, f"a comment cannot hold the {name} {value!r}. Change it, or write JSONL instead.")
    own = sentence.ids.get("document_id")
    if own is None and document is not None:
        refuse(sentence, "the sentence has no document_id, but the one before has. Give each or none of them one.")
    if own is not None and own != document:
        write_text(f"# newdoc id = {own}\n")
    if "sentence_id" in sentence.ids:
        write_text(f"# sent_id = {sentence.ids['sentence_id']}\n")
    return own
