"""Names for processed data sets, by which the `datasets` library finds them in its cache."""

import hashlib
from typing import Any

import datasets

from span_marker._version import __version__


def derive_fingerprint(dataset: datasets.Dataset, step: str, arguments: Any) -> str:
    """Name the result of a processing step.

    The library would otherwise hash all that the step's function holds: slow for a tokenizer, and different after each
    call that changes the tokenizer's padding.

    Args:
        dataset: The data set that goes in.
        step: Name of the step.
        arguments: All that decides its result, with a `repr` that says so.

    Returns:
        The fingerprint.
    """
    content = repr((dataset._fingerprint, step, __version__, arguments))
    return hashlib.sha256(content.encode()).hexdigest()[:32]
