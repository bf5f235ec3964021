"""The environment of span-marker 1.8.1, the reference that benchmarks compare with, and scripts that run in it.

The reference needs another transformers than this package and has the same import name, so the two cannot share a
process. A script is a text that defines ``run(payload)``; it runs in a process of its own, under the reference's Python
or under this one, gets a JSON value and gives one back.

Run as a program, this module makes the environment: ``python benchmarks/peer.py``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PEER_VERSION = "1.8.1"
FOLDER = Path(__file__).resolve().parent / f".venv-span-marker-{PEER_VERSION}"
"""Where the environment is made; git ignores it."""
REQUIREMENTS = (("torch==2.13.0",), (f"span-marker=={PEER_VERSION}", "transformers==4.57.6"))
"""What is installed, step by step: torch first, so that it is the version that this package is measured with."""

_SERVER = """
if __name__ == "__main__":
    import json as _json, os as _os, sys as _sys
    _answers = _os.fdopen(_os.dup(1), "w")
    _os.dup2(2, 1)  # what libraries print is no answer
    for _line in _sys.stdin:
        print(_json.dumps(run(_json.loads(_line))), file=_answers, flush=True)
"""
_VERSIONS = """
def run(payload):
    from importlib.metadata import version
    import span_marker
    return {"span_marker": span_marker.__version__} | {name: version(name) for name in ("torch", "transformers")}
"""


class PeerError(RuntimeError):
    """The environment could not be made, or a script failed in it; the message says how."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every benchmark with the reference has.

    Args:
        parser: The benchmark's parser.
    """
    parser.add_argument(
        "--peer-python",
        type=Path,
        metavar="PYTHON",
        help=f"interpreter of an environment that has span-marker {PEER_VERSION} (default: make one in {FOLDER.name})",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of either package (default: torch's own)")


def find_peer(python: Path | None = None) -> Path:
    """Find the reference's interpreter, and make its environment where there is none.

    Args:
        python: An interpreter to use instead.

    Returns:
        The interpreter.

    Raises:
        PeerError: The environment cannot be made, or its span_marker is not the reference.
    """
    python = _make() if python is None else Path(os.path.abspath(python))  # a resolved link would leave the environment
    if not python.is_file():
        raise PeerError(f"There is no interpreter {python}. Pass --peer-python with one, or leave it out to make one.")
    found = versions(python)
    if found["span_marker"] != PEER_VERSION:
        raise PeerError(f"{python} has span_marker {found['span_marker']}, not the reference, {PEER_VERSION}.")
    return python


def versions(python: Path) -> dict[str, str]:
    """Ask an environment for its versions.

    Args:
        python: Its interpreter.

    Returns:
        Those of ``span_marker``, ``torch`` and ``transformers``.

    Raises:
        PeerError: It lacks one of them.
    """
    found: dict[str, str] = run_script(python, _VERSIONS)
    return found


class Worker:
    """A script in a process of its own, which can be run again and again; close it after use, or use ``with``.

    Nothing is looked up on the Hub.

    Args:
        python: The interpreter. Any but this process's own finds its own packages only.
        script: Text that defines ``run(payload)``.
        threads: Number of CPU threads. ``None``: what the libraries choose.
    """

    def __init__(self, python: Path, script: str, threads: int | None = None) -> None:
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="span-marker-benchmark-")
        folder = Path(self._folder.name)
        (folder / "script.py").write_text(script + _SERVER, encoding="utf-8")
        self._log = (folder / "log.txt").open("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [str(python), "script.py"],
            cwd=folder,
            env=_environment(python, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __call__(self, payload: Any = None) -> Any:
        """Run the script.

        Args:
            payload: A JSON value, what ``run`` gets.

        Returns:
            The JSON value that ``run`` returns.

        Raises:
            PeerError: The script failed; the end of what it wrote is in the message.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):  # it has ended; what it wrote tells why
            print(json.dumps(payload), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._log.seek(0)
            written = self._log.read().splitlines()
            raise PeerError(f"A script failed under {self._python}:\n" + "\n".join(written[-25:]))
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()
        self._log.close()
        self._folder.cleanup()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_script(python: Path, script: str, payload: Any = None, threads: int | None = None) -> Any:
    """Run a script once, in a process of its own; see [`Worker`].

    Args:
        python: The interpreter.
        script: Text that defines ``run(payload)``.
        payload: A JSON value, what ``run`` gets.
        threads: Number of CPU threads. ``None``: what the libraries choose.

    Returns:
        The JSON value that ``run`` returns.

    Raises:
        PeerError: The script failed; the end of what it wrote is in the message.
    """
    with Worker(python, script, threads) as worker:
        return worker(payload)


def _environment(python: Path, threads: int | None) -> dict[str, str]:
    """Collect the environment variables of a script."""
    variables = dict(os.environ) | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    paths = [os.path.abspath(path) for path in variables.pop("PYTHONPATH", "").split(os.pathsep) if path]
    # Both packages are called span_marker: what is on this process's path must not reach the reference.
    if paths and python == Path(sys.executable):
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    if threads is not None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")  # the last one: tokenizers
        variables |= dict.fromkeys(names, str(threads))
    return variables


def _make() -> Path:
    """Make the environment, or find it made.

    Returns:
        Its interpreter.
    """
    python = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = FOLDER / "complete"
    if done.is_file():
        return python
    print(f"Making the environment of span-marker {PEER_VERSION} in {FOLDER}, once.", file=sys.stderr)
    venv.create(FOLDER, clear=True, with_pip=True)
    for requirements in REQUIREMENTS:
        command = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
            raise PeerError(f"`{' '.join(command)}` failed; see above. Pass --peer-python to use another environment.")
    done.touch()
    return python


def main(argv: Sequence[str] | None = None) -> int:
    """Make the environment and print its versions.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(description=f"Make the environment of span-marker {PEER_VERSION}.")
    add_arguments(parser)
    try:
        python = find_peer(parser.parse_args(argv).peer_python)
    except PeerError as error:
        print(f"peer: {error}", file=sys.stderr)
        return 2
    print(python)
    for package, number in versions(python).items():
        print(f"{package} {number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
