"""How near an exported model is to the model that it was made of."""

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset

from span_marker.classification import is_span
from span_marker.configuration import SpanMarkerConfig
from span_marker.entity_columns import entity_column, gold_entities, resolve_entities
from span_marker.evaluation import compute_metrics
from span_marker.inference import evaluating
from span_marker.inputs import parse_inputs
from span_marker.label_columns import NER_TAGS
from span_marker.label_normalizer import AutoLabelNormalizer
from span_marker.sentence_batches import SentenceBatches
from span_marker.types import EntityTable
from span_marker.windows import cut_into_windows, window_size

_NUM_WORDS = (1, 3, 8, 24)
_BATCH_SIZE = 4


def sample_sentences(tokenizer: Any) -> list[list[str]]:
    """Make sentences of unequal length of the vocabulary's tokens, the same ones each time.

    Args:
        tokenizer: The tokenizer.
    """
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(len(tokenizer), (size,), generator=generator).tolist() for size in _NUM_WORDS]
    # A vocabulary may have ids without a token.
    return [[token for token in tokenizer.convert_ids_to_tokens(row) if token is not None] for row in ids]


def largest_difference(model: Any, exported: Any, sentences: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Compare the logits of all candidate spans, and the span filter's where there is one.

    Args:
        model: The model.
        exported: The exported model.
        sentences: Lists of words.

    Returns:
        The largest difference, and the model's largest logit for scale.
    """
    difference = scale = 0.0
    source = SentenceBatches(sentences, {}, model.tokenizer, model.config, _BATCH_SIZE)
    size, batches = window_size(model.tokenizer), source.batches(torch.device("cpu"))
    with evaluating(model):
        for batch, _ in (windows for _, whole in batches for windows in cut_into_windows(whole, size)):
            spans = is_span(batch)
            expected = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            found = exported(**batch)
            for name in ("logits", "filter_logits") if exported.span_filter else ("logits",):
                left, right = (output[name].float().cpu()[spans] for output in (expected, found))
                difference = max(difference, float((left - right).abs().max()))
                scale = max(scale, float(left.abs().max()))
    return difference, scale


def require_tagged(dataset: Dataset, config: SpanMarkerConfig) -> Dataset:
    """Refuse a data set that a model cannot be scored on.

    Args:
        dataset: Words in "tokens", and their tags in "ner_tags" or else entities in "spans".
        config: The model's configuration.

    Returns:
        The data set with the model's ids.

    Raises:
        ValueError: A column is missing, or the tags are not the model's.
    """
    parse_inputs(dataset, is_split_into_words=True)
    return resolve_entities(dataset, entity_column(dataset, NER_TAGS), config.label_scheme)


def f1_score(model: Any, dataset: Dataset, batch_size: int = 16) -> float:
    """Score the entities that a model finds.

    Args:
        model: The model, exported or not.
        dataset: What `require_tagged` returns.
        batch_size: Number of sentences in a batch.

    Returns:
        Micro-averaged F1, between 0 and 1.
    """
    config = model.config
    column = entity_column(dataset, NER_TAGS)
    gold = gold_entities({column: dataset.with_format("arrow")[:][column]}, AutoLabelNormalizer.from_config(config))
    found = [
        (row, config.label2id[entity["label"]], entity["word_start_index"], entity["word_end_index"])
        for row, entities in enumerate(model.predict(dataset, batch_size))
        for entity in entities
    ]
    predicted = EntityTable(*torch.tensor(found, dtype=torch.long).reshape(-1, 4).T.numpy())
    num_words = [len(tokens) for tokens in dataset["tokens"]]
    return float(compute_metrics(predicted, gold, num_words, config.labels)["overall_f1"])
