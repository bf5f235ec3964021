"""What is wrong with a data set, or worth knowing, in words, with the remedy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from span_marker.data_report.duplicates import Repeats, find_leaks
from span_marker.data_report.lengths import Lengths
from span_marker.data_report.splits import SplitReport

_FEW = 10
"""Fewer entities of a type than this are hard to learn from."""
_IMBALANCE = 100
_UNKNOWN = Fraction(1, 100)
"""Share of the words with an unknown token that is a problem."""
_LOSS = 0.001
TRAIN = "train"


@dataclass(frozen=True)
class Finding:
    """Something that was found.

    Attributes:
        is_problem: Whether it should be put right, rather than known.
        text: What it is, where, and the remedy.
    """

    is_problem: bool
    text: str


def find_all(splits: Mapping[str, SplitReport], lengths: Lengths) -> list[Finding]:
    """Look for problems.

    Args:
        splits: What each split holds.
        lengths: The recommended lengths.

    Returns:
        What was found, problems first.
    """
    found: list[Finding] = []
    for name, report in splits.items():
        found += [*_tags(name, report), *_repeats(name, report), *_words(name, report)]
    found += [*_leaks(splits), *_types(splits), *_losses(lengths)]
    return sorted(found, key=lambda finding: not finding.is_problem)


def _tags(name: str, report: SplitReport) -> Iterator[Finding]:
    """Broken tags, overlapping entities, and none at all."""
    message = report.malformed.message(name, report.place)
    if message:
        yield Finding(True, message)
    if report.overlapping:
        places = "; ".join(
            f"{report.place(row)}, words {start} to {end}" for row, start, end in report.overlap_examples
        )
        yield Finding(
            True,
            f"{_count(report.overlapping, 'entity', 'entities')} of {name} overlap{_s(report.overlapping)} one before "
            f"({places}). A model finds entities that do not overlap: keep one of each, such as the longest.",
        )
    if not report.entities:
        yield Finding(True, f"{name} has no entity. Check the column and the names of the tags.")


def _repeats(name: str, report: SplitReport) -> Iterator[Finding]:
    """Sentences that occur more than once in a split."""
    if report.contradictions.count:
        yield Finding(
            True,
            f"{_count(report.contradictions.count, 'sentence has', 'sentences have')} other entities than the same "
            f"words before in {name} ({_rows(report.contradictions, report)}). Correct one of them.",
        )
    if report.duplicates.count:
        yield Finding(
            False,
            f"{report.duplicates.count:,} of the {report.sentences:,} sentences of {name} "
            f"occur{_s(report.duplicates.count)} before ({_rows(report.duplicates, report)}).",
        )


def _words(name: str, report: SplitReport) -> Iterator[Finding]:
    """Words that the tokenizer cannot read, and sentences without words."""
    fit = report.fit
    if fit.unknown:
        words = ", ".join(map(repr, fit.unknown_words))
        is_problem = fit.unknown > fit.words * _UNKNOWN
        remedy = " Another encoder's tokenizer may know them." if is_problem else ""
        share = fit.unknown / fit.words
        yield Finding(
            is_problem,
            f"{_count(fit.unknown, 'word')} of {name} ({share:.2%}) {'has' if fit.unknown == 1 else 'have'} unknown "
            f"tokens: {words}.{remedy}",
        )
    if fit.blank:
        words = ", ".join(map(repr, fit.blank_words))
        yield Finding(
            False, f"{_count(fit.blank, 'word')} of {name} without a token, where no entity begins or ends: {words}."
        )
    if report.empty:
        yield Finding(False, f"{_count(report.empty, 'sentence')} of {name} without words.")


def _leaks(splits: Mapping[str, SplitReport]) -> Iterator[Finding]:
    """Sentences that occur in several splits."""
    for one, other in combinations(splits, 2):
        leaks = find_leaks(splits[other].keys, splits[one].keys)
        if leaks.count:
            yield Finding(
                True,
                f"{leaks.count:,} of the {splits[other].sentences:,} sentences of {other} also "
                f"occur{_s(leaks.count)} in {one} "
                f"({_rows(leaks, splits[other], splits[one])} of {one}). Remove them from {one}, or scores are too "
                "good.",
            )


def _types(splits: Mapping[str, SplitReport]) -> Iterator[Finding]:
    """Types that cannot be learned, or hardly."""
    train = splits.get(TRAIN)
    if train is None or not train.entities:
        return
    missing = [label for label, count in train.types.items() if not count]
    if missing:
        yield Finding(True, f"{TRAIN} has no entity of the type {', '.join(missing)}, which other splits have.")
    rare = {label: count for label, count in train.types.items() if 0 < count < _FEW}
    if rare:
        counts = ", ".join(f"{label} {count}" for label, count in rare.items())
        yield Finding(False, f"{TRAIN} has fewer than {_FEW} entities of some types: {counts}.")
    most, least = max(train.types.values()), min(count for count in train.types.values() if count)
    if most >= _IMBALANCE * least:
        yield Finding(
            False, f"The most frequent type of {TRAIN} has {most // least:,} times the entities of the rarest."
        )


def _losses(lengths: Lengths) -> Iterator[Finding]:
    """Entities that no text length of the encoder reaches."""
    if lengths.text_loss >= _LOSS:
        yield Finding(
            True,
            f"{lengths.text_loss:.2%} of the entities end after the {lengths.text_limit} tokens that the encoder's "
            "tokenizer allows, and cannot be trained on. Split long sentences, or take an encoder for longer texts.",
        )


def _rows(repeats: Repeats, report: SplitReport, earlier: SplitReport | None = None) -> str:
    first = earlier or report
    return "; ".join(f"{report.place(row)} as {first.place(other)}" for row, other in repeats.examples)


def _count(number: int, one: str, many: str = "") -> str:
    """Say how many there are."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _s(number: int) -> str:
    """End the verb of what there are so many of."""
    return "s" if number == 1 else ""
