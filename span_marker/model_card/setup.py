"""What a model was trained with: software, hardware and settings."""

import platform
from copy import deepcopy
from dataclasses import MISSING, fields
from enum import Enum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.utils import logging

from span_marker._version import __version__

logger = logging.get_logger(__name__)

_FRAMEWORKS = ("transformers", "torch", "datasets", "tokenizers")
_HYPERPARAMETERS = (
    "learning_rate",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_ratio",
    "warmup_steps",
    "optim",
    "optim_args",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "label_smoothing_factor",
    "neftune_noise_alpha",
    "seed",
    "data_seed",
    "full_determinism",
    "bf16",
    "fp16",
    "tf32",
    "gradient_checkpointing",
    "torch_compile",
    "auto_find_batch_size",
    "group_by_length",
    "train_sampling_strategy",
    "dataloader_drop_last",
    "eval_strategy",
    "eval_steps",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
)
"""Arguments that tell how a model was trained; no path, token or name of a machine is among them."""
_PLACE = ("country_iso_code", "longitude", "latitude")
_ASSUMED_PLACE = ("CAN", -71.2, 46.8)
"""Where codecarbon takes itself to be when it cannot find out. Electricity causes little emissions there."""


def frameworks() -> dict[str, str]:
    """Look up the versions of what trains a model.

    Returns:
        Versions by name.
    """
    versions = {"python": platform.python_version(), "span_marker": __version__}
    for name in _FRAMEWORKS:
        try:
            versions[name] = installed_version(name)
        except PackageNotFoundError:  # a build from source may have no metadata
            continue
    return versions


def environment(args: TrainingArguments) -> dict[str, str]:
    """Look up what a training runs on. No name of a machine, a folder or a user is among it.

    Args:
        args: The training's arguments.

    Returns:
        Descriptions by name.
    """
    device = args.device.type
    name = torch.cuda.get_device_name(args.device) if device == "cuda" else device.upper()
    devices = max(args.world_size * max(args.n_gpu, 1), 1)
    found = {"System": platform.system(), "Device": f"{devices} x {name}" if devices > 1 else name}
    return {key: value for key, value in found.items() if value}


def read_emissions(callback: Any) -> dict[str, Any] | None:
    """Read the emissions that codecarbon measured.

    Args:
        callback: transformers' callback for codecarbon; any other has measured nothing.

    Returns:
        Emissions in grams of CO2 equivalents and their circumstances, as the Hub names them. ``None`` where nothing was
        measured, or codecarbon did not know the country, whose electricity decides the figure; the latter is warned of.
    """
    measured = getattr(getattr(callback, "tracker", None), "final_emissions_data", None)
    if measured is None:
        return None
    if tuple(getattr(measured, name, None) for name in _PLACE) == _ASSUMED_PLACE:
        logger.warning_once(
            "codecarbon could not find out in which country the training ran, and assumed one. The model card leaves "
            "its emissions out. Name the country: callback = CodeCarbonCallback(); callback.tracker = "
            "codecarbon.OfflineEmissionsTracker(country_iso_code='DEU'); Trainer(..., callbacks=[callback])."
        )
        return None
    emissions = {
        "emissions": float(f"{measured.emissions * 1000:.3g}"),
        "source": "codecarbon",
        "training_type": "fine-tuning",
        "geographical_location": getattr(measured, "country_name", None),
        "hardware_used": getattr(measured, "gpu_model", None) or getattr(measured, "cpu_model", None),
        "hours_used": round(float(measured.duration) / 3600, 3),
    }
    return {key: value for key, value in emissions.items() if value is not None}


def changed_arguments(args: TrainingArguments) -> dict[str, Any]:
    """Find the settings that differ from their defaults.

    Args:
        args: The training's arguments.

    Returns:
        Values by name.
    """
    changed = {}
    defaults = {entry.name: entry.default for entry in fields(args) if entry.default is not MISSING}
    for name in _HYPERPARAMETERS:
        if name not in defaults:  # of another version of transformers
            continue
        value, default = _plain(getattr(args, name)), _plain(defaults[name])
        if value != default and not (value is False and default is None):
            changed[name] = value
    return changed


def _plain(value: Any) -> Any:
    """Write an enumeration's member as its value."""
    return value.value if isinstance(value, Enum) else deepcopy(value)
