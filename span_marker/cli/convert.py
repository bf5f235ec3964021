"""``span-marker convert``: data sets to another format."""

import sys
from argparse import Namespace

import datasets

from span_marker.cli.data import choose_split, load_data
from span_marker.label_columns import NER_TAGS
from span_marker.progress import progress_bars
from span_marker.readers import write_dataset
from span_marker_cli.parsers import reading_options


def run(options: Namespace) -> int:
    """Convert a data set.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        ValueError: The data set cannot be read, or the format cannot hold it.
        OSError: A file is missing, or cannot be written.
    """
    reading = reading_options(options)
    if options.entity_column is not None:
        reading["entity_column"] = options.entity_column
    with progress_bars(sys.stderr.isatty()):
        splits = load_data(options.data, **reading)  # type: ignore[arg-type]
        _write(splits, options)
    sizes = ", ".join(
        f"{len(split):,}" if len(splits) == 1 else f"{name} {len(split):,}"  # a file alone has no name of its own
        for name, split in splits.items()
        if options.split in (None, name)
    )
    print(f"Sentences written to {options.target}: {sizes}.", file=sys.stderr)
    return 0


def _write(splits: dict[str, datasets.Dataset], options: Namespace) -> None:
    """Write the splits, or the one that was asked for."""
    if options.column != NER_TAGS:
        splits = {
            name: split.remove_columns([NER_TAGS] if NER_TAGS in split.column_names else []).rename_column(
                options.column, NER_TAGS
            )
            for name, split in splits.items()
        }
    written = choose_split(splits, options.split) if options.split or len(splits) == 1 else datasets.DatasetDict(splits)
    try:
        write_dataset(written, options.target, options.to)
    except ValueError as error:  # `format=` of the command is that of what is read
        raise ValueError(str(error).replace("`format=`", "--to")) from error
