"""Warnings of the package, as loud as transformers is told to be."""

import logging
from typing import Any

from transformers.utils import logging as transformers_logging

_ROOT = "span_marker"


class _FollowingLogger(logging.Logger):
    """A logger without a level of its own has that of transformers, or of the root logger if that is higher.

    The level is looked up anew for each record whose answer is not cached; setting any level drops all such caches.
    """

    @property
    def level(self) -> int:
        """The lowest level of records that are let through."""
        own: int = vars(self).get("level", logging.NOTSET)
        return own or _followed()

    @level.setter
    def level(self, level: int) -> None:
        # Whoever puts back the level that was found, as pytest's caplog does, means to follow again.
        vars(self)["level"] = logging.NOTSET if level == _followed() else level


def _followed() -> int:
    """Return the level to follow."""
    level: int = max(transformers_logging.get_verbosity(), logging.getLogger().level)
    return level


def follow_transformers() -> None:
    """Let ``transformers.logging.set_verbosity`` and a training's ``log_level`` hold for this package, too.

    A level that the logger "span_marker" was given goes before.
    """
    logger: Any = logging.getLogger(_ROOT)
    logger.__class__ = _FollowingLogger
