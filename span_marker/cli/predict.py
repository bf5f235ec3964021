"""``span-marker predict``: the entities in texts, JSON lines and column files, read and written as a stream."""

import json
import sys
from argparse import Namespace
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any, TypeAlias

from span_marker.decoding import choose_decoding
from span_marker.decoding_modes import FLAT
from span_marker.inference import Prediction
from span_marker.modeling import SpanMarkerModel
from span_marker.readers import conll
from span_marker.readers.json_files import parse_line
from span_marker.readers.options import ReadOptions
from span_marker.readers.registry import FORMATS
from span_marker.readers.sentences import ID_COLUMNS, Sentence, find_overlap, place, read_ids, tags_of
from span_marker.readers.tables import describe_overlap
from span_marker.readers.text_files import decode
from span_marker_cli.parsers import decoding_options

_STANDARD_INPUT = "standard input"
_WORDS_ALONE = ReadOptions(token_column=0, tag_column=0)
_Lines: TypeAlias = Iterable[tuple[int, str]]


@dataclass(frozen=True)
class _Item:
    """What entities are to be found in.

    Attributes:
        given: The text, or the words.
        record: What it is written with.
        ids: Its document and its place there, if known.
        where: Its place, for errors.
    """

    given: str | list[str]
    record: dict[str, Any]
    ids: dict[str, Any]
    where: str


def run(options: Namespace) -> int:
    """Find the entities in texts, and write them to standard output.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        ValueError: A line is malformed, the format of the output cannot hold it, or an option is out of range.
        OSError: The model or a file is missing.
    """
    files = options.files or [_STANDARD_INPUT]
    sources = [options.source or _format_of(file) for file in files]
    model = SpanMarkerModel.from_pretrained(options.model).try_cuda()
    decoding = choose_decoding(**decoding_options(options), config=model.config)  # type: ignore[arg-type]
    has_tags = {*sources} == {"conll"} and decoding.mode == FLAT
    write = _WRITERS[options.to or ("conll" if has_tags else "jsonl")]
    items, kept = tee(_items(files, sources, options.encoding))
    found: Any = model.predict(
        _rows(items, with_context=model.config.trained_with_document_context),
        batch_size=options.batch_size,
        show_progress_bar=sys.stderr.isatty(),
        decoding=decoding,
        word_splitter=options.word_splitter,
    )
    write(zip(kept, found, strict=True))
    return 0


def _items(files: list[str], sources: list[str], encoding: str) -> Iterator[_Item]:
    for file, source in zip(files, sources, strict=True):
        yield from _READERS[source](_lines(file, encoding), file)


def _rows(items: Iterable[_Item], *, with_context: bool) -> Iterator[dict[str, Any]]:
    """Make rows for `predict`; ids of documents only for a model that was trained with its neighbours."""
    for item in items:
        yield {"tokens": item.given, **(item.ids if with_context else {})}


def _format_of(file: str) -> str:
    """Tell the format of a file by its name."""
    suffix = Path(file).suffix
    if suffix in FORMATS["jsonl"].suffixes:
        return "jsonl"
    return "conll" if suffix in FORMATS["conll"].suffixes and suffix != ".txt" else "text"


def _lines(file: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Read lines as they come, without their ends."""
    with nullcontext(sys.stdin.buffer) if file == _STANDARD_INPUT else Path(file).open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            yield number, decode(line.rstrip(b"\r\n"), Path(file), number, encoding)


def _read_texts(lines: _Lines, file: str) -> Iterator[_Item]:
    for number, line in lines:
        yield _Item(line, {"text": line}, {}, place(file, number))


def _read_json(lines: _Lines, file: str) -> Iterator[_Item]:
    for number, line in lines:
        if not line.strip():
            continue
        where = place(file, number)
        record = parse_line(line, where)
        given = record.get("tokens", record.get("text")) if isinstance(record, dict) else None
        if not isinstance(given, str | list) or not all(isinstance(word, str) for word in given):
            raise ValueError(
                f"{where}: {line!r:.60}. Expected an object with 'text', a string, or 'tokens', a list of strings."
            )
        ids: dict[str, Any] = dict(read_ids(record, where)) if isinstance(record, dict) else {}
        yield _Item(given, record, ids if len(ids) == len(ID_COLUMNS) else {}, where)


def _read_columns(lines: _Lines, file: str) -> Iterator[_Item]:
    for sentence in conll.read_lines(lines, Path(file), _WORDS_ALONE):
        yield _Item(sentence.tokens, {"tokens": sentence.tokens, **sentence.ids}, sentence.ids, sentence.place)


def _write_json(results: Iterable[tuple[_Item, list[Prediction]]]) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for item, entities in results:
        print(encode(item.record | {"entities": entities}))


def _write_columns(results: Iterable[tuple[_Item, list[Prediction]]]) -> None:
    conll.write_lines(_tagged(results), sys.stdout.write)


def _tagged(results: Iterable[tuple[_Item, list[Prediction]]]) -> Iterator[Sentence]:
    for item, entities in results:
        if isinstance(item.given, str):
            raise ValueError(f"{item.where}: a text has no words to tag. Write jsonl, or read 'tokens' or conll.")
        spans = [(entity["word_start_index"], entity["word_end_index"], entity["label"]) for entity in entities]
        if overlap := find_overlap(spans):
            raise ValueError(
                f"{item.where}: {describe_overlap(item.given, overlap)}, which column files cannot hold. Write jsonl, "
                "or pass --decoding flat."
            )
        ids = {name: str(value) for name, value in item.ids.items()}
        yield Sentence(item.given, tags_of(spans, len(item.given)), ids=ids, file=item.where)


_READERS: dict[str, Callable[[_Lines, str], Iterator[_Item]]] = {
    "text": _read_texts,
    "jsonl": _read_json,
    "conll": _read_columns,
}
_WRITERS = {"jsonl": _write_json, "conll": _write_columns}
