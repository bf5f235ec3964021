"""One example of each format: what is read from it, to the letter."""

import json
import logging

import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from span_marker import read_dataset, write_dataset
from span_marker.readers.docbin import _import_spacy
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.word_splitters import split_at_punctuation

ADA = ["Ada", "Lovelace", "lives", "in", "London", "."]
ADA_TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
PARIS = ["Paris", "is", "big"]
PARIS_TAGS = ["B-LOC", "O", "O"]
ADA_TEXT = "Ada Lovelace lives in London."


@pytest.fixture
def read(tmp_path):
    """Write a file, read it, and return its rows without the columns that say where they are from."""

    def write_and_read(name, content, *arguments, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return rows(read_dataset(path, *arguments, **options))

    return write_and_read


def rows(dataset):
    return dataset.remove_columns(["source_file", "source_line"]).to_list()


def row(tokens, tags, **others):
    return {"tokens": tokens, "ner_tags": tags, **others}


def lines(*items):
    return "".join(f"{json.dumps(item)}\n" for item in items)


def column_file(tokens, tags, pattern="{} {}\n"):
    return "".join(pattern.format(token, tag) for token, tag in zip(tokens, tags, strict=True)) + "\n"


# Column files


def test_conll_2003_with_four_columns_and_iob1(read):
    content = (
        "-DOCSTART- -X- -X- O\n\nAda NNP B-NP I-PER\nLovelace NNP I-NP I-PER\n\n"
        "-DOCSTART- -X- O O\n\nParis NNP I-NP I-LOC\n"
    )
    assert read("eng.testa", content) == [
        row(["Ada", "Lovelace"], ["B-PER", "I-PER"], document_id="0", sentence_id="0"),
        row(["Paris"], ["B-LOC"], document_id="1", sentence_id="0"),
    ]


def test_conll_2002_in_latin_1(read):
    content = "Málaga B-LOC\n, O\n".encode("latin-1")
    assert read("esp.train", content, encoding="latin-1") == [row(["Málaga", ","], ["B-LOC", "O"])]


def test_words_may_be_number_signs_and_hash_tags(read):
    assert read("a.conll", "# O\n#ner B-X\n# sent_id = s1\n#comment\n") == [
        row(["#", "#ner"], ["O", "B-X"], sentence_id="s1")
    ]
    assert read("b.conll", "#\tO\n#id\tB-X\n# id\n# text = a\tb\n") == [row(["#", "#id"], ["O", "B-X"])]


def test_named_documents_and_a_lone_tab_between_sentences(read):
    content = "# newdoc id = d7\n# sent_id = s1\nParis\tB-LOC\n\t\n# a remark\nis\tO\n"
    assert read("a.txt", content) == [
        row(["Paris"], ["B-LOC"], document_id="d7", sentence_id="s1"),
        row(["is"], ["O"], document_id="d7", sentence_id="1"),
    ]


def test_columns_can_be_chosen(read):
    content = "1\tParis\tB-LOC\t-\n2\tis\tO\t-\n"
    assert read("a.iob2", content, token_column=1, tag_column=2) == [row(["Paris", "is"], ["B-LOC", "O"])]


def test_either_delimiter(read):
    assert read("a.conll", "Paris  B-LOC\nis\tO\n", delimiter="whitespace") == [row(["Paris", "is"], ["B-LOC", "O"])]


def test_words_may_hold_whitespace_that_is_no_ascii(read):
    assert read("a.conll", "5\u00a0000 O\n\u3000 O\n") == [row(["5\u00a0000", "\u3000"], ["O", "O"])]


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_words(read):
    content = b"\xef\xbb\xbfParis B-LOC\r\nis O\r\n\r\nbig O\r\n"
    assert read("a.conll", content) == [row(["Paris", "is"], ["B-LOC", "O"]), row(["big"], ["O"])]
    content = b"\xef\xbb\xbf" + lines(row(PARIS, PARIS_TAGS)).replace("\n", "\r\n").encode()
    assert read("a.jsonl", content) == [row(PARIS, PARIS_TAGS)]
    assert read("a.csv", b"\xef\xbb\xbftoken,tag\r\nParis,B-LOC\r\n") == [row(["Paris"], ["B-LOC"])]


@pytest.mark.parametrize(
    ("scheme", "tags", "expected"),
    [
        (None, ["I-PER", "I-PER", "B-PER", "I-LOC"], ["B-PER", "I-PER", "B-PER", "B-LOC"]),
        (None, ["B-PER", "E-PER", "S-LOC", "O"], ["B-PER", "I-PER", "B-LOC", "O"]),
        (None, ["U-PER", "O", "B-LOC", "L-LOC"], ["B-PER", "O", "B-LOC", "I-LOC"]),
        ("NONE", ["PER", "PER", "B-cell", "O"], ["B-PER", "I-PER", "B-B-cell", "O"]),
    ],
)
def test_tags_of_every_scheme_become_iob2(read, caplog, scheme, tags, expected):
    words = ["a", "b", "c", "d"]
    assert read("a.conll", column_file(words, tags), scheme=scheme) == [row(words, expected)]
    assert not caplog.records


def test_malformed_tags_are_repaired_and_counted(read, caplog, tmp_path):
    content = "a B-PER\nb O\nc I-PER\nd O\n\ne I-LOC\n"
    assert [found["ner_tags"] for found in read("a.conll", content)] == [["B-PER", "O", "B-PER", "O"], ["B-LOC"]]
    assert f"2 tags break their scheme, the first in {tmp_path / 'a.conll'}, line 3, word 2 (O I-PER)." in caplog.text


def test_conllu_plus(read):
    content = (
        "# global.columns = ID FORM MISC UNER:NER\n# newdoc id = d\n# sent_id = s\n# text = vámonos a New York\n"
        "1-2\tvámonos\t_\t_\n1\tvamos\t_\t_\n2\tnos\t_\tO\n2.1\tnada\t_\tB-X\n3\ta\t_\t*\n4\tNew York\t_\tB-LOC\n"
    )
    expected = row(["vamos", "nos", "a", "New York"], ["O", "O", "O", "B-LOC"], text="vámonos a New York")
    assert read("a.conllup", content) == [expected | {"document_id": "d", "sentence_id": "s"}]
    assert read("b.conllup", content, tag_column="MISC")[0]["ner_tags"] == ["O"] * 4


def test_conllu_has_tags_in_its_last_column(read):
    cells = "\tx\tX\tX\t_\t0\troot\t_\t"
    content = (
        f"# sent_id = s\n1-2\tvámonos{cells}NER=B-X\n1\tvamos{cells}_\n2\tnos{cells}SpaceAfter=No|NER=O\n"
        f"3\tNew{cells}ner=B-LOC|SpaceAfter=No\n4\tYork{cells}MANNER=x|NE=I-LOC\n"
    )
    found = {"tokens": ["vamos", "nos", "New", "York"], "ner_tags": ["O", "O", "B-LOC", "I-LOC"]}
    (row,) = read("a.conllu", content)
    assert row | found == row
    assert read("b.txt", content, format="conllup")[0]["ner_tags"] == found["ner_tags"]
    with pytest.raises(ValueError, match=r"c\.conllu, line 2: a word before the names of the columns"):
        read("c.conllu", "# sent_id = s\n1\tvamos\tO\n")


def test_tables(read):
    kaggle = 'Sentence #,Word,POS,Tag\nSentence: 1,Paris,NNP,B-LOC\n,is,VB,O\nSentence: 2,"a,""b",X,O\n'
    assert read("a.csv", kaggle) == [row(["Paris", "is"], ["B-LOC", "O"]), row(['a,"b'], ["O"])]
    blank = "word;label\nParis;B-LOC\n\nis;O\n"
    assert read("b.csv", blank, delimiter=";") == [row(["Paris"], ["B-LOC"]), row(["is"], ["O"])]
    ids = "doc_id\tsent_id\ttoken\tmine\nd1\t0\ta\tO\nd2\t0\tb\tO\n"
    assert read("c.tsv", ids, tag_column="mine") == [
        row(["a"], ["O"], document_id="d1", sentence_id="0"),
        row(["b"], ["O"], document_id="d2", sentence_id="0"),
    ]


# Words in JSON


def test_json_lines_with_strings_ids_and_blank_lines(read):
    first, second = (
        row(PARIS, PARIS_TAGS, document_id=3, sentence_id="a"),
        row(["x"], ["O"], document_id=4, sentence_id=None),
    )
    content = lines(first) + "\n  \n" + lines(second)
    assert read("a.jsonl", content) == [first | {"document_id": "3"}, second | {"document_id": "4"}]
    numbered = lines({"words": PARIS, "tags": [1, 0, 0]})
    options = {"token_column": "words", "tag_column": "tags", "labels": ["O", "B-LOC", "I-LOC"]}
    assert read("b.jsonl", numbered, "jsonl", **options) == [row(PARIS, PARIS_TAGS)]


def test_json_lines_of_several_kinds_are_read_line_by_line(read):
    content = lines(
        row(PARIS, PARIS_TAGS, document_id=1), {"tokens": ADA, "spans": [[4, 5, "LOC"]], "document_id": "x"}
    )
    assert [found["ner_tags"] for found in read("a.jsonl", content)] == [PARIS_TAGS, ["O"] * 4 + ["B-LOC", "O"]]


def test_overlapping_spans_stay_spans(read):
    spans = [[0, 2, "ORG"], [1, 2, "LOC"], [0, 2, "ORG"]]
    expected = [{"start": 0, "end": 2, "label": "ORG"}, {"start": 1, "end": 2, "label": "LOC"}]
    assert read("a.jsonl", lines({"tokens": PARIS, "spans": spans})) == [{"tokens": PARIS, "spans": expected}]
    both = row(PARIS, ["B-ORG", "I-ORG", "O"], spans=spans)
    assert read("b.jsonl", lines(both)) == [both | {"spans": expected}]
    assert read("b.jsonl", lines(both), entity_column="ner_tags") == [row(PARIS, ["B-ORG", "I-ORG", "O"])]
    assert read("b.jsonl", lines(both), entity_column="spans") == [{"tokens": PARIS, "spans": expected}]


def test_tags_as_spans(read):
    expected = [{"start": 0, "end": 2, "label": "PER"}, {"start": 4, "end": 5, "label": "LOC"}]
    for name, content in (("a.jsonl", lines(row(ADA, ADA_TAGS))), ("a.conll", column_file(ADA, ADA_TAGS))):
        assert read(name, content, entity_column="spans") == [{"tokens": ADA, "spans": expected}]


def test_gliner_counts_the_last_word_in(read):
    item = {"tokenized_text": ADA, "ner": [[0, 1, "PER"], [4, 4, "LOC"]]}
    assert read("a.json", json.dumps([item], indent=1)) == [row(ADA, ADA_TAGS)]
    assert read("a.json", json.dumps([item, item])) == [row(ADA, ADA_TAGS)] * 2


# Characters in JSON


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("a.jsonl", [ADA_TEXT, {"entities": [[0, 12, "PER"], [22, 28, "LOC"]]}]),
        ("a.jsonl", {"text": ADA_TEXT, "label": [[0, 12, "PER"], [22, 28, "LOC"]]}),
        ("a.jsonl", {"text": ADA_TEXT, "labels": [[0, 12, "PER"], [22, 28, "LOC"]]}),
        (
            "a.jsonl",
            {
                "text": ADA_TEXT,
                "relations": [],
                "entities": [
                    {"id": 1, "start_offset": 0, "end_offset": 12, "label": "PER"},
                    {"id": 2, "start_offset": 22, "end_offset": 28, "label": "LOC"},
                ],
            },
        ),
        (
            "a.jsonl",
            {
                "text": ADA_TEXT,
                "spans": [{"start": 0, "end": 12, "label": "PER"}, {"start": 22, "end": 28, "label": "LOC"}],
                "answer": "accept",
            },
        ),
        (
            "a.json",
            {
                "id": 1,
                "data": {"note": ADA_TEXT},
                "annotations": [
                    {
                        "was_cancelled": False,
                        "result": [
                            {"type": "labels", "value": {"start": 0, "end": 12, "labels": ["PER"]}},
                            {"type": "labels", "value": {"start": 22, "end": 28, "text": "London", "labels": ["LOC"]}},
                            {"type": "choices", "value": {"choices": ["x"]}},
                        ],
                    },
                    {"was_cancelled": True, "result": []},
                ],
            },
        ),
    ],
)
def test_dialects_of_json_with_texts(read, name, item):
    expected = [row(ADA, ADA_TAGS, text=ADA_TEXT)]
    assert read(name, lines(item)) == expected
    assert read("array.json", json.dumps([item, item], indent=2)) == expected * 2


