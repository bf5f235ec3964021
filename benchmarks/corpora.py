"""The data sets that benchmarks train on, with tags as ids, and the encoder."""

from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset

from span_marker.demo.corpus import load_corpus
from span_marker.demo.encoder import find_encoder

ENCODER = "minilm"
LENGTHS = {"model_max_length": 256, "marker_max_length": 128, "entity_max_length": 8}
"""Lengths of all models that are compared."""
DOCUMENT_COLUMNS = ("document_id", "sentence_id")


@dataclass(frozen=True)
class Corpus:
    """A data set whose tags are ids.

    Attributes:
        labels: Name of each tag id, "O" first.
        splits: ``train``, ``validation`` and ``test``: the words ``tokens``, the tag ids ``ner_tags`` and, where known,
            ``document_id`` and ``sentence_id``.
    """

    labels: list[str]
    splits: dict[str, Dataset]

    @property
    def has_documents(self) -> bool:
        """Whether the sentences' documents are known."""
        return set(DOCUMENT_COLUMNS) <= set(self.splits["train"].column_names)


def read_corpus(name: str) -> Corpus:
    """Read a data set.

    Args:
        name: A folder in ``$SPAN_MARKER_SHARED/data``, any other folder with the same files, or "sample".

    Returns:
        The data set.

    Raises:
        DemoError: There is none of that name.
    """
    splits = load_corpus(name)
    tags = {tag for split in splits.values() for row in split["ner_tags"] for tag in row}
    labels = ["O", *sorted(tags - {"O"})]
    ids = {label: index for index, label in enumerate(labels)}

    wanted = {"tokens", *DOCUMENT_COLUMNS}
    numbered = {}
    for split, rows in splits.items():
        kept = {column: list(rows[column]) for column in rows.column_names if column in wanted}
        kept["ner_tags"] = [[ids[tag] for tag in row] for row in rows["ner_tags"]]
        numbered[split] = Dataset.from_dict(kept)
    return Corpus(labels, numbered)


def encoder_path(name: str = ENCODER) -> str:
    """Find the encoder.

    Args:
        name: "minilm", which the extra "demo" installs, a folder, or a repository on the Hub.

    Returns:
        Its absolute path, or the repository's name.

    Raises:
        DemoError: MiniLM is not installed.
    """
    path = find_encoder(name).path
    return str(Path(path).resolve()) if Path(path).is_dir() else path
