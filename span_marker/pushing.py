"""Uploading a model to the Hub with its own model card: transformers' own upload puts another one in its place."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from huggingface_hub import CommitInfo, HfApi
from transformers import PreTrainedModel

from span_marker._version import __version__
from span_marker.model_card import SpanMarkerModelCardData, published_card
from span_marker.overriding import overridden

PUSH_SETTINGS = (
    "repo_id",
    "commit_message",
    "commit_description",
    "private",
    "token",
    "revision",
    "create_pr",
    "tags",
)
"""Arguments of [`push`] by name."""


def push(
    model: PreTrainedModel,
    folder: str | os.PathLike[str],
    save: Callable[[str | None], None],
    *,
    repo_id: str | None = None,
    commit_message: str | None = None,
    commit_description: str | None = None,
    private: bool | None = None,
    token: bool | str | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    tags: Sequence[str] | None = None,
) -> CommitInfo:
    """Save a model into a folder, and upload the files that are new there.

    Args:
        model: The model. While it is saved, its card says that it is in the repository.
        folder: The folder, made if it does not exist.
        save: Saves the model, given the card that is in the repository.
        repo_id: The repository, made if it does not exist. ``None``: the folder's name.
        commit_message: First line of the commit's message.
        commit_description: The rest of it.
        private: Whether a new repository is private.
        token: Token for the repository. ``None``: the one that is stored on this machine.
        revision: Branch to upload to, made if it does not exist.
        create_pr: Whether to make a pull request instead.
        tags: Further tags of the card.

    Returns:
        The commit.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    hub = HfApi(library_name="span-marker", library_version=__version__)
    repository = hub.create_repo(repo_id or path.name, private=private, token=token, exist_ok=True).repo_id
    before = model._get_files_timestamps(path)
    card: SpanMarkerModelCardData = model.model_card_data
    with overridden(card, model_id=repository, tags=list(dict.fromkeys([*(card.tags or []), *(tags or [])]))):
        save(published_card(repository, token, revision))
    commit: CommitInfo = model._upload_modified_files(
        path,
        repository,
        before,
        commit_message=commit_message,
        token=token,
        create_pr=create_pr,
        revision=revision,
        commit_description=commit_description,
    )
    return commit
