"""Counts of small whole numbers, such as lengths, of which there are many."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from span_marker.types import IntArray

QUANTILES = (Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000))


class Histogram:
    """How often each value occurs.

    Args:
        values: The values, none negative. Shape: ``[values]``.
    """

    def __init__(self, values: IntArray | None = None) -> None:
        self.counts: IntArray = np.zeros(1, dtype=np.int64)
        if values is not None:
            self.add(values)

    def add(self, values: IntArray) -> None:
        """Count further values.

        Args:
            values: The values, none negative. Shape: ``[values]``.
        """
        counts = np.bincount(values, minlength=len(self.counts))
        counts[: len(self.counts)] += self.counts
        self.counts = counts.astype(np.int64)

    @classmethod
    def of(cls, parts: Iterable["Histogram"]) -> "Histogram":
        """Put histograms together.

        Args:
            parts: The histograms.

        Returns:
            What counts the values of all of them.
        """
        total = cls()
        for part in parts:
            longer, shorter = sorted((total.counts, part.counts), key=len, reverse=True)
            total.counts = longer.copy()
            total.counts[: len(shorter)] += shorter
        return total

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """Sum of the values."""
        return int(self.counts @ np.arange(len(self.counts)))

    @property
    def largest(self) -> int:
        """The largest value; 0 without any."""
        return int(np.flatnonzero(self.counts).max(initial=0))

    def above(self, value: int) -> int:
        """Count the values above another.

        Args:
            value: The other.

        Returns:
            Their number.
        """
        return int(self.counts[value + 1 :].sum())

    def covering(self, share: Fraction) -> int:
        """Find the smallest value that at least a share of the values does not exceed.

        Args:
            share: The share, from 0 to 1.

        Returns:
            The value; 0 without any.
        """
        needed = -(-self.total * share.numerator // share.denominator)
        return int(np.searchsorted(np.cumsum(self.counts), max(needed, 1))) if self.total else 0

    def quantiles(self) -> dict[str, float]:
        """Describe the values.

        Returns:
            Mean, median, the quantiles of 90, 99 and 99.9 %, and the largest value.
        """
        found = {f"{float(100 * share):g} %": self.covering(share) for share in QUANTILES}
        return {"mean": self.sum / max(self.total, 1), **found, "largest": self.largest}
