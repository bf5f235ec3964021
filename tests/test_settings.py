from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

import pytest

from span_marker.settings import accepts, check_settings, describe, nearest


class Interval(str, Enum):
    NO = "no"
    STEPS = "steps"


HINTS = {
    "rate": float,
    "steps": int,
    "fast": bool,
    "strategy": Interval | str,
    "folder": str | None,
    "names": list[str],
    "extra": dict[str, Any] | None,
}


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (True, float, False),
        (1.0, int, False),
        (True, int, False),
        (1, bool, False),
        ("a", Any, True),
        (None, str | None, True),
        (None, str, False),
        ("steps", Interval | str, True),
        ("stepz", Interval | str, False),
        (Interval.NO, Interval, True),
        ("no", Interval, True),
        (["a"], list[str], True),
        (["a", 1], list[str], False),
        (["a"], Sequence[str] | None, True),
        ("a", Sequence[str] | None, False),
        ("a", list[str], False),
        ({}, dict, True),
        ("x", Literal["x", 1], True),
        (True, Literal["x", 1], False),
        (False, Literal[False], True),
    ],
)
def test_accepts(value, hint, expected):
    assert accepts(value, hint) is expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (float, "a number"),
        (None | int, "a whole number or nothing"),
        (list[str], "a list"),
        (Sequence[str] | None, "a list or nothing"),
        (Interval | str, "one of 'no', 'steps'"),
        (Literal["x", 1], "'x' or 1"),
        (Interval, "one of 'no', 'steps'"),
    ],
)
def test_describe(hint, expected):
    assert describe(hint) == expected


def test_what_fits_is_returned():
    values = {"rate": 1, "steps": 2, "fast": True, "strategy": "no", "folder": None, "names": [], "extra": {"a": 1}}
    assert check_settings(values, HINTS) == values


def test_what_yaml_misreads_is_put_right():
    assert check_settings({"rate": "3e-5", "strategy": False}, HINTS) == {"rate": 3e-5, "strategy": "no"}
    assert check_settings({"folder": "3e-5"}, HINTS) == {"folder": "3e-5"}


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"rat": 1}, TypeError, r"no setting 'training\.rat'\. Did you mean 'rate'\?"),
        ({"xyz": 1}, TypeError, r"no setting 'training\.xyz'\. Choose from rate, steps, "),
        ({"rate": "fast"}, TypeError, r"training\.rate is 'fast', of type str\. Expected a number\."),
        ({"steps": 1.5}, TypeError, r"training\.steps is 1\.5, of type float\. Expected a whole number\."),
        ({"strategy": "stepz"}, TypeError, r"training\.strategy is 'stepz', .* Expected one of 'no', 'steps'\."),
        ({"folder": "???"}, ValueError, r"training\.folder is '\?\?\?', a value that is still to be given"),
    ],
)
def test_what_does_not_fit_is_named(values, kind, message):
    with pytest.raises(kind, match=message):
        check_settings(values, HINTS, "training")


def test_many_names_are_not_listed():
    assert nearest("xyz", [f"setting_{number}" for number in range(30)]) == "Check the documentation for its name."
