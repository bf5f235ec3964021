"""Errors of loading that say what could not be loaded."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_OTHER_SIZES = ("size mismatch for", "You set `ignore_mismatched_sizes` to `False`")
"""What torch and transformers say of weights that do not fit a model."""


def require_model(path: str, subfolder: str = "") -> None:
    """Refuse a path at which there is no model, before transformers takes it for the name of a repository.

    Args:
        path: A folder, or the name of a repository on the Hub.
        subfolder: Where in it the model is.

    Raises:
        OSError: There is no such folder, and it is no such name; or the folder has no ``config.json``.
    """
    folder = Path(path)
    if folder.is_dir():
        if not (folder / subfolder / "config.json").is_file():
            raise OSError(f"The folder {str(folder / subfolder)!r} holds no model: it has no config.json.")
    elif folder.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1:
        raise OSError(
            f"There is no folder {path!r}, and it is no name of a repository on the Hub ('organisation/name')."
        )


@contextmanager
def naming(what: str, path: str, settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Name the folder where a library does not: a damaged file makes each of them raise something else.

    Args:
        what: What is loaded: "configuration", "weights" or "tokenizer".
        path: The folder, or the repository on the Hub.
        settings: What the caller gave in place of settings that were saved.

    Yields:
        Nothing.

    Raises:
        ValueError: The block raised one, or the weights do not fit the model.
        TypeError: The block was given a keyword argument that nothing knows.
        OSError: The block raised anything else.
    """
    try:
        yield
    except Exception as error:
        unknown_setting = isinstance(error, TypeError) and "keyword argument" in str(error)
        if unknown_setting or (isinstance(error, OSError | ValueError) and path in str(error)):
            raise
        if any(words in str(error) for words in _OTHER_SIZES):
            raise ValueError(
                f"The {what} in {path!r} have other sizes than {name_settings(settings or {})}. Load them with the "
                "settings that they were saved with."
            ) from error
        if isinstance(error, ValueError):
            raise ValueError(f"The {what} in {path!r} cannot be used. {error}") from error
        reason = "" if isinstance(error, OSError) else ", the file is damaged or incomplete"
        raise OSError(f"The {what} in {path!r} cannot be read{reason}. {error}") from error


def name_settings(settings: Mapping[str, Any]) -> str:
    """Name what a file of weights may not fit.

    Args:
        settings: What the caller gave in place of settings that were saved.

    Returns:
        The settings with their values; without any, the whole configuration.
    """
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"the given {given}" if given else "the model's configuration"
