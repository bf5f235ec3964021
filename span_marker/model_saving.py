"""What becomes of a span marker model: saved to a folder, pushed to the Hub, exported for another engine."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from huggingface_hub import CommitInfo
from torch import Tensor

from span_marker._version import __version__
from span_marker.export import export_model
from span_marker.hub import push, write_inference_handler
from span_marker.model_card import generate_model_card, published_card, write_model_card
from span_marker.model_loading import LoadableModel
from span_marker.overriding import overridden

_PUSHING = (
    "repo_id",
    "commit_message",
    "commit_description",
    "private",
    "token",
    "revision",
    "create_pr",
    "tags",
)
"""Arguments of `SavableModel.push_to_hub`."""


class SavableModel(LoadableModel):
    """The part of [`span_marker.SpanMarkerModel`] that saves, publishes and exports it."""

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        *,
        inference_handler: bool = False,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """Save weights (safetensors), configuration, tokenizer and model card: all that loading needs.

        A model card that a person has edited is kept, and its metadata are completed.

        Args:
            save_directory: The folder, made if it does not exist.
            is_main_process: Whether this process writes.
            state_dict: The weights, where they are not the model's own.
            inference_handler: Whether to write ``handler.py`` and ``requirements.txt`` as well, with which Inference
                Endpoints serve the model; see [`span_marker.endpoint.EndpointHandler`].
            push_to_hub: Whether to upload the model, too: to ``repo_id``, or to a repository named as the folder.
            **kwargs: Those of `push_to_hub`; everything else is handed on to transformers, such as ``max_shard_size``.
        """
        folder = Path(save_directory)
        upload = {name: kwargs.pop(name) for name in _PUSHING if name in kwargs}
        kwargs |= {"state_dict": state_dict, "inference_handler": inference_handler}
        self._save(folder, is_main_process, **kwargs)
        if push_to_hub and is_main_process:
            self.push_to_hub(upload.pop("repo_id", folder.name), **upload, **kwargs)

    def push_to_hub(self, repo_id: str, *, tags: str | Sequence[str] = (), **kwargs: Any) -> CommitInfo:
        """Upload what `save_pretrained` saves. A card in the repository that a person has edited is kept.

        Args:
            repo_id: Name of the repository, made if there is none: "organization/name", or "name" of the user's own.
            tags: Further tags of the model card.
            **kwargs: ``commit_message``, ``commit_description``, ``private`` (of a new repository), ``token`` (by
                default that of the user who is logged in), ``revision`` (the branch, made if there is none) and
                ``create_pr`` (whether to open a pull request); everything else is handed on to `save_pretrained`.

        Returns:
            The commit, which is also its address as a string.

        Raises:
            OSError: The user may not write to the repository, or the Hub cannot be reached.
        """
        card = self.model_card_data
        upload = {"commit_message": "Upload model"} | {name: kwargs.pop(name) for name in _PUSHING if name in kwargs}

        def save(folder: Path, name: str) -> None:
            published = published_card(name, upload.get("token"), upload.get("revision"))
            with overridden(card, model_id=name, tags=card.with_tags(tags)):
                self._save(folder, True, published, **kwargs)

        return push(save, repo_id, **upload)

    def _save(
        self,
        folder: Path,
        is_main_process: bool,
        published: str | None = None,
        *,
        inference_handler: bool = False,
        **kwargs: Any,
    ) -> None:
        """Save the model, with the card in the repository that it is pushed to in mind."""
        if is_main_process and self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
        self.config.span_marker_version = __version__
        if self.model_card_data.encoder_id is not None:
            self.config.encoder["_name_or_path"] = self.model_card_data.encoder_id
        super().save_pretrained(folder, is_main_process, **kwargs)
        if is_main_process:
            if inference_handler:
                write_inference_handler(folder)
            # Last: whatever may go wrong with a card, the weights are there.
            write_model_card(self, folder, published)

    def export(
        self,
        format: str,
        folder: str | os.PathLike[str],
        *,
        quantize: str | None = None,
        dataset: Dataset | None = None,
    ) -> dict[str, Any]:
        """Write the model for another engine, with its configuration and tokenizer, and compare it with this one.

        [`span_marker.OnnxSpanMarkerModel`] loads the folder. The comparison is written there as ``parity.json``.

        Args:
            format: "onnx".
            folder: Where to write; made if it does not exist.
            quantize: "int8" stores the weights of matrix products in eight bits: a smaller file, and faster on CPUs
                that multiply such numbers. ``None``: 32 bits, with the logits of this model.
            dataset: Words in ``tokens`` and tags in ``ner_tags``, to score both models on.

        Returns:
            ``largest_logit_difference``, on the data set's first sentences or else on made-up ones; ``f1`` of either
            model where there is a data set; and what was asked for.

        Raises:
            ImportError: The extra ``onnx`` is not installed.
            ValueError: An argument is none of these, the model has no entity types, its encoder cannot be exported, or
                what was exported is not the same model.
        """
        self._require_tokenizer()
        return export_model(self, format, folder, quantize=quantize, dataset=dataset)

    def generate_model_card(self) -> str:
        """Write the model card.

        Returns:
            Markdown with a YAML head, as the Hub shows it.
        """
        return generate_model_card(self)
