"""Data sets of named entities: files of many formats to one schema, and back."""

from span_marker.readers.exporting import write_dataset
from span_marker.readers.reading import read_dataset

__all__ = ["read_dataset", "write_dataset"]
