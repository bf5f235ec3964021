"""The formats: their names, their files, how to read and write each, and how to tell which one a file has."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import datasets

from span_marker.readers import (
    brat,
    conll,
    conllu_plus,
    csv_files,
    docbin,
    doccano,
    gliner,
    jsonl,
    label_studio,
    parquet,
    prodigy,
    spacy_json,
    webanno,
)
from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import read_rows, write_rows
from span_marker.readers.json_files import read_items
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence
from span_marker.readers.tables import Batch
from span_marker.readers.text_files import numbered_lines
from span_marker.readers.writing import sentences_of

_BATCH = 1000
_HEAD = 20
"""Lines that are looked at to tell a format."""

Reader: TypeAlias = Callable[[Path, ReadOptions], Iterator[Batch]]
Writer: TypeAlias = Callable[[datasets.Dataset, Path], None]


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        read: Reads a file.
        write: Writes a file.
        suffixes: What names of such files end with; the first is used for files that are written. BRAT's is empty: a
            data set is a folder.
    """

    read: Reader
    write: Writer
    suffixes: tuple[str, ...]


def _by_sentence(
    read: Callable[[Path, ReadOptions], Iterator[Sentence]],
    write: Callable[[Iterable[Sentence], Path], None],
    *suffixes: str,
) -> Format:
    """Make a format of functions that read and write one sentence after the other."""

    def read_batches(path: Path, options: ReadOptions) -> Iterator[Batch]:
        sentences = read(path, options)
        while batch := list(islice(sentences, _BATCH)):
            yield batch

    return Format(read_batches, lambda dataset, path: write(sentences_of(dataset), path), suffixes)


def _of_texts(parse: Callable[[Any, str], TextRow], make: Callable[[TextRow], Any], *suffixes: str) -> Format:
    """Make a dialect of JSON for texts with character spans of functions that read and make one value."""
    return _by_sentence(partial(read_rows, parse=parse), partial(write_rows, make=make), *suffixes)


_COLUMN_FILES = (".conll", ".txt", ".iob", ".iob2", ".bio", ".train", ".dev", ".test", ".testa", ".testb")
FORMATS: dict[str, Format] = {
    "conll": _by_sentence(conll.read, conll.write, *_COLUMN_FILES),
    "conllup": _by_sentence(conllu_plus.read, conllu_plus.write, ".conllup", ".conllu"),
    "jsonl": Format(jsonl.read, lambda dataset, path: jsonl.write(sentences_of(dataset), path), (".jsonl", ".json")),
    "spacy_json": _of_texts(spacy_json.parse, spacy_json.make, ".jsonl", ".json"),
    "prodigy": _of_texts(prodigy.parse, prodigy.make, ".jsonl", ".json"),
    "doccano": _of_texts(doccano.parse, doccano.make, ".jsonl", ".json"),
    "label_studio": _of_texts(label_studio.parse, label_studio.make, ".json", ".jsonl"),
    "gliner": _by_sentence(gliner.read, gliner.write, ".json", ".jsonl"),
    "csv": _by_sentence(csv_files.read_csv, csv_files.write_csv, ".csv"),
    "tsv": _by_sentence(csv_files.read_tsv, csv_files.write_tsv, ".tsv"),
    "brat": _by_sentence(brat.read, brat.write, "", ".ann"),
    "docbin": _by_sentence(docbin.read, docbin.write, ".spacy"),
    "webanno": _by_sentence(webanno.read, webanno.write, ".tsv"),
    "parquet": Format(parquet.read_parquet, parquet.write_parquet, (".parquet",)),
    "arrow": Format(parquet.read_arrow, parquet.write_arrow, (".arrow",)),
}
"""All formats by name."""
_BY_SUFFIX = {
    ".csv": "csv",
    ".spacy": "docbin",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".ann": "brat",
}
SUFFIXES = {suffix for format_ in FORMATS.values() for suffix in format_.suffixes if suffix}
"""What names of files of any format end with."""


def require_format(name: str) -> Format:
    """Look up a format.

    Args:
        name: Its name.

    Returns:
        The format.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in FORMATS:
        raise ValueError(f"There is no format {name!r}. Choose one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def detect_format(path: Path, encoding: str = "utf-8") -> str:
    """Tell the format of a file by its name and its first lines.

    Args:
        path: The file, or a folder of BRAT's documents.
        encoding: Its encoding.

    Returns:
        The name of the format.

    Raises:
        ValueError: It is none that is known; what was found is said.
    """
    if path.is_dir():
        return "brat"
    if path.suffix in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix]
    if path.suffix in (".json", ".jsonl"):
        number, item = next(read_items(path, encoding), (0, None))
        return _json_dialect(path, number, item)
    if path.suffix == ".txt" and path.with_suffix(".ann").is_file():
        return "brat"
    return _text_format(path, encoding)


def _json_dialect(path: Path, number: int, item: Any) -> str:
    """Tell a dialect of JSON by the first value."""
    match item:
        case None:
            raise empty_file(path)
        case [str(), dict()]:
            return "spacy_json"
        case {"tokenized_text": _}:
            return "gliner"
        case {"data": dict()}:
            return "label_studio"
        case {"text": str(), "spans": _, **rest} if not _are_words(rest.get("tokens")):
            return "prodigy"
        case {"tokens": _, "ner_tags": _} | {"tokens": _, "spans": _}:
            return "jsonl"
        case {"text": str()} if label_studio.regions_of(item):
            return "label_studio"
        case {"text": str(), **rest} if rest.keys() & {*doccano.KEYS}:
            return "doccano"
    found = f"the keys {', '.join(map(repr, item))}" if isinstance(item, dict) else f"{item!r:.60}"
    raise ValueError(
        f"{path}, line {number}: {found}, which is none of the known dialects of JSON. Expected 'tokens' and "
        "'ner_tags' or 'spans', 'text' and 'spans' or 'label', 'tokenized_text' and 'ner', or "
        "[text, {'entities': [...]}]. Rename the keys, or pass `format=` with `token_column=` and `tag_column=`."
    )


def _are_words(tokens: Any) -> bool:
    return isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], str)


def _text_format(path: Path, encoding: str) -> str:
    """Tell a format of text files by the first lines."""
    head = [line for _, line in islice(numbered_lines(path, encoding), _HEAD) if line.strip()]
    if not head:
        raise empty_file(path)
    if head[0].startswith(webanno.HEADER):
        return "webanno"
    if head[0].startswith(conllu_plus.COLUMNS) or path.suffix == ".conllu":
        return "conllup"
    if path.suffix == ".tsv" and {*csv_files.TOKEN_NAMES} & {cell.strip().lower() for cell in head[0].split("\t")}:
        return "tsv"
    words = [line for line in head if not line.startswith("#")]
    if path.suffix in _COLUMN_FILES or (words and len(words[0].split()) > 1):
        return "conll"
    raise ValueError(
        f"{path}: begins with {head[0]!r:.60}, which is no known format. Pass `format=`: one of {', '.join(FORMATS)}."
    )


def empty_file(path: Path) -> ValueError:
    """Make the error for a file without sentences.

    Args:
        path: The file.

    Returns:
        The error.
    """
    return ValueError(f"{path}: the file holds no sentence. Check that it is the right one, and complete.")
