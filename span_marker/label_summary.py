"""What the tags of a data set hold: counts to log before training, and what is wrong with them."""

from collections.abc import Callable
from dataclasses import dataclass

from span_marker.schemes import LabelScheme


@dataclass(frozen=True)
class MalformedTags:
    """Transitions between tags that the scheme forbids.

    Attributes:
        count: How many there are.
        examples: The first few: sentence, word (the sentence's length for its end), tag before, tag.
    """

    count: int
    examples: list[tuple[int, int, str, str]]

    def message(self, dataset_name: str = "data", place: Callable[[int], str] = "row {}".format) -> str | None:
        """Describe the transitions for a warning.

        Args:
            dataset_name: What to call the data set.
            place: Names the place of a sentence, given its index.

        Returns:
            The text, or ``None`` if there is nothing to warn of.
        """
        if not self.count:
            return None
        places = "; ".join(f"{place(row)}, word {word}: {before} {tag}" for row, word, before, tag in self.examples)
        return (
            f"{self.count:,} transitions between tags of the {dataset_name} set break the tagging scheme. They are "
            f"repaired as conlleval does: a new entity begins wherever the type changes or an entity ended before "
            f"({places}). Correct the tags, or pass the right `scheme=`."
        )


@dataclass(frozen=True)
class LabelSummary:
    """What the tags of a data set hold.

    Attributes:
        scheme: The tags, taken apart.
        num_sentences: Number of sentences.
        num_words: Number of words.
        tag_counts: Words per tag; empty where entities are given as spans.
        entity_counts: Entities per type.
        malformed: Transitions that the scheme forbids.
        num_overlapping: Entities that share words with another one, where entities are given as spans.
    """

    scheme: LabelScheme
    num_sentences: int
    num_words: int
    tag_counts: dict[str, int]
    entity_counts: dict[str, int]
    malformed: MalformedTags
    num_overlapping: int = 0

    @property
    def num_entities(self) -> int:
        """Number of entities of all types."""
        return sum(self.entity_counts.values())

    def __str__(self) -> str:
        origin = "detected" if self.scheme.detected else "given"
        counts = f"{self.num_sentences:,} sentences, {self.num_words:,} words, {self.num_entities:,} entities"
        lines = [f"Tagging scheme: {self.scheme.scheme.value} ({origin})", counts]
        if self.tag_counts:
            lines.append("Words per tag: " + ", ".join(f"{tag} {count:,}" for tag, count in self.tag_counts.items()))
        else:
            lines = [counts, f"Entities are given as spans; {self.num_overlapping:,} share words with another one"]
        lines.append("Entities per type: " + ", ".join(f"{label} {n:,}" for label, n in self.entity_counts.items()))
        if self.malformed.count:
            lines.append(f"Transitions that break the scheme: {self.malformed.count:,}")
        return "\n".join(lines)

    def raise_if_empty(self, dataset_name: str = "training") -> None:
        """Refuse a data set that has nothing to learn.

        Args:
            dataset_name: What to call the data set.

        Raises:
            ValueError: There is no entity.
        """
        if self.num_entities == 0 and not self.tag_counts:
            raise ValueError(f"The {dataset_name} set holds no entity: its {self.num_sentences:,} rows have no spans.")
        if self.num_entities == 0:
            raise ValueError(
                f"The {dataset_name} set holds no entity: {self.num_words:,} words in {self.num_sentences:,} sentences "
                f"are all 'O'. Check that the ids of the tags match the order of `labels` "
                f"({', '.join(self.scheme.tags[:10])}) and that the right `column` is read."
            )
