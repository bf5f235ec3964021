import numpy as np

from span_marker.span_columns import entity_table, span_columns, span_labels
from span_marker.spans import enumerate_spans
from span_marker.types import EntityTable
from span_marker.word_encoding import Frame, align_words


def test_span_columns():
    frame = Frame((101,), (102,), 0, None)
    encoded = align_words([[7, 8, 9], []], [[0, 0, 1], []], np.array([2, 0]), frame)
    columns = span_columns(encoded, 3)
    assert [row.tolist() for row in columns["input_ids"]] == [[101, 7, 8, 9, 102], [101, 102]]
    assert columns["num_spans"] == [3, 0]
    assert [row.tolist() for row in columns["start_position_ids"]] == [[1, 1, 3], []]
    assert [row.tolist() for row in columns["end_position_ids"]] == [[2, 3, 3], []]


def test_span_labels():
    table = entity_table([[(2, 0, 1), (1, 1, 3)], [], [(3, 0, 3), (4, 2, 4)]])
    labels = span_labels(table, np.array([3, 2, 3]), 2, 0)
    assert [row.tolist() for row in labels] == [[2, 0, 0, 1, 0], [0, 0, 0], [0, 0, 0, 0, 0]]
    starts, ends = enumerate_spans(3, 2)
    assert (starts[3], ends[3]) == (1, 3)


def test_entity_table():
    table = entity_table([[], [(1, 0, 2)], []])
    assert isinstance(table, EntityTable)
    assert [column.tolist() for column in table] == [[1], [1], [0], [2]]
    assert [column.tolist() for column in entity_table([])] == [[], [], [], []]
