"""Broken files: file, line, what is wrong and how to fix it, to the letter."""

import json

import pytest
from datasets import Dataset

from span_marker import read_dataset, write_dataset
from span_marker.readers import text_files

LABELS = ["O", "B-PER", "I-PER"]
MISALIGNED = (
    "Correct them, pass other words with `split_words=`, or pass align='snap' to extend them to whole words, "
    "align='drop' to leave them out."
)

BROKEN = {
    "mixed tabs and spaces": (
        "a.conll",
        "Ada\tB-PER\nlives O\n",
        {},
        "{path}, line 2: 1 column, but line 1 has 2. The line has spaces, but the columns of line 1 are separated by "
        "'\\t': use one of them, or pass delimiter='whitespace'.",
    ),
    "mixed spaces and tabs": (
        "a.conll",
        "Ada B-PER\n\nlives\tO\n",
        {},
        "{path}, line 3: 1 column, but line 1 has 2. The line has a tab, but the columns of line 1 are separated by "
        "' ': use one of them, or pass delimiter='whitespace'.",
    ),
    "missing column": (
        "a.conll",
        "# sent_id = 1\nAda NNP B-PER\nlives VBZ\n",
        {},
        "{path}, line 3: 2 columns, but line 2 has 3. Give each line the same columns.",
    ),
    "words only": (
        "a.conll",
        "Ada\n",
        {},
        "{path}, line 1: 1 column, separated by ' '. Expected at least 2, with the word and its tag. Pass the right "
        "`delimiter=`, `token_column=` and `tag_column=`.",
    ),
    "missing column of a table": (
        "a.csv",
        "token,pos\nAda,NNP\n",
        {},
        "{path}, line 1: the header 'token', 'pos' has no column 'ner_tag' or 'ner_tags' or 'tag' or 'tags' or 'ner' "
        "or 'label' or 'labels'. Name the right one: `tag_column=`.",
    ),
    "short row of a table": (
        "a.csv",
        "token,tag\nAda,B-PER\nlives\n",
        {},
        "{path}, line 3: 1 column, but the header has 2. Quote cells that hold a delimiter or a quote.",
    ),
    "missing column of CoNLL-U Plus": (
        "a.conllup",
        "# global.columns = ID FORM UPOS\n1\tAda\tX\n",
        {},
        "{path}, line 1: there is no column 'NER', but ID, FORM, UPOS. Name the right one: `tag_column=`.",
    ),
    "empty word": (
        "a.conll",
        "Ada\tB-PER\n\tO\n",
        {},
        "{path}, line 2: the word is empty. Each line needs a word and its tag, 'O' for none; a sentence ends with a "
        "blank line.",
    ),
    "tag without scheme": (
        "a.conll",
        "Ada B-PER\nlives O\n\nin O\nLondon LOC\n",
        {},
        "{path}, line 5: the tag of word 1, 'LOC', is neither 'O' nor a tag such as 'B-PER', with one of the prefixes "
        "B, I, E, S, L, U. Correct it; pass scheme='NONE' if tags are whole type names.",
    ),
    "prefixes of two schemes": (
        "a.conll",
        "Ada S-PER\nParis U-LOC\n",
        {},
        "{path}, line 2: the tag of word 1, 'U-LOC', does not fit those before it: no scheme has all the prefixes S, "
        "U. Correct it; pass scheme='NONE' if tags are whole type names.",
    ),
    "unknown label": (
        "a.jsonl",
        '{"tokens": ["x"], "ner_tags": ["O"]}\n\n{"tokens": ["Ada"], "ner_tags": ["B-PRE"]}\n',
        {"labels": LABELS},
        "{path}, line 3: the tag of word 0, 'B-PRE', is none of `labels=`. Correct it, or add it to them (nearest: "
        "B-PER, I-PER).",
    ),
    "unknown type": (
        "a.jsonl",
        '{"tokens": ["Ada"], "spans": [[0, 1, "PRE"]]}\n',
        {"labels": LABELS},
        "{path}, line 1: the entity type 'PRE' is none of those of `labels=`. Correct it, or add it to them "
        "(nearest: PER).",
    ),
    "id without a name": (
        "a.jsonl",
        '{"tokens": ["Ada"], "ner_tags": [3]}\n',
        {"labels": LABELS},
        "{path}, line 1: the tag of word 0 is the number 3, which has no name. Expected 0 to 2.",
    ),
    "ids without labels": (
        "a.jsonl",
        '{"tokens": ["Ada"], "ner_tags": [3]}\n',
        {},
        "{path}, line 1: the tag of word 0 is the number 3, which has no name. Pass the names of the ids, in order, as "
        "`labels=`.",
    ),
    "offset past the end": (
        "a.jsonl",
        '{"text": "Paris", "label": []}\n{"text": "Ada", "label": [[0, 4, "PER"]]}\n',
        {},
        "{path}, line 2: PER at characters 0 to 4 lies outside the text, which has 3 characters. Expected 0 <= start < "
        "end <= 3: correct the offsets.",
    ),
    "words past the end": (
        "a.json",
        '[{"tokenized_text": ["Ada"], "ner": [[0, 1, "PER"]]}]',
        {},
        "{path}, line 1: the entity 'PER' at words 0 to 2 lies outside the sentence of 1 words. Expected 0 <= start < "
        "end <= 1, the end exclusive.",
    ),
    "half a word": (
        "a.jsonl",
        '{"text": "Ada lives", "label": [[0, 2, "PER"]]}\n',
        {},
        "1 entities do not begin and end with a word:\n{path}, line 1: PER at characters 0 to 2 cuts a word: "
        f"'[Ad]a lives'\n{MISALIGNED}",
    ),
    "empty file": (
        "a.conll",
        "",
        {},
        "{path}: the file holds no sentence. Check that it is the right one, and complete.",
    ),
    "empty file of JSON": (
        "a.jsonl",
        "\n",
        {},
        "{path}: the file holds no sentence. Check that it is the right one, and complete.",
    ),
    "only comments": (
        "a.conll",
        "# newdoc\n\n",
        {},
        "{path}: the file holds no sentence. Check that it is the right one, and complete.",
    ),
    "not UTF-8": (
        "a.conll",
        b"Ada B-PER\nM\xe1laga B-LOC\n",
        {},
        "{path}, line 2: byte 0xe1 is not UTF-8. Save the file as UTF-8, or pass its `encoding=`, such as 'latin-1'.",
    ),
    "not JSON": (
        "a.jsonl",
        '{"tokens": ["x"], "ner_tags": ["O"]}\n{"tokens": ["x" "y"]}\n',
        {},
        '{path}, line 2: not JSON: Expecting \',\' delimiter at character 17 of \'{{"tokens": ["x" "y"]}}\'. Write one '
        "value a line.",
    ),
    "not JSON in an array": (
        "a.json",
        '[\n{"tokenized_text": ["x"], "ner": []},\n{"tokenized_text": ["x"] "ner": []}\n]',
        {},
        "{path}, line 3: not JSON: Expecting ',' delimiter. Expected an array of values, or a value a line.",
    ),
    "words and tags": (
        "a.jsonl",
        '{"tokens": ["a", "b"], "ner_tags": ["O"]}\n',
        {},
        "{path}, line 1: 2 words but 1 tags. Give each word one tag.",
    ),
    "number for a word": (
        "a.jsonl",
        '{"tokens": ["a"], "ner_tags": ["O"]}\n{"tokens": [1866], "ner_tags": ["O"]}\n',
        {},
        "{path}, line 2: 'tokens' is [1866]. Expected a list of strings.",
    ),
    "no tags": (
        "a.jsonl",
        '{"tokens": ["a"], "ner_tags": ["O"]}\n{"tokens": ["b"]}\n',
        {},
        "{path}, line 2: the object has the keys 'tokens'. Expected 'ner_tags', a tag a word, or 'spans', a list of "
        "[first word, word after the last, type].",
    ),
    "unknown keys": (
        "a.jsonl",
        '{"words": ["a"], "tags": ["O"]}\n',
        {},
        "{path}, line 1: the keys 'words', 'tags', which is none of the known dialects of JSON. Expected 'tokens' and "
        "'ner_tags' or 'spans', 'text' and 'spans' or 'label', 'tokenized_text' and 'ner', or [text, {{'entities': "
        "[...]}}]. Rename the keys, or pass `format=` with `token_column=` and `tag_column=`.",
    ),
    "half a character": (
        "a.jsonl",
        '{"tokens": ["\\ud800"], "ner_tags": ["O"]}\n',
        {},
        "{path}, line 1: ['\\ud800'] holds what is no text ('utf-8' codec can't encode character '\\ud800' in position "
        "0: surrogates not allowed). Expected strings of Unicode characters, without halves of surrogate pairs.",
    ),
    "several annotations": (
        "a.json",
        json.dumps([{"data": {"text": "a"}, "annotations": [{"result": []}, {"result": []}]}]),
        {},
        "{path}, line 1: the task has 2 annotations, and it is not said which one counts. Keep one, or mark it as "
        "ground truth.",
    ),
    "no layer": (
        "a.tsv",
        "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.A|x\n#T_SP=b.B|y\n\n#Text=a\n1-1\t0-1\ta\t_\t_\t\n",
        {},
        "{path}, line 6: the layers of spans are 'a.A', 'b.B'. Name the one with the entity types, and its feature: "
        "`tag_column='layer|feature'`.",
    ),
}


