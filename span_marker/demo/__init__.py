"""The demo, ``python -m span_marker.demo``: train a model on a small corpus, score it, use it and save it."""

from typing import Final

SAMPLE: Final = "sample"
"""Name of the corpus that comes with the package."""
MINILM: Final = "minilm"
"""Name of the encoder that the extra "demo" installs."""


class DemoError(Exception):
    """Something that the user of the demo can put right; the message is one line and says how."""
