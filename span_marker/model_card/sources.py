"""Where data and encoders come from, as far as this machine knows: without the network, and without guesses."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from datasets.naming import camelcase_to_snakecase
from huggingface_hub import constants, hf_hub_download
from huggingface_hub.repocard import RepoCard
from transformers import PreTrainedConfig
from transformers.utils import logging

from span_marker.model_card.checks import is_hub_id, is_language

logger = logging.get_logger(__name__)

_HUB_FILE = re.compile(r"hf://datasets/(?P<id>[^/@]+(?:/[^/@]+)?)@(?P<revision>[0-9a-f]{40})/")
_CACHE_FILE = re.compile(r"/(?P<owner>[^/]+)___(?P<name>[^/]+)/.*/(?P<revision>[0-9a-f]{40})/[^/]+$")
"""A file in the cache of `datasets`: ".../owner___data_set/configuration/version/revision/data_set-train.arrow"."""


@dataclass(frozen=True)
class DataSource:
    """Where a data set comes from.

    Attributes:
        name: What to call it.
        id: Its id on the Hub.
        revision: Its revision there.
        config: The configuration, unless it is the default.
        split: The split that it is, where it is a whole one.
        splits: Number of rows of each split.
        languages: Codes of its languages.
    """

    name: str | None = None
    id: str | None = None
    revision: str | None = None
    config: str | None = None
    split: str | None = None
    splits: dict[str, int] = field(default_factory=dict)
    languages: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DataSource":
        """Read what `to_dict` wrote; ids and languages that cannot be any are left out.

        Args:
            values: The attributes.

        Returns:
            The source.
        """
        texts = {name: values.get(name) for name in ("name", "id", "revision", "config", "split")}
        known = {name: text for name, text in texts.items() if isinstance(text, str)}
        if not is_hub_id(known.get("id")):
            known.pop("id", None)
        splits = {str(name): int(rows) for name, rows in values["splits"].items()}
        return cls(**known, splits=splits, languages=tuple(filter(is_language, values["languages"])))

    def to_dict(self) -> dict[str, Any]:
        """Write the source as plain values.

        Returns:
            The attributes.
        """
        return asdict(self)


def find_source(dataset: Any) -> DataSource:
    """Find out where a data set comes from.

    `datasets` remembers the files that it read, through selections, filters and maps. A concatenation of several data
    sets has no source.

    Args:
        dataset: A data set.

    Returns:
        What is certain.
    """
    if not isinstance(dataset, Dataset) or dataset.info.builder_name is None:  # as it is of rows and concatenations
        return DataSource()
    found = {*_downloads(dataset), *_caches(dataset)}
    identity, revision = found.pop() if len(found) == 1 else (None, None)
    info = dataset.info
    splits = {str(name): int(split.num_examples) for name, split in (info.splits or {}).items() if split.num_examples}
    split = str(dataset.split) if dataset.split is not None else None
    card = cached_metadata(identity, "dataset", revision) if identity else {}
    languages = card.get("language") or []
    return DataSource(
        name=card["pretty_name"] if isinstance(card.get("pretty_name"), str) else None,
        id=identity,
        revision=revision,
        config=info.config_name if identity and info.config_name != "default" else None,
        split=split if split is not None and splits.get(split) == len(dataset) else None,
        splits=splits,
        languages=tuple(filter(is_language, [languages] if isinstance(languages, str) else languages)),
    )


def encoder_id(config: PreTrainedConfig) -> str | None:
    """Find the encoder's id on the Hub.

    A name is not enough: "models/bert" may be a folder. transformers keeps the commit of what came from the Hub, and
    has none for a folder.

    Args:
        config: The encoder's configuration.

    Returns:
        The id, where it is certain.
    """
    name = getattr(config, "_name_or_path", None)
    if not name or not getattr(config, "_commit_hash", None) or Path(name).exists():
        return None
    return str(name) if is_hub_id(name) else None


def cached_metadata(
    repo_id: str, repo_type: str = "model", revision: str | None = None, *, online: bool = False
) -> dict[str, Any]:
    """Read the metadata of the card of something on the Hub.

    Args:
        repo_id: Its id.
        repo_type: "model" or "dataset".
        revision: The revision.
        online: Whether to ask the Hub, where the card is not in the cache of this machine.

    Returns:
        The metadata; empty if there is none, it is damaged, or the Hub does not answer.
    """
    try:
        path = hf_hub_download(
            repo_id, constants.REPOCARD_NAME, repo_type=repo_type, revision=revision, local_files_only=not online
        )
        card = RepoCard.load(path, ignore_metadata_errors=True)
    except Exception as error:
        # Whatever is wrong with the network, the Hub or a file there: no card is worth failing for.
        logger.info(f"The card of {repo_id} is not known: {error}")
        return {}
    metadata: dict[str, Any] = card.data.to_dict()
    return metadata


def _downloads(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """List the repositories that a data set's files were downloaded from, where `datasets` recorded them."""
    for url in dataset.info.download_checksums or ():
        match = _HUB_FILE.match(url)
        if match and is_hub_id(match["id"]):
            yield match["id"], match["revision"]


def _caches(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """List the repositories that a data set's cached files were made from.

    Their folder says the owner, the name in snake case, and the revision. The name itself is that of the repository
    with this revision in the Hub's cache, where `datasets` leaves its card.
    """
    for file in {Path(entry["filename"]).as_posix() for entry in dataset.cache_files}:
        match = _CACHE_FILE.search(file)
        if not match:
            continue
        for folder in Path(constants.HF_HUB_CACHE).glob(f"datasets--{match['owner']}--*/snapshots/{match['revision']}"):
            name = folder.parents[1].name.removeprefix(f"datasets--{match['owner']}--")
            if camelcase_to_snakecase(name) == match["name"] and is_hub_id(f"{match['owner']}/{name}"):
                yield f"{match['owner']}/{name}", match["revision"]
