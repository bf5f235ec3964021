"""How scored spans become entities: the mode, the least probability, and how many of a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from span_marker.settings import nearest

FLAT: Final = "flat"
NESTED: Final = "nested"
ALL: Final = "all"
MODES: Final = (FLAT, NESTED, ALL)
_OUTSIDE: Final = "O"


@dataclass(frozen=True)
class Decoding:
    """How the entities of a sentence are chosen among its scored spans.

    Attributes:
        mode: "flat": entities that share no word, the most probable first; "nested": an entity may contain another, but
            two that share words without one containing the other are not both kept, again the most probable first;
            "all": every span whose most probable label is an entity type.
        threshold: Least probability of an entity, from 0 to 1, or one by entity type; types that are not named have
            none. What is less probable keeps no other entity out. ``None``: none.
        top_k: Most entities of a sentence, the most probable of those that the mode keeps. ``None``: any number.

    Raises:
        ValueError: The mode is unknown, a threshold is no probability, or ``top_k`` no positive integer.
    """

    mode: str = FLAT
    threshold: float | Mapping[str, float] | None = None
    top_k: int | None = None

    def __post_init__(self) -> None:
        require_mode(self.mode)
        if isinstance(self.threshold, Mapping):
            object.__setattr__(self, "threshold", dict(self.threshold))
            for label, least in dict(self.threshold).items():
                _require_probability(least, f"threshold[{label!r}]")
        elif self.threshold is not None:
            _require_probability(self.threshold, "threshold")
        if self.top_k is not None and (
            isinstance(self.top_k, bool) or not isinstance(self.top_k, int | np.integer) or self.top_k < 1
        ):
            raise ValueError(
                f"top_k must be a positive integer, but it is {self.top_k!r}. Leave it out for any number of entities."
            )

    def least_scores(self, labels: Sequence[str]) -> npt.NDArray[np.float64] | None:
        """Tabulate the least probability of an entity of each label.

        Args:
            labels: Name of each label id.

        Returns:
            0 where there is none. Shape: ``[labels]``, or ``[]`` if it is the same for all. ``None``: no label has one.

        Raises:
            ValueError: The threshold of an entity type is given that is not among the labels.
        """
        if self.threshold is None:
            return None
        if not isinstance(self.threshold, Mapping):
            return np.array(self.threshold, dtype=np.float64)
        types = [label for label in labels if label != _OUTSIDE]
        for label in self.threshold:
            if label not in types:
                raise ValueError(
                    f"threshold names {label!r}, which is no entity type of the model. {nearest(label, types)}"
                )
        return np.array([self.threshold.get(label, 0.0) for label in labels], dtype=np.float64)


def require_mode(mode: Any) -> None:
    """Refuse an unknown mode of decoding.

    Args:
        mode: What was given.

    Raises:
        ValueError: It is none of "flat", "nested" and "all".
    """
    if mode not in MODES:
        raise ValueError(
            f"decoding must be one of {', '.join(map(repr, MODES))}, but it is {mode!r}. {nearest(mode, MODES)}"
        )


def _require_probability(value: Any, name: str) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a probability from 0 to 1, but it is {value!r}.")
