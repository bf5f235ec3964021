"""Ways of training that were tried beside the package's own; `experiments.py` says which of them an experiment takes.

What wins becomes a setting of the package; what stays here is what lost, or has not been decided, so that it can be
measured again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import TrainingArguments

from span_marker import SpanMarkerModel, Trainer
from span_marker.data_collator import IGNORED_LABEL, SpanMarkerDataCollator
from span_marker.modeling import TextReading, _layout, _split
from span_marker.output import SpanMarkerOutput
from span_marker.span_filter import WIDTHS, filter_loss
from span_marker.span_sampling import SamplingCollator
from span_marker.trainer_loop import overridden
from span_marker.types import Row


@dataclass(frozen=True)
class Candidate:
    """What differs from the package's own way.

    Attributes:
        marker_noise: Start the markers' embeddings from random vectors, as span-marker 1.8.1 does.
        text_states: Classify a span by its markers and by the text states of its first and last token, as PL-Marker
            does for relations.
        text_loss: Weight of a loss of a classifier of spans on the text states alone, of the type of an entity and not
            only of whether there is one.
        joint: Add up the log-probabilities of both classifiers at prediction.
        prior_shift: Tell the loss that negative spans were sampled, so that probabilities stay those of all spans.
        near_misses: Share of the spans that overlap an entity to keep when negative spans are sampled.
        boundary_smoothing: Share of a span's probability that its entity's neighbours get (Zhu and Li, 2022).
        focal: Exponent of the focal loss (Lin et al., 2017).
        cascade: Run markers in training as prediction does, on the spans that the text states take for entities: all
            entities, and this many other spans a token, those with the highest filter scores. 0: on the spans given.
        entity_weight: Weight of an entity in the losses of both classifiers.
        head_rate: Learning rate of all that is not the encoder, as a multiple of the encoder's.
        layer_decay: Learning rate of a layer of the encoder, as a multiple of that of the layer above.
    """

    marker_noise: bool = False
    text_states: bool = False
    text_loss: float = 0.0
    joint: bool = False
    prior_shift: bool = False
    near_misses: float | None = None
    boundary_smoothing: float = 0.0
    focal: float = 0.0
    cascade: float = 0.0
    entity_weight: float = 1.0
    head_rate: float = 1.0
    layer_decay: float = 1.0

    @property
    def has_own_rates(self) -> bool:
        """Whether parts of the model have learning rates of their own."""
        return (self.head_rate, self.layer_decay) != (1.0, 1.0)


class TextClassifier(nn.Module):
    """Classifies spans by the text states of their first and last token, and their width.

    Args:
        hidden_size: Size of a token's state.
        labels: Number of labels.
        inner_size: Size of a span's representation.
    """

    def __init__(self, hidden_size: int, labels: int, inner_size: int = 256) -> None:
        super().__init__()
        self.first = nn.Linear(hidden_size, inner_size)
        self.last = nn.Linear(hidden_size, inner_size, bias=False)
        self.width = nn.Embedding(WIDTHS, inner_size)
        nn.init.normal_(self.width.weight, std=0.02)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(inner_size, labels)

    def forward(self, states: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """Classify. Shapes: ``[batch, text, hidden]``, ``[batch, spans]`` twice, ``[batch, spans, labels]``."""
        states = self.dropout(states)
        spans = gather(self.first(states), starts) + gather(self.last(states), ends)
        spans = spans + self.width((ends - starts).clamp(0, WIDTHS - 1))
        logits: Tensor = self.output(self.dropout(nn.functional.gelu(spans)))
        return logits


class CandidateModel(SpanMarkerModel):
    """A span marker model that can be trained and read in the ways of a [`Candidate`].

    Attributes:
        outside_bias: What "O" loses in prediction, in log-odds: more entities are found.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.candidate, self.share = Candidate(), 1.0
        self.outside_bias = 0.0
        self.text_classifier: TextClassifier | None = None

    def adopt(self, candidate: Candidate, share: float | None) -> None:
        """Take a candidate's ways.

        Args:
            candidate: The candidate.
            share: Share of the negative spans that are trained on.
        """
        self.candidate, self.share = candidate, share or 1.0
        hidden, labels = self.encoder.config.hidden_size, self.config.num_labels
        if candidate.marker_noise:
            with torch.no_grad():
                markers = self.encoder.get_input_embeddings().weight[list(self.tokenizer.marker_ids)]
                self.encoder.get_input_embeddings().weight[list(self.tokenizer.marker_ids)] = (
                    torch.randn_like(markers) * 0.02
                )
        if candidate.text_states:
            self.classifier = nn.Linear(4 * hidden, labels)
            self._init_weights(self.classifier)
        if candidate.text_loss:
            self.text_classifier = TextClassifier(hidden, labels)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SpanMarkerOutput:
        """As the package's."""
        if self.candidate.cascade and labels is not None:
            return self._cascade(input_ids, attention_mask, start_positions, end_positions, labels)
        layout = _layout(attention_mask, start_positions, end_positions, num_spans)
        states = self._runner(self.encoder, self._with_markers(input_ids, layout), layout).last_hidden_state
        text_states, *marker_states = _split(states, layout)
        logits, text_logits = self._span_logits(text_states, marker_states, start_positions, end_positions)
        scores = None if self.span_filter is None else self.span_filter(text_states, start_positions, end_positions)
        loss = None
        if labels is not None:
            loss = self._candidate_loss(logits, text_logits, scores, labels, start_positions, end_positions)
            count = (
                labels.ne(IGNORED_LABEL).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
            )
            loss = loss / count.clamp(min=1)
        return SpanMarkerOutput(loss=loss, logits=self._read(logits, text_logits), filter_scores=scores)

    def _cascade(
        self, input_ids: Tensor, attention_mask: Tensor, starts: Tensor, ends: Tensor, labels: Tensor
    ) -> SpanMarkerOutput:
        """Score all spans by the text, and run markers on the entities and the hardest others."""
        text = self.read_text(input_ids, attention_mask)
        scores = self.span_filter(text.states, starts, ends)
        is_entity = (labels != self.config.outside_id) & (labels != IGNORED_LABEL)
        others = scores.detach().masked_fill(is_entity | (labels == IGNORED_LABEL), -torch.inf)
        most = (attention_mask.sum(1) * self.candidate.cascade).ceil().long()
        rank = others.argsort(dim=1, descending=True).argsort(dim=1)
        wanted = is_entity | ((rank < most[:, None]) & others.isfinite())
        counts = wanted.sum(1)
        columns = wanted.byte().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
        kept_starts, kept_ends, targets = (tensor.gather(1, columns) for tensor in (starts, ends, labels))
        targets = targets.masked_fill(torch.arange(columns.shape[1]) >= counts[:, None], IGNORED_LABEL)
        layout = _layout(text.attention_mask, kept_starts, kept_ends, counts)
        packed = self._runner(self.encoder, self._with_markers(text.input_ids, layout), layout, text.memory)
        _, *marker_states = _split(packed.last_hidden_state, layout)
        logits, _ = self._span_logits(text.states, marker_states, kept_starts, kept_ends)
        loss = self._cross_entropy(logits, self._targets(targets, kept_starts, kept_ends), targets)
        loss = loss + filter_loss(scores, labels, self.config)
        if self.text_classifier is not None:
            of_text = self.text_classifier(text.states, starts, ends)
            loss = loss + self.candidate.text_loss * self._cross_entropy(
                of_text, self._targets(labels, starts, ends), labels
            )
        return SpanMarkerOutput(loss=loss / counts.sum().clamp(min=1), logits=logits, filter_scores=scores)

    def read_spans(
        self, text: TextReading, start_positions: Tensor, end_positions: Tensor, num_spans: Tensor
    ) -> Tensor:
        """As the package's."""
        layout = _layout(text.attention_mask, start_positions, end_positions, num_spans)
        input_ids = self._with_markers(text.input_ids, layout)
        states = self._runner(self.encoder, input_ids, layout, text.memory).last_hidden_state
        _, *marker_states = _split(states, layout)
        return self._read(*self._span_logits(text.states, marker_states, start_positions, end_positions))

    def _span_logits(
        self, text: Tensor, markers: Sequence[Tensor], starts: Tensor, ends: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Classify spans by their markers, and by the text alone."""
        more = [gather(text, starts), gather(text, ends)] if self.candidate.text_states else []
        logits = self.classifier(self.dropout(torch.cat([*markers, *more], dim=-1)))
        return logits, None if self.text_classifier is None else self.text_classifier(text, starts, ends)

    def _read(self, logits: Tensor, text_logits: Tensor | None) -> Tensor:
        """What prediction goes by."""
        if text_logits is not None and self.candidate.joint:
            logits = (logits.float().log_softmax(-1) + text_logits.float().log_softmax(-1)) / 2
        shift = torch.zeros(logits.shape[-1])
        shift[self.config.outside_id] = self.outside_bias
        return logits - shift

    def _candidate_loss(
        self,
        logits: Tensor,
        text_logits: Tensor | None,
        scores: Tensor | None,
        labels: Tensor,
        starts: Tensor,
        ends: Tensor,
    ) -> Tensor:
        """Add up the losses over the labelled spans. Shape: ``[]``."""
        targets = self._targets(labels, starts, ends)
        total = self._cross_entropy(logits, targets, labels)
        if text_logits is not None:
            total = total + self.candidate.text_loss * self._cross_entropy(text_logits, targets, labels)
        if scores is not None:
            shift = math.log(self.share) if self.candidate.prior_shift else 0.0
            total = total + filter_loss(scores - shift, labels, self.config)
        return total

    def _targets(self, labels: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """Wanted distribution of each span. Shape: ``[batch, spans, labels]``."""
        outside = self.config.outside_id
        targets = nn.functional.one_hot(labels.clamp(min=0), self.config.num_labels).float()
        if not self.candidate.boundary_smoothing:
            return targets
        is_entity = (labels != outside) & (labels != IGNORED_LABEL)
        distance = (starts[:, :, None] - starts[:, None]).abs() + (ends[:, :, None] - ends[:, None]).abs()
        near = ((distance == 1) & is_entity[:, None]).float()  # span, entity
        gained = near @ targets * (self.candidate.boundary_smoothing / 4)
        gained[..., outside] = 0
        gained = gained * (~is_entity)[..., None]
        share = gained.sum(-1, keepdim=True).clamp(max=1)
        smoothed = targets * (1 - share) + gained
        kept = 1 - self.candidate.boundary_smoothing
        entity = targets * kept + nn.functional.one_hot(torch.tensor(outside), targets.shape[-1]) * (1 - kept)
        return torch.where(is_entity[..., None], entity, smoothed)

    def _cross_entropy(self, logits: Tensor, targets: Tensor, labels: Tensor) -> Tensor:
        """Add up cross entropy, or focal loss, over the labelled spans. Shape: ``[]``."""
        logits = logits.float()
        if self.candidate.prior_shift:
            shift = torch.zeros(logits.shape[-1])
            shift[self.config.outside_id] = math.log(self.share)
            logits = logits + shift
        logs = logits.log_softmax(-1)
        losses = -(targets * logs).sum(-1)
        if self.candidate.focal:
            losses = losses * (1 - (targets * logs.exp()).sum(-1)).clamp(min=1e-6) ** self.candidate.focal
        losses = losses * torch.where(labels == self.config.outside_id, 1.0, self.candidate.entity_weight)
        return losses.masked_fill(labels == IGNORED_LABEL, 0.0).sum()


class NearMissCollator(SamplingCollator):
    """Draws negative spans, and those that overlap an entity with a share of their own.

    Args:
        collate: The collator.
        outside_id: Label id of "no entity".
        share: Share of the spans of that label to keep.
        near_share: Share of those of them that overlap an entity to keep.
    """

    def __init__(self, collate: SpanMarkerDataCollator, outside_id: int, share: float, near_share: float) -> None:
        super().__init__(collate, outside_id, share)
        self.near_share = near_share

    def _draw(self, row: Row) -> Row:
        labels, starts, ends = (np.asarray(row[name]) for name in ("labels", "start_position_ids", "end_position_ids"))
        is_entity = labels != self.outside_id
        overlap = (starts[:, None] <= ends[is_entity]) & (starts[is_entity] <= ends[:, None])
        share = np.where(overlap.any(1), self.near_share, self.share)
        kept = is_entity | (torch.rand(len(labels)).numpy() < share)
        names = ("labels", "start_position_ids", "end_position_ids")
        return row | {name: np.asarray(row[name])[kept] for name in names}


class CandidateTrainer(Trainer):
    """A Trainer that draws negative spans as the model's candidate says."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """As the package's."""
        near, share = self.model.candidate.near_misses, self.negative_span_ratio
        if near is None or share is None:
            return super().get_train_dataloader()
        collate = NearMissCollator(self.data_collator, self.model.config.outside_id, share, near)
        with overridden(self, data_collator=collate, negative_span_ratio=None):
            return super().get_train_dataloader()


def gather(states: Tensor, positions: Tensor) -> Tensor:
    """Look up the state of a token for each span. Shape: ``[batch, spans, hidden]``."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))


def make_optimizer(model: nn.Module, arguments: TrainingArguments, candidate: Candidate) -> torch.optim.Optimizer:
    """Make AdamW with learning rates of their own for the layers and the heads.

    Args:
        model: The model.
        arguments: The training's arguments.
        candidate: The candidate.

    Returns:
        The optimizer.
    """
    depth = model.encoder.config.num_hidden_layers
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder."):
            rate = candidate.head_rate
        else:
            layer = next((int(part) + 1 for part in name.split(".") if part.isdigit()), 0)
            rate = candidate.layer_decay ** (depth - layer)
        decay = arguments.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": arguments.learning_rate * rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        lr=arguments.learning_rate,
        betas=(arguments.adam_beta1, arguments.adam_beta2),
        eps=arguments.adam_epsilon,
    )
