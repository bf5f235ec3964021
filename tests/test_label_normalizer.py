"""Tags to entities and back."""

import json
import pickle
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from span_marker.configuration import SpanMarkerConfig
from span_marker.label_normalizer import (
    AutoLabelNormalizer,
    LabelNormalizerBILOU,
    LabelNormalizerBIOES,
    LabelNormalizerIOB,
    LabelNormalizerNoScheme,
    LabelNormalizerScheme,
    summarize_labels,
)
from span_marker.label_summary import LabelSummary, MalformedTags
from span_marker.schemes import LabelScheme, Scheme
from span_marker.types import EntityTable

LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU", "BILO": "BIL"}
TYPES = ["LOC", "PER", "a-b c"]


def tags_of(scheme):
    if scheme == "NONE":
        return ["LOC", "O", "PER", "a-b c"]
    return ["O", *(f"{letter}-{name}" for name in reversed(TYPES) for letter in LETTERS[scheme])]


def normalizer_of(labels, scheme=None):
    return AutoLabelNormalizer.from_config(SimpleNamespace(label_scheme=LabelScheme.from_labels(labels, scheme)))


def read(text, scheme=None, labels=None):
    """Decode sentences of tags; "|" separates sentences."""
    rows = [sentence.split() for sentence in text.split("|")]
    labels = labels or sorted({"O", *(tag for row in rows for tag in row)})
    normalizer = normalizer_of(labels, scheme)
    return normalizer, [[labels.index(tag) for tag in row] for row in rows]


def entities(text, scheme=None, labels=None):
    normalizer, ids = read(text, scheme, labels)
    rows, labels, starts, ends = (column.tolist() for column in normalizer.entities(ids))
    return [
        (row, normalizer.scheme.labels[label], start, end)
        for row, label, start, end in zip(rows, labels, starts, ends, strict=True)
    ]


def table(*rows):
    return EntityTable(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def seqeval_entities(row):
    """Decode one sentence with seqeval, which knows E and S but not L and U."""
    mapped = [tag.replace("L-", "E-", 1) if tag[:2] == "L-" else tag for tag in row]
    mapped = [tag.replace("U-", "S-", 1) if tag[:2] == "U-" else tag for tag in mapped]
    return [(label, start, end + 1) for label, start, end in get_entities(mapped)]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["O", "A"], LabelNormalizerNoScheme),
        (["O", "B-A", "I-A"], LabelNormalizerIOB),
        (["O", "B-A", "I-A", "E-A", "S-A"], LabelNormalizerBIOES),
        (["O", "B-A", "I-A", "L-A", "U-A"], LabelNormalizerBILOU),
        (["O", "B-A", "I-A", "L-A"], LabelNormalizerBILOU),
    ],
)
def test_auto_chooses_by_scheme(labels, kind):
    assert type(normalizer_of(labels)) is kind


def test_model_configuration_is_read():
    config = SpanMarkerConfig({"model_type": "bert"})
    config.set_labels(["B-PER", "I-PER", "O", "B-LOC", "I-LOC"])
    found = list(AutoLabelNormalizer.from_config(config).ner_tags_to_entities([0, 1, 2, 3, 4, 4, 0, 0, 1, 4]))
    assert found == [(2, 0, 2), (1, 3, 6), (2, 6, 7), (2, 7, 9), (1, 9, 10)]


def test_wrong_class_is_refused():
    config = SimpleNamespace(label_scheme=LabelScheme.from_labels(["O", "B-A"]))
    assert LabelNormalizerScheme(config).entities([[1]]).starts.tolist() == [0]
    with pytest.raises(ValueError, match=r"BILOU reads BILOU, BILO, but the labels follow IOB2"):
        LabelNormalizerBILOU(config)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B-A I-A O B-A B-A", [(0, "A", 0, 2), (0, "A", 3, 4), (0, "A", 4, 5)]),
        ("I-A | I-A", [(0, "A", 0, 1), (1, "A", 0, 1)]),
        ("B-A I-B", [(0, "A", 0, 1), (0, "B", 1, 2)]),
        ("B-A E-A I-A S-A O E-A", [(0, "A", 0, 2), (0, "A", 2, 3), (0, "A", 3, 4), (0, "A", 5, 6)]),
        ("B-A I-A L-A U-A L-A B-A", [(0, "A", 0, 3), (0, "A", 3, 4), (0, "A", 4, 5), (0, "A", 5, 6)]),
        ("B-A O B-A L-A", [(0, "A", 0, 1), (0, "A", 2, 4)]),
        ("A A B O A | A", [(0, "A", 0, 2), (0, "B", 2, 3), (0, "A", 4, 5), (1, "A", 0, 1)]),
        ("| O | B-A |", [(2, "A", 0, 1)]),
    ],
)
def test_entities(text, expected):
    assert entities(text) == expected


