"""What the Trainer pushes to the Hub while it trains, and what it reads of a checkpoint to go on from it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import CommitInfo
from torch import nn
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import HubStrategy
from transformers.utils import logging

from span_marker.hub import create_branch
from span_marker.loading import naming
from span_marker.model_card import published_card
from span_marker.overriding import overridden
from span_marker.trainer_search import SearchingTrainer

logger = logging.get_logger(__name__)


class HubTrainer(SearchingTrainer):
    """A Trainer that makes the branches it pushes to, and names failed pushes and damaged files of checkpoints."""

    _published_card: str | None = None
    """The card in the repository that the model is being pushed to."""

    def init_hf_repo(self, token: str | None = None, **kwargs: Any) -> None:
        """Make the repository that is pushed to, and its branch ``args.hub_revision``.

        Args:
            token: Token of the user. ``None``: ``args.hub_token``, or that of the user who is logged in.
            **kwargs: Handed on to transformers.
        """
        super().init_hf_repo(token=token, **kwargs)
        if self.is_world_process_zero():
            create_branch(self.hub_model_id, self.args.hub_revision, token or self.args.hub_token)

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> CommitInfo:
        """Upload the output folder without its checkpoints: model, tokenizer, training arguments and model card.

        A card in the repository that a person has edited is kept.

        Args:
            commit_message: Message of the commit.
            blocking: Whether to wait for the upload.
            token: Token of the user. ``None``: ``args.hub_token``, or that of the user who is logged in.
            revision: Branch to push to, made if there is none. ``None``: ``args.hub_revision``.
            *args: Handed on to transformers.
            **kwargs: Handed on to transformers, such as ``private``, or to `create_model_card`.

        Returns:
            The commit; what will give it if ``blocking`` is false.

        Raises:
            OSError: The user may not write to the repository, or the Hub cannot be reached.
        """
        if self.hub_model_id is None:
            self.init_hf_repo(token, **{name: kwargs[name] for name in ("private",) if name in kwargs})
        if self.is_world_process_zero():
            create_branch(self.hub_model_id, revision, token or self.args.hub_token)
        with self._keeping_published_card(token, revision):
            commit: CommitInfo = super().push_to_hub(commit_message, blocking, token, revision, *args, **kwargs)
        return commit

    @contextmanager
    def _keeping_published_card(self, token: str | None = None, revision: str | None = None) -> Iterator[None]:
        """Let what a person edited in the repository's card stay while another is pushed."""
        published = None
        if self.is_world_process_zero():
            published = published_card(
                self.hub_model_id, token or self.args.hub_token, revision or self.args.hub_revision
            )
        with overridden(self, _published_card=published):
            yield

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push a checkpoint as ``args.hub_strategy`` asks for, with the model card.

        The files of a push that is still running are about to be replaced: with ``args.hub_always_push`` it is waited
        for, otherwise this checkpoint is not pushed.
        """
        push = getattr(self, "push_in_progress", None)
        if push is not None and not push.is_done() and not self.args.hub_always_push:
            return
        self._finish_current_push()
        if self.args.hub_strategy != HubStrategy.END:
            with self._keeping_published_card():
                self.create_model_card()
        super()._push_from_checkpoint(checkpoint_folder)

    def _finish_current_push(self) -> None:
        """Wait for what is being pushed."""
        super()._finish_current_push()
        self._tell_failed_pushes()

    def _tell_failed_pushes(self) -> None:
        """Warn of pushes that failed: they run beside the training, where nobody asks for their errors."""
        push = getattr(self, "push_in_progress", None)
        jobs = [] if push is None else push.jobs
        for job in [job for job in jobs if job.done() and job.exception() is not None]:
            jobs.remove(job)
            error = job.exception()
            logger.warning(
                f"A push to {self.hub_model_id!r} failed: {type(error).__name__}. {error} The training goes on; its "
                f"files are in {self.args.output_dir!r}, and trainer.push_to_hub() uploads them at any time."
            )

    # ---- Going on from a checkpoint ----

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Load the weights to go on from, if the state of the training can be read."""
        state = os.path.join(resume_from_checkpoint, TRAINER_STATE_NAME)
        if not os.path.isfile(state):
            raise OSError(
                f"The folder {resume_from_checkpoint!r} is no checkpoint of a training: it has no "
                f"{TRAINER_STATE_NAME}. To train the model in it further, load it with "
                "SpanMarkerModel.from_pretrained and give it to a new Trainer."
            )
        with naming(f"training state ({TRAINER_STATE_NAME})", resume_from_checkpoint):
            TrainerState.load_from_json(state)
        with naming("weights", resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with naming("state of the optimizer (optimizer.pt, scheduler.pt)", str(checkpoint)):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with naming("state of the random numbers (rng_state.pth)", str(checkpoint)):
            super()._load_rng_state(checkpoint)
