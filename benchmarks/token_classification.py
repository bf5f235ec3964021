"""Token classification, the baseline of `accuracy.py`: plain transformers, labels on the first sub-words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from corpora import DOCUMENT_COLUMNS, Corpus
from datasets import Dataset
from torch import Tensor
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from span_marker import Trainer as SpanMarkerTrainer

IGNORED = -100
"""Label of tokens that have no part in the loss: special ones, context, further sub-words of a word."""


def make_trainer(
    corpus: Corpus, encoder: str, length: int, arguments: TrainingArguments, callbacks: list[TrainerCallback]
) -> Trainer:
    """Make the Trainer of a new model.

    Args:
        corpus: The corpus; where it has documents, each sentence gets the same context as a span marker model's.
        encoder: Path of the encoder.
        length: Most tokens of a sentence with its context.
        arguments: The training's arguments.
        callbacks: Callbacks.

    Returns:
        The Trainer.
    """
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForTokenClassification.from_pretrained(
        encoder,
        id2label=dict(enumerate(corpus.labels)),
        label2id={label: index for index, label in enumerate(corpus.labels)},
    )
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=encode(corpus.splits["train"], tokenizer, length),
        processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        preprocess_logits_for_metrics=_best,
        callbacks=callbacks,
    )


def predict_tags(trainer: Trainer, sentences: Dataset, labels: Sequence[str], length: int) -> list[list[str]]:
    """Predict the tag of each word.

    Args:
        trainer: The Trainer, after training.
        sentences: The sentences.
        labels: Name of each tag id.
        length: Most tokens of a sentence with its context.

    Returns:
        A tag for each word of each sentence; "O" for words that the model does not see, for they do not fit in or have
        no token.
    """
    rows = encode(sentences, trainer.processing_class, length)
    found = trainer.predict(rows.remove_columns(["words", "firsts"])).predictions
    tags = []
    for tokens, ids, words, firsts in zip(sentences["tokens"], found, rows["words"], rows["firsts"], strict=True):
        row = ["O"] * len(tokens)
        for word, first in zip(words, firsts, strict=True):
            row[word] = labels[ids[first]]
        tags.append(row)
    return tags


def encode(sentences: Dataset, tokenizer: PreTrainedTokenizerBase, length: int) -> Dataset:
    """Tokenize sentences, and add the context of those that have a document.

    Args:
        sentences: ``tokens``, ``ner_tags`` and, for context, ``document_id`` and ``sentence_id``.
        tokenizer: The tokenizer.
        length: Most tokens of a row.

    Returns:
        ``input_ids``, ``labels``, and for each word that the model sees its index in ``words`` and that of its first
        token in ``firsts``.
    """
    encoded = tokenizer(list(sentences["tokens"]), is_split_into_words=True, truncation=True, max_length=length)
    words, firsts = [], []
    for row in range(len(sentences)):
        # Special tokens belong to no word; words whose tokens are cut off, or that have none, do not occur.
        ids = np.array([-1 if word is None else word for word in encoded.word_ids(row)])
        found, first = np.unique(ids, return_index=True)
        words.append(found[found >= 0])
        firsts.append(first[found >= 0])
    rows = Dataset.from_dict({"input_ids": encoded["input_ids"], "firsts": firsts, "words": words})
    if set(DOCUMENT_COLUMNS) <= set(sentences.column_names):
        rows = _add_context(rows, sentences, length)
    labels = []
    for tags, tokens, seen, first in zip(sentences["ner_tags"], *(rows[name] for name in _COLUMNS), strict=True):
        label = np.full(len(tokens), IGNORED)
        label[first] = np.array(tags, dtype=np.int64)[seen]
        labels.append(label)
    return rows.select_columns(_COLUMNS).add_column("labels", labels)


_COLUMNS = ["input_ids", "words", "firsts"]


def _add_context(rows: Dataset, sentences: Dataset, length: int) -> Dataset:
    """Add the context that span marker models get: it moves the first tokens as it moves spans."""
    for name in DOCUMENT_COLUMNS:
        rows = rows.add_column(name, list(sentences[name]))
    rows = rows.add_column("end_position_ids", rows["firsts"]).rename_column("firsts", "start_position_ids")
    rows = SpanMarkerTrainer.add_context(rows, length, show_progress_bar=False)
    return rows.rename_column("start_position_ids", "firsts")


def _best(logits: Any, labels: Tensor) -> Tensor:
    """Keep the best label of each token rather than all logits."""
    return logits.argmax(dim=-1)
