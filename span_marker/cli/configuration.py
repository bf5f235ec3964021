"""The configuration of a training: a file, settings of the command line that go before it, and all of it checked."""

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from span_marker.arguments import argument_hints
from span_marker.cli.data import SPLITS, load_data
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.readers import read_dataset
from span_marker.settings import MISSING, check_settings, nearest
from span_marker.trainer import Trainer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_TRAINER = ("negative_span_ratio", "num_proc")
_NO_SETTINGS = ("reading", "cache_dir", "return")
_SPLITS: dict[str, Any] = dict.fromkeys(SPLITS, str | None)


@dataclass(frozen=True)
class Configuration:
    """The configuration of a training, checked.

    Attributes:
        model: ``name``, a folder or a name on the Hub, and settings of `SpanMarkerModel.from_pretrained`.
        data: ``path``, how to read it, and which of its splits are for what.
        training: Training arguments.
        trainer: Settings of the Trainer itself.
        card: What the model card says that the model cannot know.
    """

    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section, hints in _hints().items():
            values = getattr(self, section)
            if not isinstance(values, Mapping):
                raise TypeError(f"{section} is {values!r:.60}. Expected settings by name.")
            object.__setattr__(self, section, check_settings(values, hints, section))
        if MISSING in self.model.values():
            name = next(name for name, value in self.model.items() if value == MISSING)
            raise ValueError(f"model.{name} is {MISSING!r}, a value that is still to be given. Give it one.")
        for section, name, example in _NEEDED:
            if not isinstance(getattr(self, section).get(name), str):
                raise ValueError(f"{section}.{name} is needed, such as {section}.{name}={example}.")

    @classmethod
    def read(cls, settings: Sequence[str], **defaults: Mapping[str, Any]) -> "Configuration":
        """Read a configuration.

        Args:
            settings: Paths of files, and settings such as "training.learning_rate=3e-5"; later ones go before earlier
                ones.
            **defaults: Settings by section that go before all of them.

        Returns:
            The configuration.

        Raises:
            ValueError: A file is malformed, or a setting is missing or out of range.
            TypeError: A section or a setting is unknown, or a value of another type.
            OSError: A file is missing.
        """
        merged: dict[str, Any] = {}
        for setting in settings:
            _merge(merged, _read_file(Path(setting)) if _is_file(setting) else _read_setting(setting))
        _merge(merged, defaults)
        for name in merged:
            if name not in _sections():
                raise TypeError(f"There is no section {name!r}. {nearest(name, _sections())}")
        return cls(**{name: {} if values is None else values for name, values in merged.items()})

    def to_yaml(self, comment: str) -> str:
        """Write the configuration, such that reading it gives the same.

        Args:
            comment: The first line.

        Returns:
            YAML.
        """
        sections = {name: values for name, values in asdict(self).items() if values}
        return f"# {comment}\n{yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)}"


_NEEDED = (("model", "name", "bert-base-cased"), ("data", "path", "corpus"), ("training", "output_dir", "model"))


def _hints() -> dict[str, dict[str, Any]]:
    """Return the type hints of each section's settings; those of a model are checked when it is loaded."""
    reading = {**get_type_hints(load_data), **get_type_hints(read_dataset), "path": str}
    card = get_type_hints(SpanMarkerModelCardData)
    parameters = inspect.signature(Trainer).parameters
    return {
        "data": {name: hint for name, hint in reading.items() if name not in _NO_SETTINGS} | _SPLITS,
        "training": argument_hints(),
        "trainer": {name: parameters[name].annotation for name in _TRAINER},
        "card": {entry.name: card[entry.name] for entry in fields(SpanMarkerModelCardData) if entry.init},
    }


def _is_file(setting: str) -> bool:
    return setting.endswith(SUFFIXES) and "=" not in setting


def _read_file(path: Path) -> dict[str, Any]:
    """Read a file of settings."""
    text = path.read_text(encoding="utf-8")
    try:
        values = _parse(text, path.suffix)
    except (yaml.YAMLError, ValueError) as error:  # the errors of JSON and TOML are ValueErrors
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {values!r:.60}. Expected sections: {', '.join(_sections())}.")
    return values


def _parse(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(text)
    return tomllib.loads(text) if suffix == ".toml" else yaml.safe_load(text)


def _read_setting(setting: str) -> dict[str, Any]:
    """Read a setting of the command line; its value is written as in YAML."""
    key, equals, text = setting.partition("=")
    *sections, name = key.split(".")
    if not equals or not sections or not name:
        raise ValueError(
            f"{setting!r} is neither a file ({', '.join(SUFFIXES)}) nor a setting such as training.learning_rate=3e-5."
        )
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"The value of {key} cannot be read: {text!r}. Write it as in YAML.") from error
    values = {name: value}
    for section in reversed(sections):
        values = {section: values}
    return values


def _merge(target: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Put settings into others, those of the same node together."""
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = dict(value) if isinstance(value, Mapping) else value


def _sections() -> list[str]:
    return [section.name for section in fields(Configuration)]
