"""Texts and sentences to entities, without a Trainer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from datasets import Dataset
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
from transformers.utils import logging

from span_marker.classification import classify_kept_spans, classify_spans
from span_marker.configuration import SpanMarkerConfig
from span_marker.decoding import decode
from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID, has_documents
from span_marker.formats import refuse_transform
from span_marker.sentence_batches import SentenceBatches, require_batch_size
from span_marker.span_columns import outrule_blank_ends
from span_marker.types import Columns, Sentences
from span_marker.word_encoding import EncodedWords

logger = logging.get_logger(__name__)

Prediction: TypeAlias = dict[str, Any]
Predictions: TypeAlias = list[Prediction] | list[list[Prediction]]

_LONGEST_WORD = 40
_SENTENCE_ENDS = ("\u3002", "\uff01", "\uff1f")  # of Chinese and Japanese
_WINDOW = 8192  # sentences that are encoded, sorted by length and batched together


@dataclass(frozen=True)
class Inputs:
    """The inputs of `predict` in one form.

    Attributes:
        sentences: Texts or lists of words.
        is_single: Whether one sentence was given alone, so that its entities are returned alone.
        documents: The columns ``document_id`` and ``sentence_id``, or none.
    """

    sentences: Sentences
    is_single: bool
    documents: Columns


def predict(
    model: Any,
    inputs: str | Sequence[str] | Sequence[Sequence[str]] | Dataset,
    batch_size: int = 4,
    show_progress_bar: bool = False,
    *,
    is_split_into_words: bool | None = None,
    span_filter: bool | None = None,
) -> Predictions:
    """Find the entities in texts or pre-split sentences, as ``SpanMarkerModel.predict`` describes it."""
    require_batch_size(batch_size)
    if not model.config.has_labels:
        raise ValueError("The model has no entity types yet. Train it, or load a trained one.")
    if span_filter and not model.config.filters_spans:
        raise ValueError(
            "span_filter=True, but the model has no calibrated span filter. Train one along with the model, with "
            "SpanMarkerModel.from_pretrained(..., span_filter=True) and an eval_dataset for the Trainer, or call "
            "model.fit_span_filter(dataset) on a trained model."
        )
    classify = classify_spans if span_filter is False or not model.config.filters_spans else classify_kept_spans
    parsed = parse_inputs(inputs, is_split_into_words)
    total = len(parsed.sentences)
    # Document context looks at all sentences; without it memory stays bounded.
    window = total if parsed.documents else _WINDOW
    if model.config.trained_with_document_context and not parsed.documents and total:
        logger.warning_once(
            "The model was trained with document-level context, but the inputs have none. Pass a Dataset with the "
            f"columns 'tokens', {DOCUMENT_ID!r} and {SENTENCE_ID!r} for the best results."
        )
    results: list[list[Prediction]] = []
    with evaluating(model), tqdm(total=total, disable=not show_progress_bar, desc="Predicting") as bar:
        for start in range(0, total, max(window, 1)):
            sentences = parsed.sentences[start : start + window]
            results += _predict_window(model, classify, sentences, parsed.documents, batch_size, bar)
    return results[0] if parsed.is_single else results


def _predict_window(
    model: Any,
    classify: Callable[..., tuple[Tensor, Tensor]],
    sentences: Sentences,
    documents: Columns,
    batch_size: int,
    bar: "tqdm[Any]",
) -> list[list[Prediction]]:
    """Predict sentences that are encoded together."""
    config: SpanMarkerConfig = model.config
    source = SentenceBatches(sentences, documents, model.tokenizer, config, batch_size)
    encoded, blank = source.encoded, source.encoded.blank_words
    results: list[list[Prediction]] = [[] for _ in sentences]
    bar.update(len(sentences) - sum(map(len, source.indices)))
    for indices, batch in zip(source.indices, source.batches(model.device), strict=True):
        labels, scores = classify(model, batch)
        words = encoded.kept_words[indices]
        label_ids = labels.cpu().numpy()
        outrule_blank_ends(label_ids, [blank[index] for index in indices], config.entity_max_length, config.outside_id)
        found, probabilities = decode(
            label_ids, scores.cpu().numpy(), words, config.entity_max_length, config.outside_id
        )
        for row, label, start, end, score in zip(*(c.tolist() for c in (*found, probabilities)), strict=True):
            index = indices[row]
            place = _place(sentences[index], encoded, index, start, end)
            results[index].append({"span": place.pop("span"), "label": config.id2label[label], "score": score, **place})
        bar.update(len(indices))
    return results


def _place(sentence: str | Sequence[str], encoded: EncodedWords, index: int, start: int, end: int) -> dict[str, Any]:
    """Describe where an entity is: words ``start`` to ``end`` (exclusive) of a sentence."""
    if encoded.character_spans is None:
        return {"span": list(sentence[start:end]), "word_start_index": start, "word_end_index": end}
    spans = encoded.character_spans[index]
    first, last = int(spans[start, 0]), int(spans[end - 1, 1])
    return {"span": sentence[first:last], "char_start_index": first, "char_end_index": last}


def parse_inputs(inputs: Any, is_split_into_words: bool | None) -> Inputs:
    """Bring the inputs of `predict` into one form.

    Raises:
        TypeError: They are none of the accepted forms, or ``is_split_into_words`` is no truth value.
        ValueError: A data set lacks ``tokens`` or has a transform, or the inputs are not what ``is_split_into_words``
            says.
    """
    if not isinstance(is_split_into_words, bool | None):
        raise TypeError(f"is_split_into_words must be True, False or None, but it is {is_split_into_words!r}.")
    if isinstance(inputs, Dataset):
        refuse_transform(inputs)
        inputs = inputs.with_format(None)
        if "tokens" not in inputs.column_names:
            raise ValueError(f"The data set needs a column 'tokens', but it has {', '.join(inputs.column_names)}.")
        ids = (DOCUMENT_ID, SENTENCE_ID) if has_documents(inputs.column_names) else ()
        documents = {name: list(inputs[name]) for name in ids}
        return Inputs(_checked(list(inputs["tokens"]), is_split_into_words), False, documents)
    if isinstance(inputs, str):
        _require_agreement([inputs], is_split_into_words)
        return Inputs([inputs], True, {})
    if not isinstance(inputs, Sequence) or isinstance(inputs, bytes):
        raise TypeError(f"{_EXPECTED}, but got {type(inputs).__name__}.")
    inputs = list(inputs)  # a data set's column may be one that reads itself anew at each step
    if inputs and all(isinstance(item, str) for item in inputs):
        if is_split_into_words is None:
            is_split_into_words = len(inputs) > 1 and not any(" " in item for item in inputs)
            if is_split_into_words:
                _suspect_texts(inputs)
        return Inputs([inputs], True, {}) if is_split_into_words else Inputs(inputs, False, {})
    return Inputs(_checked(inputs, is_split_into_words), False, {})


def _suspect_texts(words: list[str]) -> None:
    """Warn of words that are more likely texts of a script without spaces."""
    texts = [word for word in words if len(word) > _LONGEST_WORD or word.endswith(_SENTENCE_ENDS)]
    if len(texts) > 1:
        logger.warning_once(
            "A list of strings without any space was read as one sentence of words, but these look like texts: "
            f"{texts[0]!r:.60}. If they are, pass is_split_into_words=False."
        )


_EXPECTED = "Expected a text, a list of texts, a list of words, a list of lists of words, or a Dataset"


def _require_agreement(sentences: list[Any], is_split_into_words: bool | None) -> None:
    """Refuse texts that are said to be split into words, and lists of words that are said not to be.

    Raises:
        ValueError: With the first of them.
    """
    if is_split_into_words is None or not sentences or is_split_into_words is not isinstance(sentences[0], str):
        return
    given, remedy = (
        ("a text", "Pass its words as a list, for instance text.split(), or leave the argument out.")
        if is_split_into_words
        else ("a list of words", "Pass texts, or leave the argument out.")
    )
    raise ValueError(f"is_split_into_words={is_split_into_words}, but got {given}: {sentences[0]!r:.60}. {remedy}")


def _checked(sentences: list[Any], is_split_into_words: bool | None) -> Sentences:
    """Refuse what is neither all texts nor all lists of words, or not of the kind that it is said to be.

    Raises:
        TypeError: With the first row that does not fit.
        ValueError: The rows are all of the other kind.
    """
    kind = str if sentences and isinstance(sentences[0], str) else list | tuple
    for row, sentence in enumerate(sentences):
        if not isinstance(sentence, kind):
            given = f"{sentence!r:.60}" if isinstance(sentence, str) else type(sentence).__name__
            raise TypeError(f"{_EXPECTED}, all of one kind, but row {row} is {given}.")
        try:
            "".join(sentence)  # checks all words in one call
        except TypeError as error:
            place, word = next((place, word) for place, word in enumerate(sentence) if not isinstance(word, str))
            raise TypeError(f"{_EXPECTED}, but word {place} of row {row} is {word!r:.60}.") from error
    _require_agreement(sentences, is_split_into_words)
    return sentences


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
