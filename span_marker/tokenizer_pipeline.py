"""Tokenizer files to a tokenizer that treats pre-split words as the reference does.

Three things are settled here, each on the steps (normalizer, pre-tokenizer, model, post-processor) of the `tokenizers`
library, so that a saved ``tokenizer.json`` holds them:

* what the file says counts. transformers 5 rebuilds many tokenizers from their class and their vocabulary, which loses
  steps such as XLM-R's punctuation split;
* words of a pre-split sentence are marked as words, with a space in front where a tokenizer needs one;
* XLM-R's tokenizer splits punctuation off first.
"""

import json
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoTokenizer
from transformers.utils import cached_file

START_MARKER = "<start>"
END_MARKER = "<end>"

_TOKENIZER_FILE = "tokenizer.json"
_SETTINGS_FILE = "tokenizer_config.json"
_FILE_OPTIONS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
_PROBES = (("a", "b"), ("the", "in", "New"))


def load_tokenizer(path: str | PathLike[str], *inputs: Any, **kwargs: Any) -> Any:
    """Load a tokenizer, its steps as ``tokenizer.json`` has them.

    Args:
        path: Folder, or name of a repository on the Hub.
        *inputs: Passed on to `AutoTokenizer.from_pretrained`.
        **kwargs: Passed on to `AutoTokenizer.from_pretrained`. ``trust_remote_code`` is off unless given here.

    Returns:
        A tokenizer of the class that the files name.

    Raises:
        ValueError: A file is damaged, or the tokenizer is not one of the `tokenizers` library.
        OSError: The files are missing.
    """
    kwargs.setdefault("trust_remote_code", False)
    options = {name: kwargs[name] for name in _FILE_OPTIONS if name in kwargs}
    file = _find(path, _TOKENIZER_FILE, options)
    backend = None if file is None else _read(file)
    settings = _find(path, _SETTINGS_FILE, options)
    if settings is not None:
        _check_json(settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, *inputs, **kwargs)
    except ValueError as error:
        raise ValueError(
            f"There is no tokenizer to load in {path}: {error} Expected {_TOKENIZER_FILE} and {_SETTINGS_FILE}."
        ) from error
    if backend is not None:
        _restore_steps(tokenizer, backend)
        return tokenizer
    require_backend(tokenizer)
    # Without a vocabulary transformers 5 returns a tokenizer that knows the special tokens and nothing else.
    names = sorted(set(tokenizer.vocab_files_names.values()))
    if all(_find(path, name, options) is None for name in names):
        raise OSError(f"There is no vocabulary in {path}: expected {_TOKENIZER_FILE}, or one of {', '.join(names)}.")
    return tokenizer


