import json

import numpy as np
import pyarrow as pa
import pytest
from entity_tables import table, tables
from hypothesis import given, settings

from span_marker import EvaluationReport
from span_marker.entity_errors import find_errors
from span_marker.evaluation_report.groups import EntityGroup
from span_marker.evaluation_report.heat_map import MOST_TYPES, Cell, heat_map
from span_marker.evaluation_report.known_entities import KnownEntities, surfaces
from span_marker.evaluation_report.page import write_page
from span_marker.evaluation_report.sentences import JudgedEntity, Piece, SentenceErrors, cut_sentence, lay_over
from span_marker.evaluation_report.thresholds import best_threshold, threshold_curve

LABELS = ["O", "PER", "LOC"]


def entity(label, start, end, **others):
    return {"label": label, "start": start, "end": end, **others}


TOKENS = [
    ["Ada", "Lovelace", "met", "Grace", "Hopper", "in", "London"],
    ["Paris", "is", "big"],
    ["The", "North", "Sea", "is", "cold"],
    [],
]
GOLD = [
    [entity("PER", 0, 2), entity("PER", 3, 5), entity("LOC", 6, 7)],
    [entity("LOC", 0, 1)],
    [entity("LOC", 1, 3)],
    [],
]
PREDICTED = [
    [entity("LOC", 6, 7, score=0.9), entity("PER", 0, 2, score=0.75), entity("PER", 3, 4, score=0.5)],
    [entity("PER", 0, 1, score=0.8), entity("LOC", 2, 3, score=0.3)],
    [entity("PER", 0, 3, score=0.6)],
    [],
]
TRAINING = (
    [["LONDON", "calls", "Ada", "Lovelace"], ["Paris", "won"]],
    [[entity("LOC", 0, 1), entity("LOC", 2, 4)], [entity("PER", 0, 1)]],
)


@pytest.fixture
def report():
    return EvaluationReport.from_entities(TOKENS, GOLD, PREDICTED, training=TRAINING)


def group(name, gold=0, predicted=0, precision=0.0, recall=0.0, f1=0.0, **outcomes):
    kinds = ("found", "other_words", "other_type", "other_both", "missed", "spurious")
    counts = {kind: outcomes.get(kind, 0) for kind in kinds}
    return EntityGroup(name, gold, predicted, **counts, precision=precision, recall=recall, f1=f1)


# ---- What is in it ----


def test_totals(report):
    assert (report.num_sentences, report.num_words, report.num_gold, report.num_predicted) == (4, 15, 5, 6)
    assert report.metrics["overall_recall"] == 0.4
    assert report.metrics["LOC"] == {"precision": 0.5, "recall": 1 / 3, "f1": 0.4, "number": 3}
    assert report.schemes["strict"].f1 == report.metrics["f1"]
    assert report.schemes["partial"].correct == 3
    assert set(report.schemes_by_type) == {"LOC", "PER"}


def test_types_and_confusions(report):
    assert report.types == (
        group("LOC", 3, 2, 0.5, 1 / 3, 0.4, found=1, other_type=1, other_both=1, spurious=1),
        group("PER", 2, 4, 0.25, 0.5, 1 / 3, found=1, other_words=1),
    )
    assert report.confusions == (("LOC", "PER", 2),)


def test_boundaries(report):
    assert report.boundaries == {"longer": 1, "shorter": 1, "shifted": 0}
    crossing = EvaluationReport.from_entities([["a", "b", "c"]], [[entity("X", 0, 2)]], [[entity("Y", 1, 3)]])
    assert crossing.boundaries == {"longer": 0, "shorter": 0, "shifted": 1}


def test_lengths(report):
    assert report.lengths == (
        group("1", 2, 4, 0.25, 0.5, 1 / 3, found=1, other_type=1, spurious=1),
        group("2", 3, 1, 1.0, 1 / 3, 0.5, found=1, other_words=1, other_both=1),
        group("3", 0, 1),
    )


def test_long_entities_are_put_together():
    words = [[str(word) for word in range(40)]]
    gold = [[entity("X", 0, 10), entity("X", 10, 25)]]
    lengths = EvaluationReport.from_entities(words, gold, gold).lengths
    assert [(found.name, found.gold) for found in lengths][-2:] == [("9", 0), ("10+", 2)]


