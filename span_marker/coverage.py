"""Entities out of a model's reach, because they are too long or lie beyond the words that it is trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from span_marker.types import EntityTable, IntArray


@dataclass(frozen=True)
class CoverageReport:
    """How many entities are out of a model's reach, and which lengths would cover them.

    Attributes:
        total: Number of entities.
        missed: Number of entities out of reach.
        too_long: Of these, those longer than ``entity_max_length``.
        cut_off: Those that end after the words that fit the model. They may be too long as well.
        cut_sentences: Number of sentences that do not fit the model as a whole.
        missed_by_length: Entities out of reach, by their number of words.
        missed_by_label: Entities out of reach, by label id.
        entity_max_length: Longest entity that the model considers, in words.
        entity_lengths: Lengths in words that 99 % and 100 % of the entities do not exceed.
        model_max_length: Longest text that the model reads, in tokens; ``None``: not known here.
        text_lengths: Text lengths within which 99 % and 100 % of the entities end, 0 where the present one does. In
            tokens, estimated from the tokens per word of the cut sentences; in words if ``model_max_length`` is
            ``None``.
    """

    total: int
    missed: int
    too_long: int
    cut_off: int
    cut_sentences: int
    missed_by_length: dict[int, int]
    missed_by_label: dict[int, int]
    entity_max_length: int
    entity_lengths: tuple[int, int]
    model_max_length: int | None
    text_lengths: tuple[int, int]

    @property
    def share(self) -> float:
        """Share of the entities out of reach, from 0 to 1."""
        return self.missed / self.total if self.total else 0.0

    def message(self, dataset_name: str = "data", labels: Sequence[str] | None = None) -> str | None:
        """Describe what is missed and the remedy, for a warning.

        Args:
            dataset_name: What to call the data set.
            labels: Names of the label ids. ``None``: show the ids.

        Returns:
            The text, or ``None`` if every entity can be predicted.
        """
        if not self.missed:
            return None
        lines = [
            f"{self.missed:,} of the {self.total:,} entities of the {dataset_name} set ({self.share:.2%}) are out of "
            "the model's reach."
        ]
        if self.too_long:
            lengths = _choices(self.entity_lengths, self.entity_max_length, "words")
            verb = "is" if self.too_long == 1 else "are"
            lines.append(
                f"- {self.too_long:,} {verb} longer than entity_max_length={self.entity_max_length} words. "
                f"Raise entity_max_length to {lengths}."
            )
        if self.cut_off:
            verb = "ends" if self.cut_off == 1 else "end"
            lines.append(f"- {self.cut_off:,} {verb} after the words that training reads. {self._text_remedy()}")
        words = ", ".join(f"{length} words: {count:,}" for length, count in self.missed_by_length.items())
        lines.append(f"Missed by length: {words}.")
        names = {label: str(label) if labels is None else labels[label] for label in self.missed_by_label}
        types = ", ".join(f"{names[label]}: {count:,}" for label, count in self.missed_by_label.items())
        lines.append(f"Missed by label: {types}.")
        return "\n".join(lines)

    def _text_remedy(self) -> str:
        """Say how to make the cut sentences fit."""
        split = f"or split long sentences ({self.cut_sentences:,} cut off)"
        if self.model_max_length is None:
            return f"Raise model_max_length so that {_choices(self.text_lengths, 0, 'words')} fit, {split}."
        tokens = _choices(self.text_lengths, self.model_max_length, "tokens")
        return f"Raise model_max_length={self.model_max_length} to about {tokens} if the encoder can, {split}."


def entity_coverage(
    entities: EntityTable,
    num_words: IntArray,
    kept_words: IntArray,
    entity_max_length: int,
    model_max_length: int | None = None,
) -> CoverageReport:
    """Find the entities that a model can never predict.

    Args:
        entities: Entities of all sentences.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        kept_words: Number of each sentence's words that fit the model. Shape: ``[sentences]``.
        entity_max_length: Longest entity that the model considers, in words.
        model_max_length: Longest text that the model reads, in tokens; ``None``: state the remedy in words.

    Returns:
        Their number, by length and label, and the lengths that would cover them.
    """
    lengths = entities.ends - entities.starts
    kept = np.asarray(kept_words)[entities.rows]
    long, cut = lengths > entity_max_length, entities.ends > kept
    needed = entities.ends
    if model_max_length is not None:
        # A sentence that is cut off fills the model: its tokens per word tell how many tokens more words would take.
        needed = np.ceil(entities.ends * (model_max_length / np.maximum(kept, 1))).astype(np.int64)
    missed = long | cut
    return CoverageReport(
        total=len(lengths),
        missed=int(missed.sum()),
        too_long=int(long.sum()),
        cut_off=int(cut.sum()),
        cut_sentences=int((np.asarray(kept_words) < np.asarray(num_words)).sum()),
        missed_by_length=_frequencies(lengths[missed]),
        missed_by_label=_frequencies(entities.labels[missed]),
        entity_max_length=entity_max_length,
        entity_lengths=_covering(lengths),
        model_max_length=model_max_length,
        text_lengths=_covering(np.where(cut, needed, 0)),
    )


def _frequencies(values: IntArray) -> dict[int, int]:
    """Count each value, smallest value first."""
    unique, counts = np.unique(values, return_counts=True)
    return dict(zip(unique.tolist(), counts.tolist(), strict=True))


def _covering(lengths: IntArray) -> tuple[int, int]:
    """Find the lengths that 99 % and 100 % of the given lengths do not exceed."""
    if not len(lengths):
        return 0, 0
    ordered = np.sort(lengths)
    # Integers, so that 99 % of 100 lengths are exactly 99 of them.
    return int(ordered[-(-99 * len(ordered) // 100) - 1]), int(ordered[-1])


def _choices(lengths: tuple[int, int], present: int, unit: str) -> str:
    """Name the values to choose from: the one for 99 % only if it lies between the present and the full one."""
    nearly_all, every = lengths
    cheaper = f"{nearly_all} {unit} (99 % of the entities) or " if present < nearly_all < every else ""
    return f"{cheaper}{every} {unit} (100 %)"
