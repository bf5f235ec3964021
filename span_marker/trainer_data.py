"""What the Trainer does to data sets: checks, tags, preparation, and batches that know their sentences."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, IterableDataset
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import IterableDataset as TorchIterableDataset

from span_marker.arrow_lists import as_lists
from span_marker.configuration import SpanMarkerConfig
from span_marker.coverage import CoverageReport, entity_coverage
from span_marker.entity_columns import (
    entity_column,
    gold_entities,
    labels_of_entities,
    resolve_entities,
    summarize_entities,
)
from span_marker.formats import arrow_column, refuse_transform
from span_marker.label_columns import NER_TAGS, TOKENS
from span_marker.label_normalizer import LabelNormalizer
from span_marker.label_summary import LabelSummary
from span_marker.preprocessing import BLANK_WORDS, preprocess
from span_marker.span_columns import entity_table
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.trainer_evaluation import pack_entities
from span_marker.types import IntArray, Row

logger = logging.getLogger(__name__)

ROW = "row"
"""Column of evaluation rows: index of the sentence in its data set."""
ENTITIES = "entities"
"""Column of evaluation rows: all gold entities of the sentence."""
KEPT_WORDS = "num_words"
"""Column of evaluation rows: number of the sentence's words that the model reads."""
ALL_WORDS = "all_words"
"""Column of evaluation rows: number of the sentence's words."""
EVALUATION_COLUMNS = (ROW, ENTITIES, KEPT_WORDS, ALL_WORDS, BLANK_WORDS)


class Collator(Protocol):
    """Turns rows into a batch."""

    def __call__(self, features: Sequence[Row]) -> dict[str, Any]:
        """Collate rows."""


class EvaluationCollator:
    """Adds to a collator's batches what an evaluation needs to know of their sentences.

    The evaluation loop knows neither which sentences a batch holds, nor which entities are in them.

    Args:
        collate: The collator.
    """

    def __init__(self, collate: Collator) -> None:
        self.collate = collate

    def __call__(self, features: Sequence[Row]) -> dict[str, Any]:
        """Collate evaluation rows.

        Args:
            features: Rows with the columns of the collator, ``row``, ``num_words``, ``all_words``, ``blank_words``
                and, where there are tags, ``entities``.

        Returns:
            The collator's batch; ``row``, ``num_words`` and ``all_words``, shape ``[batch]``; ``blank_words``, whether
            each word is blank, shape ``[batch, words]``; and the packed ``entities``, shape ``[batch, entities, 3]``.
        """
        batch = self.collate(features)
        for name in (ROW, KEPT_WORDS, ALL_WORDS):
            batch[name] = torch.tensor([int(row[name]) for row in features])
        batch[BLANK_WORDS] = torch.zeros(len(features), max(int(batch[KEPT_WORDS].max()), 1), dtype=torch.bool)
        for index, row in enumerate(features):
            batch[BLANK_WORDS][index, row[BLANK_WORDS]] = True
        if ENTITIES in features[0]:
            gold = entity_table([row[ENTITIES] for row in features])
            batch[ENTITIES] = torch.from_numpy(pack_entities(gold, len(features)))
        return batch


class FixedOrder(Sampler[int]):
    """Visits rows in a given order.

    Args:
        order: Indices of the rows. Shape: ``[rows]``.
    """

    def __init__(self, order: IntArray) -> None:
        self.order = order

    def __iter__(self) -> Iterator[int]:
        return iter(self.order.tolist())

    def __len__(self) -> int:
        return len(self.order)


