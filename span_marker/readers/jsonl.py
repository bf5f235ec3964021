"""JSON lines with words: {"tokens": [...], "ner_tags": [...]}, or "spans" of [first word, word after last, type]."""

import json
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from span_marker.readers.json_files import is_array, parse_line, read_items, write_items
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import ID_COLUMNS, Sentence, Span, place, read_ids
from span_marker.readers.tables import ArrowRows, Batch
from span_marker.readers.text_files import decode, line_blocks

_BATCH = 1000


def read(path: Path, options: ReadOptions) -> Iterator[Batch]:
    """Read JSON lines, or a JSON array, of objects with words.

    Lines are read by arrow, many at a time; a block that it cannot read is read again line by line, to find the line
    that is to blame.

    Args:
        path: The file.
        options: How to read: ``token_column`` and ``tag_column``, the names of the keys, if these are other ones than
            "tokens" and "ner_tags"; ``labels`` for tags that are numbers; ``encoding``.

    Yields:
        Sentences, many at a time.

    Raises:
        ValueError: A line is not JSON, or not such an object.
    """
    parser = _Parser(path, options)
    schema = _arrow_schema(path, parser, options)
    if schema is None:
        yield from parser.batches(read_items(path, options.encoding))
        return
    for first, block in line_blocks(path):
        rows = _read_block(block, schema)
        numbers: Sequence[int] = range(first, first + block.count(b"\n") + (not block.endswith(b"\n")))
        if rows is None or len(rows) != len(numbers):
            numbers, lines = _lines(block, path, first, options.encoding)
            if rows is None or len(rows) != len(numbers):
                values = (parse_line(line, place(path, number)) for number, line in zip(numbers, lines, strict=True))
                yield from parser.batches(zip(numbers, values, strict=True))
                continue
        if len(rows):
            columns = {name: rows.column(parser.keys.get(name, name)).combine_chunks() for name in parser.names(rows)}
            yield ArrowRows(columns, str(path), numbers)


