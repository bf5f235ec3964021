"""The text that describes a data set's tags."""

import pytest

from span_marker.label_summary import LabelSummary, MalformedTags
from span_marker.schemes import LabelScheme


def summary(tags, entity_counts, malformed=0, scheme=None):
    return LabelSummary(
        scheme=LabelScheme.from_labels(tags, scheme),
        num_sentences=1200,
        num_words=3400,
        tag_counts=dict.fromkeys(tags, 1000),
        entity_counts=entity_counts,
        malformed=MalformedTags(malformed, []),
    )


def test_malformed_message():
    assert MalformedTags(0, []).message() is None
    message = MalformedTags(1234, [(1, 2, "O", "I-A"), (7, 3, "B-A", "I-B")]).message("training")
    assert message.startswith("1,234 transitions between tags of the training set break the tagging scheme.")
    assert "(row 1, word 2: O I-A; row 7, word 3: B-A I-B)" in message
    assert "pass the right `scheme=`" in message


def test_summary_is_one_block():
    text = str(summary(["O", "B-A", "I-A"], {"A": 1100}, malformed=3))
    assert text == (
        "Tagging scheme: IOB2 (detected)\n"
        "1,200 sentences, 3,400 words, 1,100 entities\n"
        "Words per tag: O 1,000, B-A 1,000, I-A 1,000\n"
        "Entities per type: A 1,100\n"
        "Transitions that break the scheme: 3"
    )


def test_summary_says_whether_the_scheme_was_given():
    text = str(summary(["O", "B-A", "I-A"], {"A": 1}, scheme="iob1"))
    assert text.startswith("Tagging scheme: IOB1 (given)")
    assert "break" not in text


def test_a_data_set_without_entity_is_refused():
    summary(["O", "B-A"], {"A": 1}).raise_if_empty()
    with pytest.raises(ValueError, match=r"The test set holds no entity: 3,400 words in 1,200 sentences are all 'O'"):
        summary(["O", "B-A"], {"A": 0}).raise_if_empty("test")
