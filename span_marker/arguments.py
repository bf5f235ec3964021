"""Training arguments from what people keep them in: an object, a dictionary, a configuration of OmegaConf or Hydra."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast, get_type_hints

from transformers import TrainingArguments

from span_marker.modeling import SpanMarkerModel
from span_marker.settings import check_settings

Self = TypeVar("Self", bound="FromSettings")

TRAINING = "training"
"""Node of a configuration that holds training arguments."""


class FromSettings:
    """The ways to make a Trainer that begin with its settings."""

    @classmethod
    def from_training_args(cls: type[Self], args: Any, model: SpanMarkerModel | None = None, **kwargs: Any) -> Self:
        """Make a Trainer of training arguments.

        Args:
            args: The arguments: ``TrainingArguments``, a dictionary of them, or an OmegaConf ``DictConfig``.
            model: The model. Leave it out if ``model_init`` is given.
            **kwargs: The Trainer's other arguments.

        Returns:
            The Trainer.

        Raises:
            TypeError: The arguments are none of these, one of them is unknown, or has a value of another type.
            ValueError: A value is missing, or does not go with the others.
        """
        trainer: Self = cast(Any, cls)(model, read_arguments(args), **kwargs)
        return trainer

    @classmethod
    def from_hydra_config(cls: type[Self], config: Any, model: SpanMarkerModel | None = None, **kwargs: Any) -> Self:
        """Make a Trainer of an application's configuration.

        Args:
            config: The configuration, as Hydra hands it to the application, or a dictionary: training arguments in its
                node ``training``, beside whatever else the application has; or training arguments and nothing else.
            model: The model. Leave it out if ``model_init`` is given.
            **kwargs: The Trainer's other arguments.

        Returns:
            The Trainer.

        Raises:
            TypeError: The configuration is none, an argument is unknown, or has a value of another type.
            ValueError: A value is missing, cannot be interpolated, or does not go with the others.
        """
        _require_mapping(config)
        is_nested = TRAINING in list(config)
        return cls.from_training_args(read_arguments(config, TRAINING if is_nested else ""), model, **kwargs)


def read_arguments(given: Any, node: str = "") -> TrainingArguments:
    """Read training arguments.

    Args:
        given: ``TrainingArguments``, which are returned as they are, a dictionary, or an OmegaConf ``DictConfig``.
        node: The node in it that holds them. "": all of it does.

    Returns:
        The arguments.

    Raises:
        TypeError: It is none of these, or an argument is unknown or has a value of another type.
        ValueError: A value is missing, cannot be interpolated, or does not go with the others.
    """
    if isinstance(given, TrainingArguments):
        return given
    values = _plain(given, node)
    return TrainingArguments(**check_settings(values, argument_hints(), node))


def argument_hints() -> dict[str, Any]:
    """Return the type hint of each training argument."""
    hints = get_type_hints(TrainingArguments)
    return {entry.name: hints[entry.name] for entry in fields(TrainingArguments) if entry.init}


def _plain(given: Any, node: str) -> dict[str, Any]:
    """Read a configuration, or a node of it, as a dictionary; interpolations are resolved."""
    _require_mapping(given)
    omegaconf = sys.modules.get("omegaconf")  # nobody has a DictConfig who has not imported it
    if omegaconf is None or not isinstance(given, omegaconf.DictConfig):
        return dict(_require_mapping(given[node] if node else given, node))
    try:
        part = given[node] if node else given
        if not isinstance(part, omegaconf.DictConfig):
            return dict(_require_mapping(part, node))
        values = omegaconf.OmegaConf.to_container(part, resolve=True, throw_on_missing=True, enum_to_str=True)
    except omegaconf.errors.MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key} is '???', a value that is still to be given. Give it one.") from error
    except omegaconf.errors.OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{error.full_key or node or 'The configuration'} cannot be resolved: {reason}.") from error
    return dict(_require_mapping(values, node))


def _require_mapping(given: Any, node: str = "") -> Any:
    """Refuse what holds no settings by name.

    Raises:
        TypeError: It is no dictionary, and no DictConfig.
    """
    if isinstance(given, Mapping):  # as a DictConfig is
        return given
    what = f"{node} is {given!r:.80}" if node else f"The training arguments are {given!r:.80}"
    raise TypeError(
        f"{what}, of type {type(given).__name__}. Expected TrainingArguments, a dictionary of them or a DictConfig."
    )
