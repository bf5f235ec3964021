"""Entities out of reach."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from span_marker.coverage import CoverageReport, entity_coverage
from span_marker.types import EntityTable


def table(*rows):
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    return EntityTable(*(np.array(column, dtype=np.int64) for column in columns))


def report(*rows, num_words=(20, 20), kept_words=(20, 20), entity_max_length=4, model_max_length=None):
    words, kept = np.array(num_words), np.array(kept_words)
    return entity_coverage(table(*rows), words, kept, entity_max_length, model_max_length)


def test_everything_is_covered():
    found = report((0, 1, 0, 4), (1, 2, 18, 20))
    assert (found.total, found.missed, found.share) == (2, 0, 0.0)
    assert found.message() is None


def test_no_entities():
    found = report()
    assert (found.total, found.missed, found.share) == (0, 0, 0.0)
    assert found.entity_lengths == found.text_lengths == (0, 0)
    assert found.message() is None


def test_counts():
    found = report((0, 1, 0, 4), (0, 1, 4, 9), (1, 2, 9, 10), (1, 2, 10, 11), (1, 1, 10, 16), kept_words=(20, 10))
    assert found == CoverageReport(
        total=5,
        missed=3,
        too_long=2,
        cut_off=2,
        cut_sentences=1,
        missed_by_length={1: 1, 5: 1, 6: 1},
        missed_by_label={1: 2, 2: 1},
        entity_max_length=4,
        entity_lengths=(6, 6),
        model_max_length=None,
        text_lengths=(16, 16),
    )
    assert found.share == 0.6


def test_message():
    rows = [(0, 1, 0, 4), (0, 1, 4, 9), (1, 2, 9, 10), (1, 2, 10, 11), (1, 1, 10, 16)]
    assert report(*rows, kept_words=(20, 10)).message("training", ["O", "LOC", "PER"]) == (
        "3 of the 5 entities of the training set (60.00%) are out of the model's reach.\n"
        "- 2 are longer than entity_max_length=4 words. Raise entity_max_length to 6 words (100 %).\n"
        "- 2 end after the words that training reads. Raise model_max_length so that 16 words (100 %) fit, or split "
        "long sentences (1 cut off).\n"
        "Missed by length: 1 words: 1, 5 words: 1, 6 words: 1.\n"
        "Missed by label: LOC: 2, PER: 1."
    )


def test_remedies_in_tokens():
    found = report((0, 1, 0, 1), (1, 2, 11, 12), kept_words=(20, 10), model_max_length=64)
    # 64 tokens hold 10 words of the second sentence, 12 words take about 76.8.
    assert found.text_lengths == (77, 77)
    assert "Raise model_max_length=64 to about 77 tokens (100 %) if the encoder can" in found.message()
    assert "\n- 1 ends after the words" in found.message()
    assert "entity_max_length" not in found.message()
    assert found.message().endswith("Missed by label: 2: 1.")


def test_cheaper_remedy_covers_99_percent():
    rows = [(0, 1, 0, 1)] * 97 + [(0, 1, 0, 6)] * 2 + [(0, 1, 0, 15)]
    found = report(*rows)
    assert found.entity_lengths == (6, 15)
    assert "\n- 1 is longer than entity_max_length=4 words." in report((0, 1, 0, 5)).message()
    assert "Raise entity_max_length to 6 words (99 % of the entities) or 15 words (100 %)." in found.message()
    found = report(*rows, entity_max_length=6)
    assert "Raise entity_max_length to 15 words (100 %)." in found.message()


def test_a_model_that_holds_no_word():
    assert report((0, 1, 0, 2), num_words=(2,), kept_words=(0,), model_max_length=8).text_lengths == (16, 16)


@given(st.data())
def test_remedies_cover_what_they_promise(data):
    entity = st.builds(
        lambda row, start, length: (row, 1, start, start + length),
        st.integers(0, 1), st.integers(0, 30), st.integers(1, 12),
    )  # fmt: skip
    rows = sorted(data.draw(st.lists(entity, min_size=1, max_size=120)))
    found = report(*rows, num_words=(50, 50), kept_words=(50, 20))
    for share, length in zip((0.99, 1.0), found.entity_lengths, strict=True):
        assert (
            report(*rows, num_words=(50, 50), kept_words=(50, 50), entity_max_length=length).share <= 1 - share + 1e-9
        )
    for share, words in zip((0.99, 1.0), found.text_lengths, strict=True):
        kept = (50, max(words, 20))
        assert report(*rows, num_words=(50, 50), kept_words=kept, entity_max_length=99).share <= 1 - share + 1e-9


def test_nothing_is_warned_of_here():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report((0, 1, 0, 9))


def test_unknown_label_id_is_an_error():
    with pytest.raises(IndexError):
        report((0, 5, 0, 9)).message(labels=["O"])
