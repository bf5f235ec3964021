"""How an encoder's tokenizer copes with the words of a data set."""

from dataclasses import dataclass, field

import numpy as np

from span_marker.data_report.entities import Sentences
from span_marker.data_report.histogram import Histogram
from span_marker.ragged import offsets_of
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.types import BoolArray, IntArray

_EXAMPLES = 10


@dataclass
class TokenizerFit:
    """What a tokenizer made of sentences.

    Attributes:
        words: Number of words.
        unknown: Number of words with an unknown token.
        blank: Number of words without a token of their own.
        unknown_words: The first few words with an unknown token.
        blank_words: The first few without a token.
        text_lengths: Tokens of each sentence, special tokens included.
        entity_ends: Tokens up to the end of each entity, with all special tokens: what a model must read to know it.
    """

    words: int = 0
    unknown: int = 0
    blank: int = 0
    unknown_words: list[str] = field(default_factory=list)
    blank_words: list[str] = field(default_factory=list)
    text_lengths: Histogram = field(default_factory=Histogram)
    entity_ends: Histogram = field(default_factory=Histogram)

    def add(self, sentences: Sentences, tokenizer: SpanMarkerTokenizer) -> None:
        """Tokenize sentences.

        Args:
            sentences: The sentences.
            tokenizer: The tokenizer.
        """
        encoded = tokenizer.encode(sentences.tokens.to_pylist(), truncate=False)
        first_words, first_tokens = encoded.word_offsets, encoded.token_offsets
        rows = np.repeat(np.arange(len(sentences.lengths)), sentences.lengths)
        is_unknown = encoded.token_ids == (-1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id)
        before = offsets_of(is_unknown)
        starts, ends = encoded.firsts + first_tokens[rows], encoded.lasts + first_tokens[rows] + 1
        unknown = (before[ends] > before[starts]) & ~encoded.is_blank
        self.words += len(rows)
        self.unknown += int(unknown.sum())
        self.blank += int(encoded.is_blank.sum())
        _note(self.unknown_words, sentences, unknown)
        _note(self.blank_words, sentences, encoded.is_blank)
        self.text_lengths.add(np.diff(first_tokens))
        last_words = first_words[sentences.entities.rows] + sentences.entities.ends - 1
        self.entity_ends.add(_to_the_end(encoded.lasts[last_words], tokenizer))


def _to_the_end(last_tokens: IntArray, tokenizer: SpanMarkerTokenizer) -> IntArray:
    """Count the tokens of a text that ends with a token. Shape: ``[entities]``."""
    return last_tokens + 1 + tokenizer.num_special_tokens[1]


def _note(examples: list[str], sentences: Sentences, found: BoolArray) -> None:
    """Take note of words, each once, until there are enough."""
    if len(examples) < _EXAMPLES and found.any():
        words = sentences.tokens.flatten()
        for index in np.flatnonzero(found)[: 10 * _EXAMPLES].tolist():
            word = words[index].as_py()
            if word not in examples and len(examples) < _EXAMPLES:
                examples.append(word)
