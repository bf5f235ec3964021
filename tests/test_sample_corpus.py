"""The bundled sample corpus: what its README says of it is true, and it is fit to train and test on."""

import re
from collections import Counter
from pathlib import Path

import pytest

import span_marker.demo.corpus
from span_marker.demo.corpus import SPLITS, load_corpus

TYPES = ("PER", "ORG", "LOC", "MISC")
README = Path(span_marker.demo.corpus.__file__).parent / "sample" / "README.md"


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("sample")


def entities(rows):
    """All entities as (type, words), read from IOB2 tags."""
    found = []
    for tokens, tags in zip(rows["tokens"], rows["ner_tags"], strict=True):
        for token, tag in zip(tokens, tags, strict=True):
            if tag.startswith("B-"):
                found.append((tag[2:], [token]))
            elif tag.startswith("I-"):
                found[-1][1].append(token)
    return found


def figures(rows):
    counts = Counter(label for label, _ in entities(rows))
    words = sum(len(tokens) for tokens in rows["tokens"])
    documents = len(set(rows["document_id"]))
    return [documents, len(rows), words, *(counts[label] for label in TYPES), sum(counts.values())]


def test_readme_counts_equal_the_data(corpus):
    table = dict(re.findall(r"^\| (train|validation|test|all) \| (.+) \|$", README.read_text(encoding="utf-8"), re.M))
    stated = {split: [int(cell) for cell in row.split(" | ")] for split, row in table.items()}
    counted = {split: figures(corpus[split]) for split in SPLITS}
    counted["all"] = [sum(column) for column in zip(*counted.values(), strict=True)]
    assert stated == counted


def test_readme_entity_lengths_equal_the_data(corpus):
    lengths = [len(words) for split in SPLITS for _, words in entities(corpus[split])]
    share = sum(length <= 5 for length in lengths) / len(lengths)
    line = f"Entities are {min(lengths)} to {max(lengths)} words long; {100 * share:.1f} % of them have at most 5."
    assert line in README.read_text(encoding="utf-8")


def test_readme_names_every_genre_and_the_licence(corpus):
    text = README.read_text(encoding="utf-8")
    assert "CC0-1.0" in text
    genres = sorted({genre for split in SPLITS for genre in corpus[split]["genre"]})
    assert f"| {', '.join(genres[:-1])} or {genres[-1]} |" in text


@pytest.mark.parametrize("split", SPLITS)
def test_tags_are_valid_iob2(corpus, split):
    for row in corpus[split]:
        assert len(row["tokens"]) == len(row["ner_tags"]) > 0
        previous = "O"
        for tag in row["ner_tags"]:
            assert tag == "O" or tag in {f"{prefix}-{label}" for prefix in "BI" for label in TYPES}
            if tag.startswith("I-"):
                assert previous[2:] == tag[2:], row
            previous = tag


@pytest.mark.parametrize("split", SPLITS)
def test_words_are_single_visible_tokens(corpus, split):
    for row in corpus[split]:
        for token in row["tokens"]:
            assert re.fullmatch(r"[^\s\[\]]+", token), row
            assert token.isprintable(), row


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_has_every_type(corpus, split):
    counts = Counter(label for label, _ in entities(corpus[split]))
    assert set(counts) == set(TYPES)
    assert min(counts.values()) >= 20


def test_no_sentence_occurs_twice(corpus):
    sentences = Counter(" ".join(tokens).lower() for split in SPLITS for tokens in corpus[split]["tokens"])
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def test_no_document_is_divided(corpus):
    documents = [set(corpus[split]["document_id"]) for split in SPLITS]
    assert len(set().union(*documents)) == sum(map(len, documents))


@pytest.mark.parametrize("split", SPLITS)
def test_sentences_of_a_document_are_in_order(corpus, split):
    numbers = {}
    for row in corpus[split]:
        numbers.setdefault(row["document_id"], []).append(row["sentence_id"])
        assert row["document_id"].rpartition("-")[0] == row["genre"]
    assert all(ids == list(range(len(ids))) for ids in numbers.values())
    assert all(8 <= len(ids) <= 12 for ids in numbers.values())


def test_it_is_large_enough(corpus):
    sizes = {split: len(corpus[split]) for split in SPLITS}
    assert sum(sizes.values()) >= 400
    assert min(sizes.values()) >= 60


def test_a_type_is_stable_for_a_name(corpus):
    """A name has one type, except where it means different things."""
    types = {}
    for split in SPLITS:
        for label, words in entities(corpus[split]):
            types.setdefault(" ".join(words), set()).add(label)
    assert {name for name, labels in types.items() if len(labels) > 1} == {"New Zealand", "Nokia", "Amazon"}