def test_novelties(report):
    seen, other, unseen = report.novelties
    assert seen == group("seen", 1, 2, 0.5, 1.0, 2 / 3, found=1, other_type=0)
    assert other == group("other label", 2, 1, 1.0, 0.5, 2 / 3, found=1, other_type=1)
    assert unseen == group("unseen", 2, 3, other_words=1, other_both=1, spurious=1)
    assert EvaluationReport.from_entities(TOKENS, GOLD, PREDICTED).novelties is None


def test_case_and_spaces_make_no_difference_to_surfaces():
    tokens = pa.chunked_array([[["Straße", "B"], []], [["x", "STRASSE", "b"]]])
    found = surfaces(tokens, table([(0, 1, 0, 2), (2, 1, 1, 3), (2, 1, 0, 1)]))
    assert found == ["strasse b", "strasse b", "x"]


def test_known_entities_of_a_data_set(model, dataset):
    from span_marker import AutoLabelNormalizer

    normalizer = AutoLabelNormalizer.from_config(model.config)
    known = KnownEntities.from_dataset(dataset.rename_column("ner_tags", "tags"), normalizer, "tags")
    assert len(known) == 7
    tokens = pa.array([["new", "york", "and", "Grace", "Hopper", "in", "grace"]])
    labels = ["O", "LOC", "PER"]
    entities = table([(0, 1, 0, 2), (0, 1, 3, 5), (0, 2, 5, 7), (0, 2, 6, 7)])
    assert known.novelties(tokens, entities, labels).tolist() == [0, 1, 2, 0]


def test_thresholds():
    scores = np.array([0.9, 0.5, 0.25, 1.0], dtype=np.float32)
    curve = threshold_curve(scores, np.array([True, False, True, True]), 4)
    assert [point.threshold for point in curve][:3] == [0.0, 0.01, 0.02]
    assert len(curve) == 101
    at = {point.threshold: point for point in curve}
    assert (at[0.0].predicted, at[0.0].precision, at[0.0].recall) == (4, 0.75, 0.75)
    assert (at[0.5].predicted, at[0.5].precision, at[0.5].recall) == (3, 2 / 3, 0.5)
    assert (at[1.0].predicted, at[1.0].precision, at[1.0].recall) == (1, 1.0, 0.25)
    assert at[0.91].f1 == 0.4
    assert best_threshold(curve) == at[0.0]


def test_thresholds_need_all_scores(report):
    assert report.thresholds[0].f1 == report.metrics["f1"]
    assert EvaluationReport.from_entities(TOKENS, GOLD, GOLD).thresholds is None
    assert EvaluationReport.from_entities(TOKENS, GOLD, [[], [], [], []]).thresholds[0].f1 == 0.0


def test_sentences(report):
    assert report.num_sentences_with_errors == 3
    assert [sentence.row for sentence in report.sentences] == [1, 0, 2]
    assert report.sentences[0] == SentenceErrors(
        row=1,
        tokens=("Paris", "is", "big"),
        gold=(JudgedEntity("LOC", 0, 1, "other_type"),),
        predicted=(
            JudgedEntity("PER", 0, 1, "other_type", pytest.approx(0.8)),
            JudgedEntity("LOC", 2, 3, "spurious", pytest.approx(0.3)),
        ),
    )
    assert report.sentences[1].outcomes == {"found", "other_words"}


def test_the_number_of_sentences_is_bounded():
    report = EvaluationReport.from_entities(TOKENS, GOLD, PREDICTED, max_sentences=1)
    assert [sentence.row for sentence in report.sentences] == [1]
    assert report.num_sentences_with_errors == 3
    assert EvaluationReport.from_entities(TOKENS, GOLD, GOLD).sentences == ()


def test_sentences_are_cut_at_their_entities():
    first, second = JudgedEntity("X", 0, 1, "found"), JudgedEntity("Y", 1, 3, "missed")
    assert cut_sentence(["a", "b", "c", "d"], [first, second]) == [Piece("a", first), Piece("b c", second), Piece("d")]
    assert cut_sentence(["a", "b"], [JudgedEntity("X", 1, 2, "found")])[0] == Piece("a")
    assert cut_sentence([], []) == []


