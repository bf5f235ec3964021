"""A span filter for a model that was trained without one: only the filter is trained, on what the model finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from datasets import Dataset
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from span_marker.classification import is_span, read_labels
from span_marker.data_collator import IGNORED_LABEL
from span_marker.inference import evaluating
from span_marker.inputs import parse_inputs
from span_marker.overriding import overridden
from span_marker.sentence_batches import SentenceBatches
from span_marker.span_filter import SpanFilter, calibrated_threshold, entity_scores, make_span_filter
from span_marker.span_loss import filter_loss
from span_marker.windows import cut_into_windows, window_size

LEARNING_RATE: Final = 1e-3
HELD_OUT: Final = 5
"""One batch in so many is kept for calibration."""


@dataclass(frozen=True)
class FilterReport:
    """What a fitted filter does on the sentences that were held out.

    Attributes:
        threshold: Probability below which spans are dropped, as stored in the model's configuration.
        kept_spans: Share of the candidate spans that it keeps.
        kept_entities: Share of the spans that the model takes for entities that it keeps.
        num_entities: Number of such spans.
    """

    threshold: float
    kept_spans: float
    kept_entities: float
    num_entities: int


@dataclass(frozen=True)
class _Batch:
    """What the filter sees of a batch, on the CPU, and what it should say: the model's label of each span."""

    states: Tensor
    starts: Tensor
    ends: Tensor
    labels: Tensor


def fit_span_filter(
    model: Any,
    inputs: Sequence[str] | Sequence[Sequence[str]] | Dataset,
    *,
    epochs: int = 10,
    batch_size: int = 16,
    seed: int = 0,
    is_split_into_words: bool | None = None,
    show_progress_bar: bool = False,
) -> FilterReport:
    """Train a span filter for a trained model, as ``SpanMarkerModel.fit_span_filter`` describes it."""
    parsed = parse_inputs(inputs, is_split_into_words)
    source = SentenceBatches(parsed.sentences, parsed.documents, model.tokenizer, model.config, batch_size)
    if model.config.negatives_per_word is not None:
        raise ValueError(
            "The model's markers were trained along with its span filter, on what that takes for entities, so that no "
            "other filter can learn from them. To choose the filter's threshold for other sentences, call "
            "trainer.calibrate_span_filter(dataset); to train the model on, use the Trainer."
        )
    with overridden(model.config, span_filter_vote=0.0):  # it learns what the markers say
        batches = _read(model, source, show_progress_bar)
    if len(batches) < 2:
        raise ValueError(
            f"A span filter is trained and calibrated on different sentences, but {len(parsed.sentences)} sentences "
            f"make {len(batches)} batch(es) of {batch_size}. Give some hundreds of sentences."
        )
    found = sum(int(_is_entity(batch, model.config.outside_id).sum()) for batch in batches)
    if not found:
        raise ValueError(
            f"The model finds no entity in the {len(parsed.sentences)} sentences, so that there is nothing to keep. "
            "Give sentences of the kind that it was trained on."
        )
    held_out = batches[::HELD_OUT]
    training = [batch for index, batch in enumerate(batches) if index % HELD_OUT]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        span_filter = make_span_filter(model.config, model.encoder.config.hidden_size)
        _train(span_filter, training, model.config, epochs)
    model.span_filter = span_filter.to(device=model.device, dtype=model.dtype).eval()
    model.config.span_filter, model.config.span_filter_vote = True, 0.0
    return _calibrate(span_filter.to("cpu", torch.float32), held_out, model)


def _read(model: Any, source: SentenceBatches, show_progress_bar: bool) -> list[_Batch]:
    """Run the model over all spans."""
    batches, size = [], window_size(model.tokenizer)
    # What was made in inference mode could not be trained on.
    progress = tqdm(total=source.num_sentences, desc="Reading", disable=not show_progress_bar)
    with progress, evaluating(model), torch.inference_mode(False), torch.no_grad():
        for indices, whole in source.batches(model.device):
            for batch, _ in cut_into_windows(whole, size):
                text = model.read_text(batch["input_ids"], batch["attention_mask"])
                spans = is_span(batch)
                labels, _ = read_labels(model, text, batch, spans)
                labels = labels.long().masked_fill(~spans, IGNORED_LABEL)
                of_batch = text.states.float(), batch["start_positions"], batch["end_positions"], labels
                batches.append(_Batch(*(tensor.cpu() for tensor in of_batch)))
            progress.update(len(indices))
    return batches


def _is_entity(batch: _Batch, outside_id: int) -> Tensor:
    """Tell which spans the model takes for entities. Shape: ``[batch, spans]``."""
    return (batch.labels != outside_id) & (batch.labels != IGNORED_LABEL)


def _train(span_filter: SpanFilter, batches: Sequence[_Batch], config: Any, epochs: int) -> None:
    """Train the filter alone."""
    optimizer = torch.optim.AdamW(span_filter.parameters(), lr=LEARNING_RATE)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(epochs):
        for index in torch.randperm(len(batches)).tolist():
            batch = batches[index]
            logits = span_filter(batch.states, batch.starts, batch.ends)
            count = batch.labels.ne(IGNORED_LABEL).sum()
            (filter_loss(logits, batch.labels, config) / count).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


@torch.no_grad()
def _calibrate(span_filter: SpanFilter, batches: Sequence[_Batch], model: Any) -> FilterReport:
    """Choose the threshold, and tell what it does."""
    config = model.config
    logits = [span_filter(batch.states, batch.starts, batch.ends) for batch in batches]
    scores = [entity_scores(of_batch, config.outside_id) for of_batch in logits]
    of_spans = torch.cat([s[b.labels != IGNORED_LABEL] for s, b in zip(scores, batches, strict=True)])
    of_entities = torch.cat([s[_is_entity(b, config.outside_id)] for s, b in zip(scores, batches, strict=True)])
    config.span_filter_threshold = calibrated_threshold(of_entities.numpy(), config.span_filter_recall)

    def kept(values: Tensor) -> float:
        return float((values >= config.least_filter_score).float().mean()) if len(values) else 1.0

    return FilterReport(config.span_filter_threshold, kept(of_spans), kept(of_entities), len(of_entities))