def test_regression_iob1_adjacent_types_are_two_entities():
    text = "I-PER I-LOC I-LOC B-LOC I-PER B-PER"
    expected = [(0, "PER", 0, 1), (0, "LOC", 1, 3), (0, "LOC", 3, 4), (0, "PER", 4, 5), (0, "PER", 5, 6)]
    assert entities(text) == entities(text, "IOB1") == entities(text, "IOB2") == expected


@pytest.mark.parametrize("scheme", LETTERS)
@given(data=st.data())
def test_decoding_equals_seqeval(scheme, data):
    labels = tags_of(scheme)
    rows = data.draw(st.lists(st.lists(st.sampled_from(labels), max_size=8), max_size=4))
    normalizer = normalizer_of(labels, scheme)
    ids = [[labels.index(tag) for tag in row] for row in rows]
    found = normalizer.entities(ids)
    expected = [(row, *entity) for row, tags in enumerate(rows) for entity in seqeval_entities(tags)]
    names = [normalizer.scheme.labels[label] for label in found.labels]
    assert list(zip(found.rows, names, found.starts, found.ends, strict=True)) == expected
    per_row = [list(normalizer.ner_tags_to_entities(row)) for row in ids]
    assert [(row, *entity) for row, found in enumerate(per_row) for entity in found] == [
        (row, normalizer.scheme.labels.index(name), start, end) for row, name, start, end in expected
    ]
    words = [["w"] * len(row) for row in rows]
    assert normalizer(words, ids) == {
        "ner_tags": per_row,
        "entity_count": [len(found) for found in per_row],
        "word_count": [len(row) for row in rows],
    }


@pytest.mark.parametrize("scheme", [*LETTERS, "NONE"])
@given(data=st.data())
def test_round_trip(scheme, data):
    normalizer = normalizer_of(tags_of(scheme), scheme)
    labels = [label for label in range(len(normalizer.scheme.labels)) if label != normalizer.scheme.outside_id]
    lengths = data.draw(st.lists(st.integers(0, 9), max_size=4))
    rows = []
    for row, length in enumerate(lengths):
        cuts = sorted(data.draw(st.sets(st.integers(0, length))))
        for start, end in pairwise(cuts):
            label = data.draw(st.sampled_from([None, *labels]))
            adjacent = bool(rows) and rows[-1] == (row, label, rows[-1][2], start)
            if label is not None and not (scheme == "NONE" and adjacent):
                rows.append((row, label, start, end))
    expected = table(*rows) if rows else EntityTable(*[np.zeros(0, dtype=np.int64)] * 4)
    tags = normalizer.to_tags(expected, lengths)
    assert [len(row) for row in tags] == lengths
    for column, other in zip(normalizer.entities(tags), expected, strict=True):
        assert column.tolist() == other.tolist()
    assert normalizer.malformed(tags).count == 0


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("IOB1", "I-A I-A B-A O I-A I-B"),
        ("IOB2", "B-A I-A B-A O B-A B-B"),
        ("BIOES", "B-A E-A S-A O S-A S-B"),
        ("BILOU", "B-A L-A U-A O U-A U-B"),
        ("BILO", "B-A L-A B-A O B-A B-B"),
    ],
)
def test_to_tags(scheme, expected):
    labels = ["O", *(f"{letter}-{name}" for name in "AB" for letter in LETTERS[scheme])]
    found = table((0, 1, 0, 2), (0, 1, 2, 3), (0, 1, 4, 5), (0, 2, 5, 6))
    assert [labels[tag] for tag in normalizer_of(labels, scheme).to_tags(found, [6])[0]] == expected.split()


