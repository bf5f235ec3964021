"""Tagging schemes: detection, taking labels apart, the tables of transitions."""

import pytest
from datasets import ClassLabel, Sequence
from transformers.utils import logging

from span_marker.schemes import (
    Kind,
    LabelScheme,
    Scheme,
    begins_entity,
    detect_scheme,
    forbidden_transitions,
    prefix_of,
    read_tags,
)

TAGS = ["O", "B-A", "I-A"]


@pytest.mark.parametrize(
    ("given", "scheme"),
    [
        ("iob2", Scheme.IOB2),
        ("IOB1", Scheme.IOB1),
        ("bio", Scheme.IOB2),
        ("IOBES", Scheme.BIOES),
        ("biluo", Scheme.BILOU),
        ("bilo", Scheme.BILO),
        ("none", Scheme.NONE),
    ],
)
def test_scheme_names(given, scheme):
    assert Scheme(given) is scheme


@pytest.mark.parametrize("given", ["IOB3", "", 2])
def test_unknown_scheme_lists_the_choices(given):
    with pytest.raises(ValueError, match=r"Choose one of IOB1, IOB2, BIOES, BILOU, BILO, NONE"):
        Scheme(given)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-A", "I-A"], Scheme.IOB2),
        (["B-A", "O"], Scheme.IOB2),
        (["O", "I-A"], Scheme.IOB2),
        (["O", "B-A", "I-A", "E-A", "S-A"], Scheme.BIOES),
        (["O", "B-A", "E-A"], Scheme.BIOES),
        (["O", "B-A", "S-A"], Scheme.BIOES),
        (["O", "B-A", "I-A", "L-A", "U-A"], Scheme.BILOU),
        (["O", "B-A", "I-A", "U-A"], Scheme.BILOU),
        (["O", "B-A", "I-A", "L-A"], Scheme.BILO),
        (["O", "PER", "LOC"], Scheme.NONE),
        (["O", "X-A", "B-A"], Scheme.NONE),
        (["O", "B-A", "I-A", "A"], Scheme.NONE),
        (["O", "B", "I"], Scheme.NONE),
        (["O", "B-", "I-"], Scheme.NONE),
        (["O", "b-A", "B_A"], Scheme.NONE),
        (["O"], Scheme.NONE),
    ],
)
def test_detect_scheme(labels, scheme):
    assert detect_scheme(labels) is scheme


@pytest.mark.parametrize(
    ("labels", "alike", "odd"),
    [
        (["O", "B-PER", "I-PER", "B-LOC", "LOC"], "B-PER, I-PER, B-LOC", "LOC"),
        (["O", "b-per", "i-per"], "b-per, i-per", "b-per, i-per"),
        (["O", "B_PER", "I_PER", "S_PER"], "B_PER, I_PER", "B_PER, I_PER, S_PER"),
        (["O", "B-ORG", "I-ORG", "B-"], "B-ORG, I-ORG, B-", "B-"),
        (["O", "B", "I"], "B, I", "B, I"),
    ],
)
def test_regression_one_odd_tag_silently_meant_no_scheme(labels, alike, odd, caplog):
    logging.warning_once.cache_clear()
    for _ in range(2):
        assert LabelScheme.from_labels(labels).scheme is Scheme.NONE
    (record,) = caplog.records
    assert f"The labels {alike} look like tags of a scheme, but {odd} fit none" in record.getMessage()
    assert "'NONE' if these are whole type names" in record.getMessage()


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "PER", "LOC"], None),
        (["O", "person", "e-mail", "S-Bahn", "T-cell", "Biology"], None),
        (["O", "B-cell", "T-cell"], "none"),
        (["O", "B", "I"], "IOB2"),
        (TAGS, None),
    ],
)
def test_types_and_given_schemes_are_not_warned_of(labels, scheme, caplog):
    LabelScheme.from_labels(labels, scheme)
    assert not caplog.records


@pytest.mark.parametrize("labels", [["O", "E-mail"], ["O", "B-A", "E-A", "L-A"], ["O", "B-A", "S-A", "U-A"]])
def test_ambiguous_prefixes_need_a_scheme(labels):
    with pytest.raises(ValueError, match=r"fit none of the schemes.*pass `scheme=`"):
        detect_scheme(labels)


@pytest.mark.parametrize(
    ("tag", "prefix"), [("O", "O"), ("B-A", "B"), ("U-b-c", "U"), ("A", ""), ("X-A", ""), ("B", ""), ("b-A", "")]
)
def test_prefixes(tag, prefix):
    assert prefix_of(tag) == prefix


def test_labels_are_reduced_to_types():
    scheme = LabelScheme.from_labels(["B-PER", "I-PER", "O", "B-LOC", "I-LOC"])
    assert scheme == LabelScheme(
        scheme=Scheme.IOB2,
        tags=("B-PER", "I-PER", "O", "B-LOC", "I-LOC"),
        prefixes=("B", "I", "O", "B", "I"),
        types=("PER", "PER", None, "LOC", "LOC"),
        labels=("O", "LOC", "PER"),
        reduced_ids=(2, 2, 0, 1, 1),
        outside_id=0,
        detected=True,
    )
    assert scheme.kinds == (Kind.BEGIN, Kind.INSIDE, Kind.OUTSIDE, Kind.BEGIN, Kind.INSIDE)


