"""Corpora of the demo: the bundled sample, the data sets beside the repository, or a folder of the user."""

import json
import os
from pathlib import Path
from typing import Final

from datasets import Dataset, DatasetDict

from span_marker.demo import SAMPLE, DemoError
from span_marker.types import Row

SPLITS: Final = ("train", "validation", "test")
SHARED_VARIABLE: Final = "SPAN_MARKER_SHARED"
"""Environment variable with the folder whose folder ``data`` holds more data sets."""

_SAMPLE_FOLDER: Final = Path(__file__).parent / "sample"
_DEFAULT_SHARED: Final = Path("../shared")
_COLUMNS: Final = ("tokens", "ner_tags", "document_id", "sentence_id", "genre")


def load_corpus(name: str = SAMPLE) -> DatasetDict:
    """Load a corpus of three splits.

    Args:
        name: "sample" for the bundled corpus, a folder that holds ``train.jsonl``, ``validation.jsonl`` and
            ``test.jsonl``, or the name of such a folder within ``$SPAN_MARKER_SHARED/data``. Each line of a file is
            a JSON object with ``tokens`` and ``ner_tags``, lists of strings of the same length; a further column is
            in all lines of a file or in none, with values of one type.

    Returns:
        The splits, with the columns ``tokens``, ``ner_tags`` and, where the files have them, ``document_id``,
        ``sentence_id`` and ``genre``.

    Raises:
        DemoError: There is no such corpus, or one of its files is empty or malformed.
    """
    folder = _find(name)
    return DatasetDict({split: _load(_file(folder, split)) for split in SPLITS})


def available_corpora() -> list[str]:
    """List the corpora that can be named, the bundled sample first."""
    folder = _shared_data()
    found = sorted(path.name for path in folder.iterdir() if _is_corpus(path)) if folder.is_dir() else []
    return [SAMPLE, *found]


def _find(name: str) -> Path:
    """Find a corpus's folder."""
    candidates = [_SAMPLE_FOLDER] if name == SAMPLE else [Path(name), _shared_data() / name]
    folders = [folder for folder in candidates if name and folder.is_dir()]
    for folder in folders:
        if _is_corpus(folder):
            return folder
    if folders:
        missing = ", ".join(f"{split}.jsonl" for split in SPLITS if not _file(folders[0], split).is_file())
        raise DemoError(f"The folder {folders[0]} lacks {missing}. Add it, or choose one of: {_choices()}.")
    raise DemoError(
        f"There is no corpus {name!r}. Give a folder with {{train,validation,test}}.jsonl, or: {_choices()}."
    )


def _choices() -> str:
    """Name what is available, and where more could be."""
    hint = f" (set {SHARED_VARIABLE} to a folder with data/ for more)" if not _shared_data().is_dir() else ""
    return ", ".join(available_corpora()) + hint


def _shared_data() -> Path:
    """Locate the data sets beside the repository."""
    return Path(os.environ.get(SHARED_VARIABLE) or _DEFAULT_SHARED) / "data"


def _is_corpus(folder: Path) -> bool:
    return all(_file(folder, split).is_file() for split in SPLITS)


def _file(folder: Path, split: str) -> Path:
    return folder / f"{split}.jsonl"


def _load(path: Path) -> Dataset:
    """Make a data set of a file.

    Raises:
        DemoError: The file is malformed, or holds what a data set cannot.
    """
    rows = _read(path)
    try:
        return Dataset.from_list(rows)
    except (OverflowError, TypeError, ValueError) as error:
        raise DemoError(f"{path} holds what a data set cannot: {error}. Change it.") from error


def _read(path: Path) -> list[Row]:
    """Read a file of one JSON object a line.

    Raises:
        DemoError: The file holds no sentence, or a line is not what it should be, or not as those before.
    """
    try:
        # Only a line feed ends a line: `splitlines` would cut strings at other characters that JSON allows in them.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DemoError(f"{path} is not UTF-8: {error.reason} at byte {error.start}. Save it as UTF-8.") from error
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{path}, line {number}"
            row = _parse(line, place)
            _require_alike(row, rows[0] if rows else row, place)
            rows.append(row)
    if not rows:
        raise DemoError(f"{path} holds no sentence. Expected a JSON object with tokens and ner_tags in each line.")
    return rows


def _parse(line: str, place: str) -> Row:
    """Read one sentence.

    Args:
        line: A JSON object.
        place: File and line, for errors.

    Raises:
        DemoError: It is no such object, or tokens and tags do not match.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DemoError(f"{place} is not JSON: {error}. Write one object a line.") from error
    if not isinstance(row, dict) or not all(_are_strings(row.get(name)) for name in ("tokens", "ner_tags")):
        raise DemoError(f"{place}: expected an object whose tokens and ner_tags are lists of strings.")
    tokens, tags = row["tokens"], row["ner_tags"]
    if len(tokens) != len(tags):
        raise DemoError(f"{place} has {len(tokens)} tokens but {len(tags)} tags. Give each token one tag.")
    return {name: row[name] for name in _COLUMNS if name in row}


def _require_alike(row: Row, first: Row, place: str) -> None:
    """Refuse a sentence with other columns than the first of its file, or other types of values.

    Raises:
        DemoError: It is such a sentence.
    """
    given, expected = (
        ", ".join(f"{name} ({type(value).__name__})" for name, value in sentence.items()) for sentence in (row, first)
    )
    if given != expected:
        raise DemoError(
            f"{place} has {given}, but the first sentence of the file has {expected}. Give all lines the same columns, "
            "with values of one type."
        )


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
