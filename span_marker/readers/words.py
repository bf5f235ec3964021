"""Rules that split texts into words where a file does not."""

import re
from collections.abc import Sequence
from functools import lru_cache

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from span_marker.readers.alignment import WordSplitter

_WORD = re.compile(r"[^ \t\n\v\f\r]+")


def split_at_punctuation(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Split texts at whitespace and around each punctuation mark and each Chinese character.

    These are the words of BERT's encoders, as `SpanMarkerModel.predict` sees them in raw text. Zero-width and control
    characters at the border of a word are no part of it.

    Args:
        texts: The texts.

    Returns:
        Start and end (exclusive) of each word of each text.
    """
    return [encoding.offsets for encoding in _bert_words().encode_batch(list(texts), add_special_tokens=False)]


def split_at_whitespace(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Split texts at spaces, tabs and line breaks; other whitespace, such as U+00A0, is part of a word.

    Args:
        texts: The texts.

    Returns:
        Start and end (exclusive) of each word of each text.
    """
    return [[match.span() for match in _WORD.finditer(text)] for text in texts]


WORD_SPLITTERS: dict[str, WordSplitter] = {"punctuation": split_at_punctuation, "whitespace": split_at_whitespace}
"""Splitters by name, the default first."""


@lru_cache(maxsize=1)
def _bert_words() -> Tokenizer:
    """Build a tokenizer whose tokens are BERT's words."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
