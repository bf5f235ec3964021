"""``span-marker export``: a model for another engine."""

import json
from argparse import Namespace

from span_marker.cli.data import choose_split, load_data
from span_marker.modeling import SpanMarkerModel


def run(options: Namespace) -> int:
    """Export a model, and show how it compares with the original.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        ImportError: The engine is not installed.
        ValueError: The model cannot be exported, or the data set cannot be read.
        OSError: The model or the data set is missing.
    """
    dataset = None if options.data is None else choose_split(load_data(options.data), options.split)
    model = SpanMarkerModel.from_pretrained(options.model)
    report = model.export(options.format, options.folder, quantize=options.quantize, dataset=dataset)
    print(json.dumps(report, indent=2))
    return 0