def require_backend(tokenizer: Any) -> Tokenizer:
    """Return what does a tokenizer's work.

    Args:
        tokenizer: A tokenizer of transformers.

    Returns:
        The tokenizer of the `tokenizers` library in it.

    Raises:
        ValueError: There is none.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ValueError(
            f"{type(tokenizer).__name__} is no tokenizer of the `tokenizers` library, which tells words from tokens. "
            f"Use an encoder that has a {_TOKENIZER_FILE}."
        )
    return backend


def special_ids(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """Find the tokens that a tokenizer puts before and after a text.

    Args:
        backend: The tokenizer.

    Returns:
        Ids of the tokens before, and of those after.
    """
    for probe in chain.from_iterable(_PROBES):
        encoding = backend.encode(probe)
        text = [index for index, special in enumerate(encoding.special_tokens_mask) if not special]
        if text:
            return encoding.ids[: text[0]], encoding.ids[text[-1] + 1 :]
    # The vocabulary has no token for any of them: take the convention, one token on either side.
    return encoding.ids[:1], encoding.ids[1:]


def mark_words(tokenizer: Any, *, may_prepend: bool) -> None:
    """Make the words of a pre-split sentence look like words of a text.

    Byte-level tokenizers take a word for the end of the one before unless a space comes first. Whether one does is
    found by comparing a pre-split sentence with the same sentence as text.

    Args:
        tokenizer: The tokenizer, changed in place.
        may_prepend: Whether a space may be put in front of each text where the pre-tokenizer has no setting for it.
            The reference never does so: its checkpoints must be read without.
    """
    backend = require_backend(tokenizer)
    if _marks_words(backend):
        return
    before = backend.normalizer, backend.pre_tokenizer
    if isinstance(before[1], pre_tokenizers.ByteLevel):
        tokenizer.add_prefix_space = True
        backend.pre_tokenizer.add_prefix_space = True
        _expect_prefix_space(backend)
    elif may_prepend:
        prepend = normalizers.Prepend(" ")
        backend.normalizer = prepend if before[0] is None else normalizers.Sequence([prepend, before[0]])
        if _marks_words(backend):
            _expect_prefix_space(backend)
        else:
            backend.normalizer = before[0]


def split_punctuation(tokenizer: Any) -> None:
    """Let XLM-R's tokenizer split punctuation off its words first, as the reference does.

    Args:
        tokenizer: The tokenizer, changed in place where its class is XLM-R's.
    """
    backend = require_backend(tokenizer)
    steps: Any = backend.pre_tokenizer
    if type(tokenizer).__name__.removesuffix("Fast") != "XLMRobertaTokenizer" or steps is None:
        return
    nested = isinstance(backend.pre_tokenizer, pre_tokenizers.Sequence)
    listed = list(steps) if nested else [steps]
    if not any(isinstance(step, pre_tokenizers.Punctuation) for step in listed):
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), *listed])


def make_readable_by_transformers_4(file: Path) -> None:
    """Write a saved tokenizer's settings such that transformers 4 can read them, and transformers 5 still does.

    Args:
        file: A ``tokenizer_config.json``, changed in place.
    """
    settings = json.loads(file.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(settings.get("extra_special_tokens"), list):
        settings["additional_special_tokens"] = settings.pop("extra_special_tokens")
    file.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _find(path: str | PathLike[str], name: str, options: dict[str, Any]) -> str | None:
    """Find a file in a folder or a repository."""
    found: str | None = cached_file(
        path,
        name,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        **options,
    )
    return found


def _read(file: str) -> Tokenizer:
    """Read a ``tokenizer.json``.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return Tokenizer.from_file(file)
    except Exception as error:  # the library raises no narrower class
        raise ValueError(f"{file} is damaged ({error}). Restore it, or download it again.") from error


def _check_json(file: str) -> None:
    """Refuse a file that is not JSON.

    Raises:
        ValueError: It is damaged.
    """
    try:
        json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}). Restore it, or download it again.") from error


def _restore_steps(tokenizer: Any, backend: Tokenizer) -> None:
    """Take all steps from a ``tokenizer.json``, and what only ``tokenizer_config.json`` holds from the loaded one."""
    loaded = require_backend(tokenizer)
    if isinstance(loaded.normalizer, normalizers.BertNormalizer):
        # Casing and accents are settings of BERT's tokenizers; they override the file in every version of transformers.
        backend.normalizer = loaded.normalizer
    if backend.post_processor is None and loaded.post_processor is not None:
        backend.post_processor = loaded.post_processor
    for _, token in sorted(loaded.get_added_tokens_decoder().items()):
        if backend.token_to_id(token.content) is None:
            (backend.add_special_tokens if token.special else backend.add_tokens)([token])
    tokenizer._tokenizer = backend


def _marks_words(backend: Tokenizer) -> bool:
    """Tell whether pre-split sentences give the tokens of the same sentences as text."""
    return all(
        backend.encode(list(words), is_pretokenized=True).ids == backend.encode(" ".join(words)).ids
        for words in _PROBES
    )


def _expect_prefix_space(backend: Tokenizer) -> None:
    """Tell the post-processor that a text begins with a space of ours, or it would trim a character off the text."""
    processor = backend.post_processor
    if processor is None:
        return
    state = json.loads(processor.__getstate__())
    for step in state.get("processors", [state]):
        if "add_prefix_space" in step:
            step["add_prefix_space"] = True
    processor.__setstate__(json.dumps(state).encode())
    backend.post_processor = processor
