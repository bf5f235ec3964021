"""The files of a model card in a folder: README.md, the picture of the training curve, and what is known as JSON."""

import os
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.constants import REPOCARD_NAME
from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
from transformers.utils import cached_file, logging

from span_marker.model_card.data import SpanMarkerModelCardData
from span_marker.model_card.edits import merge_card
from span_marker.model_card.facts import FACTS_FILE, read_facts, write_facts
from span_marker.model_card.render import CardModel, base_model_of, generate_model_card
from span_marker.model_card.training_curve import PLOT_FILE, save_plot

logger = logging.get_logger(__name__)

_QUIETLY = dict.fromkeys(
    (
        "_raise_exceptions_for_missing_entries",
        "_raise_exceptions_for_connection_errors",
        "_raise_exceptions_for_gated_repo",
    ),
    False,
)


def write_model_card(model: CardModel, folder: str | os.PathLike[str], published: str | None = None) -> None:
    """Write a model's card, and what is known of the model for when it is loaded and saved again.

    A generated card is replaced; one that a person wrote or edited is kept, as [`merge_card`] has it.

    Args:
        model: The model.
        folder: The folder, made if it does not exist.
        published: The card in the repository that the model is pushed to.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    plot = PLOT_FILE if save_plot(model.model_card_data.curve, path) else None
    card, file = generate_model_card(model, plot), path / REPOCARD_NAME
    present = file.read_text(encoding="utf-8-sig") if file.is_file() else None
    file.write_text(merge_card(card, present, published), encoding="utf-8")
    facts = write_facts(model.model_card_data, base_model_of(model))
    (path / FACTS_FILE).write_text(facts, encoding="utf-8")


def load_card_data(path: str, **hub: Any) -> SpanMarkerModelCardData:
    """Load what was written beside a saved model.

    Args:
        path: The folder, or the repository on the Hub.
        **hub: Settings of the download: ``revision``, ``token`` and so on.

    Returns:
        What is known; nothing for models of span-marker 1.x, and where the file is damaged, which is warned of.
    """
    file = cached_file(path, FACTS_FILE, **_QUIETLY, **hub)
    if file is None:
        return SpanMarkerModelCardData()
    try:
        return read_facts(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        logger.warning(f"The file {FACTS_FILE} in {path!r} is not used for the model card. {error}")
        return SpanMarkerModelCardData()


def published_card(repo_id: str, token: str | bool | None = None, revision: str | None = None) -> str | None:
    """Fetch the card of a repository on the Hub.

    Args:
        repo_id: The repository.
        token: Token for it.
        revision: The revision.

    Returns:
        The text, ``None`` if there is no card.
    """
    try:
        file = hf_hub_download(repo_id, REPOCARD_NAME, token=token, revision=revision)
    except (EntryNotFoundError, RevisionNotFoundError):
        return None
    return Path(file).read_text(encoding="utf-8-sig")