def test_labels_without_scheme_stay_as_they_are():
    scheme = LabelScheme.from_labels(["PER", "O", "X-LOC"])
    assert scheme.scheme is Scheme.NONE
    assert scheme.labels == ("PER", "O", "X-LOC")
    assert scheme.prefixes == ("", "O", "")
    assert scheme.types == ("PER", None, "X-LOC")
    assert scheme.reduced_ids == (0, 1, 2)
    assert scheme.outside_id == 1


def test_types_are_split_at_the_first_hyphen():
    scheme = LabelScheme.from_labels(["O", "B-a-b", "I-a-b", "B-c d/e_f", "B-\N{SNOWMAN}\n"])
    assert scheme.labels == ("O", "a-b", "c d/e_f", "\N{SNOWMAN}\n")


def test_scheme_can_be_given():
    assert not LabelScheme.from_labels(["O", "B-A", "I-A"], "iob1").detected
    assert LabelScheme.from_labels(["O", "B-52", "I-94"], "none").labels == ("O", "B-52", "I-94")
    assert LabelScheme.from_labels(["O", "B", "I"], "IOB2").labels == ("O", "_")
    assert LabelScheme.from_labels(["O", "B-A"], Scheme.BILOU).scheme is Scheme.BILOU


@pytest.mark.parametrize(
    ("labels", "scheme", "error"),
    [
        ([], None, "`labels` is empty"),
        (["O", 1], None, "must be strings, got 1"),
        (["O", "B-A", "B-A"], None, "holds 'B-A' more than once"),
        (["B-A", "I-A"], None, "has no 'O'"),
        (["O"], None, "holds only 'O'"),
        (["O", "B-O"], None, "names an entity type 'O'"),
        (["O", "B-A", "E-A"], "IOB2", r"'E-A' does not fit the scheme IOB2.*'B-', 'I-'"),
        (["O", "PER"], "BILO", r"'PER' does not fit the scheme BILO.*'B-', 'I-', 'L-'"),
        (["O", ""], "IOB2", "'' does not fit"),
        (["O", "B-A"], "BIEO", "Unknown tagging scheme 'BIEO'"),
    ],
)
def test_bad_labels(labels, scheme, error):
    with pytest.raises(ValueError, match=error):
        LabelScheme.from_labels(labels, scheme)


@pytest.mark.parametrize(
    "tags",
    [TAGS, tuple(TAGS), iter(TAGS), dict.fromkeys(TAGS).keys(), ClassLabel(names=TAGS)],
    ids=lambda tags: type(tags).__name__,
)
def test_tags_have_an_order(tags):
    assert read_tags(tags) == TAGS


@pytest.mark.parametrize(
    "tags",
    ["O", b"O", {"O": 1, "B-A": 0}, set(TAGS), frozenset(TAGS), 3, Sequence(ClassLabel(names=TAGS))],
    ids=lambda tags: type(tags).__name__,
)
def test_regression_tags_without_an_order_were_read(tags):
    with pytest.raises(TypeError, match=f"`labels` is of type {type(tags).__name__}. Expected a list of the tags"):
        LabelScheme.from_labels(tags)


def test_begins_entity():
    begins = begins_entity()
    assert begins[Kind.OUTSIDE, Kind.INSIDE].all()
    assert begins[Kind.INSIDE, Kind.INSIDE].tolist() == [True, False]
    assert begins[Kind.BEGIN, Kind.END].tolist() == [True, False]
    assert begins[Kind.END, Kind.INSIDE].all()
    assert begins[Kind.INSIDE, Kind.SINGLE].all()
    assert not begins[:, Kind.OUTSIDE].any()


@pytest.mark.parametrize(
    ("scheme", "text", "forbidden"),
    [
        ("IOB2", "O I", True),
        ("IOB2", "B I", False),
        ("IOB2", "I B", False),
        ("IOB1", "O I", False),
        ("IOB1", "O B", True),
        ("IOB1", "I B", False),
        ("BIOES", "B O", True),
        ("BIOES", "B B", True),
        ("BIOES", "I S", True),
        ("BIOES", "B E", False),
        ("BIOES", "E I", True),
        ("BIOES", "S E", True),
        ("BIOES", "E B", False),
        ("BILOU", "B O", True),
        ("BILO", "B O", False),
        ("BILO", "B B", False),
        ("BILO", "I O", True),
        ("BILO", "O E", True),
        ("NONE", "O I", False),
    ],
)
def test_forbidden_transitions(scheme, text, forbidden):
    before, after = (next(kind for kind in Kind if kind.name[0] == letter) for letter in text.split())
    assert forbidden_transitions(Scheme(scheme))[before, after, 1] == forbidden


@pytest.mark.parametrize(("scheme", "expected"), [("IOB1", (True, False)), ("IOB2", (False, True))])
def test_change_of_type(scheme, expected):
    table = forbidden_transitions(Scheme(scheme))
    assert (table[Kind.INSIDE, Kind.BEGIN, 0], table[Kind.INSIDE, Kind.INSIDE, 0]) == expected