def test_the_heat_map(report):
    matrix = heat_map(report.types, report.confusions)
    assert matrix.types == ["LOC", "PER"]
    assert matrix.rows == [
        [Cell(1, 23, True), Cell(2, 33, False), Cell(0, 0, False)],
        [Cell(0, 0, False), Cell(2, 40, True), Cell(0, 0, False)],
    ]
    assert matrix.spurious == [1, 0]
    assert matrix.left_out == 0


def test_the_heat_map_is_bounded():
    groups = [group(f"T{index:03d}", gold=10, missed=index % 50) for index in range(200)]
    matrix = heat_map(groups, [("T000", "T001", 70), ("T002", "T003", 1)])
    assert len(matrix.types) == len(matrix.rows) == MOST_TYPES
    assert matrix.types[:2] == ["T000", "T001"]
    assert matrix.left_out == 180


@settings(max_examples=60, deadline=None)
@given(tables())
def test_the_parts_agree(drawn):
    num_words, predicted, gold = drawn
    tokens = pa.array([["w"] * words for words in num_words], pa.list_(pa.string()))
    known = KnownEntities()
    known.add(tokens, gold, LABELS)
    report = EvaluationReport.from_tables(tokens, gold, predicted, LABELS, known=known)
    errors = find_errors(predicted, gold, num_words, LABELS)
    assert {kind.name: {name: getattr(kind, name) for name in errors.outcomes[kind.name]} for kind in report.types} == (
        errors.outcomes
    )
    for groups in (report.types, report.lengths, report.novelties):
        assert sum(found.gold for found in groups) == report.num_gold
        assert sum(found.predicted for found in groups) == report.num_predicted
        assert sum(found.found for found in groups) == report.schemes["strict"].correct
        assert sum(found.missed for found in groups) == report.schemes["strict"].missed - _unpaired(report)
    assert {name: row for name, row in report.metrics.items() if isinstance(row, dict)} == {
        kind.name: {"precision": kind.precision, "recall": kind.recall, "f1": kind.f1, "number": kind.gold}
        for kind in report.types
    }
    listed = [outcome for sentence in report.sentences for outcome in sentence.outcomes]
    assert bool(listed) == (report.metrics["f1"] < 1.0 and report.num_gold + report.num_predicted > 0)


def _unpaired(report):
    """Gold entities that share words with a predicted one, which is paired with another."""
    touched = report.num_gold - sum(kind.missed for kind in report.types)
    return touched - report.schemes["strict"].correct - report.schemes["strict"].incorrect


# ---- Entities from outside ----


def test_predictions_for_words_are_read():
    predicted = [
        [
            {"span": ["Paris"], "label": "LOC", "score": 0.75, "word_start_index": 0, "word_end_index": 1},
        ]
    ]
    report = EvaluationReport.from_entities(TOKENS[1:2], GOLD[1:2], predicted)
    assert report.metrics["f1"] == 1.0
    assert report.thresholds[75].predicted == 1
    assert report.thresholds[76].predicted == 0


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([[]], [[], []], r"predicted entities for 2 sentences, but the words of 1"),
        ([[entity("X", 0, 3)]], [[]], r"Row 0: the gold entity \[0, 3\) does not lie in the sentence of 2 words"),
        (
            [[]],
            [[entity("X", 0, 2), entity("Y", 0, 2), entity("X", 0, 2)]],
            r"Row 0: the predicted entity \[0, 2\) of type 'X' is given twice\. Give it once\.",
        ),
        ([[{"label": "X", "char_start_index": 0}]], [[]], r"Row 0: the gold entity .* has no place among the words"),
        ([[]], [[{"start": 0, "end": 1}]], r"Row 0: the predicted entity .* has no type"),
    ],
)
def test_malformed_entities_are_named(gold, predicted, message):
    with pytest.raises(ValueError, match=message):
        EvaluationReport.from_entities([["a", "b"]], gold, predicted)


