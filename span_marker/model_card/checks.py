"""Checks of the values that a model card is given."""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from huggingface_hub.utils import HFValidationError, validate_repo_id

TAGS = ("span-marker", "token-classification", "ner", "named-entity-recognition")
_METRICS = ("precision", "recall", "f1")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{1,8})*|multilingual|code")
_TEXTS = (
    "license",
    "model_name",
    "encoder_name",
    "dataset_name",
    "dataset_revision",
    "task_name",
    "predict_example",
    "pipeline_tag",
    "library_name",
)
_ROWS = ("eval_lines_list", "metric_lines", "widget", "label_example_list", "train_set_metrics_list")
_MAPPINGS = ("hyperparameters", "eval_results_dict", "version")


def is_language(code: Any) -> bool:
    """Tell whether a value is the code of a language, as the Hub has them.

    Args:
        code: The value.

    Returns:
        Whether it is.
    """
    return isinstance(code, str) and _LANGUAGE.fullmatch(code) is not None


def is_hub_id(value: Any) -> bool:
    """Tell whether a value can be the id of something on the Hub.

    Args:
        value: The value.

    Returns:
        Whether it can.
    """
    try:
        validate_repo_id(value)
    except HFValidationError:
        return False
    return True


def _text(name: str, value: Any) -> str | None:
    """Check a text."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}. Expected a string.")
    return value


def _texts(name: str, values: Any) -> list[str]:
    """Check a list of strings; a single string is a list of one."""
    if isinstance(values, str):
        return [values]
    if values is None:
        return []
    if not isinstance(values, Sequence | set | frozenset) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name} is {values!r}. Expected a string or a list of strings.")
    return sorted(values) if isinstance(values, set | frozenset) else list(values)


def _tags(name: str, tags: Any) -> list[str]:
    """Check tags, and put the usual ones first."""
    return list(dict.fromkeys([*TAGS, *_texts(name, tags)]))


def _metrics(name: str, metrics: Any) -> list[str]:
    """Check names of metrics; the usual ones, if there are none."""
    return _texts(name, _METRICS if metrics is None else metrics)


def _languages(name: str, language: Any) -> str | list[str] | None:
    """Check the codes of languages."""
    codes = _texts(name, language)
    for code in codes:
        if not is_language(code):
            raise ValueError(
                f"{name} is {language!r}. Expected an ISO 639 code such as 'en' or 'pt-BR', 'multilingual', or a list "
                f"of codes; {code!r} is none."
            )
    return language if isinstance(language, str) else codes or None


def _hub_id(name: str, value: Any) -> str | None:
    """Check the id of something on the Hub."""
    text = _text(name, value)
    if text is not None and not is_hub_id(text):
        raise ValueError(
            f"{name} is {value!r}. Expected an id on the Hub, 'name' or 'organization/name'. Leave it out for what is "
            "not on the Hub."
        )
    return text


def _mapping(name: str, value: Any) -> dict[str, Any] | None:
    """Check and copy a dictionary."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r}. Expected a dictionary.")
    return None if value is None else deepcopy(dict(value))


def _rows(name: str, rows: Any) -> list[dict[str, Any]] | None:
    """Check and copy the rows of a table."""
    if rows is None:
        return None
    if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"{name} is {rows!r}. Expected a list of dictionaries, one a row.")
    return [deepcopy(dict(row)) for row in rows]


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "language": _languages,
    "tags": _tags,
    "metrics": _metrics,
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(("model_id", "encoder_id", "dataset_id"), _hub_id),
    **dict.fromkeys(_MAPPINGS, _mapping),
    **dict.fromkeys(_ROWS, _rows),
}
"""By attribute of [`SpanMarkerModelCardData`], the function that checks a value and returns the one to keep."""
