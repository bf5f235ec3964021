"""The parts of the benchmarks that measure nothing."""

import sys
from pathlib import Path

import pytest
from datasets import Dataset

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
ECHO = "def run(payload):\n    print('noise')\n    return [payload, 1 // payload]"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def times(*seconds, **more):
    return {"seconds": list(seconds), "processor": [1.0] * len(seconds), "peak_memory": 500.0, "batch_size": 32, **more}


def test_a_worker_answers_again_and_again_and_tells_why_it_failed():
    from peer import PeerError, Worker

    with Worker(Path(sys.executable), ECHO) as worker:
        assert [worker(1), worker(2)] == [[1, 1], [2, 0]]
        for _ in range(2):
            with pytest.raises(PeerError, match="ZeroDivisionError"):
                worker(0)


def test_tables_are_replaced_and_the_rest_of_a_page_is_not():
    from records import replace_tables

    page = "a\n<!-- table: one -->\nold\n<!-- end -->\nb\n<!-- table: two -->\n<!-- end -->\n"
    expected = "a\n<!-- table: one -->\nnew one\n<!-- end -->\nb\n<!-- table: two -->\nnew two\n<!-- end -->\n"
    assert replace_tables(page, "new {}".format) == expected


def test_f1_of_entities_and_of_tags():
    from contestants import f1_score

    tags = ["O", "B-LOC", "B-PER", "I-PER"]
    rows = Dataset.from_dict({"tokens": [["Marie", "Curie", "in", "Paris"], ["No"]], "ner_tags": [[2, 3, 0, 1], [0]]})
    assert f1_score({"entities": [[["PER", 0, 2], ["PER", 3, 4]], []]}, rows, tags) == 0.5
    assert f1_score({"entities": [[], []]}, rows, tags) == 0.0
    assert f1_score({"tags": [["B-PER", "I-PER", "O", "O"], ["O"]]}, rows, tags) == pytest.approx(2 / 3)


def test_pieces_of_a_text():
    from speed_parts import pieces

    assert pieces([["a", "b"], ["c"]], 2, 7) == [["a", "b"], ["c", "a"], ["b", "c"]]


def test_sentences_are_chosen_in_batches_of_like_length():
    from contestants import choose

    rows = Dataset.from_dict({"tokens": [["a" * length] for length in (1, 9, 2, 8, 3, 7, 4, 6)]})
    chosen = {number: [len(words[0]) for words in choose(rows, number, 2)["tokens"]] for number in (None, 8, 3, 2)}
    assert chosen == {None: [1, 9, 2, 8, 3, 7, 4, 6], 8: [1, 9, 2, 8, 3, 7, 4, 6], 3: [1, 2, 7, 6], 2: [3, 4]}


def data_record(filtered, f1_of_int8=0.4):
    names = ("token classification", "span-marker 1.8.1", "all spans", "filtered", "filtered, auto", "ONNX, filtered")
    seconds = [(10, 10, 10), (104, 100, 99), (50, 50, 50), filtered, (11, 11, 11), (9, 9, 9), (5, 5, 5)]
    record = {"part": "data", "data": "sample", "sentences": 100, "scored": 100}
    record["times"] = {name: times(*row) for name, row in zip((*names, "ONNX int8, filtered"), seconds, strict=True)}
    record["f1"] = dict.fromkeys(names, 0.4) | {"ONNX int8, filtered": f1_of_int8}
    return record


def corpus_record(size, seconds):
    return {
        "part": "corpus",
        "corpus": size,
        "times": {"filtered": times(seconds), "filtered, auto": times(2 * size)},
    }


@pytest.mark.parametrize(
    ("filtered", "f1_of_int8", "met"),
    [
        ((12, 12.5, 20), 0.395, [True, True, True, True]),
        ((13.1, 13.1, 10), 0.395, [False, False, True, True]),
        ((12, 12, 12), 0.394, [True, True, True, False]),
    ],
)
def test_what_is_required_is_checked_by_medians(filtered, f1_of_int8, met):
    from speed_page import Report

    checks = Report([data_record((1, 1, 1)), data_record(filtered, f1_of_int8)], "seconds").checks()
    assert [check.is_met for check in checks] == met
    assert all(check.is_required for check in checks)


def test_flatness_is_wanted_but_not_required():
    from speed_page import Report

    checks = Report([corpus_record(*point) for point in ((1000, 500), (10_000, 1000), (100_000, 11_200))], "seconds")
    assert [(check.value, check.is_met, check.is_required) for check in checks.checks()] == [
        ("0.89", False, False),
        ("1.00", True, False),
    ]


def test_the_table_of_data_sets_shows_medians_and_ranges():
    from speed_page import Report

    report = Report([data_record((12, 12.5, 20))], "seconds")
    rows = report.table("data").splitlines()
    assert rows[2].split(" | ")[1:] == [
        "token classification",
        "32",
        "10.0",
        "1.00 (1.00 to 1.00)",
        "10.0",
        "500",
        "40.00 |",
    ]
    assert rows[5].split(" | ")[1:6] == ["filtered", "32", "8.0", "1.25 (1.20 to 2.00)", "8.0"]
    assert report.table("length") == "Not measured yet."
    assert "| sample | 1.25 (1.20 to 2.00) | yes |" in report.table("required")


def test_plots_are_drawn_of_what_was_measured(tmp_path):
    from speed_page import Report, write_page

    page = tmp_path / "speed.md"
    page.write_text("<!-- table: corpus -->\n<!-- end -->\n", "utf-8")
    write_page(Report([corpus_record(1000, 500), corpus_record(10_000, 5000)], "seconds"), page)
    assert "| 1,000 | 2 | 0 | 500 | 500 |" in page.read_text("utf-8")
    assert page.read_text("utf-8").endswith("(speed/corpus.png)\n<!-- end -->\n")
    assert [path.name for path in (tmp_path / "speed").iterdir()] == ["corpus.png"]
