"""Files of JSON values: one a line, or all in one array; never more than one of them in memory."""

import codecs
import json
from collections.abc import Iterable, Iterator
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any

from span_marker.readers.sentences import place
from span_marker.readers.text_files import BLOCK, MAX_LINE, numbered_lines

_DECODER = JSONDecoder()
_SPACE = " \t\n\r"


def read_items(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """Read the values of a file.

    Args:
        path: The file: JSON lines, or one array.
        encoding: Its encoding.

    Yields:
        Number of the line that a value begins in, from 1, and the value.

    Raises:
        ValueError: A line is not JSON.
    """
    if is_array(path, encoding):
        yield from _array_items(path, encoding)
        return
    for number, line in numbered_lines(path, encoding):
        if line and not line.isspace():
            yield number, parse_line(line, place(path, number))


def parse_line(line: str, where: str) -> Any:
    """Read a line of JSON.

    Args:
        line: The line.
        where: Its place, for errors.

    Returns:
        The value.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return json.loads(line)
    except JSONDecodeError as error:
        raise ValueError(
            f"{where}: not JSON: {error.msg} at character {error.colno} of {line!r:.60}. Write one value a line."
        ) from error


def is_array(path: Path, encoding: str) -> bool:
    """Tell an array that holds all values from a value a line, which may be an array itself.

    Args:
        path: The file.
        encoding: Its encoding.

    Returns:
        Whether it is one array.
    """
    with path.open("rb") as file:
        start = file.read(BLOCK).removeprefix(codecs.BOM_UTF8).lstrip()
    if not start.startswith(b"["):
        return False
    line, newline, _ = start.partition(b"\n")
    try:
        value, _ = _DECODER.raw_decode(line.decode(encoding, errors="replace"))
    except JSONDecodeError:
        return bool(newline) or len(start) >= BLOCK - 4 or start.rstrip().endswith(b"]")
    return not (value and isinstance(value[0], str))


def _array_items(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    """Read the elements of an array."""
    decode = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)().decode
    with path.open("rb") as file:
        text, position, line, ended = "", 0, 1, False
        opened = False
        while True:
            while position < len(text) and text[position] in (_SPACE + ("," if opened else "[")):
                opened = opened or text[position] == "["
                line += text[position] == "\n"
                position += 1
            if text[position : position + 1] == "]":
                return
            try:
                value, end = _DECODER.raw_decode(text, position)
            except JSONDecodeError as error:
                rest = text[position:]
                if ended or len(rest) > MAX_LINE:
                    broken = line + text.count("\n", position, error.pos)
                    raise ValueError(
                        f"{place(path, broken)}: not JSON: {error.msg}. Expected an array of values, or a value a line."
                    ) from error
                chunk = file.read(max(BLOCK, len(rest)))
                ended = not chunk
                text, position = rest + decode(chunk, final=ended), 0
                continue
            yield line, value
            line += text.count("\n", position, end)
            position = end


def write_items(items: Iterable[Any], path: Path) -> None:
    """Write values: as an array to a file called ``.json``, otherwise one a line.

    Args:
        items: The values.
        path: The file.
    """
    in_array = path.suffix == ".json"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("[\n" if in_array else "")
        for number, item in enumerate(items):
            file.write(",\n" if in_array and number else "")
            file.write(json.dumps(item, ensure_ascii=False))
            file.write("" if in_array else "\n")
        file.write("\n]\n" if in_array else "")
