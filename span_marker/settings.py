"""Settings that come from files, command lines and configuration libraries: their names and types, checked."""

from abc import ABCMeta
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

MISSING = "???"
"""What stands for a value that is still to be given, in OmegaConf and Hydra."""
_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "names with values",
    NoneType: "nothing",
}


def check_settings(values: Mapping[str, Any], hints: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Check the names and the types of settings.

    Args:
        values: The settings by name.
        hints: The type hint of each setting that there is.
        where: What the settings belong to, such as "training"; messages call them "training.seed".

    Returns:
        The settings. What YAML 1.1 reads as something else is put right: the text "3e-5" where a number is expected,
        and false where "no" is among the choices.

    Raises:
        TypeError: A setting is unknown, or a value of another type.
        ValueError: A value is missing ("???").
    """
    known = {name: _right(value, hints.get(name, Any)) for name, value in values.items()}
    for name, value in known.items():
        key = f"{where}.{name}" if where else str(name)
        if name not in hints:
            raise TypeError(f"There is no setting {key!r}. {nearest(name, hints)}")
        if isinstance(value, str) and value == MISSING:
            raise ValueError(f"{key} is {MISSING!r}, a value that is still to be given. Give it one.")
        if not accepts(value, hints[name]):
            raise TypeError(
                f"{key} is {value!r:.80}, of type {type(value).__name__}. Expected {describe(hints[name])}."
            )
    return known


def nearest(name: object, known: Iterable[str]) -> str:
    """Suggest the setting that was meant.

    Args:
        name: What was given.
        known: The settings that there are.

    Returns:
        A sentence: the nearest name, or all of them if none is near and there are few.
    """
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Choose from {', '.join(names)}." if len(names) <= 20 else "Check the documentation for its name."


def accepts(value: Any, hint: Any) -> bool:
    """Tell whether a value has a type.

    Args:
        value: The value.
        hint: The type hint. Whole numbers are numbers, truth values are neither; choices are given by their values.

    Returns:
        Whether it does.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        choices = [part for part in inner if isinstance(part, type) and issubclass(part, Enum)]
        return any(accepts(value, part) for part in (choices if choices and isinstance(value, str) else inner))
    if origin is Literal:
        return any(value is choice or (value == choice and type(value) is type(choice)) for choice in inner)
    kind = origin or hint
    if kind in (int, float):
        return isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    if not isinstance(kind, type):
        return True
    kind = list if _is_sequence(kind) else kind
    is_right = isinstance(value, kind) or (issubclass(kind, Enum) and _is_member(value, kind))
    return is_right and (kind is not list or not inner or all(accepts(item, inner[0]) for item in value))


def describe(hint: Any) -> str:
    """Say what values a type has.

    Args:
        hint: The type hint.

    Returns:
        Such as "a number or nothing".
    """
    choices = _choices(hint)
    if choices:
        return f"one of {', '.join(map(repr, choices))}"
    if get_origin(hint) in (Union, UnionType):
        parts = sorted(get_args(hint), key=lambda part: part is NoneType)
        return " or ".join(dict.fromkeys(map(describe, parts)))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    kind = get_origin(hint) or hint
    return _NAMES.get(list if _is_sequence(kind) else kind) or str(getattr(kind, "__name__", kind))


def _right(value: Any, hint: Any) -> Any:
    """Put right what YAML 1.1 reads as something else."""
    if value is False and "no" in _choices(hint):
        return "no"
    if isinstance(value, str) and accepts(0.5, hint) and not accepts(value, hint):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _is_sequence(kind: Any) -> bool:
    """Tell an abstract type that lists have."""
    return isinstance(kind, ABCMeta) and issubclass(list, kind)


def _is_member(value: Any, kind: type[Enum]) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _choices(hint: Any) -> list[str]:
    """List the values of a type that is a choice."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [str(member.value) for part in parts if isinstance(part, type) and issubclass(part, Enum) for member in part]
