"""Which lengths a model should have for a data set, what they lose, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from span_marker.data_report.histogram import Histogram
from span_marker.data_report.splits import SplitReport
from span_marker.spans import count_spans
from span_marker.tokenizer import SpanMarkerTokenizer

MOST_LOST = Fraction(1, 2000)
"""Share of the entities that one recommended length may lose: both together less than 0.1 %."""
_MULTIPLE = 8
"""Text lengths are rounded up to multiples of it."""


@dataclass(frozen=True)
class Lengths:
    """Recommended lengths, their losses and their costs.

    Attributes:
        entity_max_length: Longest entity, in words; ``None`` without entities.
        entity_loss: Share of the entities that are longer.
        model_max_length: Longest text, in tokens; ``None`` without an encoder or entities.
        text_loss: Share of the entities that end after it.
        text_limit: Most tokens that the encoder's tokenizer allows; ``None`` without an encoder.
        spans_per_sentence: Candidate spans of a sentence on average.
        cost: Tokens and markers that a model reads, relative to the tokens (without an encoder, words) alone, which
            token classification reads.
    """

    entity_max_length: int | None
    entity_loss: float
    model_max_length: int | None
    text_loss: float
    text_limit: int | None
    spans_per_sentence: float
    cost: float


def recommend_lengths(reports: Sequence[SplitReport], tokenizer: SpanMarkerTokenizer | None) -> Lengths:
    """Recommend lengths for a data set.

    Args:
        reports: What each split holds.
        tokenizer: The encoder's tokenizer, if it was tried.

    Returns:
        The lengths.
    """
    entities = Histogram.of(report.entity_lengths for report in reports)
    ends = Histogram.of(report.fit.entity_ends for report in reports)
    sentences = Histogram.of(report.sentence_lengths for report in reports)
    longest = entities.covering(1 - MOST_LOST)
    spans = int(count_spans(np.arange(len(sentences.counts)), longest) @ sentences.counts) if longest else 0
    tokens = sum(report.fit.text_lengths.sum for report in reports) or sentences.sum
    limit = None if tokenizer is None else int(min(tokenizer.tokenizer.model_max_length, 2**31))
    text = -(-ends.covering(1 - MOST_LOST) // _MULTIPLE) * _MULTIPLE if limit and ends.total else None
    text = None if text is None or limit is None else min(text, limit)
    return Lengths(
        entity_max_length=longest or None,
        entity_loss=entities.above(longest) / max(entities.total, 1),
        model_max_length=text,
        text_loss=0.0 if text is None else ends.above(text) / max(ends.total, 1),
        text_limit=limit,
        spans_per_sentence=spans / max(sentences.total, 1),
        cost=1 + 2 * spans / max(tokens, 1),
    )