def test_entities_within_entities():
    tokens = [["University", "of", "Oxford", "in", "Oxford"], ["Paris"]]
    gold = [[entity("LOC", 2, 3), entity("ORG", 0, 3), entity("LOC", 4, 5)], [entity("LOC", 0, 1)]]
    predicted = [[entity("ORG", 0, 3, score=0.9), entity("PER", 0, 1, score=0.5)], [entity("LOC", 0, 1, score=0.8)]]
    report = EvaluationReport.from_entities(tokens, gold, predicted, training=(tokens[1:], gold[1:]))
    assert "overall_accuracy" not in report.metrics
    assert report.schemes["strict"].f1 == report.metrics["f1"] == pytest.approx(4 / 7)
    assert (report.schemes["partial"].missed, report.schemes["partial"].spurious) == (2, 1)
    assert {group.name: (group.found, group.missed, group.spurious) for group in report.types} == {
        "LOC": (1, 2, 0),
        "ORG": (1, 0, 0),
        "PER": (0, 0, 1),
    }
    (sentence,) = report.sentences
    assert [(one.label, one.outcome) for one in sentence.gold] == [
        ("ORG", "found"),
        ("LOC", "missed"),
        ("LOC", "missed"),
    ]
    assert [[one.start for one in layer] for layer in lay_over(sentence.gold)] == [[0, 4], [2]]
    html = write_page(report, "Nested")
    assert html.count("<dt>gold</dt>") == html.count("<dt>predicted</dt>") == 2
    assert "words with the right tag" not in html


def test_entities_are_laid_over_each_other():
    assert lay_over([]) == [[]]
    spans = [(0, 2), (0, 5), (1, 3), (2, 4), (6, 7)]
    layers = lay_over([JudgedEntity("X", start, end, "found") for start, end in spans])
    assert [[(one.start, one.end) for one in layer] for layer in layers] == [
        [(0, 5), (6, 7)],
        [(0, 2), (2, 4)],
        [(1, 3)],
    ]


def test_texts_are_no_words():
    with pytest.raises(TypeError, match="Row 0 of the tokens is the text 'a b'"):
        EvaluationReport.from_entities(["a b"], [[]], [[]])


# ---- Forms ----


def test_to_dict_is_json(report):
    values = json.loads(json.dumps(report.to_dict()))
    assert values["num_gold"] == 5
    assert values["schemes"]["partial"]["correct"] == 3
    assert values["novelties"][0]["name"] == "seen"
    assert values["sentences"][0]["gold"] == [
        {"label": "LOC", "start": 0, "end": 1, "outcome": "other_type", "score": None}
    ]


def test_data_frames(report):
    schemes = report.to_pandas()
    assert len(schemes) == 12
    overall = schemes[(schemes["type"] == "") & (schemes["scheme"] == "partial")]
    assert overall["correct"].tolist() == [3]
    assert schemes[schemes["type"] == "LOC"]["scheme"].tolist() == ["strict", "exact", "partial", "type"]
    assert report.to_pandas("types")["name"].tolist() == ["LOC", "PER"]
    assert report.to_pandas("lengths")["gold"].tolist() == [2, 3, 0]
    assert report.to_pandas("novelties")["recall"].tolist() == [1.0, 0.5, 0.0]
    assert report.to_pandas("confusions").to_dict("records") == [{"gold": "LOC", "predicted": "PER", "count": 2}]
    assert len(report.to_pandas("thresholds")) == 101
    entities = report.to_pandas("entities")
    assert len(entities) == 11
    assert entities.iloc[0][["row", "source", "text", "outcome"]].tolist() == [1, "gold", "Paris", "other_type"]
    with pytest.raises(ValueError, match="no part 'nope' of the report, but 'schemes', 'types'"):
        report.to_pandas("nope")


@pytest.mark.parametrize("part", ["schemes", "types", "lengths", "novelties", "confusions", "thresholds", "entities"])
def test_data_frames_of_nothing_have_columns(report, part):
    nothing = EvaluationReport.from_entities([], [], [])
    assert nothing.to_pandas(part).columns.tolist() == report.to_pandas(part).columns.tolist()
