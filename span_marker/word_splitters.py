"""Rules that split texts into words.

A text's words are those of the encoder's tokenizer, unless a rule says otherwise. In scripts without spaces between
words, most tokenizers make a clause one word, so that no entity could begin or end in it: there, each character is a
word, or a segmenter finds the words.
"""

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from span_marker.settings import nearest
from span_marker.types import IntArray

WordSplitter: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[tuple[int, int]]]]
"""Gives start and end (exclusive) of each word of each text, in order."""

_WORD = re.compile(r"[^ \t\n\v\f\r]+")
_BLOCKS: Final = (
    range(0x0E00, 0x0E80),  # Thai
    range(0x0E80, 0x0F00),  # Lao
    range(0x1000, 0x10A0),  # Myanmar
    range(0x1780, 0x1800),  # Khmer
    range(0x3005, 0x3008),  # iteration and other marks of Han
    range(0x3041, 0x3100),  # Hiragana and Katakana
    range(0x31F0, 0x3200),
    range(0xFF66, 0xFFA0),
)
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_VOWELS: Final = "\u0e33\u0eb3\uff9e\uff9f"
"""Letters that stand behind another one and not alone: Thai and Lao "am", the voicing marks of narrow Katakana."""
_JOINERS: Final = "\u1039\u17d2"
"""What joins a consonant to the one before: Myanmar virama, Khmer coeng."""


def _characters(*categories: str) -> str:
    """List the characters of the scripts without spaces that have one of some categories."""
    characters = map(chr, (code for block in _BLOCKS for code in block))
    return "".join(one for one in characters if unicodedata.category(one) in categories and one not in _VOWELS)


_LETTERS: Final = _characters("Lo", "Lm", "Nl") + _HAN
_MARKS: Final = _characters("Mn", "Mc") + _VOWELS + "\u0300-\u036f\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
_LETTER: Final = re.compile(f"[{_LETTERS}]")
_CLUSTER: Final = re.compile(f"[{_LETTERS}](?:[{_JOINERS}][{_LETTERS}]|[{_MARKS}])*")
"""A letter with its signs, which readers take for one character."""
_PIECE: Final = re.compile(f"{_CLUSTER.pattern}|[^{_LETTERS}]+")


