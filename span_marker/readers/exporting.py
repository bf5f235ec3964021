"""Data sets to files of any format."""

from os import PathLike
from pathlib import Path

import datasets

from span_marker.readers.registry import FORMATS, Format, require_format
from span_marker.readers.text_files import appearing


def write_dataset(
    dataset: datasets.Dataset | datasets.DatasetDict, path: str | PathLike[str], format: str | None = None
) -> None:
    """Write a data set of named entities to a file of any format, or one file a split.

    What a format cannot hold is refused, with the row and, where it is known, the file and line that it is from. A file
    appears when it is complete; one that exists is replaced.

    Args:
        dataset: A data set with the columns of [`read_dataset`], or several by split.
        path: The file; of several splits a folder, of BRAT's format always a folder.
        format: Name of the format. ``None``: it is told by the name of the file, if that says enough.

    Raises:
        FileExistsError: A folder of BRAT's documents exists.
        TypeError: It is no data set.
        ValueError: There is no such format, or it cannot hold a row.
    """
    target = Path(path)
    if isinstance(dataset, datasets.DatasetDict):
        if format is None:
            raise ValueError(f"Which format? Pass `format=` to write several splits: one of {', '.join(FORMATS)}.")
        for split, rows in dataset.items():
            write_dataset(rows, target / f"{split}{require_format(format).suffixes[0]}", format)
        return
    if not isinstance(dataset, datasets.Dataset):
        raise TypeError(f"Expected a datasets.Dataset or DatasetDict, but got {type(dataset).__name__}.")
    chosen = _by_suffix(target) if format is None else require_format(format)
    if target.is_dir():
        raise FileExistsError(f"The folder {str(target)!r} exists. Remove it, or choose another path.")
    with appearing(target) as part:
        chosen.write(dataset, part)


def _by_suffix(path: Path) -> Format:
    """Choose the only format of files with such a name.

    Raises:
        ValueError: There are several, or none.
    """
    named = [name for name, format_ in FORMATS.items() if path.suffix and path.suffix == format_.suffixes[0]]
    if len(named) != 1:
        found = f"could be {' or '.join(named)}" if named else "is the file of no format"
        raise ValueError(f"{str(path)!r} {found}. Pass `format=`: one of {', '.join(named or FORMATS)}.")
    return FORMATS[named[0]]