class _Parser:
    """Reads objects one by one."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self._labels = options.labels
        self.keys = {
            "tokens": str(options.token_column or "tokens"),
            "ner_tags": str(options.tag_column or "ner_tags"),
        }

    def names(self, rows: Any) -> list[str]:
        """List the columns of rows that arrow read, by the names they have in the data set."""
        return ["tokens", "ner_tags", *(name for name in ID_COLUMNS if name in rows.column_names)]

    def batches(self, items: Iterable[tuple[int, Any]]) -> Iterator[list[Sentence]]:
        """Read objects, many at a time.

        Args:
            items: Line numbers and objects.

        Yields:
            Sentences.
        """
        batch: list[Sentence] = []
        for number, item in items:
            batch.append(self._sentence(number, item))
            if len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _sentence(self, number: int, item: Any) -> Sentence:
        where = place(self._path, number)
        if not isinstance(item, dict):
            raise ValueError(f"{where}: {item!r:.60} is no object. Expected one with 'tokens' and 'ner_tags'.")
        tokens, tags = (item.get(self.keys[name]) for name in ("tokens", "ner_tags"))
        spans = item.get("spans")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"{where}: {self.keys['tokens']!r} is {tokens!r:.60}. Expected a list of strings.")
        if tags is None and spans is None:
            raise ValueError(
                f"{where}: the object has the keys {', '.join(map(repr, item))}. Expected {self.keys['ner_tags']!r}, a "
                "tag a word, or 'spans', a list of [first word, word after the last, type]."
            )
        return Sentence(
            tokens=tokens,
            tags=None if tags is None else self._tag_names(tags, where),
            spans=None if spans is None else _spans(spans, where),
            text=item["text"] if isinstance(item.get("text"), str) else None,
            file=str(self._path),
            line=number,
            ids=read_ids(item, where),
        )

    def _tag_names(self, tags: Any, where: str) -> list[str]:
        if not isinstance(tags, list):
            raise ValueError(f"{where}: {self.keys['ner_tags']!r} is {tags!r:.60}. Expected a list, one tag a word.")
        names = []
        for word, tag in enumerate(tags):
            if isinstance(tag, int) and not isinstance(tag, bool) and self._labels and 0 <= tag < len(self._labels):
                tag = self._labels[tag]
            if not isinstance(tag, str):
                raise ValueError(
                    f"{where}: the tag of word {word} is {tag!r:.60}. Expected a string, or the id of one of `labels=`."
                )
            names.append(tag)
        return names


def _spans(spans: Any, where: str) -> list[Span]:
    if not isinstance(spans, list):
        raise ValueError(
            f"{where}: 'spans' is {spans!r:.60}. Expected a list of [first word, word after the last, type]."
        )
    return [read_span(span, where) for span in spans]


def read_span(span: Any, where: str) -> Span:
    """Read an entity.

    Args:
        span: A list of start, end and type, or an object with "start", "end" and "label".
        where: Its place, for errors.

    Returns:
        The entity.

    Raises:
        ValueError: It is neither.
    """
    values = [span.get(name) for name in ("start", "end", "label")] if isinstance(span, dict) else span
    match values:
        case [int() as start, int() as end, str() as label] if label and bool not in (type(start), type(end)):
            return start, end, label
    raise ValueError(
        f"{where}: the entity {span!r:.80} is malformed. Expected [start, end, type], or an object with 'start', 'end' "
        "and 'label'."
    )


def _arrow_schema(path: Path, parser: _Parser, options: ReadOptions) -> Any:
    """Find the types of the values by the first object; ``None`` where arrow cannot read the file."""
    first = next(read_items(path, options.encoding), (0, None))[1]
    if not isinstance(first, dict) or options.encoding != "utf-8" or {"spans", "text"} & first.keys():
        return None
    if is_array(path, options.encoding):
        return None
    tags = first.get(parser.keys["ner_tags"])
    numbers = isinstance(tags, list) and any(isinstance(tag, int) for tag in tags)
    fields = [
        pa.field(parser.keys["tokens"], pa.list_(pa.string())),
        pa.field(parser.keys["ner_tags"], pa.list_(pa.int64() if numbers else pa.string())),
    ]
    for name in ID_COLUMNS:
        # The other objects' ids must be alike, or arrow reports them and the block is read line by line.
        value = first.get(name)
        fields.append(pa.field(name, pa.int64() if isinstance(value, int) else pa.string()))
    # Spans are not read by arrow; a null column shows that a later object has some.
    fields.append(pa.field("spans", pa.null()))
    return pa.schema(fields)


def _read_block(block: bytes, schema: Any) -> Any:
    """Read lines by arrow; ``None`` if it cannot."""
    try:
        rows = pyarrow.json.read_json(
            BytesIO(block),
            read_options=pyarrow.json.ReadOptions(block_size=len(block) + 1, use_threads=False),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return None if any(rows.column(name).null_count for name in rows.column_names[:2]) else rows


def _lines(block: bytes, path: Path, first: int, encoding: str) -> tuple[list[int], list[str]]:
    """Decode the lines of a block that are not blank; return their numbers too."""
    lines = decode(block, path, first, encoding).split("\n")
    numbers = [number for number, line in enumerate(lines, first) if line.strip()]
    return numbers, [lines[number - first] for number in numbers]


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write JSON lines with words.

    Args:
        sentences: The sentences.
        path: The file.
    """
    if path.suffix == ".json":
        write_items(map(_item, sentences), path)
        return
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(encode(_item(sentence)) + "\n" for sentence in sentences)


def _item(sentence: Sentence) -> dict[str, Any]:
    item: dict[str, Any] = {"tokens": sentence.tokens}
    if sentence.tags is not None:
        item["ner_tags"] = sentence.tags
    if sentence.spans is not None:
        item["spans"] = sentence.spans
    if sentence.text is not None:
        item["text"] = sentence.text
    return item | sentence.ids