def message_of(path, **options):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_dataset(path, **options)
    return str(error.value)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name, tmp_path):
    file, content, options, message = BROKEN[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message_of(path, **options) == message.format(path=path)


@pytest.mark.parametrize("name", ["a.conll", "a.jsonl"])
def test_lines_may_be_too_long(name, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE", 100)
    path = tmp_path / name
    path.write_text('{"tokens": ["a"], "ner_tags": ["O"]}\n' + "x" * 200)
    assert message_of(path, format=name[2:]) == (
        f"{path}, line 2: the line has more than 100 bytes. Expected a word or a sentence in each line: check the "
        "format of the file."
    )


def brat(tmp_path, text, annotations):
    (tmp_path / "doc.txt").write_text(text)
    (tmp_path / "doc.ann").write_text(annotations)
    return tmp_path


def test_overlapping_entities_where_tags_are_wanted(tmp_path):
    folder = brat(tmp_path, "University of Oslo\n", "T1\tORG 0 18\tUniversity of Oslo\nT2\tLOC 14 18\tOslo\n")
    place = f"{folder / 'doc.txt'}, line 1"
    overlap = "the entities 'University of Oslo' (ORG) and 'Oslo' (LOC) overlap"
    assert message_of(folder, entity_column="ner_tags") == (
        f"{place}: {overlap}, which tags cannot express. Remove one of them, or leave out entity_column='ner_tags' to "
        "get the column 'spans'."
    )
    with pytest.raises(ValueError) as error:  # noqa: PT011
        write_dataset(read_dataset(folder), tmp_path / "a.conll")
    assert str(error.value) == (
        f"Row 0 ({place}): {overlap}, which a column file cannot hold. Write JSONL, or remove the column 'spans' to "
        "write 'ner_tags'."
    )
    assert not (tmp_path / "a.conll").exists()


def test_regression_offsets_that_are_truth_values(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["Ada", "lives"], "spans": [[false, true, "PER"]]}\n')
    assert message_of(path).startswith(f"{path}, line 1: the entity [False, True, 'PER'] is malformed.")


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            "T1\tLOC 0 6\tParis.",
            "LOC at characters 0 to 6 lies outside the text, which has 5 characters. Expected 0 <= start < end <= 5: "
            "correct the offsets.",
        ),
        (
            "T1\tLOC 1 5\tParis",
            "the text of the entity is 'Paris', but at its offsets is 'aris'. Correct the offsets, which count "
            "characters, line breaks too.",
        ),
        ("T1 LOC", "'T1 LOC'. Expected an entity: T1, tab, type, start and end, tab, its text."),
    ],
)
def test_broken_annotations_of_brat(tmp_path, annotation, message):
    folder = brat(tmp_path, "Paris", f"#1\tnote\n{annotation}\n")
    assert message_of(folder) == f"{folder / 'doc.ann'}, line 2: {message}"


