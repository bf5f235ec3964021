"""Ways of training that were tried beside the package's own; `experiments.py` says which of them an experiment takes.

What wins becomes a setting of the package; what stays here is what lost, or has not been decided, so that it can be
measured again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import TrainingArguments

from span_marker import SpanMarkerModel, Trainer
from span_marker.attention import MarkerLayout
from span_marker.data_collator import IGNORED_LABEL, SpanMarkerDataCollator
from span_marker.overriding import overridden
from span_marker.span_sampling import SamplingCollator
from span_marker.types import Row


@dataclass(frozen=True)
class Candidate:
    """What differs from the package's own way.

    Attributes:
        marker_noise: Start the markers' embeddings from random vectors, as span-marker 1.8.1 does.
        near_misses: Share of the spans that overlap an entity to keep when negative spans are sampled.
        boundary_smoothing: Share of a span's probability that its entity's neighbours get (Zhu and Li, 2022).
        consistency: Weight of the difference between two passes with other dropout (R-Drop, Liang et al., 2021).
        layer_decay: Learning rate of a layer of the encoder, as a multiple of that of the layer above.
    """

    marker_noise: bool = False
    near_misses: float | None = None
    boundary_smoothing: float = 0.0
    consistency: float = 0.0
    layer_decay: float = 1.0


class CandidateModel(SpanMarkerModel):
    """A span marker model that is trained in the ways of a [`Candidate`]."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.candidate = Candidate()

    def adopt(self, candidate: Candidate) -> None:
        """Take a candidate's ways.

        Args:
            candidate: The candidate.
        """
        self.candidate = candidate
        if candidate.marker_noise:
            with torch.no_grad():
                table = self.encoder.get_input_embeddings().weight
                markers = list(self.tokenizer.marker_ids)
                table[markers] = torch.randn_like(table[markers]) * 0.02

    def forward(self, *args: Any, **batch: Any) -> Any:
        """As the package's; in training, twice for a candidate of consistency."""
        output = super().forward(*args, **batch)
        if not self.candidate.consistency or not self.training:
            return output
        other = super().forward(*args, **batch)
        spans = batch["labels"] != IGNORED_LABEL
        left, right = (one.logits[spans].float().log_softmax(-1) for one in (output, other))
        apart = sum(
            nn.functional.kl_div(one, two, reduction="sum", log_target=True)
            for one, two in ((left, right), (right, left))
        )
        count = batch.get("num_items_in_batch")
        loss = (
            output.loss
            + other.loss
            + self.candidate.consistency / 2 * apart / (spans.sum() if count is None else count)
        )
        return output | {"loss": loss}

    def _with_markers(self, input_ids: Tensor, layout: MarkerLayout) -> Tensor:
        self._run_spans = layout  # whose boundaries the loss wants to know
        return super()._with_markers(input_ids, layout)

    def _loss(self, logits: Tensor, labels: Tensor, filter_logits: Tensor | None, targets: Any) -> Tensor:
        loss = super()._loss(logits, labels, filter_logits, targets)
        if not self.candidate.boundary_smoothing:
            return loss
        without = super()._loss(logits, torch.full_like(labels, IGNORED_LABEL), filter_logits, targets)
        count = targets.labels.ne(IGNORED_LABEL).sum() if targets.num_items is None else targets.num_items
        return without + self._marker_loss(logits, labels) / count

    def _marker_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Add up cross entropy with smoothed boundaries over the labelled spans. Shape: ``[]``."""
        weights = torch.tensor(self.config.label_weights(self.config.entity_weight), device=logits.device)
        losses = -(self._wanted(labels) * logits.float().log_softmax(-1)).sum(-1) * weights[labels.clamp(min=0)]
        return losses.masked_fill(labels == IGNORED_LABEL, 0.0).sum()

    def _wanted(self, labels: Tensor) -> Tensor:
        """Wanted distribution of each span. Shape: ``[batch, spans, labels]``."""
        outside, starts, ends = self.config.outside_id, self._run_spans.start_positions, self._run_spans.end_positions
        wanted = nn.functional.one_hot(labels.clamp(min=0), self.config.num_labels).float()
        is_entity = (labels != outside) & (labels != IGNORED_LABEL)
        distance = (starts[:, :, None] - starts[:, None]).abs() + (ends[:, :, None] - ends[:, None]).abs()
        near = ((distance == 1) & is_entity[:, None]).float()  # span, entity
        gained = near @ wanted * (self.candidate.boundary_smoothing / 4)
        gained[..., outside] = 0
        gained = gained * (~is_entity)[..., None]
        smoothed = wanted * (1 - gained.sum(-1, keepdim=True).clamp(max=1)) + gained
        kept = 1 - self.candidate.boundary_smoothing
        entity = wanted * kept + nn.functional.one_hot(torch.tensor(outside), wanted.shape[-1]) * (1 - kept)
        return torch.where(is_entity[..., None], entity, smoothed)


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


def make_optimizer(model: nn.Module, arguments: TrainingArguments, decay: float) -> torch.optim.Optimizer:
    """Make AdamW with learning rates of their own for the layers and the heads.

    Args:
        model: The model.
        arguments: The training's arguments.
        decay: Learning rate of a layer of the encoder, as a multiple of that of the layer above.

    Returns:
        The optimizer.
    """
    depth = model.encoder.config.num_hidden_layers
    groups = []
    for name, parameter in model.named_parameters():
        layer = next((int(part) + 1 for part in name.split(".") if part.isdigit()), 0)
        rate = decay ** (depth - layer) if name.startswith("encoder.") else model.config.head_rate
        weight_decay = arguments.weight_decay if parameter.ndim > 1 else 0.0
        groups.append({"params": [parameter], "lr": arguments.learning_rate * rate, "weight_decay": weight_decay})
    betas = (arguments.adam_beta1, arguments.adam_beta2)
    return torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=betas, eps=arguments.adam_epsilon)
