"""What the Trainer reads back and writes: checkpoints of the same labels, logs, and the model card."""

import os
from typing import Any

from torch import nn
from transformers.utils import CONFIG_NAME

from span_marker.configuration import SpanMarkerConfig
from span_marker.loading import naming
from span_marker.model_card import write_model_card
from span_marker.overriding import overridden
from span_marker.trainer_evaluation import flatten_metrics
from span_marker.trainer_hub import HubTrainer


class SavingTrainer(HubTrainer):
    """A Trainer that goes on from fitting checkpoints only, and writes the model's own card."""

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Load the weights to go on from, if they are those of the model's labels."""
        path = os.fspath(resume_from_checkpoint)
        if os.path.isfile(os.path.join(path, CONFIG_NAME)):
            with naming("configuration", path):
                saved = SpanMarkerConfig.from_pretrained(path)
            _require_same_labels(self.model.config, saved, path)
        super()._load_from_checkpoint(path, model)

    def log(self, logs: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Log values, those of each type by names of their own: loggers such as TensorBoard take numbers only.

        Args:
            logs: The values. What transformers adds to them, such as the epoch, is added.
            *args: As transformers has them.
            **kwargs: As transformers has them.
        """
        flat = flatten_metrics(logs)
        given = {*flat}
        super().log(flat, *args, **kwargs)
        logs |= {name: value for name, value in flat.items() if name not in given}

    def create_model_card(
        self,
        language: str | list[str] | None = None,
        license: str | None = None,
        tags: str | list[str] | None = None,
        model_name: str | None = None,
        finetuned_from: str | None = None,
        tasks: str | list[str] | None = None,
        dataset_tags: str | list[str] | None = None,
        dataset: str | list[str] | None = None,
        dataset_args: str | list[str] | None = None,
    ) -> None:
        """Write the model card to ``README.md`` in the output folder.

        What is given here fills what the model's card data leave open. A card that a person has edited is kept, and its
        metadata are completed.

        Args:
            language: Language of the model.
            license: License of the model.
            tags: Further tags.
            model_name: Title of the card.
            finetuned_from: Id of the encoder on the Hub.
            tasks: Ignored: the task is token classification.
            dataset_tags: Id of the training set on the Hub.
            dataset: Name of the training set.
            dataset_args: Ignored.
        """
        if not self.is_world_process_zero():
            return
        card = self.model.model_card_data
        given = {
            "language": language,
            "license": license,
            "model_name": model_name,
            "model_id": self.hub_model_id,
            "encoder_id": finetuned_from,
            "dataset_id": dataset_tags,
            "dataset_name": dataset,
        }
        # A card holds one data set and one encoder, but may have several languages.
        known = {name: value for name, value in given.items() if isinstance(value, str) or name == "language"}
        fitting = {name: value for name, value in known.items() if value and not getattr(card, name)}
        with overridden(card, **fitting, tags=card.with_tags(tags)):
            write_model_card(self.model, self.args.output_dir, self._published_card)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """Save the model; its card tells the training up to now."""
        card = self.model.model_card_data
        if self.is_in_train:  # later on, the log holds evaluations of whatever was evaluated
            card.set_training_curve(self.state.log_history)
        with overridden(card, model_id=card.model_id or self.hub_model_id):
            super()._save(output_dir, state_dict)


def _require_same_labels(config: SpanMarkerConfig, saved: SpanMarkerConfig, path: str) -> None:
    """Refuse to go on from a classifier of other labels."""
    if config.labels != saved.labels:
        raise ValueError(
            f"The checkpoint in {path!r} was trained with the tags {saved.tags}, but the model has {config.tags}. Give "
            "the model the same labels=, or start a new classifier instead of resuming: "
            "SpanMarkerModel.from_pretrained(checkpoint, labels=[...], ignore_mismatched_sizes=True)."
        )
