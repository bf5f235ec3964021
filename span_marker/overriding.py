"""Attributes that have another value for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def overridden(target: Any, **values: Any) -> Iterator[None]:
    """Give attributes of an object other values for a while.

    Args:
        target: The object.
        **values: The values, by attribute.
    """
    before = {name: getattr(target, name) for name in values}
    vars(target).update(values)
    try:
        yield
    finally:
        vars(target).update(before)
