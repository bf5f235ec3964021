"""Files of any format to a data set on disk that the Trainer takes."""

import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path

import datasets
import pyarrow as pa

from span_marker.readers.alignment import Misalignments
from span_marker.readers.options import Column, ReadOptions
from span_marker.readers.registry import SUFFIXES, detect_format, empty_file, require_format
from span_marker.readers.sources import find_files, is_saved_dataset
from span_marker.readers.tables import FEATURES, SCHEMA, TableMaker
from span_marker.schemes import Scheme
from span_marker.word_splitters import WordSplitter, choose_word_splitter, split_at_punctuation

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def read_dataset(
    path: str | PathLike[str],
    format: str | None = None,
    *,
    labels: Sequence[str] | None = None,
    scheme: Scheme | str | None = None,
    entity_column: str | None = None,
    token_column: Column | None = None,
    tag_column: Column | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    split_words: str | WordSplitter = "punctuation",
    align: str = "error",
    keep_tags: bool = False,
    cache_dir: str | PathLike[str] | None = None,
) -> datasets.Dataset | datasets.DatasetDict:
    """Read a data set of named entities from files of any format.

    The rows are written to an Arrow file as they are read and mapped into memory from there, so that a data set may be
    larger than memory.

    Args:
        path: A file; a folder with files of train, validation and test, or of BRAT's documents; a folder that
            `datasets` saved, or the name of a data set on the Hub, which are returned as they are.
        format: Name of the format. ``None``: it is told by the name of the file and its first lines.
        labels: All tags that may occur, in the order of their ids; others are refused. Needed where tags are numbers.
        scheme: The scheme of the tags. ``None``: it is told by their prefixes.
        entity_column: "ner_tags" for IOB2 tags, refusing entities that overlap; "spans" for spans. ``None``: tags, or
            spans if entities overlap.
        token_column: The column of the words: its index or, in formats that name them, its name.
        tag_column: The same for the tags.
        delimiter: What separates the columns of a column file: a tab, a space, or "whitespace" for either (default: tab
            or space, as in the first line), or those of a CSV file: a comma (default) or semicolon.
        encoding: Encoding of text files.
        split_words: How texts are split into words where a file has only characters: "punctuation", "whitespace", a
            segmenter ("jieba", "fugashi", "pythainlp"), or a function such as `SpanMarkerTokenizer.words`.
        align: What to do with entities that do not begin and end with a word: "error", "snap" (extend them to whole
            words) or "drop" (leave them out); all are listed.
        keep_tags: Whether tags stay as they are in the files, in their own scheme and with what is wrong with them.
        cache_dir: Folder for the Arrow files. ``None``: one that is removed when the program ends.

    Returns:
        A data set for a file, one a split for a folder. Columns: "tokens"; "ner_tags" (IOB2 strings) or "spans"
        (structs of start, end and label; words, end exclusive); where known "text", "document_id" and "sentence_id"
        (strings); "source_file" and "source_line", which later errors name.

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: A file is malformed, or its format unknown; file and line are named.
        ImportError: A segmenter is not installed.
    """
    options = ReadOptions(
        labels=labels,
        scheme=None if scheme is None else Scheme(scheme),
        entity_column=entity_column,
        token_column=token_column,
        tag_column=tag_column,
        delimiter=delimiter,
        encoding=encoding,
        split_words=choose_word_splitter(split_words, "split_words") or split_at_punctuation,
        misaligned=Misalignments(align),
        keep_tags=keep_tags,
    )
    if format is not None:
        require_format(format)
    source = Path(path)
    if is_saved_dataset(source):
        return datasets.load_from_disk(str(path))
    if not source.exists() and _HUB_NAME.fullmatch(str(path)) and source.suffix not in SUFFIXES:
        return datasets.load_dataset(str(path))
    files = find_files(source, format)
    folder = Path(tempfile.mkdtemp(dir=_folder(cache_dir)))
    try:
        parts = {split: _convert(paths, format, options, folder, split) for split, paths in files.items()}
        options.misaligned.report()
        selected = _select(parts)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return selected[None] if None in selected else datasets.DatasetDict(selected)


class _Part:
    """A split, with all columns that it may have."""

    def __init__(self, dataset: datasets.Dataset, has_both: bool) -> None:
        self.dataset = dataset
        self.has_both = has_both

    def is_full(self, column: str) -> bool:
        """Tell whether each row has a value."""
        return not self._missing(column)

    def is_empty(self, column: str) -> bool:
        """Tell whether no row has a value."""
        return bool(self._missing(column) == len(self.dataset))

    def _missing(self, column: str) -> int:
        return int(self.dataset.data.column(column).null_count)


def _convert(paths: list[Path], format: str | None, options: ReadOptions, folder: Path, split: str | None) -> _Part:
    """Write the sentences of a split to an Arrow file."""
    maker = TableMaker(options)
    file = folder / f"{split or 'data'}.arrow"
    with pa.ipc.new_stream(str(file), SCHEMA) as stream:
        for path in paths:
            count = 0
            for batch in require_format(format or detect_format(path, options.encoding)).read(path, options):
                table = maker.make(batch)
                stream.write_table(table)
                count += len(table)
            if not count:
                raise empty_file(path)
    maker.report()
    return _Part(datasets.Dataset.from_file(str(file), split=split), maker.has_both)


def _select(parts: dict[str | None, _Part]) -> dict[str | None, datasets.Dataset]:
    """Choose the columns that all splits have in common: those of the entities, and others with any value."""
    splits = list(parts.values())
    full = [name for name in ("ner_tags", "spans") if all(part.is_full(name) for part in splits)]
    if not full:
        raise ValueError(
            "Some sentences have tags, others spans that overlap. Pass entity_column='spans' to read all of them as "
            "spans."
        )
    if len(full) == 2 and not any(part.has_both for part in splits):
        full = ["ner_tags"]
    others = [name for name in FEATURES if name not in ("ner_tags", "spans")]
    kept = [name for name in others if name == "tokens" or not all(part.is_empty(name) for part in splits)]
    columns = [name for name in FEATURES if name in (*full, *kept)]
    return {split: part.dataset.select_columns(columns) for split, part in parts.items()}


def _folder(cache_dir: str | PathLike[str] | None) -> Path:
    """Make the folder for Arrow files."""
    if cache_dir is None:
        return Path(_temporary_folder().name)
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    """Make a folder beside `datasets`' own files, where there is room for large ones."""
    parent = Path(datasets.config.HF_DATASETS_CACHE)
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=parent, prefix="span_marker-")