def split_at_punctuation(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Split texts at whitespace, around each punctuation mark and each character of a script without spaces.

    These are the words of BERT's encoders, as `SpanMarkerModel.predict` sees them in raw text. Zero-width and control
    characters at the border of a word are no part of it.

    Args:
        texts: The texts.

    Returns:
        Start and end (exclusive) of each word of each text.
    """
    encodings = _bert_words().encode_batch(list(texts), add_special_tokens=False)
    return [split_characters(text, encoding.offsets) for text, encoding in zip(texts, encodings, strict=True)]


def split_at_whitespace(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Split texts at spaces, tabs and line breaks; other whitespace, such as U+00A0, is part of a word.

    Args:
        texts: The texts.

    Returns:
        Start and end (exclusive) of each word of each text.
    """
    return [[match.span() for match in _WORD.finditer(text)] for text in texts]


def split_characters(text: str, words: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Split words around each character of a script without spaces, which keeps its accents and vowel signs.

    Args:
        text: The text.
        words: Start and end (exclusive) of each word.

    Returns:
        The same of the words' pieces. Scripts: Chinese, Japanese, Thai, Lao, Khmer, Myanmar.
    """
    if text.isascii() or not _LETTER.search(text):
        return list(words)
    pieces: list[tuple[int, int]] = []
    for start, end in words:
        for piece in _PIECE.finditer(text, start, end):
            first, last = piece.span()
            # Byte-level tokenizers split before vowel signs.
            begin = pieces[-1][0] if pieces and pieces[-1][1] == first else first
            if begin < first and _CLUSTER.fullmatch(text, begin, last):
                pieces[-1] = begin, last
            else:
                pieces.append((first, last))
    return pieces


def choose_word_splitter(word_splitter: str | WordSplitter | None, name: str = "word_splitter") -> WordSplitter | None:
    """Look up a rule that splits texts into words.

    Args:
        word_splitter: Its name, or the rule itself. ``None``: none.
        name: Name of the argument, for errors.

    Returns:
        The rule.

    Raises:
        ValueError: There is none of this name.
        TypeError: It is neither a name nor a function.
        ImportError: It is a segmenter that is not installed.
    """
    if word_splitter is None or callable(word_splitter):
        return word_splitter
    require_word_splitter(word_splitter, name)
    return _SEGMENTERS[word_splitter]() if word_splitter in _SEGMENTERS else _RULES[word_splitter]


def require_word_splitter(word_splitter: Any, name: str = "word_splitter") -> None:
    """Refuse what names no rule.

    Args:
        word_splitter: What was given.
        name: Name of the argument, for errors.

    Raises:
        ValueError: There is no rule of this name.
        TypeError: It is no name.
    """
    if not isinstance(word_splitter, str):
        raise TypeError(f"{name} is {word_splitter!r:.60}. Expected a name or a function of texts.")
    if word_splitter not in WORD_SPLITTERS:
        raise ValueError(
            f"{name}={word_splitter!r}. {nearest(word_splitter, WORD_SPLITTERS)} A function of texts, such as "
            "SpanMarkerTokenizer.words, can be passed as well."
        )


def find_words(word_splitter: WordSplitter, texts: Sequence[str]) -> list[IntArray]:
    """Split texts, and check what comes back.

    Args:
        word_splitter: The rule.
        texts: The texts.

    Returns:
        Start and end (exclusive) of each word of each text. Shape of each: ``[words, 2]``.

    Raises:
        ValueError: The rule gives too many or too few texts, or words that are out of order or not in their text.
    """
    found = list(word_splitter(list(texts)))
    if len(found) != len(texts):
        raise ValueError(
            f"The word splitter gives the words of {len(found)} texts, but got {len(texts)}. Expected a list of "
            "(start, end) for each text."
        )
    return [_checked(number, text, list(words)) for number, (text, words) in enumerate(zip(texts, found, strict=True))]


def _checked(number: int, text: str, words: list[Any]) -> IntArray:
    """Refuse words that cannot be those of a text. Shape: ``[words, 2]``.

    Raises:
        ValueError: With the first of them.
    """
    if not words:
        return np.zeros((0, 2), dtype=np.int64)
    try:
        spans = np.array(words)
    except ValueError:  # of different lengths
        spans = np.zeros(0)
    expected = "Expected pairs of start and end (exclusive) in ascending order, such as [(0, 3), (4, 9)]"
    if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
        raise ValueError(f"Text {number}: the word splitter gives {words!r:.60}. {expected}: {text!r:.60}.")
    bad = (spans[:, 0] < 0) | (spans[:, 0] > spans[:, 1]) | (spans[:, 1] > len(text))
    bad[1:] |= spans[1:, 0] < spans[:-1, 1]
    if bad.any():
        word = int(bad.argmax())
        before = f" after {tuple(spans[word - 1].tolist())}" if word else ""
        raise ValueError(
            f"Text {number}: the word splitter gives word {word} as {tuple(spans[word].tolist())}{before} in a text of "
            f"{len(text)} characters. {expected}: {text!r:.60}."
        )
    return spans.astype(np.int64)


def locate_words(text: str, tokens: Iterable[str], where: str) -> list[tuple[int, int]]:
    """Find words in their text, one after the other.

    Args:
        text: The text.
        tokens: Its words.
        where: Where it stands, for errors.

    Returns:
        Start and end (exclusive) of each word.

    Raises:
        ValueError: A word is empty, or not where it should be.
    """
    words, position = [], 0
    for number, token in enumerate(tokens):
        start = text.find(token, position) if token else -1
        if start < 0:
            raise ValueError(
                f"{where}: word {number}, {token!r}, is not in the text after character {position}: {text!r:.80}. "
                "Expected the words of the text in their order, none of them empty."
            )
        position = start + len(token)
        words.append((start, position))
    return words


@lru_cache(maxsize=1)
def _bert_words() -> Tokenizer:
    """Build a tokenizer whose tokens are BERT's words."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _import(module: str, extra: str) -> Any:
    """Import a segmenter.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"The word splitter needs {module}, which is not installed: pip install 'span_marker[{extra}]'"
        ) from error


def _visible(text: str, tokens: Iterable[str]) -> list[tuple[int, int]]:
    """Find the words that are not whitespace."""
    return locate_words(text, (token for token in tokens if token.strip()), "The segmenter")


@lru_cache(maxsize=1)
def _jieba() -> WordSplitter:
    """Make the Chinese segmenter jieba a rule."""
    jieba = _import("jieba", "chinese")
    jieba.setLogLevel(logging.WARNING)  # it tells how it loads its dictionary
    segmenter = jieba.Tokenizer()
    segmenter.initialize()
    return lambda texts: [_visible(text, segmenter.cut(text)) for text in texts]


@lru_cache(maxsize=1)
def _fugashi() -> WordSplitter:
    """Make the Japanese segmenter MeCab a rule, with the dictionary UniDic."""
    fugashi, dictionary = _import("fugashi", "japanese"), _import("unidic_lite", "japanese")
    tagger = fugashi.Tagger(f'-d "{dictionary.DICDIR}"')
    # A text ends for MeCab where a character of zero is.
    return lambda texts: [_visible(text, (word.surface for word in tagger(text.replace("\0", " ")))) for text in texts]


@lru_cache(maxsize=1)
def _pythainlp() -> WordSplitter:
    """Make PyThaiNLP's segmenter of Thai a rule."""
    split = _import("pythainlp.tokenize", "thai").word_tokenize
    return lambda texts: [_visible(text, split(text, join_broken_num=False)) for text in texts]


_RULES: Final[dict[str, WordSplitter]] = {"punctuation": split_at_punctuation, "whitespace": split_at_whitespace}
_SEGMENTERS: Final[dict[str, Callable[[], WordSplitter]]] = {
    "jieba": _jieba,
    "fugashi": _fugashi,
    "pythainlp": _pythainlp,
}
WORD_SPLITTERS: Final = (*_RULES, *_SEGMENTERS)
"""Names of the rules, the readers' default first."""
