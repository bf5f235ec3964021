"""The command line: ``span-marker``.

This package imports nothing but the standard library, so that help and wrong arguments are answered at once. What the
commands do is in [`span_marker.cli`], whose import loads PyTorch and transformers, a matter of seconds.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from span_marker_cli.parsers import parse
from span_marker_cli.statuses import DONE, FAILED

__all__ = ["main"]

_NO_BARS = ("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: Arguments, without the program's name. ``None``: those of the command line.

    Returns:
        Exit status: 0; 1 if a check found problems; 2 for bad usage or data, with a message on stderr.
    """
    if argv is None and not sys.stderr.isatty():
        for name in _NO_BARS:  # which the libraries read when they are imported
            os.environ.setdefault(name, "1")
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:  # help, or wrong arguments
        return FAILED if stop.code else DONE
    try:
        status = import_module(f"span_marker.cli.{options.command}").run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return FAILED
    except Exception as error:
        if options.traceback:
            raise
        kind = "" if isinstance(error, ValueError | TypeError | OSError) else f"{type(error).__name__}: "
        print(f"span-marker {options.command}: {kind}{error}", file=sys.stderr)
        return FAILED
    return int(status)
