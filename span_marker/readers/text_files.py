"""Text files, a part at a time, with the numbers of their lines; and files that appear only when complete."""

import os
import shutil
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from span_marker.readers.sentences import place

BLOCK = 1 << 20
"""Bytes that are read at a time."""
MAX_LINE = 1 << 24
"""Most bytes of a line: more is no text, or one without line breaks, and would have to fit into memory."""


def line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read whole lines, many at a time.

    Args:
        path: The file. A byte order mark is skipped.

    Yields:
        Number of the first line of the block, from 1, and the block.

    Raises:
        ValueError: A line is longer than [`MAX_LINE`].
    """
    number, rest = 1, b""
    with path.open("rb") as file:
        while chunk := file.read(BLOCK):
            if number == 1 and not rest:
                chunk = chunk.removeprefix(BOM_UTF8)
            block, newline, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > MAX_LINE:
                line = number + block.count(b"\n") + len(newline)
                raise ValueError(
                    f"{place(path, line)}: the line has more than {MAX_LINE:,} bytes. Expected a word or a "
                    "sentence in each line: check the format of the file."
                )
            if newline:
                yield number, block + newline
                number += block.count(b"\n") + 1
    if rest:
        yield number, rest


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Read a text file line by line; only line feeds, with or without a carriage return, end a line.

    Args:
        path: The file.
        encoding: Its encoding, one in which line feeds are single bytes.

    Yields:
        Number of the line, from 1, and the line without its end.

    Raises:
        ValueError: A line is too long, or not in this encoding.
    """
    for first, block in line_blocks(path):
        text = decode(block, path, first, encoding)
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        yield from enumerate(lines, first)


def decode(block: bytes, path: Path, first: int, encoding: str = "utf-8") -> str:
    """Decode lines of a file.

    Args:
        block: The lines.
        path: The file.
        first: Number of the first line.
        encoding: The encoding.

    Returns:
        The text.

    Raises:
        ValueError: It is not in this encoding; the line is named.
    """
    try:
        return block.decode(encoding)
    except UnicodeDecodeError as error:
        line = first + block.count(b"\n", 0, error.start)
        raise ValueError(
            f"{place(path, line)}: byte {block[error.start]:#x} is not {encoding.upper()}. Save the file as UTF-8, or "
            "pass its `encoding=`, such as 'latin-1'."
        ) from error


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Write a file or folder under another name, and give it its own when it is complete.

    Args:
        path: The file or folder; a file that exists is replaced.

    Yields:
        What to write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".part-{os.getpid()}-{path.name}")
    try:
        yield part
        os.replace(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