def test_label_studios_short_export(read):
    regions = [
        {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]},
        {"start": 22, "end": 28, "text": "London", "labels": ["LOC"]},
    ]
    task = {"text": ADA_TEXT, "id": 1, "annotator": 1, "lead_time": 2.5, "sentiment": "neutral"}
    split = task | {"people": regions[:1], "places": regions[1:]}
    assert read("a.json", json.dumps([task | {"label": regions}, split])) == 2 * [row(ADA, ADA_TAGS, text=ADA_TEXT)]
    none = read("b.json", json.dumps([split, task]))[1]
    assert none["ner_tags"] == ["O"] * len(ADA)
    wide = {"text": "\U0001f600 Ada", "label": [{"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}]}
    assert read("c.json", json.dumps([wide]))[0]["ner_tags"] == ["O", "B-PER"]
    with pytest.raises(ValueError, match=r"d\.json, line 1: .* is no task\. Expected an object with the keys 'data'"):
        read("d.json", json.dumps([{"content": "a"}]), format="label_studio")


def test_label_studio_may_count_utf_16_units(read):
    region = {"type": "labels", "value": {"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}}
    task = {"data": {"text": "\U0001f600 Ada"}, "annotations": [{"result": [region]}]}
    assert read("a.json", json.dumps([task]))[0]["ner_tags"] == ["O", "B-PER"]


def test_spans_may_hold_whitespace_around_their_words(read):
    assert read("a.jsonl", lines({"text": " Paris is", "label": [[0, 7, "LOC"]]}))[0]["ner_tags"] == ["B-LOC", "O"]


def test_words_of_the_file_count(read):
    item = ["don't go", {"words": ["do", "n't", "go"], "entities": [[2, 5, "NEG"]]}]
    assert read("a.jsonl", lines(item)) == [row(["do", "n't", "go"], ["O", "B-NEG", "O"], text="don't go")]


# Folders of documents, binary formats


def brat(tmp_path, text, annotations, name="doc"):
    folder = tmp_path / "brat"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.txt").write_bytes(text.encode())
    (folder / f"{name}.ann").write_bytes(annotations.encode())
    return folder


def test_brat(tmp_path):
    folder = brat(tmp_path, "x\n", "", "doc10")
    brat(
        tmp_path,
        f"{ADA_TEXT}\r\n\r\nParis is big",
        "T1\tPER 0 12\tAda Lovelace\nT2\tLOC 22 28\tLondon\nR1\tLives-in Arg1:T1 Arg2:T2\nT3\tLOC 33 38\tParis\n",
        "doc2",
    )
    ids = [
        {"document_id": name, "sentence_id": number} for name, number in (("doc2", "0"), ("doc2", "1"), ("doc10", "0"))
    ]
    expected = [
        row(ADA, ADA_TAGS, text=ADA_TEXT),
        row(PARIS, PARIS_TAGS, text="Paris is big"),
        row(["x"], ["O"], text="x"),
    ]
    found = read_dataset(folder)
    assert rows(found) == [others | name for others, name in zip(expected, ids, strict=True)]
    assert found["source_line"] == [1, 3, 1]
    assert rows(read_dataset(folder / "doc2.txt")) == rows(found.select([0, 1]))


def test_brat_reports_discontinuous_entities(tmp_path, caplog):
    folder = brat(tmp_path, "left and right lung\nno", "T1\tX 0 4;15 19\tleft lung\nT2\tX 15 22\tlung no\n")
    assert read_dataset(folder, align="snap")[:]["ner_tags"] == [["O"] * 4, ["O"]]
    assert "2 entities do not begin and end with a word" in caplog.text
    assert f"({folder / 'doc.ann'}, line 1) is discontinuous: '[left and right lung]'" in caplog.text
    assert f"({folder / 'doc.ann'}, line 2) goes over a line break" in caplog.text


def test_overlapping_entities_of_brat_are_spans(tmp_path):
    folder = brat(tmp_path, "University of Oslo\n", "T1\tORG 0 18\tUniversity of Oslo\nT2\tLOC 14 18\tOslo\n")
    found = read_dataset(folder)
    assert found[0]["spans"] == [{"start": 0, "end": 3, "label": "ORG"}, {"start": 2, "end": 3, "label": "LOC"}]
    assert "ner_tags" not in found.column_names


def test_webanno(read):
    content = (
        "#FORMAT=WebAnno TSV 3.3\n#T_SP=x.Lemma|value\n"
        "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n"
        "#T_RL=x.Dependency|type|BT_x.Pos\n\n\n#Text=Ada Lovelace \\\\ Paris\n"
        "1-1\t0-3\tAda\tada\t*[1]\tPER[1]\t_\t_\t\n1-2\t4-12\tLovelace\t_\t*[1]|*[2]\tPER[1]|LAST\\_NAME[2]\t_\t_\t\n"
        "1-3\t13-14\t\\\\\t_\t_\t_\t_\t_\t\n1-4\t15-20\tParis\t_\t*\tLOC\t_\t_\t\n"
    )
    found = read("a.tsv", content)
    assert found[0]["tokens"] == ["Ada", "Lovelace", "\\", "Paris"]
    assert found[0]["text"] == "Ada Lovelace \\ Paris"
    assert [tuple(span.values()) for span in found[0]["spans"]] == [(0, 2, "PER"), (1, 2, "LAST_NAME"), (3, 4, "LOC")]
    assert read("a.tsv", content, tag_column="x.Lemma")[0]["ner_tags"] == ["B-ada", "O", "O", "O"]


def test_parquet_and_arrow_with_class_labels(tmp_path):
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B-LOC"]))})
    dataset = Dataset.from_dict({"tokens": [PARIS, ["x"]], "ner_tags": [[1, 0, 0], [0]]}, features=features)
    expected = [row(PARIS, PARIS_TAGS), row(["x"], ["O"])]
    for name in ("a.parquet", "a.arrow"):
        write_dataset(dataset, tmp_path / name)
        assert rows(read_dataset(tmp_path / name)) == expected
    write_dataset(dataset, tmp_path / "a.jsonl", "jsonl")
    assert rows(read_dataset(tmp_path / "a.jsonl")) == expected


def test_docbin(tmp_path):
    spacy = pytest.importorskip("spacy")
    doc = spacy.tokens.Doc(
        spacy.blank("en").vocab, words=[*ADA, *PARIS], sent_starts=[True, *[False] * 5, True, False, False]
    )
    doc.set_ents(
        [spacy.tokens.Span(doc, 0, 2, "PER"), spacy.tokens.Span(doc, 4, 5, "LOC"), spacy.tokens.Span(doc, 6, 7, "LOC")]
    )
    spacy.tokens.DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    assert rows(read_dataset(tmp_path / "a.spacy")) == [row(ADA, ADA_TAGS), row(PARIS, PARIS_TAGS)]


def test_docbin_without_spacy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(ImportError, match=r"needs spaCy. Run `pip install 'span_marker\[spacy\]'`"):
        _import_spacy()


# Words


@pytest.mark.parametrize(
    "text",
    [
        "Ada's e-mail: a@b.c, U.S.A. 5\u00a0000",
        "我爱北京 Tiananmen",
        "東京タワーはiPhoneの",
        "กรุงเทพ",
        "a\u200bb \u200b\t x\n",
        "",
        "  ",
    ],
)
def test_the_default_words_are_those_of_an_encoder_of_bert(text, tiny_encoder, model):
    found = model.tokenizer.words([text])
    assert isinstance(model.tokenizer, SpanMarkerTokenizer)
    assert split_at_punctuation([text]) == found


def test_a_models_own_words(read, model):
    item = ["Ada's", {"entities": [[0, 3, "PER"]]}]
    assert read("a.jsonl", lines(item), split_words=model.tokenizer.words)[0]["tokens"] == ["Ada", "'", "s"]


@pytest.mark.parametrize(
    ("align", "tags"), [("snap", ["B-PER", "O", "B-LOC", "I-LOC"]), ("drop", ["O", "O", "O", "O"])]
)
def test_misaligned_entities(read, caplog, tmp_path, align, tags):
    item = {"text": "Ada, New Yorkers", "label": [[0, 2, "PER"], [5, 13, "LOC"], [3, 5, "X"], [4, 5, "Y"]]}
    with caplog.at_level(logging.WARNING):
        found = read("a.jsonl", lines(item), align=align)
    # "X" is the comma and the space after it, a word of its own
    tags = [tags[0], "B-X", *tags[2:]]
    assert found[0]["ner_tags"] == tags
    place = f"{tmp_path / 'a.jsonl'}, line 1"
    assert f"{place}: PER at characters 0 to 2 cuts a word: '[Ad]a, New Yorkers'" in caplog.text
    assert f"{place}: LOC at characters 5 to 13 cuts a word: 'Ada, [New York]ers'" in caplog.text
    assert f"{place}: Y at characters 4 to 5 covers no word: 'Ada,[ ]New Yorkers'" in caplog.text
    assert "3 entities do not begin and end with a word" in caplog.text


def test_misaligned_entities_are_errors_that_are_counted(read):
    items = [{"text": "Paris", "label": [[0, 2, "X"]]}] * 25
    with pytest.raises(
        ValueError, match=r"(?s)^25 entities do not begin and end with a word:\n.*\n\.\.\. and 15 more\n"
    ) as error:
        read("a.jsonl", lines(*items))
    assert str(error.value).count("cuts a word") == 10
