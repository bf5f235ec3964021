"""Errors of loading that say what could not be loaded."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from span_marker.hub import connection_error

TEXT_GRAPH, MARKER_GRAPH, FILTER_GRAPH = "text.onnx", "markers.onnx", "span_filter.onnx"
"""Files of a model that was exported to ONNX."""
_WEIGHTS = (".safetensors", ".bin")
_OTHER_SIZES = ("size mismatch for", "You set `ignore_mismatched_sizes` to `False`")
"""What torch and transformers say of weights that do not fit a model."""


def find_folder(path: str) -> Path | None:
    """Tell a folder from the name of a repository on the Hub.

    Args:
        path: The path of a folder, or the name of a repository.

    Returns:
        The folder; ``None`` for a repository. Nothing is asked of the Hub here.

    Raises:
        OSError: There is no such folder, and it is no such name.
    """
    if path and Path(path).is_dir():
        return Path(path)
    try:
        validate_repo_id(path)
    except HFValidationError as error:
        raise OSError(
            f"There is no folder {path!r}, and it is no name of a repository on the Hub ('organisation/name')."
        ) from error
    return None


def find_model(path: str, subfolder: str = "") -> Path | None:
    """Tell a folder with a model from the name of a repository, before transformers takes one for the other.

    Args:
        path: The path of a folder, or the name of a repository.
        subfolder: Where in it the model is.

    Returns:
        The folder; ``None`` for a repository.

    Raises:
        OSError: There is no such folder, and it is no such name; or the folder has no ``config.json``, or an exported
            model without weights.
    """
    folder = find_folder(path)
    if folder is None:
        return None
    place = folder / subfolder
    if not (place / "config.json").is_file():
        raise OSError(f"The folder {str(place)!r} holds no model: it has no config.json.")
    if (place / TEXT_GRAPH).is_file() and not any(file.suffix in _WEIGHTS for file in place.iterdir()):
        raise OSError(
            f"The folder {str(place)!r} holds a model that was exported to ONNX, and no weights. Load it with "
            "OnnxSpanMarkerModel.from_pretrained."
        )
    return folder


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
        OSError: The block raised anything else, or the Hub did not answer.
    """
    try:
        yield
    except Exception as error:
        failure = None if Path(path).is_dir() else connection_error(error)
        if failure is not None:
            raise OSError(
                f"The {what} of {path!r} cannot be loaded from the Hub: {type(failure).__name__}. "
                f"{str(failure).rstrip('.')}. Here is no folder of this name. Try again, or pass local_files_only=True "
                "for what was downloaded before."
            ) from error
        if _is_out_of_memory(error):
            raise
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


@contextmanager
def suggesting(known: Iterable[str]) -> Iterator[None]:
    """Name the nearest keyword where one is misspelt.

    Args:
        known: The keywords that there are.

    Yields:
        Nothing.

    Raises:
        TypeError: The block was given a keyword argument that nothing knows.
    """
    try:
        yield
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        near = get_close_matches(unknown[1], known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "It is a setting neither of the model nor of its encoder."
        raise TypeError(f"SpanMarkerModel.from_pretrained does not take {unknown[1]!r}. {hint}") from error


def _is_out_of_memory(error: Exception) -> bool:
    """Tell whether there was no room for something that may be in order."""
    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def name_settings(settings: Mapping[str, Any]) -> str:
    """Name what a file of weights may not fit.

    Args:
        settings: What the caller gave in place of settings that were saved.

    Returns:
        The settings with their values; without any, the whole configuration.
    """
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"the given {given}" if given else "the model's configuration"
