"""The version, read by the build and written into checkpoints as ``span_marker_version``."""

__version__ = "2.0.0.dev0"
