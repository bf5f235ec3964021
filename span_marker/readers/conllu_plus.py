"""CoNLL-U Plus files with a column of tags, and CoNLL-U files with tags among the features of their last column.

Sources: https://universaldependencies.org/ext-format.html, https://universaldependencies.org/format.html.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from span_marker.readers.conll import Documents, count_columns, require_words, write_ids
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, place
from span_marker.readers.text_files import numbered_lines
from span_marker.readers.writing import flat_tags
from span_marker.schemes import OUTSIDE

COLUMNS = "# global.columns ="
_TAG_NAMES = ("NER", "NE", "NER_TAG", "ENTITY")
_UNTAGGED = ("_", "*", "")
_CONLLU = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
_MISC_TAG = re.compile(rf"(?:^|\|)(?:{'|'.join(_TAG_NAMES)})=([^|]*)", re.IGNORECASE)
_TEXT = re.compile(r"# text = (.*)")
_UNWRITABLE = re.compile(r"[\t\v\f\r\x1c-\x1f\x85\u2028\u2029]|^ | $|^$", re.MULTILINE)


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a CoNLL-U Plus file.

    The first line names the columns. The words are those of "FORM", multiword tokens and empty nodes left out; the tags
    those of "NER" or another usual name, "_" and "*" being "O". Without names the columns are those of CoNLL-U, and the
    tags the features "NER=..." of "MISC".

    Args:
        path: The file.
        options: How to read: ``token_column``, ``tag_column`` (names, or indices), ``encoding``.

    Yields:
        The sentences.

    Raises:
        ValueError: The columns are not named, one is missing, or a line has not as many.
    """
    documents, sentence = Documents(), Sentence([], [], file=str(path), lines_per_word=1)
    names: list[str] = []
    token_column = tag_column = 0
    for number, line in numbered_lines(path, options.encoding):
        if line.startswith("#") and (not names or names[0] == "ID" or "\t" not in line):
            documents.comment(line)
            if line.startswith(COLUMNS):
                names = line.removeprefix(COLUMNS).split()
                token_column, tag_column = _find_columns(names, options, place(path, number))
            elif match := _TEXT.match(line):
                sentence.text = match[1]
        elif not line.strip():
            if sentence.tokens:
                yield documents.name(sentence)
            sentence = Sentence([], [], file=str(path), lines_per_word=1)
        else:
            cells = line.split("\t")
            if not names and len(cells) == len(_CONLLU):
                names = _CONLLU
                token_column, tag_column = _find_columns(names, options, place(path, number))
            _require_width(cells, names, place(path, number))
            if names[0] == "ID" and not cells[0].isdecimal():
                continue
            sentence.line = sentence.line or number
            sentence.tokens.append(cells[token_column])
            tag = _tag_in(cells[tag_column], names[tag_column])
            sentence.tags.append(tag)  # type: ignore[union-attr]
    if sentence.tokens:
        yield documents.name(sentence)


def _tag_in(cell: str, column: str) -> str:
    """Read the tag in a cell."""
    if column == _CONLLU[-1]:
        found = _MISC_TAG.search(cell)
        cell = found[1] if found else ""
    return OUTSIDE if cell in _UNTAGGED else cell


def _find_columns(names: list[str], options: ReadOptions, where: str) -> tuple[int, int]:
    """Find the columns of words and tags."""
    ends = [name.rpartition(":")[2].upper() for name in names]
    usual = next((names[ends.index(name)] for name in _TAG_NAMES if name in ends), "NER")
    usual = _CONLLU[-1] if names == _CONLLU else usual
    found = []
    for argument, wanted in (
        ("token_column", "FORM" if options.token_column is None else options.token_column),
        ("tag_column", usual if options.tag_column is None else options.tag_column),
    ):
        if isinstance(wanted, int) and -len(names) <= wanted < len(names):
            found.append(wanted)
        elif wanted in names:
            found.append(names.index(str(wanted)))
        else:
            raise ValueError(
                f"{where}: there is no column {wanted!r}, but {', '.join(names)}. Name the right one: `{argument}=`."
            )
    return found[0], found[1]


def _require_width(cells: list[str], names: list[str], where: str) -> None:
    if not names:
        raise ValueError(
            f"{where}: a word before the names of the columns. Begin the file with '{COLUMNS} ID FORM NER'."
        )
    if len(cells) != len(names):
        raise ValueError(
            f"{where}: {count_columns(len(cells))}, but the file names {len(names)}: {', '.join(names)}. "
            "Separate all of them by tabs."
        )


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a CoNLL-U Plus file with the columns ID, FORM and NER.

    Args:
        sentences: The sentences.
        path: The file.

    Raises:
        ValueError: A sentence is empty, its entities overlap, or the file cannot hold one of its words or ids.
    """
    document = None
    what = "a CoNLL-U Plus file"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{COLUMNS} ID FORM NER\n")
        for sentence in sentences:
            tags = flat_tags(sentence, what)
            require_words(sentence, _UNWRITABLE, what, tags)
            document = write_ids(sentence, document, file.write)
            if sentence.text is not None and len(sentence.text.splitlines()) == 1:
                file.write(f"# text = {sentence.text}\n")
            rows = enumerate(zip(sentence.tokens, tags, strict=True), 1)
            file.writelines(f"{number}\t{token}\t{tag}\n" for number, (token, tag) in rows)
            file.write("\n")
