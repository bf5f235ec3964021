"""The optional packages of exports."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def import_extra(name: str) -> Any:
    """Import an optional package.

    Args:
        name: Its name.

    Returns:
        The module.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"ONNX needs the package {error.name!r}, which is not installed: pip install 'span_marker[onnx]'"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to itself what tracing and quantising say of their own insides.

    Yields:
        Nothing.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
