import numpy as np
import pytest
from conftest import LABELS, make_dataset
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from span_marker import AutoLabelNormalizer, SpanMarkerConfig
from span_marker.entity_columns import (
    entity_column,
    gold_entities,
    holds_spans,
    labels_of_entities,
    overlooked_tags,
    resolve_entities,
    summarize_entities,
)
from span_marker.schemes import LabelScheme

SCHEME = LabelScheme.from_labels(["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
TOKENS = [["Ada", "of", "Rome"], [], ["Paris"]]
SPANS = [[(0, 3, "PER"), (2, 3, "LOC"), (0, 1, "PER"), (2, 3, "LOC")], [], [(0, 1, "LOC")]]
RESOLVED = [[[2, 0, 1], [2, 0, 3], [1, 2, 3]], [], [[1, 0, 1]]]


def with_spans(spans=SPANS, tokens=TOKENS, name="spans", **columns):
    """A data set whose entities are dictionaries."""
    rows = [[dict(zip(("start", "end", "label"), span, strict=True)) for span in row] for row in spans]
    return Dataset.from_dict({"tokens": tokens, name: rows, **columns})


def with_lists(spans=SPANS, tokens=TOKENS):
    """A data set whose entities are lists."""
    rows = [{"tokens": words, "spans": [list(span) for span in row]} for words, row in zip(tokens, spans, strict=True)]
    return Dataset.from_list(rows, on_mixed_types="use_json")


@pytest.fixture
def normalizer():
    config = SpanMarkerConfig()
    config.set_labels(SCHEME.tags)
    return AutoLabelNormalizer.from_config(config)


def test_the_column():
    both = with_spans(ner_tags=[["O"] * 3, [], ["O"]])
    assert entity_column(both, "ner_tags") == "ner_tags"
    assert entity_column(both, "spans") == "spans"
    assert entity_column(both, "tags") == "spans"
    assert entity_column(make_dataset(), "tags") == "tags"


def test_spans_are_told_from_tags():
    assert holds_spans(with_spans(), "spans")
    assert holds_spans(with_spans(name="entities"), "entities")
    assert holds_spans(with_lists(), "spans")
    assert not holds_spans(make_dataset(), "ner_tags")
    empty = Dataset.from_dict({"tokens": [["Ada"]], "spans": [[]], "ner_tags": [[]]})
    assert (holds_spans(empty, "spans"), holds_spans(empty, "ner_tags")) == (True, False)


def test_labels():
    assert labels_of_entities(with_spans(), "spans") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert labels_of_entities(with_lists(), "spans") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert labels_of_entities(with_spans(), "spans", "NONE") == ["O", "LOC", "PER"]
    assert labels_of_entities(make_dataset(), "ner_tags") == LABELS
    with pytest.raises(ValueError, match="no column 'tags'"):
        labels_of_entities(make_dataset(), "tags")


@pytest.mark.parametrize("dataset", [with_spans(), with_lists(), with_spans(ner_tags=[["O"] * 3, [], ["O"]])])
def test_spans_become_numbers(dataset):
    found = resolve_entities(dataset, "spans", SCHEME)
    assert found[:] == {"tokens": TOKENS, "spans": RESOLVED}
    assert found.features["spans"] == Sequence(Sequence(Value("int64")))


def test_a_column_of_another_name():
    dataset = with_spans(name="entities", document_id=[1, 2, 3]).add_column("spans", [["x"], [], []])
    assert resolve_entities(dataset, "entities", SCHEME)[:] == {
        "tokens": TOKENS,
        "spans": RESOLVED,
        "document_id": [1, 2, 3],
    }


def test_tags_become_numbers_too():
    scheme = LabelScheme.from_labels(LABELS)
    assert resolve_entities(make_dataset(), "ner_tags", scheme)["ner_tags"][0] == [1, 2, 0, 0, 3, 0]
    with pytest.raises(ValueError, match="no column 'spans'"):
        resolve_entities(make_dataset(), "spans", scheme)


def test_no_row():
    empty = with_spans().select([])
    assert resolve_entities(empty, "spans", SCHEME)[:] == {"tokens": [], "spans": []}
    assert labels_of_entities(empty, "spans") == ["O"]


def test_types_by_number():
    names = ["PER", "LOC"]
    entity = {"start": Value("int64"), "end": Value("int64"), "label": ClassLabel(names=names)}
    features = Features({"tokens": Sequence(Value("string")), "spans": [entity]})
    dataset = Dataset.from_dict(
        {"tokens": [["Ada"]], "spans": [[{"start": 0, "end": 1, "label": 0}]]}, features=features
    )
    assert labels_of_entities(dataset, "spans") == ["O", "B-PER", "I-PER"]
    assert resolve_entities(dataset, "spans", SCHEME)["spans"][:] == [[[2, 0, 1]]]


@pytest.mark.parametrize("make", [with_spans, with_lists])
@pytest.mark.parametrize(
    ("span", "message"),
    [
        (
            (0, 3, "PER"),
            r"Row 2: the entity 'PER' at words 0 to 3 lies outside the sentence of 1 words\. Expected 0 <=",
        ),
        ((-1, 1, "PER"), r"Row 2: the entity 'PER' at words -1 to 1 lies outside"),
        ((1, 1, "PER"), r"Row 2: the entity 'PER' at words 1 to 1 covers no word"),
        ((1, 0, "PER"), r"Row 2: the entity 'PER' at words 1 to 0 covers no word"),
        ((0, 1, "PERS"), r"Row 2: the entity 'PERS' at words 0 to 1 has a type that is none of the 2.*mean 'PER'\?"),
        ((0, 1, "O"), r"Row 2: the entity 'O' at words 0 to 1 has a type that is none of the 2"),
        ((0, 1, "PER"), r"Row 2: the words 0 to 1 are an entity 'LOC' and one 'PER'\. The same words have one type"),
    ],
)
def test_bad_entities_are_named(make, span, message):
    dataset = make([*SPANS[:2], [*SPANS[2], span]])
    with pytest.raises(ValueError, match=message):
        resolve_entities(dataset, "spans", SCHEME)


def test_tokens_must_be_words():
    with pytest.raises(ValueError, match="column 'tokens' must hold a list of words a row, but its type is string"):
        resolve_entities(with_spans(tokens=["a", "b", "c"]), "spans", SCHEME)


def test_rows_are_counted_over_all_batches(monkeypatch):
    monkeypatch.setattr("span_marker.entity_columns._BATCH", 2)
    dataset = with_spans([*SPANS[:2], [(0, 2, "LOC")]])
    with pytest.raises(ValueError, match="Row 2: the entity 'LOC'"):
        resolve_entities(dataset, "spans", SCHEME)
    missing = Dataset.from_dict({"tokens": TOKENS, "spans": [[{"start": 0, "end": 1, "label": "LOC"}], [], None]})
    with pytest.raises(ValueError, match="Row 2 of the spans is None"):
        labels_of_entities(missing, "spans")
    assert resolve_entities(with_spans(), "spans", SCHEME)["spans"][:] == RESOLVED


def test_gold_entities(normalizer):
    found = resolve_entities(with_spans(), "spans", SCHEME)
    expected = [[0, 0, 0, 2], [2, 2, 1, 1], [0, 0, 2, 0], [1, 3, 3, 1]]
    for column in (found["spans"][:], found.with_format("arrow")[:]["spans"]):
        assert [part.tolist() for part in gold_entities({"spans": column}, normalizer)] == expected
    later = found.select([1, 2]).with_format("arrow")[:]["spans"]
    assert gold_entities({"spans": later}, normalizer).rows.tolist() == [1]
    tags = {"ner_tags": [[3, 4, 0]], "spans": None}
    assert [part.tolist() for part in gold_entities(tags, normalizer)] == [[0], [2], [0], [2]]


def test_summary(normalizer):
    found = resolve_entities(with_spans(), "spans", SCHEME).with_format("arrow")[:]

    summary = summarize_entities({"spans": found["spans"]}, np.array([3, 0, 1]), normalizer)
    assert (summary.num_sentences, summary.num_words, summary.num_overlapping) == (3, 4, 3)
    assert (summary.tag_counts, summary.entity_counts) == ({}, {"LOC": 2, "PER": 2})
    assert str(summary) == (
        "3 sentences, 4 words, 4 entities\n"
        "Entities are given as spans; 3 share words with another one\n"
        "Entities per type: LOC 2, PER 2"
    )
    summary.raise_if_empty()
    nothing = resolve_entities(with_spans([[], [], []]), "spans", SCHEME).with_format("arrow")[:]
    with pytest.raises(ValueError, match="training set holds no entity: its 3 rows have no spans"):
        summarize_entities({"spans": nothing["spans"]}, np.array([3, 0, 1]), normalizer).raise_if_empty()
    tags = make_dataset().with_format("arrow")[:]["ner_tags"]
    config = SpanMarkerConfig()
    config.set_labels(LABELS)
    counted = summarize_entities({"ner_tags": tags}, np.zeros(0), AutoLabelNormalizer.from_config(config))
    assert counted.entity_counts == {"LOC": 6, "PER": 4}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"ner_tags": [[1, 0]]}, "ner_tags"),
        ({"tags": [[1, 0]]}, "tags"),
        ({"fine": [["B-LOC", "O"]]}, "fine"),
        ({"wanted": [[1, 0]], "ner_tags": [[1, 0]]}, None),
        ({"pos_tags": [[1, 0]]}, None),
        ({"pos_tags": [["NNP", "O"]]}, None),
        ({"topics": [["B-LOC"]]}, None),
        ({"tags": ["B-LOC"], "id": [1]}, None),
        ({}, None),
    ],
)
def test_overlooked_tags(columns, expected):
    dataset = Dataset.from_dict({"tokens": [["B-LOC", "is"]]} | columns)
    assert overlooked_tags(dataset, "wanted", LABELS) == expected


def test_overlooked_tags_with_names():
    dataset = make_dataset().rename_column("ner_tags", "fine")
    assert overlooked_tags(dataset, "ner_tags", LABELS) == "fine"
    assert overlooked_tags(dataset, "ner_tags", ["O", "B-X"]) is None