def test_to_tags_writes_a_long_entity():
    normalizer = normalizer_of(["O", "B-A", "I-A", "E-A", "S-A"])
    assert normalizer.to_tags(table((1, 1, 1, 5)), [2, 6]) == [[0, 0], [0, 1, 2, 2, 3, 0]]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([(0, 1, 0, 1), (0, 1, 2, 5)], "Row 0: the entity at words 2 to 5 lies outside"),
        ([(0, 1, 2, 2)], "lies outside"),
        ([(0, 1, 0, 2), (0, 1, 1, 3)], "Row 0: the entity at words 1 to 3 overlaps"),
        ([(0, 0, 0, 1)], "no id of an entity label"),
        ([(0, 9, 0, 1)], "no id of an entity label"),
        ([(1, 1, 0, 2)], "no tag 'I-A'"),
    ],
)
def test_to_tags_refuses(rows, error):
    with pytest.raises(ValueError, match=error):
        normalizer_of(["O", "B-A"]).to_tags(table(*rows), [4, 2])


def test_to_tags_without_scheme_refuses_adjacent_entities_of_one_type():
    normalizer = normalizer_of(["O", "A", "B"])
    assert normalizer.to_tags(table((0, 1, 0, 1), (0, 2, 1, 2)), [2]) == [[1, 2]]
    with pytest.raises(ValueError, match="directly follows one of its type"):
        normalizer.to_tags(table((0, 1, 0, 1), (0, 1, 1, 2)), [2])


END = "(sentence boundary)"


@pytest.mark.parametrize(
    ("scheme", "text", "expected"),
    [
        (None, "B-A I-A O | I-A", [(1, 0, END, "I-A")]),
        (None, "B-A I-B O", [(0, 1, "B-A", "I-B")]),
        (None, "O B-A O I-A", [(0, 3, "O", "I-A")]),
        (None, "I-A O | O I-B I-A B-A", []),
        ("IOB2", "I-A O", [(0, 0, END, "I-A")]),
        ("IOB1", "B-A O I-A B-A", [(0, 0, END, "B-A")]),
        ("IOB1", "I-A B-B", [(0, 1, "I-A", "B-B")]),
        (None, "B-A O S-A E-A | B-A", [(0, 1, "B-A", "O"), (0, 3, "S-A", "E-A"), (1, 1, "B-A", END)]),
        (None, "B-A I-A E-A S-B B-B E-B", []),
        (None, "B-A L-A O B-A", []),
        (None, "B-A L-A U-A B-A", [(0, 4, "B-A", END)]),
        (None, "A B O A A", []),
        (None, "O O |", []),
    ],
)
def test_malformed(scheme, text, expected):
    labels = sorted({"O", "B-A", *text.replace("|", " ").split()}) if "-" in text else ["A", "B", "O"]
    normalizer, ids = read(text, scheme, labels)
    found = normalizer.malformed(ids)
    assert (found.count, found.examples) == (len(expected), expected)


def test_malformed_counts_all_and_shows_a_few():
    normalizer, ids = read(" | ".join(["B-A"] + ["I-A O I-A"] * 50))
    found = normalizer.malformed(ids)
    assert found.count == 100
    assert (
        found.examples == [(row, word, before, "I-A") for row in (1, 2, 3) for word, before in ((0, END), (2, "O"))][:5]
    )


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([[0], [0, 1, 3]], r"Row 1, word 2: the tag 3 is no id of the 3 labels \(0 to 2\)"),
        ([[0], [], [0, -100]], "Row 2, word 1: the tag -100"),
        ([[0], [0, None]], "Row 1, word 1: the tag is None"),
        ([[0], None], "Row 1 of the tags is None"),
        ([0, 1], "Row 0 of the tags is 0"),
        (["B-A"], "Row 0 of the tags is 'B-A'"),
        ([["O"]], "Row 0, word 0: the tag is 'O'"),
        ([[0, 1.5]], "Row 0, word 1: the tag is 1.5"),
        ([[True, False]], "Row 0, word 0: the tag is True"),
        ([[[0, 1]], [[1]]], r"Row 0, word 0: the tag is \[0, 1\]"),
        ([[[0, 1]], [[1, 2]]], r"Row 0, word 0: the tag is \[0, 1\]"),
        ([[2**80]], "do not fit 64-bit"),
        (pa.array([[0], [1, None]]), "Row 1, word 1: the tag is None"),
        (pa.array([[0], None]), "Row 1 of the tags is None"),
        (pa.array([[0.0]]), r"Row 0, word 0: the tag is 0\.0"),
        (pa.array([0, 1]), "Row 0 of the tags is 0"),
        (pa.array([[0], [7]]), "Row 1, word 0: the tag 7"),
    ],
)
def test_bad_tags_are_located(rows, error):
    with pytest.raises(ValueError, match=error):
        normalizer_of(["O", "B-A", "I-A"]).entities(rows)


