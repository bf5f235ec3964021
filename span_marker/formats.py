"""Formats of data sets: rows are always read as they are stored."""

from typing import Any

import datasets


def refuse_transform(dataset: datasets.Dataset, name: str = "data") -> None:
    """Refuse a data set with a transform, which would be lost with its format.

    Args:
        dataset: The data set.
        name: What to call it: "training", "evaluation" or "test".

    Raises:
        ValueError: It has a transform.
    """
    if dataset.format["type"] == "custom":
        raise ValueError(
            f"The {name} set has a transform (with_transform or set_transform), but its rows are read as they are "
            "stored. Apply the transform first: dataset.with_format(None).map(transform, batched=True)."
        )


def arrow_column(dataset: datasets.Dataset, name: str) -> Any:
    """Read one column, and no other.

    Args:
        dataset: The data set.
        name: Name of the column.

    Returns:
        An arrow array.
    """
    return dataset.select_columns([name]).with_format("arrow")[:][name]
