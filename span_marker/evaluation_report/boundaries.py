"""How predicted entities miss the boundaries of gold ones."""

import numpy as np

from span_marker.entity_errors import PairedEntities

BOUNDARIES = ("longer", "shorter", "shifted")
"""How a predicted entity can lie to the gold entity that it shares words with: over it, within it, or across it."""


def count_boundaries(pairs: PairedEntities) -> dict[str, int]:
    """Count the gold entities that were predicted with other words, of whichever type.

    Args:
        pairs: The entities.

    Returns:
        Number of them by `BOUNDARIES`.
    """
    matched = np.flatnonzero(pairs.partner >= 0)
    partner = pairs.partner[matched]
    starts = pairs.predicted.starts[partner] - pairs.gold.starts[matched]
    ends = pairs.predicted.ends[partner] - pairs.gold.ends[matched]
    is_other = (starts != 0) | (ends != 0)
    longer = is_other & (starts <= 0) & (ends >= 0)
    shorter = is_other & (starts >= 0) & (ends <= 0)
    kinds = (longer, shorter, is_other & ~longer & ~shorter)
    return dict(zip(BOUNDARIES, map(int, map(np.count_nonzero, kinds)), strict=True))