@pytest.mark.parametrize("rows", [[], [[]], [[], []], pa.array([], pa.list_(pa.int64()))])
def test_nothing_is_legal(rows):
    normalizer = normalizer_of(["O", "B-A", "I-A"])
    assert [column.tolist() for column in normalizer.entities(rows)] == [[]] * 4
    assert all(column.dtype == np.int64 for column in normalizer.entities(rows))
    assert normalizer.malformed(rows).count == 0


def test_all_containers_decode_alike():
    normalizer = normalizer_of(["O", "B-A", "I-A"])
    rows = [[1, 2, 0], [], [0, 2]]
    expected = [column.tolist() for column in normalizer.entities(rows)]
    column = pa.array(rows, pa.list_(pa.int8()))
    chunked = pa.chunked_array([column.slice(0, 1), column.slice(1)])
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    for container in (column, chunked, column.cast(pa.large_list(pa.int64())), arrays, iter(rows)):
        assert [found.tolist() for found in normalizer.entities(container)] == expected


def test_call_checks_the_number_of_tokens():
    normalizer = normalizer_of(["O", "B-A"])
    with pytest.raises(ValueError, match="Row 1 has 2 tokens but 1 tags"):
        normalizer([["a"], ["b", "c"]], [[0], [1]])
    with pytest.raises(ValueError, match="2 rows of tokens but 1 rows of tags"):
        normalizer([["a"], ["b"]], [[0]])


def test_errors_of_one_sentence_come_with_iteration():
    found = normalizer_of(["O", "B-A"]).ner_tags_to_entities([5])
    with pytest.raises(ValueError, match="the tag 5"):
        next(found)


def test_normalizer_can_be_pickled():
    normalizer = pickle.loads(pickle.dumps(normalizer_of(["O", "B-A", "I-A"])))
    assert list(normalizer.ner_tags_to_entities([1, 2])) == [(1, 0, 2)]


def test_summary():
    normalizer, ids = read("B-A I-A O | I-B | O O")
    summary = summarize_labels(normalizer, ids)
    assert summary == LabelSummary(
        scheme=normalizer.scheme,
        num_sentences=3,
        num_words=6,
        tag_counts={"B-A": 1, "I-A": 1, "I-B": 1, "O": 3},
        entity_counts={"A": 1, "B": 1},
        malformed=MalformedTags(1, [(1, 0, END, "I-B")]),
    )


def test_bare_prefixes_with_a_given_scheme():
    assert entities("O B I", "iob2") == [(0, "_", 1, 3)]
    assert entities("O B I") == [(0, "B", 1, 2), (0, "I", 2, 3)]


def process_time(function):
    """Least processor time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def test_a_corpus_is_read_without_a_loop_over_words():
    labels = tags_of("IOB2")
    ids = np.random.default_rng(0).integers(0, len(labels), 200_000)
    column = pa.ListArray.from_arrays(pa.array(np.arange(0, 200_001, 25), pa.int32()), pa.array(ids))
    rows = [[labels[tag] for tag in row] for row in column.to_pylist()]
    normalizer = normalizer_of(labels)
    assert 4 * process_time(lambda: summarize_labels(normalizer, column)) < process_time(lambda: get_entities(rows))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "labels_at_least", "malformed"), [("wnut17", 6, 0), ("wikigold", 4, 0), ("uner_zh", 3, 0)]
)
def test_real_data_decodes_as_seqeval_does(shared, name, labels_at_least, malformed):
    lines = (shared / "data" / name / "test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line)["ner_tags"] for line in lines]
    labels = sorted({"O", *(tag for row in rows for tag in row)})
    normalizer = normalizer_of(labels)
    ids = [[labels.index(tag) for tag in row] for row in rows]
    found = normalizer.entities(ids)
    names = [normalizer.scheme.labels[label] for label in found.labels]
    expected = [(row, *entity) for row, tags in enumerate(rows) for entity in seqeval_entities(tags)]
    assert list(zip(found.rows, names, found.starts, found.ends, strict=True)) == expected
    assert normalizer.scheme.scheme is Scheme.IOB2
    assert len(normalizer.scheme.labels) == labels_at_least + 1
    assert normalizer.malformed(ids).count == malformed
