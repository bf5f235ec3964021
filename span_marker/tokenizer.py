"""Words to token ids, and where each word's tokens are."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from huggingface_hub import CommitInfo
from transformers import PreTrainedConfig

from span_marker.configuration import SpanMarkerConfig
from span_marker.hub import push
from span_marker.span_columns import entity_table, span_columns, span_labels
from span_marker.tokenizer_pipeline import (
    END_MARKER,
    START_MARKER,
    load_tokenizer,
    make_readable_by_transformers_4,
    mark_words,
    require_backend,
    special_ids,
    split_punctuation,
)
from span_marker.types import Columns, IntArray
from span_marker.word_encoding import EncodedWords, Frame, align_words, trim_spans, whitespace_words, word_spans
from span_marker.word_splitters import WordSplitter, choose_word_splitter, find_words, split_characters

DEFAULT_MAX_LENGTH = 512
"""Most tokens of a sentence where neither the configuration nor the tokenizer says."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class SpanMarkerTokenizer:
    """A tokenizer of transformers, with the two marker tokens, that knows which tokens belong to which word.

    Attributes that are not found here are the tokenizer's own: ``decode``, ``mask_token_id`` and so on.

    Args:
        tokenizer: A tokenizer of the `tokenizers` library as transformers wraps it. It is changed in place: the
            markers are added, words of pre-split sentences are marked as words, and XLM-R's splits punctuation off.
        config: The model's configuration.

    Raises:
        ValueError: The tokenizer is not one of the `tokenizers` library.
    """

    def __init__(self, tokenizer: Any, config: SpanMarkerConfig) -> None:
        self.tokenizer = tokenizer
        self.config = config
        backend = require_backend(tokenizer)
        self._saved_with_markers = START_MARKER in backend.get_vocab() and END_MARKER in backend.get_vocab()
        tokenizer.add_tokens([START_MARKER, END_MARKER], special_tokens=True)
        split_punctuation(tokenizer)
        mark_words(tokenizer, may_prepend=not self._saved_with_markers)
        _switch_off_padding(tokenizer)
        prefix, suffix = special_ids(tokenizer.backend_tokenizer)
        self._prefix, self._suffix = tuple(prefix), tuple(suffix)
        self.start_marker_id = int(tokenizer.convert_tokens_to_ids(START_MARKER))
        self.end_marker_id = int(tokenizer.convert_tokens_to_ids(END_MARKER))

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | PathLike[str],
        *inputs: Any,
        config: SpanMarkerConfig | None = None,
        **kwargs: Any,
    ) -> "SpanMarkerTokenizer":
        """Load the tokenizer of an encoder or of a saved model.

        Args:
            pretrained_model_name_or_path: Folder, or name of a repository on the Hub.
            *inputs: Passed on to `AutoTokenizer.from_pretrained`.
            config: The model's configuration. None: the one that lies beside the tokenizer.
            **kwargs: Passed on to `AutoTokenizer.from_pretrained`.

        Returns:
            The tokenizer.

        Raises:
            ValueError: A file is damaged, or the tokenizer is not one of the `tokenizers` library.
            OSError: The files are missing.
        """
        path = pretrained_model_name_or_path
        config = config or _read_config(path, kwargs)
        tokenizer = load_tokenizer(path, *inputs, config=_encoder_config(config), **kwargs)
        return cls(tokenizer, config)

    def save_pretrained(self, save_directory: str | PathLike[str], **kwargs: Any) -> tuple[str, ...]:
        """Save the tokenizer with its markers, such that transformers 4 and 5 load it alike.

        Args:
            save_directory: Folder, made where it is missing.
            **kwargs: Passed on to the tokenizer's `save_pretrained`.

        Returns:
            Paths of the files.
        """
        _switch_off_padding(self.tokenizer)
        paths: tuple[str, ...] = self.tokenizer.save_pretrained(save_directory, **kwargs)
        make_readable_by_transformers_4(Path(save_directory) / "tokenizer_config.json")
        return paths

    def push_to_hub(self, repo_id: str, *, commit_message: str = "Upload tokenizer", **kwargs: Any) -> CommitInfo:
        """Upload what `save_pretrained` saves.

        Args:
            repo_id: Name of the repository, made if there is none: "organization/name", or "name" of the user's own.
            commit_message: Message of the commit.
            **kwargs: ``private``, ``token``, ``revision``, ``create_pr`` and ``commit_description``; see
                [`span_marker.SpanMarkerModel.push_to_hub`].

        Returns:
            The commit, which is also its address as a string.

        Raises:
            OSError: The user may not write to the repository, or the Hub cannot be reached.
        """
        return push(lambda folder, _: self.save_pretrained(folder), repo_id, commit_message=commit_message, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling ask for attributes before there is a tokenizer to ask.
        if name == "tokenizer" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __len__(self) -> int:
        """Return the size of the vocabulary, markers included."""
        return len(self.tokenizer)

    @property
    def marker_ids(self) -> tuple[int, int]:
        """Ids of the start marker and of the end marker."""
        return self.start_marker_id, self.end_marker_id

    @property
    def pad_token_id(self) -> int:
        """Id of the padding token; where a tokenizer has none, of another that is safe to mask."""
        ids = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, self.tokenizer.unk_token_id)
        return next((int(token) for token in ids if token is not None), 0)

    @property
    def num_special_tokens(self) -> tuple[int, int]:
        """Number of special tokens before a text, and after it."""
        return len(self._prefix), len(self._suffix)

    @property
    def model_max_length(self) -> int:
        """Most tokens of a sentence, special tokens included.

        The configuration's value, but no more than the encoder's tokenizer allows. The tokenizer of a saved model
        does not count: it repeats the value of the configuration it was saved with.
        """
        wanted = self.config.model_max_length
        if wanted is not None and self._saved_with_markers:
            return int(wanted)
        return int(min(wanted or DEFAULT_MAX_LENGTH, self.tokenizer.model_max_length))

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how sentences are encoded."""
        # Read and written again, because the order of some keys differs from one tokenizer to its copy.
        steps = json.loads(_switch_off_padding(self.tokenizer).to_str())
        settings = [self.model_max_length, self.pad_token_id, self.config.word_splitter, self.config.split_unspaced]
        content = json.dumps([steps, *settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def words(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Split texts into words as `SpanMarkerModel.predict` does.

        Args:
            texts: The texts.

        Returns:
            Start and end (exclusive) of each word in its text, in order, without whitespace around it. A tokenizer that
            makes a word of whitespace gives it an empty span: it counts as a word but begins and ends no entity.
        """
        spans = self.encode(texts, truncate=False).character_spans or []
        return [[(start, end) for start, end in row.tolist()] for row in spans]

    def encode(
        self,
        sentences: Sequence[str] | Sequence[Sequence[str]],
        *,
        truncate: bool = True,
        word_splitter: WordSplitter | None = None,
    ) -> EncodedWords:
        """Encode sentences and find the tokens of their words.

        Empty sentences, words that give no token and words longer than the model are legal.

        Args:
            sentences: Texts, or sentences as lists of words; not both at once.
            truncate: Whether to cut sentences at `model_max_length`.
            word_splitter: Splits texts into words. ``None``: as the configuration says.

        Returns:
            The sentences. Cut ones end after the last token that fits: the last word may have lost tokens.

        Raises:
            ValueError: A sentence is neither a text nor a list of words, or the word splitter's words are none, or
                there is one for lists of words.
            ImportError: The configuration's word splitter is not installed.
        """
        backend = _switch_off_padding(self.tokenizer)
        frame = Frame(self._prefix, self._suffix, self.pad_token_id, self.model_max_length if truncate else None)
        if _are_texts(sentences):
            word_splitter = word_splitter or choose_word_splitter(self.config.word_splitter)
            encodings, word_rows, spans = _encode_texts(backend, sentences, word_splitter, self.config.split_unspaced)
            num_words = np.array([len(row) for row in spans], dtype=np.int64)
        else:
            if word_splitter is not None and sentences:
                raise ValueError(
                    f"word_splitter is given, but the sentences are lists of words: {list(sentences[0])!r:.60}. Pass "
                    "texts, or leave it out."
                )
            encodings = _encode_words(backend, sentences)
            word_rows = [encoding.word_ids for encoding in encodings]
            spans, num_words = None, np.array([len(words) for words in sentences], dtype=np.int64)
        encoded = align_words([encoding.ids for encoding in encodings], word_rows, num_words, frame)
        if spans is None:
            return encoded
        whitespace = whitespace_words(spans)
        for row, blank in zip(spans, whitespace, strict=True):
            row[blank, 1] = row[blank, 0]
        kept = [row[:count] for row, count in zip(whitespace, encoded.kept_words.tolist(), strict=True)]
        return replace(
            encoded, is_blank=encoded.is_blank | np.concatenate([*kept, np.zeros(0, dtype=bool)]), character_spans=spans
        )

    def __call__(
        self,
        batch: Columns,
        return_num_words: bool = False,
        return_batch_encoding: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Encode a batch and list its candidate spans.

        Args:
            batch: ``tokens``: texts, or lists of words; optionally ``ner_tags``: the entities of each sentence as
                (reduced label id, first word, word after the last).
            return_num_words: Whether to add ``num_words``, the number of words of each sentence that fit the model.
            return_batch_encoding: Whether to add ``batch_encoding``, the padded ``input_ids`` and ``attention_mask``.
            **kwargs: Passed on to the tokenizer's `pad` for ``batch_encoding``.

        Returns:
            Per sentence ``input_ids``, ``num_spans``, ``start_position_ids``, ``end_position_ids`` and, given
            ``ner_tags``, ``labels``.

        Raises:
            ValueError: A sentence is neither a text nor a list of words.
        """
        encoded = self.encode(batch["tokens"])
        longest = self.config.entity_max_length
        output: dict[str, Any] = {
            name: [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
            for name, values in span_columns(encoded, longest).items()
        }
        if "ner_tags" in batch:
            table = entity_table(batch["ner_tags"])
            labels = span_labels(table, encoded.kept_words, longest, self.config.outside_id)
            output["labels"] = [row.tolist() for row in labels]
        if return_num_words:
            output["num_words"] = encoded.kept_words.tolist()
        if return_batch_encoding:
            settings = {"return_tensors": "pt", **kwargs}
            output["batch_encoding"] = self.tokenizer.pad({"input_ids": output["input_ids"]}, **settings)
        return output


def _switch_off_padding(tokenizer: Any) -> Any:
    """Undo what earlier calls, or a saved file, left switched on; return what does the tokenizer's work."""
    backend = tokenizer.backend_tokenizer
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()
    return backend


def _are_texts(sentences: Sequence[str] | Sequence[Sequence[str]]) -> TypeGuard[Sequence[str]]:
    """Tell texts from lists of words.

    Raises:
        ValueError: There are both.
    """
    texts = [isinstance(sentence, str) for sentence in sentences]
    if any(texts) and not all(texts):
        row = texts.index(not texts[0])
        raise ValueError(
            f"Row {row} is {'a text' if texts[row] else 'a list of words'}, row 0 is not. Pass either texts only or "
            "lists of words only."
        )
    return bool(texts) and texts[0]


def _encode_texts(
    backend: Any, texts: Sequence[str], word_splitter: WordSplitter | None, split_unspaced: bool
) -> tuple[list[Any], list[Any], list[IntArray]]:
    """Encode texts: those in which the tokenizer does not find the words, as lists of words.

    Returns:
        The encodings, the word of each token, and start and end of each word.

    Raises:
        ValueError: The word splitter's words are none of the texts.
    """
    texts = [_without_surrogates(text) for text in texts]
    encodings: list[Any]
    if word_splitter is not None:
        rows = trim_spans(texts, find_words(word_splitter, texts))
        resplit = {index: row[row[:, 0] < row[:, 1]] for index, row in enumerate(rows)}
        encodings, spans = [None] * len(texts), rows
    else:
        encodings = backend.encode_batch(texts, add_special_tokens=False)
        word_rows = [encoding.word_ids for encoding in encodings]
        spans = trim_spans(texts, word_spans([encoding.offsets for encoding in encodings], word_rows))
        resplit = _split_clauses(texts, spans) if split_unspaced else {}
    words = [[texts[index][start:end] for start, end in row.tolist()] for index, row in resplit.items()]
    for index, encoding in zip(resplit, _encode_words(backend, words), strict=True):
        encodings[index], spans[index] = encoding, resplit[index]
    return encodings, [encoding.word_ids for encoding in encodings], spans


def _split_clauses(texts: Sequence[str], spans: Sequence[IntArray]) -> dict[int, IntArray]:
    """Find the texts whose words are clauses of a script without spaces, and split these into characters.

    Returns:
        Start and end of each word by index of the text. Shape of each: ``[words, 2]``.
    """
    resplit = {}
    for index, (text, row) in enumerate(zip(texts, spans, strict=True)):
        if text.isascii():
            continue
        words = [(start, end) for start, end in row.tolist() if start < end]
        pieces = split_characters(text, words)
        if pieces != words:
            (row,) = trim_spans([text], [np.array(pieces, dtype=np.int64)])  # a piece may end in a line break
            resplit[index] = row[row[:, 0] < row[:, 1]]
    return resplit


def _encode_words(backend: Any, sentences: Sequence[Sequence[str]]) -> list[Any]:
    """Encode pre-split sentences; when that fails, find out which one is to blame.

    Raises:
        ValueError: A sentence is not a list of words.
    """
    rows = [sentence if isinstance(sentence, list) else list(sentence) for sentence in sentences]
    try:
        return list(backend.encode_batch(rows, is_pretokenized=True, add_special_tokens=False))
    except TypeError as error:
        for number, row in enumerate(rows):
            for place, word in enumerate(row):
                if not isinstance(word, str):
                    raise ValueError(
                        f"Row {number}, word {place}: expected a string, got {word!r}. A sentence is a list of words."
                    ) from error
        cleaned = [[_without_surrogates(word) for word in row] for row in rows]
        return list(backend.encode_batch(cleaned, is_pretokenized=True, add_special_tokens=False))


def _without_surrogates(text: str) -> str:
    """Replace what is no character, so that lengths stay: half of a surrogate pair cannot be encoded."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _read_config(path: str | PathLike[str], options: dict[str, Any]) -> SpanMarkerConfig:
    """Read the configuration of an encoder or of a saved model."""
    settings, _ = PreTrainedConfig.get_config_dict(path, **options)
    if settings.get("model_type") == SpanMarkerConfig.model_type:
        saved: SpanMarkerConfig = SpanMarkerConfig.from_dict(settings)
        return saved
    return SpanMarkerConfig(settings)


def _encoder_config(config: SpanMarkerConfig) -> PreTrainedConfig:
    """Return the configuration by which transformers chooses a tokenizer's class where its files do not name one."""
    try:
        return config.encoder_config
    except ValueError:
        return config
