"""Sentences to collated batches for prediction, sentences of like length together."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor

from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import SpanMarkerDataCollator
from span_marker.document_context import add_context
from span_marker.span_columns import span_columns
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.types import Columns, Sentences
from span_marker.word_encoding import EncodedWords
from span_marker.word_splitters import WordSplitter

BatchSize: TypeAlias = int | Literal["auto"]
AUTO: Final = "auto"
TOKENS: Final = 512
"""Tokens in a batch of automatic size on a CPU, which gains nothing from more (``benchmarks/span_filter.py``)."""
TOKENS_ON_ACCELERATORS: Final = 16_384
"""The same elsewhere."""


def require_batch_size(batch_size: Any) -> None:
    """Refuse what is no number of sentences and not "auto".

    Args:
        batch_size: What was given.

    Raises:
        TypeError: It is neither an integer nor "auto".
        ValueError: It is not positive.
    """
    if batch_size == AUTO:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral):
        raise TypeError(f'batch_size must be an integer of at least 1, or "auto", but it is {batch_size!r}.')
    if batch_size < 1:
        raise ValueError(f'batch_size must be at least 1, or "auto", but it is {batch_size}.')


class SentenceBatches:
    """Encoded sentences, in batches from the most costly to the least, so that a batch has little padding.

    They are encoded whole, however long they are. Sentences without any candidate span are in no batch.

    Args:
        sentences: Texts or lists of words.
        documents: The columns ``document_id`` and ``sentence_id`` for document-level context, or none.
        tokenizer: The model's tokenizer.
        config: The model's configuration.
        batch_size: Number of sentences in a batch, or "auto".
        word_splitter: Splits texts into words. ``None``: as the configuration says.

    Raises:
        TypeError: The batch size is neither.
        ValueError: It is not positive, or there is a word splitter for lists of words, or its words are none.
    """

    def __init__(
        self,
        sentences: Sentences,
        documents: Columns,
        tokenizer: SpanMarkerTokenizer,
        config: SpanMarkerConfig,
        batch_size: BatchSize,
        word_splitter: WordSplitter | None = None,
    ) -> None:
        require_batch_size(batch_size)
        self.encoded: EncodedWords = tokenizer.encode(sentences, truncate=False, word_splitter=word_splitter)
        self._columns = span_columns(self.encoded, config.entity_max_length)
        if documents:
            self._columns = _add_context(self._columns | documents, tokenizer, config)
        self._collate = SpanMarkerDataCollator(tokenizer)
        self._lengths = np.array([len(ids) for ids in self._columns["input_ids"]])
        num_spans = np.array(self._columns["num_spans"])
        cost = self._lengths + 2 * num_spans
        self._order = [index for index in np.argsort(-cost, kind="stable").tolist() if num_spans[index]]
        self._batch_size = batch_size

    @property
    def num_sentences(self) -> int:
        """Number of sentences in all batches."""
        return len(self._order)

    def batches(self, device: torch.device) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Collate the batches one after the other.

        Args:
            device: Where to put them.

        Yields:
            The indices of a batch's sentences, and the collator's output.
        """
        tokens = TOKENS if device.type == "cpu" else TOKENS_ON_ACCELERATORS
        done = 0
        while done < len(self._order):
            length = int(self._lengths[self._order[done]])
            size = max(tokens // length, 1) if self._batch_size == AUTO else self._batch_size
            indices = self._order[done : done + size]
            rows = [{name: column[index] for name, column in self._columns.items()} for index in indices]
            yield indices, {name: tensor.to(device) for name, tensor in self._collate(rows).items()}
            done += size


def _add_context(columns: Columns, tokenizer: SpanMarkerTokenizer, config: SpanMarkerConfig) -> Columns:
    """Add document-level context to encoded sentences."""
    rows = add_context(
        Dataset.from_dict(columns),
        tokenizer.model_max_length,
        config.max_prev_context,
        config.max_next_context,
        show_progress_bar=False,
        num_special_tokens=tokenizer.num_special_tokens,
    )
    return {name: list(rows[name]) for name in columns}
