"""``span-marker env``: what a bug report should say of the machine."""

import platform
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, version

import torch

from span_marker._version import __version__

_PACKAGES = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "huggingface-hub", "numpy", "pyarrow")
_OPTIONAL = (
    "codecarbon",
    "hydra-core",
    "matplotlib",
    "mlflow",
    "onnxruntime",
    "optuna",
    "rich",
    "spacy",
    "tensorboard",
)


def run(options: Namespace) -> int:
    """Show versions and devices.

    Args:
        options: What the command was given.

    Returns:
        Exit status.
    """
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    lines = {"span_marker": __version__, "Python": platform.python_version(), "platform": platform.platform()}
    lines |= {name: _version(name) or "not installed" for name in _PACKAGES}
    lines |= {name: found for name in _OPTIONAL if (found := _version(name))}
    lines |= {"devices": ", ".join(devices) or "CPU", "threads": str(torch.get_num_threads())}
    for name, value in lines.items():
        print(f"{name}: {value}")
    return 0


def _version(name: str) -> str | None:
    """Find the version of a package, if it is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
