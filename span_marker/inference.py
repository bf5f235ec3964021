"""Texts and sentences to entities, without a Trainer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
from transformers.utils import logging

from span_marker.classification import classify_kept_spans, classify_spans
from span_marker.configuration import SpanMarkerConfig
from span_marker.decoding import choose_decoding, decode
from span_marker.decoding_modes import Decoding
from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID
from span_marker.inputs import Inputs, is_stream, parse_inputs, read_stream
from span_marker.score_calibration import complete
from span_marker.sentence_batches import BatchSize, SentenceBatches, require_batch_size
from span_marker.span_columns import outrule_blank_ends
from span_marker.spans import span_index
from span_marker.types import Columns, EntityTable, FloatArray, IntArray, Sentences
from span_marker.windows import classify_in_windows, window_size
from span_marker.word_encoding import EncodedWords
from span_marker.word_splitters import WordSplitter, choose_word_splitter

logger = logging.get_logger(__name__)

Prediction: TypeAlias = dict[str, Any]
Predictions: TypeAlias = list[Prediction] | list[list[Prediction]] | Iterator[list[Prediction]]
_Classify: TypeAlias = Callable[..., tuple[Tensor, ...]]

_BLOCK = 8192  # sentences that are encoded, sorted by length and batched together


@dataclass(frozen=True)
class _Search:
    """How entities are looked for.

    Attributes:
        model: The model.
        classify: Finds the best label of the spans of a batch, and perhaps the probabilities of all labels.
        decoding: Chooses among them.
        batch_size: Number of sentences in a batch.
        word_splitter: Splits texts into words, if that is asked for.
    """

    model: Any
    classify: _Classify
    decoding: Decoding
    batch_size: BatchSize
    word_splitter: WordSplitter | None


def predict(
    model: Any,
    inputs: Any,
    batch_size: BatchSize = 4,
    show_progress_bar: bool = False,
    *,
    is_split_into_words: bool | None = None,
    span_filter: bool | None = None,
    decoding: Decoding | str | None = None,
    threshold: float | Mapping[str, float] | None = None,
    top_k: int | None = None,
    return_scores: bool = False,
    word_splitter: WordSplitter | str | None = None,
) -> Predictions:
    """Find the entities in texts or pre-split sentences, as ``SpanMarkerModel.predict`` describes it."""
    require_batch_size(batch_size)
    if not model.config.has_labels:
        raise ValueError("The model has no entity types yet. Train it, or load a trained one.")
    if span_filter and not model.config.filters_spans:
        raise ValueError(
            "span_filter=True, but the model has no calibrated span filter. A new model that is trained has one; give "
            "a model that was trained without one its own: model.fit_span_filter(dataset)."
        )
    classify: _Classify = (
        classify_spans if span_filter is False or not model.config.filters_spans else classify_kept_spans
    )
    if return_scores:
        classify = partial(classify, distributions=True)
    decoding = choose_decoding(decoding, threshold, top_k, model.config)
    search = _Search(model, classify, decoding, batch_size, choose_word_splitter(word_splitter))
    if is_stream(inputs):
        return _predict_stream(search, read_stream(inputs, is_split_into_words), show_progress_bar)
    parsed = parse_inputs(inputs, is_split_into_words)
    with _progress(len(parsed.sentences), show_progress_bar) as bar:
        results = _predict_inputs(search, parsed, bar)
    return results[0] if parsed.is_single else results


def _progress(total: int | None, show: bool) -> "tqdm[Any]":
    return tqdm(total=total, disable=not show, desc="Predicting")


def _predict_stream(search: _Search, stream: Iterator[Inputs], show_progress_bar: bool) -> Iterator[list[Prediction]]:
    """Predict block after block, no sooner than they are asked for."""
    with _progress(None, show_progress_bar) as bar:
        for block in stream:
            yield from _predict_inputs(search, block, bar)


def _predict_inputs(search: _Search, inputs: Inputs, bar: "tqdm[Any]") -> list[list[Prediction]]:
    """Predict sentences, in blocks that bound the memory."""
    model, total = search.model, len(inputs.sentences)
    if model.config.trained_with_document_context and not inputs.documents and total:
        logger.warning_once(
            "The model was trained with document-level context, but the inputs have none. Pass a Dataset with the "
            f"columns 'tokens', {DOCUMENT_ID!r} and {SENTENCE_ID!r} for the best results."
        )
    # Document context looks at all sentences.
    size = total if inputs.documents else _BLOCK
    results: list[list[Prediction]] = []
    with evaluating(model):
        for start in range(0, total, max(size, 1)):
            sentences = inputs.sentences[start : start + size]
            results += _predict_block(search, sentences, inputs.documents, bar)
    return results


def _predict_block(
    search: _Search, sentences: Sentences, documents: Columns, bar: "tqdm[Any]"
) -> list[list[Prediction]]:
    """Predict sentences that are encoded together."""
    model, config = search.model, search.model.config
    source = SentenceBatches(sentences, documents, model.tokenizer, config, search.batch_size, search.word_splitter)
    encoded, blank, size = source.encoded, source.encoded.blank_words, window_size(model.tokenizer)
    results: list[list[Prediction]] = [[] for _ in sentences]
    bar.update(len(sentences) - source.num_sentences)
    for indices, batch in source.batches(model.device):
        labels, scores, *all_scores = classify_in_windows(
            partial(search.classify, model), batch, size, config.outside_id
        )
        words = encoded.kept_words[indices]
        label_ids = labels.cpu().numpy()
        outrule_blank_ends(label_ids, [blank[index] for index in indices], config.entity_max_length, config.outside_id)
        found, probabilities = decode(
            label_ids,
            scores.cpu().numpy(),
            words,
            config.entity_max_length,
            config.outside_id,
            search.decoding,
            config.labels,
            config.score_temperature,
        )
        known: Iterator[dict[str, Any]] = ({} for _ in found.rows)
        if all_scores:
            known = _name_scores(config, found, probabilities, words, all_scores[0])
        columns = (column.tolist() for column in (*found, probabilities))
        for (row, label, start, end, score), scored in zip(zip(*columns, strict=True), known, strict=True):
            index = indices[row]
            place = _place(sentences[index], encoded, index, start, end)
            entity = {"span": place.pop("span"), "label": config.id2label[label], "score": score, **scored, **place}
            results[index].append(entity)
        bar.update(len(indices))
    return results


def _name_scores(
    config: SpanMarkerConfig, found: EntityTable, scores: FloatArray, num_words: IntArray, probabilities: Tensor
) -> Iterator[dict[str, Any]]:
    """Describe the probabilities of all labels of entities.

    Args:
        config: The configuration.
        found: The entities of a batch.
        scores: Their scores. Shape: ``[entities]``.
        num_words: Number of words of each sentence. Shape: ``[sentences]``.
        probabilities: What the model says of all spans. Shape: ``[sentences, spans, labels]``.
    """
    spans = span_index(found.starts, found.ends, num_words[found.rows], config.entity_max_length)
    chosen = probabilities[torch.from_numpy(found.rows), torch.from_numpy(spans)].cpu().numpy()
    for row in complete(chosen, found.labels, scores).tolist():
        yield {"scores": dict(zip(config.labels, row, strict=True))}


def _place(sentence: str | Sequence[str], encoded: EncodedWords, index: int, start: int, end: int) -> dict[str, Any]:
    """Describe where an entity is: words ``start`` to ``end`` (exclusive) of a sentence."""
    if encoded.character_spans is None:
        return {"span": list(sentence[start:end]), "word_start_index": start, "word_end_index": end}
    spans = encoded.character_spans[index]
    first, last = int(spans[start, 0]), int(spans[end - 1, 1])
    return {"span": sentence[first:last], "char_start_index": first, "char_end_index": last}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off for a while."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)
