"""The Hugging Face Hub: how a model's files come from there, what goes wrong on the way, and how folders get there."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import CommitInfo, HfApi, hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError
from transformers.utils import CONFIG_NAME
from transformers.utils.hub import extract_commit_hash

from span_marker._version import __version__

_MODEL_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-?????-of-?????.safetensors",
)
"""Files beside the configuration that count as missing where the Hub fails to give them."""
_DOWNLOAD_OPTIONS = ("subfolder", "token", "cache_dir", "force_download")
_PULL_REQUEST = "refs/pr/"
_HANDLER = '''"""Lets Inference Endpoints find the entities of texts with the model in this folder."""

from span_marker.endpoint import EndpointHandler

__all__ = ["EndpointHandler"]
'''
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


def fetch(repo_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Download a model's configuration, weights and tokenizer, all from one commit.

    transformers asks for each file by itself: files of two commits get mixed where somebody pushes meanwhile, and a
    file that the Hub is too busy to give counts as missing.

    Args:
        repo_id: Name of the repository.
        options: Where to look: ``revision``, ``subfolder``, ``token``, ``cache_dir``, ``force_download`` and
            ``local_files_only`` as `from_pretrained` takes them.

    Returns:
        The options, the revision being the commit; unchanged where the user has no access, of which transformers says
        what to do.

    Raises:
        OSError: The repository has no configuration, or the Hub does not answer and the files were not downloaded
            before.
    """
    is_local = bool(options.get("local_files_only"))
    given = {name: options[name] for name in _DOWNLOAD_OPTIONS if options.get(name) is not None}
    try:
        config = hf_hub_download(
            repo_id, CONFIG_NAME, revision=options.get("revision"), local_files_only=is_local, **given
        )
    except RemoteEntryNotFoundError as error:
        raise OSError(f"The repository {repo_id!r} holds no model: it has no {CONFIG_NAME} there.") from error
    except Exception as error:  # of classes that depend on the HTTP client
        if connection_error(error) is not None and not is_local:
            raise
        return dict(options)
    commit = extract_commit_hash(config, None)
    for name in [] if is_local else _list_files(repo_id, commit, given):
        hf_hub_download(repo_id, name, revision=commit, **given)
    return {**options, "revision": commit, "force_download": False}


def _list_files(repo_id: str, commit: str, given: Mapping[str, Any]) -> list[str]:
    """Name the files to download from a folder of a repository; none where the Hub does not tell."""
    try:
        siblings = HfApi().model_info(repo_id, revision=commit, token=given.get("token")).siblings or []
    except Exception:  # of classes that depend on the HTTP client; the files may be in the cache
        return []
    folder = f"{given['subfolder']}/" if given.get("subfolder") else ""
    names = [file.rfilename.removeprefix(folder) for file in siblings if file.rfilename.startswith(folder)]
    return [name for name in names if any(fnmatch(name, pattern) for pattern in _MODEL_FILES)]


def connection_error(error: BaseException | None) -> BaseException | None:
    """Find the failure of the connection, or of the Hub itself, that an error comes from.

    Args:
        error: The error.

    Returns:
        What failed: no answer, or one that says that the Hub is busy or broken. ``None``: nothing of that kind.
    """
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is None:  # httpx, or httpx2 with newer clients
            failed = isinstance(error, ConnectionError | TimeoutError) or type(error).__module__.startswith("httpx")
        else:
            failed = status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR
        if failed:
            return error
        error = error.__cause__ or error.__context__
    return None


def create_branch(repo_id: str, revision: str | None, token: str | bool | None = None) -> None:
    """Make the branch that is pushed to, unless there is one.

    Args:
        repo_id: Name of the repository.
        revision: Name of the branch. ``None`` and pull requests need none.
        token: Token of the user. ``None``: the one that is logged in.
    """
    if revision is not None and not revision.startswith(_PULL_REQUEST):
        HfApi().create_branch(repo_id, branch=revision, token=token, exist_ok=True)


def push(
    save: Callable[[Path, str], object],
    repo_id: str,
    *,
    commit_message: str,
    commit_description: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
) -> CommitInfo:
    """Save something to a folder and upload all that is in it, in one commit.

    Args:
        save: Saves to a folder; it is given the repository's name with its owner, too.
        repo_id: Name of the repository, made if there is none: "organization/name", or "name" of the user's own.
        commit_message: Message of the commit.
        commit_description: More about the commit.
        private: Whether a new repository is private. ``None``: as its owner has set.
        token: Token of the user. ``None``: the one that is logged in.
        revision: Branch to push to, made if there is none. ``None``: the main one.
        create_pr: Whether to open a pull request instead.

    Returns:
        The commit, which is also its address as a string.

    Raises:
        OSError: The user may not write to the repository, or the Hub cannot be reached.
    """
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    if not create_pr:
        create_branch(repo_id, revision, token)
    with TemporaryDirectory() as folder:
        save(Path(folder), repo_id)
        return api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            commit_description=commit_description,
            revision=revision,
            create_pr=create_pr,
        )


def write_inference_handler(folder: Path) -> None:
    """Write what Inference Endpoints look for beside a model: the handler, and the packages that it needs.

    Args:
        folder: The folder with the model.
    """
    (folder / "handler.py").write_text(_HANDLER, encoding="utf-8")
    (folder / "requirements.txt").write_text(f"span_marker>={__version__}\n", encoding="utf-8")
