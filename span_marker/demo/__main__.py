"""Command line of the demo: ``python -m span_marker.demo``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from span_marker.demo import MINILM, SAMPLE, DemoError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Args:
        argv: Arguments, without the program's name. ``None``: those of the command line.

    Returns:
        Exit status: 0, or 2 with one line on stderr if the user has to put something right.
    """
    try:
        settings = _parse(argv)
        try:
            # rich is an extra: without it the hint below is shown, not a traceback.
            from span_marker.demo.program import run  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if error.name != "rich":
                raise
            raise DemoError("The demo needs the package rich. Run `pip install rich`.") from error
        run(
            data=settings.data,
            encoder=settings.encoder,
            output=settings.output,
            epochs=settings.epochs,
            seed=settings.seed,
            limit=settings.limit,
        )
    except DemoError as error:
        print(f"span_marker.demo: {error}", file=sys.stderr)
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are the demo's own: one line, no usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Report a wrong argument.

        Raises:
            DemoError: Always.
        """
        raise DemoError(f"{message}. See --help.")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m span_marker.demo",
        description="Train a named entity recognition model on a small corpus, score it, use it and save it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default=SAMPLE, help="'sample', a data set in $SPAN_MARKER_SHARED/data, or a folder")
    parser.add_argument("--encoder", default=MINILM, help="'minilm', or a folder or Hub id of an encoder")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the model")
    parser.add_argument("--epochs", type=_positive, default=6, help="passes over the training sentences")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--limit", type=_positive, help="use only so many training sentences")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    """Read a positive integer.

    Raises:
        ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
