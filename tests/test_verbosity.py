import logging
import subprocess
import sys

import pytest
from transformers.utils import logging as transformers_logging


@pytest.fixture
def own():
    """A logger of the package; the levels are restored."""
    before = transformers_logging.get_verbosity()
    yield logging.getLogger("span_marker.some_module")
    transformers_logging.set_verbosity(before)
    logging.getLogger("span_marker").setLevel(logging.NOTSET)


def test_the_level_is_that_of_transformers(own):
    transformers_logging.set_verbosity_warning()
    assert own.isEnabledFor(logging.WARNING)
    transformers_logging.set_verbosity_error()
    assert not own.isEnabledFor(logging.WARNING)
    assert own.isEnabledFor(logging.ERROR)
    transformers_logging.set_verbosity_warning()
    assert own.isEnabledFor(logging.WARNING)


def test_the_root_logger_holds_too(own):
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        assert not own.isEnabledFor(logging.WARNING)
    finally:
        root.setLevel(before)
    assert own.isEnabledFor(logging.WARNING)


def test_an_own_level_goes_before(own):
    transformers_logging.set_verbosity_error()
    logging.getLogger("span_marker").setLevel(logging.INFO)
    assert own.isEnabledFor(logging.INFO)


def test_a_level_that_is_put_back_is_followed_again(own, caplog):
    with caplog.at_level(logging.INFO, "span_marker"):
        assert own.isEnabledFor(logging.INFO)
    assert not own.isEnabledFor(logging.INFO)
    transformers_logging.set_verbosity_error()
    assert not own.isEnabledFor(logging.WARNING)


def test_log_level_of_a_training_silences_warnings():
    code = """
import logging, sys, transformers
from span_marker import TrainingArguments
from span_marker.label_columns import logger
arguments = TrainingArguments("out", log_level=sys.argv[1], use_cpu=True)
transformers.logging.set_verbosity(arguments.get_process_log_level())  # as transformers' Trainer does
logger.warning("a warning of ours")
"""
    for level, is_shown in (("warning", True), ("error", False)):
        done = subprocess.run([sys.executable, "-c", code, level], capture_output=True, text=True, check=True)
        assert ("a warning of ours" in done.stderr) == is_shown
