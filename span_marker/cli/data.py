"""Data sets of the command line: from files or from the Hub, and their splits."""

from typing import Any

import datasets

from span_marker.label_columns import NER_TAGS
from span_marker.readers import read_dataset

SPLITS = ("train", "validation", "test")


def load_data(
    path: str, *, column: str = NER_TAGS, subset: str | None = None, revision: str | None = None, **reading: Any
) -> dict[str, datasets.Dataset]:
    """Load a data set.

    Args:
        path: A file, a folder, or the name of a data set on the Hub.
        column: The column of the tags.
        subset: Configuration of a data set on the Hub.
        revision: Commit or branch of a data set on the Hub.
        **reading: Handed on to `read_dataset`.

    Returns:
        Its splits by name; a data set without splits under the name "train".

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: A file is malformed, or a split lacks the column.
    """
    try:
        if subset is None and revision is None:
            data = read_dataset(path, **reading)
        else:
            data = datasets.load_dataset(path, subset, revision=revision)
    except (ConnectionError, datasets.exceptions.DatasetNotFoundError) as error:
        raise FileNotFoundError(
            f"There is no file or folder {path!r}, and no data set of this name could be loaded from the Hub: {error}."
        ) from error
    splits = dict(data) if isinstance(data, datasets.DatasetDict) else {"train": data}
    for name, split in splits.items():
        if column not in split.column_names and "spans" not in split.column_names:
            raise ValueError(
                f"The split {name!r} of {path!r} has no column {column!r} with the tags, but "
                f"{', '.join(split.column_names)}. Pass the name of the right one as `column`."
            )
    return splits


def choose_split(splits: dict[str, datasets.Dataset], name: str | None) -> datasets.Dataset:
    """Choose a split to evaluate on.

    Args:
        splits: The splits.
        name: Its name. ``None``: test, or validation, or the only one.

    Returns:
        The split.

    Raises:
        ValueError: There is none of this name.
    """
    names = [name] if name else [split for split in ("test", "validation", *splits) if split in splits]
    if names[0] not in splits:
        raise ValueError(f"There is no split {name!r}, but {', '.join(map(repr, splits))}.")
    return splits[names[0]]
