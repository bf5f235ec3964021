"""Text files, a part at a time, with the numbers of their lines; and files that appear only when complete."""

import os
import shutil
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
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
        ValueError: A line is longer than [`MAX_LINE`], lines end with carriage returns alone, or the file is UTF-16.
    """
    number, rest = 1, b""
    with path.open("rb") as file:
        while chunk := file.read(BLOCK):
            if number == 1 and not rest:
                _check_start(chunk, path)
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


def _check_start(chunk: bytes, path: Path) -> None:
    """Refuse a file whose lines cannot be told apart, by its first bytes."""
    if chunk.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise ValueError(f"{place(path, 1)}: the file begins with the byte order mark of UTF-16. Save it as UTF-8.")
    if b"\r" in chunk and b"\n" not in chunk:
        raise ValueError(
            f"{place(path, 1)}: the file has carriage returns but no line feed, and only a line feed ends a line. Save "
            "it with the line ends of Unix or Windows."
        )


def has_mark(path: Path) -> bool:
    """Tell whether a file begins with the byte order mark of UTF-8.

    Args:
        path: The file.

    Returns:
        Whether it does.
    """
    with path.open("rb") as file:
        return file.read(len(BOM_UTF8)) == BOM_UTF8


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Read a text file line by line; only line feeds, with or without a carriage return, end a line.

    Args:
        path: The file.
        encoding: Its encoding, one in which line feeds are single bytes.

    Yields:
        Number of the line, from 1, and the line without its end.

    Raises:
        ValueError: A line is not in this encoding, or as in [`line_blocks`].
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
