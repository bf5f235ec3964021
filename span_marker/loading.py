"""Errors of loading that say what could not be loaded."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(what: str, path: str) -> Iterator[None]:
    """Name the folder where a library does not: a damaged file makes each of them raise something else.

    Args:
        what: What is loaded: "configuration", "weights" or "tokenizer".
        path: The folder, or the repository on the Hub.

    Yields:
        Nothing.

    Raises:
        ValueError: The block raised one.
        TypeError: The block was given a keyword argument that nothing knows.
        OSError: The block raised anything else.
    """
    try:
        yield
    except Exception as error:
        unknown_setting = isinstance(error, TypeError) and "keyword argument" in str(error)
        if unknown_setting or (isinstance(error, OSError | ValueError) and path in str(error)):
            raise
        if isinstance(error, ValueError):
            raise ValueError(f"The {what} in {path!r} cannot be used. {error}") from error
        reason = "" if isinstance(error, OSError) else ", the file is damaged or incomplete"
        raise OSError(f"The {what} in {path!r} cannot be read{reason}. {error}") from error
