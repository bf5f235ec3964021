"""Paths to the files of each split of a data set."""

import re
from pathlib import Path

from span_marker.readers.brat import documents
from span_marker.readers.registry import FORMATS, SUFFIXES

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "devel", "testa"),
    "test": ("test", "testing", "testb", "eval", "evaluation"),
}
"""Words in the names of files that tell their split."""
_SAVED = ("dataset_dict.json", "state.json", "dataset_info.json")


def is_saved_dataset(path: Path) -> bool:
    """Tell whether a folder was written by `datasets`' ``save_to_disk``.

    Args:
        path: The folder.

    Returns:
        Whether it was.
    """
    return any((path / name).is_file() for name in _SAVED)


def find_files(path: Path, format_name: str | None) -> dict[str | None, list[Path]]:
    """Find the files of a data set.

    Args:
        path: A file, or a folder.
        format_name: The format. ``None``: any.

    Returns:
        The files of each split; those of a data set without splits under ``None``. BRAT's folders count as files.

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: The folder's files are of no split, or those of one split of different formats.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {str(path)!r}, and it is no name on the Hub.")
    if path.is_file():
        return {None: [path]}
    if documents(path):
        return {None: [path]}
    suffixes = SUFFIXES if format_name is None else {*FORMATS[format_name].suffixes}
    found: dict[str | None, list[Path]] = {}
    for entry in sorted(path.iterdir()):
        usable = bool(documents(entry)) if entry.is_dir() else entry.suffix in suffixes
        split = _split_of(entry)
        if usable and split:
            found.setdefault(split, []).append(entry)
    if not found:
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:10]) or "nothing"
        raise ValueError(
            f"The folder {str(path)!r} holds no files of train, validation or test, but {names}. Name them so, such as "
            "train.jsonl, or pass the path of one file."
        )
    for split, files in found.items():
        if len({file.suffix for file in files}) > 1:
            names = ", ".join(file.name for file in files)
            raise ValueError(f"The folder {str(path)!r} has several files of {split}: {names}. Pass their `format=`.")
    return {split: found[split] for split in _SPLITS if split in found}


def _split_of(path: Path) -> str | None:
    """Tell the split of a file by the words in its name, such as "eng.testa" or "train-00000-of-00002.parquet"."""
    words = re.split(r"[^a-z]+", path.name.lower())
    return next((split for split, names in _SPLITS.items() if {*names} & {*words}), None)