class LengthGroups(Sampler[int]):
    """Visits rows in random order, but those of similar length together, so that batches hold little padding.

    The order depends on the seed and the epoch alone: all processes agree on it, and so does a resumed training.

    Args:
        lengths: Length of each row. Shape: ``[rows]``.
        batch_size: Number of rows that are to be alike.
        seed: Seed of the order.
    """

    _BATCHES = 50
    """Batches that are sorted together: enough to find like rows, too few to make all epochs alike."""

    def __init__(self, lengths: IntArray, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
        """
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.lengths))
        # A small data set is cut into four parts at least, or each epoch would be the same.
        group = self.batch_size * max(min(len(order) // (self.batch_size * 4), self._BATCHES), 1)
        block = np.arange(len(order)) // group
        order = order[np.lexsort((-self.lengths[order], block))]
        # The block with the longest row first: if that does not fit into memory, it is known at once.
        longest = block[np.argmax(self.lengths[order])] if len(order) else 0
        yield from np.concatenate([order[block == longest], order[block != longest]]).tolist()

    def __len__(self) -> int:
        return len(self.lengths)


def sequence_lengths(rows: Dataset) -> IntArray:
    """Count the tokens that the encoder reads for each row: those of the text, and two markers a span.

    Args:
        rows: Preprocessed rows.

    Returns:
        Shape: ``[rows]``.
    """
    columns = rows.select_columns(["input_ids", "num_spans"]).with_format("arrow")
    lengths = [np.zeros(0, dtype=np.int64)]
    for batch in columns.iter(batch_size=10_000):
        text = batch["input_ids"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
        lengths.append(text + 2 * batch["num_spans"].to_numpy())
    return np.concatenate(lengths).astype(np.int64)


def require_dataset(dataset: Any, name: str) -> Dataset:
    """Refuse what is no data set of rows with random access.

    Args:
        dataset: What was given.
        name: What to call it: "training", "evaluation" or "test".

    Returns:
        The same.

    Raises:
        TypeError: It is a stream, several splits, or no data set at all.
        ValueError: It has a transform.
    """
    if isinstance(dataset, Dataset):
        refuse_transform(dataset, name)
        return dataset
    if isinstance(dataset, Mapping):
        remedy = f"Pass one of its splits: {', '.join(map(str, dataset))}."
    elif isinstance(dataset, IterableDataset | TorchIterableDataset) or not hasattr(dataset, "__getitem__"):
        remedy = (
            "Streams are not supported, because document context and the number of steps need all rows. Load the data "
            "set without streaming=True, or collect it: Dataset.from_generator(lambda: stream)."
        )
    else:
        remedy = "Make one of rows with Dataset.from_list(rows), of columns with Dataset.from_dict(columns)."
    raise TypeError(
        f"The {name} set is of type {type(dataset).__name__}. Expected a datasets.Dataset with a row for each "
        f"sentence. {remedy}"
    )


def choose_dataset(given: Any, own: Any) -> tuple[str, Dataset]:
    """Choose the data set to evaluate on.

    Args:
        given: A data set, the name of one of the Trainer's, or ``None`` for the Trainer's only one.
        own: The Trainer's data set, or several by name, or ``None``.

    Returns:
        What to call it, and the data set.

    Raises:
        TypeError: It is none that is supported.
        ValueError: There is none, none of this name, or it has a transform.
    """
    if isinstance(given, str):
        if not isinstance(own, Mapping) or given not in own:
            names = ", ".join(map(repr, own)) if isinstance(own, Mapping) else "none with a name"
            raise ValueError(f"The Trainer has no evaluation set {given!r}, but {names}. Pass the data set itself.")
        return given, require_dataset(own[given], given)
    dataset = own if given is None else given
    if dataset is None:
        raise ValueError("Evaluation needs sentences: Trainer(..., eval_dataset=...) or evaluate(dataset).")
    return "evaluation", require_dataset(dataset, "evaluation")


def require_columns(dataset: Dataset, columns: Sequence[str], name: str) -> None:
    """Refuse a data set that lacks columns.

    Args:
        dataset: The data set.
        columns: Names of the columns.
        name: What to call the data set.

    Raises:
        ValueError: It lacks some.
    """
    missing = [column for column in columns if column not in dataset.column_names]
    if missing:
        raise ValueError(
            f"The {name} set lacks the column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(dataset.column_names) or 'none'}. Each row needs the words of a sentence in 'tokens', and a "
            "tag for each of them or its entities in 'spans'. Rename its columns, or say where the tags are with "
            "`Trainer(..., column=...)`."
        )


def find_tags(datasets: Mapping[str, Any], column: str, scheme: str | None = None) -> list[str] | None:
    """Find the tags that a model without labels is to learn.

    Those of the first data set with any; where tags are strings or entities are spans, also those that only occur in
    the others, which could not be evaluated otherwise.

    Args:
        datasets: The data sets, by what to call them, that of training first.
        column: The column of the tags.
        scheme: The scheme that was asked for.

    Returns:
        The tags, in the order of their ids; ``None`` without any.

    Raises:
        ValueError: The tags are numbers without names.
    """
    tags: dict[str, None] = {}
    for name, dataset in datasets.items():
        chosen = entity_column(dataset, column)
        require_columns(dataset, [chosen], name)
        found = labels_of_entities(dataset, chosen, scheme)
        if found is None and len(dataset):
            raise ValueError(
                f"The model has no labels, and the tags of the {name} set are numbers without names. Pass the names "
                "in the order of their ids: SpanMarkerModel.from_pretrained(encoder, labels=['O', 'B-PER', ...])."
            )
        tags |= dict.fromkeys(found or ())
        if getattr(getattr(dataset.features[chosen], "feature", None), "names", None):
            break
    return list(tags) or None


@dataclass
class PreparedData:
    """A data set, ready to be trained or evaluated on.

    Attributes:
        tagged: Its words and, if it has any, the ids of its tags in "ner_tags", or its entities in "spans".
        sentences: The preprocessed sentences, a row each, with the columns that an evaluation needs.
        summary: What the tags hold; ``None`` without tags.
        coverage: Which entities the model can predict; ``None`` without tags.
        loader: Where worker processes persist, the loader that they belong to.
    """

    tagged: Dataset
    sentences: Dataset
    summary: LabelSummary | None = None
    coverage: CoverageReport | None = None
    loader: DataLoader[Any] | None = None


def prepare(
    dataset: Dataset,
    normalizer: LabelNormalizer | None,
    tokenizer: SpanMarkerTokenizer,
    config: SpanMarkerConfig,
    *,
    column: str,
    name: str,
    truncate: bool,
    num_proc: int | None,
) -> PreparedData:
    """Preprocess a data set, a row a sentence, and warn of what is wrong with its tags.

    Args:
        dataset: One row a sentence: words in "tokens", and tags.
        normalizer: Reads the tags. ``None``: there are none.
        tokenizer: The tokenizer.
        config: The model's configuration.
        column: The column of the tags.
        name: What to call the data set.
        truncate: Whether to cut sentences that are longer than the model.
        num_proc: Number of processes.

    Returns:
        The prepared data.

    Raises:
        ValueError: A column is missing, or a row is malformed.
    """
    column = entity_column(dataset, column)
    require_columns(dataset, [TOKENS] if normalizer is None else [TOKENS, column], name)
    # A copy, so that what is kept of a data set does not keep the data set itself alive.
    dataset = dataset.with_format(None)
    if normalizer is not None:
        dataset = resolve_entities(dataset, column, normalizer.scheme)
    sentences = preprocess(
        dataset,
        normalizer,
        tokenizer,
        config=config,
        spread=False,
        truncate=truncate,
        for_evaluation=True,
        num_proc=num_proc,
    )
    num_words: IntArray = pc.list_value_length(as_lists(arrow_column(dataset, TOKENS))).to_numpy().astype(np.int64)
    sentences = sentences.add_column(ALL_WORDS, num_words).add_column(ROW, np.arange(len(num_words)))
    if normalizer is None:
        return PreparedData(dataset, sentences)
    resolved = entity_column(dataset, NER_TAGS)
    gold = {resolved: as_lists(arrow_column(dataset, resolved))}
    summary = summarize_entities(gold, num_words, normalizer)
    coverage = entity_coverage(
        gold_entities(gold, normalizer),
        num_words,
        arrow_column(sentences, KEPT_WORDS).to_numpy(),
        config.entity_max_length,
        tokenizer.model_max_length,
    )
    for message in (summary.malformed.message(name), coverage.message(name, normalizer.scheme.labels)):
        if message:
            logger.warning(message)
    return PreparedData(dataset, sentences, summary, coverage)


def require_entities(prepared: PreparedData, name: str) -> None:
    """Refuse a training set of which a model can learn nothing but "O".

    Args:
        prepared: The prepared data.
        name: What to call it.

    Raises:
        ValueError: It has no entity, or none that the model can predict.
    """
    summary, coverage = prepared.summary, prepared.coverage
    if summary is not None:
        summary.raise_if_empty(name)
    if coverage is not None and coverage.missed == coverage.total:
        raise ValueError(f"There is nothing to learn. {coverage.message(name)}")
