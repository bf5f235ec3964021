"""Sentences as token ids, and the tokens of each of their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import combining

import numpy as np

from span_marker.ragged import flatten, offsets_of, ranges, split_rows
from span_marker.types import BoolArray, IntArray

_FIRST_MARK = 0x300  # combining grave accent
_WHITESPACE = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


@dataclass(frozen=True)
class EncodedWords:
    """The tokens of sentences, and which of them belong to which word.

    All sentences lie behind each other in flat arrays; the properties cut them into one array a sentence.

    Attributes:
        token_ids: Ids with special tokens. Shape: ``[tokens]``.
        token_offsets: Index of each sentence's first token, then the number of tokens. Shape: ``[sentences + 1]``.
        firsts: Index within its sentence, special tokens counted, of the first token of each word that fits the model.
            A word without a token of its own takes the nearest one. Shape: ``[kept words]``.
        lasts: The same for the last token, inclusive. Shape: ``[kept words]``.
        word_offsets: Index of each sentence's first kept word, then the number of them. Shape: ``[sentences + 1]``.
        num_words: Number of words of each sentence, those that did not fit included. Shape: ``[sentences]``.
        is_blank: Whether a kept word begins and ends no entity: one without a token of its own, which the model cannot
            tell from its neighbour, or, in a text, one of nothing but whitespace. Shape: ``[kept words]``.
        character_spans: For raw texts, start and end (exclusive) of each word in its text, ends that are whitespace
            trimmed; a word that is nothing but whitespace has an empty span. Shape of each: ``[words, 2]``. None for
            sentences that were given as words.
    """

    token_ids: IntArray
    token_offsets: IntArray
    firsts: IntArray
    lasts: IntArray
    word_offsets: IntArray
    num_words: IntArray
    is_blank: BoolArray
    character_spans: list[IntArray] | None = None

    @property
    def input_ids(self) -> list[IntArray]:
        """Token ids of each sentence. Shape of each: ``[tokens]``."""
        return split_rows(self.token_ids, self.token_offsets)

    @property
    def first_tokens(self) -> list[IntArray]:
        """Index of the first token of each kept word. Shape of each: ``[kept words]``."""
        return split_rows(self.firsts, self.word_offsets)

    @property
    def last_tokens(self) -> list[IntArray]:
        """Index of the last token of each kept word. Shape of each: ``[kept words]``."""
        return split_rows(self.lasts, self.word_offsets)

    @property
    def blank_words(self) -> list[BoolArray]:
        """Whether each kept word is blank. Shape of each: ``[kept words]``."""
        return split_rows(self.is_blank, self.word_offsets)

    @property
    def kept_words(self) -> IntArray:
        """Number of words of each sentence that fit the model, the last perhaps in part. Shape: ``[sentences]``."""
        return np.diff(self.word_offsets)


@dataclass(frozen=True)
class Frame:
    """What surrounds the tokens of a text.

    Attributes:
        prefix: Ids of the special tokens before.
        suffix: Ids of the special tokens after.
        filler: Id of the token that an otherwise empty sequence gets.
        max_tokens: Most tokens of a sequence, special tokens included. None: no limit.
    """

    prefix: Sequence[int]
    suffix: Sequence[int]
    filler: int
    max_tokens: int | None


def align_words(
    token_rows: Sequence[Sequence[int]],
    word_rows: Sequence[Sequence[int]],
    num_words: IntArray,
    frame: Frame,
) -> EncodedWords:
    """Frame sentences with special tokens, cut them at the model's length and find the tokens of each word.

    A sentence is cut after the last token that fits, as the reference does: the last word may keep only a part of its
    tokens. Words without any token are kept with those around them.

    Args:
        token_rows: Token ids of each sentence, without special tokens.
        word_rows: Index of the word that each token belongs to, ascending within a sentence.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        frame: Special tokens and length.

    Returns:
        The sentences.
    """
    (tokens, lengths), (words, _) = flatten(token_rows), flatten(word_rows)
    specials = len(frame.prefix) + len(frame.suffix)
    room = lengths if frame.max_tokens is None else np.minimum(lengths, max(frame.max_tokens - specials, 0))
    kept = ranges(offsets_of(lengths)[:-1], room)
    ids, token_offsets = _frame_tokens(tokens[kept], room, frame)

    starts = offsets_of(room)[:-1]
    last_words = np.full(len(room), -1)
    last_words[room > 0] = words[kept][(starts + room - 1)[room > 0]]
    kept_words = np.where(room < lengths, last_words + 1, num_words)
    keys = words[kept] + np.repeat(offsets_of(num_words)[:-1], room)
    wanted = ranges(offsets_of(num_words)[:-1], kept_words)
    start = np.repeat(starts, kept_words)
    first = np.searchsorted(keys, wanted, side="left") - start
    last = np.searchsorted(keys, wanted, side="right") - 1 - start
    # A word without tokens lies between its neighbours': it takes the last token before it, or else the first after.
    most = np.repeat(np.maximum(room - 1, 0), kept_words)
    nearest = np.clip(last, 0, most)
    shift = np.where(np.repeat(room, kept_words) > 0, len(frame.prefix), max(len(frame.prefix) - 1, 0))
    return EncodedWords(
        token_ids=ids,
        token_offsets=token_offsets,
        firsts=np.where(first > last, nearest, first) + shift,
        lasts=nearest + shift,
        word_offsets=offsets_of(kept_words),
        num_words=num_words,
        is_blank=first > last,
    )


def whitespace_words(spans: Sequence[IntArray]) -> list[BoolArray]:
    """Find the words of texts that are nothing but whitespace.

    Some tokenizers make such words: of repeated spaces, and of a space that they put before the text, which is given
    the first character's place.

    Args:
        spans: Start and end (exclusive) of each word of each text, trimmed. Shape of each: ``[words, 2]``.

    Returns:
        Shape of each: ``[words]``.
    """
    counts = np.fromiter(map(len, spans), dtype=np.int64, count=len(spans))
    flat = np.concatenate([*spans, np.zeros((0, 2), dtype=np.int64)])
    blank = flat[:, 0] == flat[:, 1]
    before_another = np.ones(len(flat), dtype=bool)
    before_another[offsets_of(counts)[1:][counts > 0] - 1] = False
    blank[:-1] |= before_another[:-1] & (flat[:-1, 1] > flat[1:, 0])
    return split_rows(blank, offsets_of(counts))


def trim_spans(texts: Sequence[str], spans: Sequence[IntArray]) -> list[IntArray]:
    """Trim the whitespace around spans of characters, and extend them by the accents after their last letter.

    Tokenizers that remove or compose accents leave out those that stand as characters of their own at a word's end.

    Args:
        texts: The texts.
        spans: Start and end (exclusive) of spans in each text. Shape of each: ``[spans, 2]``.

    Returns:
        The spans, trimmed; ``(start, start)`` where there is nothing but whitespace. Shape of each: ``[spans, 2]``.
    """
    characters = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    blank = np.isin(characters, _WHITESPACE)
    index = np.arange(len(characters), dtype=np.int64)
    # For each position: where the first visible character from there on is, and where the last one before it ends.
    following = np.minimum.accumulate(np.where(blank, len(characters), index)[::-1])[::-1]
    following = np.append(following, len(characters))
    preceding = np.insert(np.maximum.accumulate(np.where(blank, 0, index + 1)), 0, 0)

    counts = np.fromiter(map(len, spans), dtype=np.int64, count=len(spans))
    borders = offsets_of(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    origin, end = np.repeat(borders[:-1], counts), np.repeat(borders[1:], counts)
    flat = np.concatenate([*spans, np.zeros((0, 2), dtype=np.int64)]) + origin[:, None]
    trimmed = np.stack([following[flat[:, 0]], preceding[flat[:, 1]]], axis=1)
    empty = trimmed[:, 0] >= trimmed[:, 1]
    trimmed[empty] = flat[empty, :1]
    rare = np.unique(characters[characters >= _FIRST_MARK])
    marks = np.isin(characters, [code for code in rare.tolist() if combining(chr(code))])
    beyond = np.append(np.minimum.accumulate(np.where(marks, len(characters), index)[::-1])[::-1], len(characters))
    limits = np.minimum(np.append(flat[1:, 0], len(characters)), end)
    extended = np.minimum(beyond[trimmed[:, 1]], limits)
    trimmed[:, 1] = np.where(empty, trimmed[:, 1], np.maximum(trimmed[:, 1], extended))
    return split_rows(trimmed - origin[:, None], offsets_of(counts))


def word_spans(offsets: Sequence[Sequence[tuple[int, int]]], word_rows: Sequence[Sequence[int]]) -> list[IntArray]:
    """Find the characters of each word.

    Args:
        offsets: Start and end (exclusive) of each token in its text.
        word_rows: Index of the word that each token belongs to, ascending within a text.

    Returns:
        Start and end (exclusive) of each word. A word without tokens has an empty span. Shape of each: ``[words, 2]``.
    """
    rows = []
    for pairs, words in zip(offsets, word_rows, strict=True):
        tokens, index = np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(words, dtype=np.int64)
        wanted = np.arange(index.max(initial=-1) + 1)
        first, last = np.searchsorted(index, wanted, side="left"), np.searchsorted(index, wanted, side="right") - 1
        starts = tokens[first, 0]
        rows.append(np.stack([starts, np.where(last < first, starts, tokens[last, 1])], axis=1))
    return rows


def _frame_tokens(tokens: IntArray, lengths: IntArray, frame: Frame) -> tuple[IntArray, IntArray]:
    """Put special tokens around sentences. Shape: ``[tokens]`` and ``[sentences + 1]``."""
    before, after = len(frame.prefix), len(frame.suffix)
    offsets = offsets_of(np.maximum(lengths + before + after, 1))
    ids = np.full(offsets[-1], frame.filler, dtype=np.int64)
    ids[ranges(offsets[:-1] + before, lengths)] = tokens
    for place, token in enumerate(frame.prefix):
        ids[offsets[:-1] + place] = token
    for place, token in enumerate(frame.suffix):
        ids[offsets[:-1] + before + lengths + place] = token
    return ids, offsets
