"""The progress bars of `datasets`, which preprocessing shows."""

from collections.abc import Iterator
from contextlib import contextmanager

import datasets


@contextmanager
def progress_bars(show: bool) -> Iterator[None]:
    """Keep progress bars away where none is wanted.

    Args:
        show: Whether they are wanted. They stay away in any case where `datasets` was told so.
    """
    if show or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
