import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, Features, LargeList, Sequence, Value

from span_marker.span_lists import are_spans, class_names, read_spans

STRUCTS = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int32()), ("label", pa.string())]))


def structs(*rows):
    def named(span):
        return span and dict(zip(("start", "end", "label"), span, strict=True))

    return pa.array([None if row is None else list(map(named, row)) for row in rows], STRUCTS)


def arrow(dataset):
    return dataset.with_format("arrow")[:]["spans"].combine_chunks()


def mixed(*rows):
    """Lists of [0, 2, "PER"], as `datasets` keeps them."""
    return arrow(Dataset.from_list([{"spans": row} for row in rows], on_mixed_types="use_json"))


def parts(spans):
    names = [spans.types[name] for name in spans.names]
    return [*zip(spans.rows.tolist(), spans.starts.tolist(), spans.ends.tolist(), names, strict=True)]


@pytest.mark.parametrize("make", [structs, mixed])
def test_rows(make):
    column = make([(0, 2, "PER"), (1, 2, "LOC")], [], [(3, 4, "PER")])
    expected = [(0, 0, 2, "PER"), (0, 1, 2, "LOC"), (2, 3, 4, "PER")]
    assert parts(read_spans(column)) == expected
    assert parts(read_spans(column[1:])) == [(1, 3, 4, "PER")]
    assert read_spans(column, first_row=7).describe(2) == "Row 9: the entity 'PER' at words 3 to 4"


def test_further_parts_are_ignored():
    column = pa.array([[{"text": "Ada", "label": "PER", "end": 1, "start": 0}]])
    assert parts(read_spans(column)) == [(0, 0, 1, "PER")]


def test_lists_of_texts():
    assert parts(read_spans(pa.array([[["0", "2", "PER"]], []]))) == [(0, 0, 2, "PER")]


def test_types_that_look_like_json():
    assert parts(read_spans(structs([(0, 1, '"quoted"')]))) == [(0, 0, 1, '"quoted"')]


def test_types_by_number():
    label = ClassLabel(names=["LOC", "PER"])
    features = Features({"spans": [{"start": Value("int64"), "end": Value("int64"), "label": label}]})
    dataset = Dataset.from_dict({"spans": [[{"start": 0, "end": 1, "label": 1}]]}, features=features)
    names = class_names(dataset.features["spans"])
    assert names == ["LOC", "PER"]
    assert parts(read_spans(arrow(dataset), names)) == [(0, 0, 1, "PER")]
    assert class_names(Sequence(Value("string"))) is None


def test_no_span_at_all():
    for column in (pa.array([[], []]), structs([], []), structs()):
        spans = read_spans(column)
        assert (parts(spans), spans.types) == ([], [])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (structs([], None), "Row 6 of the spans is None"),
        (structs([(0, 1, "X")], [None]), "Row 6 has an entity whose start is None"),
        (structs([], [(0, 1, "X"), (None, 1, "X")]), "Row 6 has an entity whose start is None"),
        (structs([], [(0, None, "X")]), "Row 6 has an entity whose end is None"),
        (structs([(0, 1, None)]), "Row 5 has an entity whose label is None"),
        (structs([(0, 1, "X")], [(0, 1, "")]), "Row 6 has an entity whose label is '', which is no name"),
        (mixed([[0, 1, "X"]], [[0, 1, 3]]), "Row 6 has an entity whose label is 3, which is no name"),
        (mixed([[0, 1, "X"]], [[0, 1]]), "Row 6 has an entity of 2 parts"),
        (mixed([[0, 1, "X"]], [None]), "Row 6 has an entity of 0 parts"),
        (mixed([[0, 1, "X"]], [["a", 1, "X"]]), """Row 6 has an entity whose start is '"a"'"""),
        (pa.array([[["0", "1", "X"]], [["0", "b", "X"]]]), "Row 6 has an entity whose end is 'b'"),
        (pa.array([[[0, 1, 2]]]), "Row 5 has an entity whose label is 2, which is no name of a type"),
        (pa.array([[{"first": 0, "last": 1}]]), "Row 5 has an entity of the parts first, last"),
        (pa.array([["PER"]]), "Row 5 has an entity of type string"),
        (pa.array([[{"start": 0.5, "end": 1.0, "label": "X"}]]), "Row 5 has an entity whose start is 0.5"),
    ],
)  # fmt: skip
def test_malformed_rows_are_named(column, message):
    with pytest.raises(ValueError, match=f"{message}.*Expected a list of entities a row") as error:
        read_spans(column, first_row=5)
    assert "[0, 2, 'PER']" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (STRUCTS, True),
        (pa.list_(pa.list_(pa.string())), True),
        (pa.large_list(pa.large_list(pa.int64())), True),
        (pa.list_(pa.string()), False),
        (pa.list_(pa.null()), False),
        (pa.string(), False),
    ],
)
def test_are_spans(kind, expected):
    assert are_spans(kind) is expected


def test_large_lists():
    feature = LargeList({"start": Value("int64"), "end": Value("int64"), "label": Value("string")})
    dataset = Dataset.from_dict(
        {"spans": [[{"start": 0, "end": 1, "label": "PER"}]]}, features=Features({"spans": feature})
    )
    assert parts(read_spans(arrow(dataset))) == [(0, 0, 1, "PER")]