def test_annotations_without_text(tmp_path):
    (tmp_path / "doc.ann").write_text("")
    expected = f"{tmp_path / 'doc.ann'} has no doc.txt beside it. Expected the text and its annotations."
    assert message_of(tmp_path) == expected


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.spacy"])
def test_damaged_binary_files(name, tmp_path):
    if name == "a.spacy":
        pytest.importorskip("spacy")
    path = tmp_path / name
    path.write_bytes(b"PAR1 and nothing else")
    assert message_of(path).startswith(f"{path}: no ")


# What formats cannot hold

WORDS = {
    "conll": ["New York", "a\tb", "a\nb", "", "a\u2028b", "-DOCSTART-"],
    "conllup": ["a\tb", "a\nb", "", " a", "a\u0085b"],
    "csv": ["a\rb", ""],
    "brat": ["New York", "a\nb", ""],
    "spacy_json": [""],
    "webanno": [""],
}


@pytest.mark.parametrize(("name", "word"), [(name, word) for name, words in WORDS.items() for word in words])
def test_words_that_a_format_cannot_hold(name, word, tmp_path):
    dataset = Dataset.from_dict({"tokens": [["a"], ["b", word]], "ner_tags": [["O"], ["O", "B-X"]]})
    with pytest.raises(ValueError, match=r"^Row 1: "):
        write_dataset(dataset, tmp_path / "file", name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["conll", "conllup", "csv", "tsv", "webanno", "brat", "docbin"])
def test_sentences_without_words(name, tmp_path):
    if name == "docbin":
        pytest.importorskip("spacy")
    dataset = Dataset.from_dict({"tokens": [["a"], []], "ner_tags": [["B-X"], []]})
    with pytest.raises(ValueError, match=r"^Row 1: "):
        write_dataset(dataset, tmp_path / "file", name)


def test_ids_that_a_format_cannot_hold(tmp_path):
    dataset = Dataset.from_dict({"tokens": [["a"]], "ner_tags": [["B-X"]], "document_id": ["a\nb/c"]})
    for name in ("conll", "conllup", "brat"):
        with pytest.raises(ValueError, match=r"^Row 0: .*document_id 'a\\nb/c'"):
            write_dataset(dataset, tmp_path / "file", name)


def test_documents_in_pieces(tmp_path):
    dataset = Dataset.from_dict(
        {"tokens": [["a"]] * 3, "ner_tags": [["B-X"]] * 3, "document_id": ["d", "e", "d"], "sentence_id": [0, 0, 1]}
    )
    with pytest.raises(
        ValueError, match=r"^Row 2: the document 'd' goes on after another one\. Sort the rows by document\.$"
    ):
        write_dataset(dataset, tmp_path / "file", "brat")
    dataset = Dataset.from_dict({"tokens": [["a"]] * 2, "ner_tags": [["B-X"]] * 2, "document_id": ["d", None]})
    with pytest.raises(ValueError, match=r"^Row 1: the sentence has no document_id, but the one before has"):
        write_dataset(dataset, tmp_path / "file", "conll")
