"""Which types are taken for which, as a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

from span_marker.evaluation_report.groups import EntityGroup

MOST_TYPES = 20
"""Most types in a matrix that can be read."""
STRONGEST = 40
"""Share of a colour that still lets text be read on it, in percent."""


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix.

    Attributes:
        count: Number of entities.
        strength: Strength of its colour, in percent up to `STRONGEST`: as the root of their share of the row, so that
            small shares, as those of errors are, can be told from none.
        is_right: Whether the predicted type is the gold one.
    """

    count: int
    strength: int
    is_right: bool


@dataclass(frozen=True)
class HeatMap:
    """What became of the types of entities, whatever their words.

    Attributes:
        types: The types.
        rows: For each type, for how many of its gold entities each of the types was predicted, then how many were
            missed.
        spurious: For each type, how many of its predicted entities share no word with a gold one.
        left_out: Number of types that are left out, those with the fewest errors.
    """

    types: list[str]
    rows: list[list[Cell]]
    spurious: list[int]
    left_out: int


def heat_map(types: Sequence[EntityGroup], confusions: Sequence[tuple[str, str, int]]) -> HeatMap:
    """Lay confusions out as a matrix.

    Args:
        types: What became of the entities of each type.
        confusions: Gold type, predicted type and number of entities.

    Returns:
        The matrix, of at most 20 types.
    """
    confused = {(gold, predicted): count for gold, predicted, count in confusions}
    errors = {group.name: group.missed + group.spurious for group in types}
    for pair, count in confused.items():
        for name in pair:
            errors[name] += count
    worst = sorted(types, key=lambda group: (-errors[group.name], -group.gold))[:MOST_TYPES]
    kept = sorted(worst, key=lambda group: group.name)
    rows = []
    for group in kept:
        right = group.found + group.other_words
        counts = [right if other is group else confused.get((group.name, other.name), 0) for other in kept]
        rows.append(
            [
                Cell(count, round(STRONGEST * (count / max(group.gold, 1)) ** 0.5), column is group)
                for column, count in zip([*kept, None], [*counts, group.missed], strict=True)
            ]
        )
    names = [group.name for group in kept]
    return HeatMap(names, rows, [group.spurious for group in kept], len(types) - len(kept))
