"""Data sets written to each format and read again are the same, or the format refuses what it cannot hold."""

import json
import string

import pytest
import torch
from conftest import QUICK_TRAINING
from datasets import Dataset, DatasetDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import give_opinions

from span_marker import SpanMarkerModel, Trainer, TrainingArguments, read_dataset, write_dataset
from span_marker.readers.registry import FORMATS
from span_marker.readers.sentences import find_overlap, spans_of, tags_of

NEEDS_SPACY = {"docbin"}
NESTED = {"jsonl", "spacy_json", "prodigy", "doccano", "label_studio", "gliner", "brat", "docbin", "webanno"}
NESTED |= {"parquet", "arrow"}
WITHOUT_IDS = {"webanno"}
OPTIONS = {"brat": {"split_words": "whitespace"}}
COMPARED = ("tokens", "ner_tags", "spans", "document_id", "sentence_id")

ODD = ["#", "# O", "#id", "-DOCSTART-", "O", "B-X", "_", "*", "->", "a\tb", "New York", " ", "", "\r", "\x00", "\u2028"]
WORD = st.one_of(
    st.text(min_size=1, max_size=8),
    st.text(string.punctuation + "\u00a0\u3000\u200b\ufeff\u0301é中\U0001f600", min_size=1, max_size=5),
    st.sampled_from(ODD),
)
LABEL = st.sampled_from(["PER", "creative-work", "B-cell", "a_b*[1]|\\", "中"])


@st.composite
def sentences(draw, nested=False):
    tokens = draw(st.lists(WORD, min_size=1, max_size=6))
    borders = st.tuples(st.integers(0, len(tokens) - 1), st.integers(1, len(tokens)), LABEL)
    spans = sorted(set(draw(st.lists(borders.filter(lambda span: span[0] < span[1]), max_size=4))))
    while not nested and (overlap := find_overlap(spans)):
        spans.remove(overlap[1])
    return tokens, spans


def flat_dataset(rows):
    return Dataset.from_dict(
        {"tokens": [tokens for tokens, _ in rows], "ner_tags": [tags_of(spans, len(tokens)) for tokens, spans in rows]}
    )


def nested_dataset(rows):
    spans = [[{"start": start, "end": end, "label": label} for start, end, label in spans] for _, spans in rows]
    return Dataset.from_dict({"tokens": [tokens for tokens, _ in rows], "spans": spans})


def is_written(dataset, path, name):
    """Write a data set; tell whether the format can hold it. If not, the row is named."""
    try:
        write_dataset(dataset, path, name)
    except ValueError as error:
        if not str(error).startswith("Row "):
            raise
        return False
    return True


def there_and_back(dataset, folder, name):
    path = folder / (f"file{FORMATS[name].suffixes[0]}" if isinstance(dataset, Dataset) else "splits")
    write_dataset(dataset, path, name)
    return read_dataset(path, name, **OPTIONS.get(name, {}))


def compared(dataset, names=COMPARED):
    return {name: dataset[:][name] for name in names if name in dataset.column_names}


def skip_without_spacy(name):
    if name in NEEDS_SPACY:
        pytest.importorskip("spacy")


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(sentences(), min_size=1, max_size=3))
def test_any_words(name, rows, tmp_path_factory):
    skip_without_spacy(name)
    dataset, folder = flat_dataset(rows), tmp_path_factory.mktemp("any")
    if is_written(dataset, folder / "file", name):
        found = read_dataset(folder / "file", name, **OPTIONS.get(name, {}))
        assert compared(found, ("tokens", "ner_tags")) == compared(dataset)


@pytest.mark.parametrize("name", sorted(NESTED))
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(sentences(nested=True), min_size=1, max_size=3))
def test_any_spans(name, rows, tmp_path_factory):
    skip_without_spacy(name)
    dataset, folder = nested_dataset(rows), tmp_path_factory.mktemp("any")
    if is_written(dataset, folder / "file", name):
        found = read_dataset(folder / "file", name, entity_column="spans", **OPTIONS.get(name, {}))
        assert compared(found, ("tokens", "spans")) == compared(dataset)


@pytest.mark.parametrize("name", FORMATS)
def test_usual_words_are_held_by_all_formats(name, tmp_path):
    skip_without_spacy(name)
    words = [
        "Ada's",
        "#",
        "#ner",
        '"',
        "\\",
        "_",
        "*",
        "a\u00a0b",
        "\u3000",
        "e\u0301",
        "\U0001f600",
        "-",
        "<a>",
        "a,b;c",
    ]
    dataset = flat_dataset([(words, [(0, 2, "PER"), (2, 3, "PER"), (8, 14, "LOC")]), (["x"], [])])
    found = there_and_back(dataset, tmp_path, name)
    assert compared(found, ("tokens", "ner_tags")) == compared(dataset)


@pytest.mark.parametrize("name", FORMATS)
def test_regression_a_word_like_a_byte_order_mark_begins_the_file(name, tmp_path):
    skip_without_spacy(name)
    dataset = flat_dataset([(["\ufeffAda", "lives"], [(0, 1, "PER")])])
    assert compared(there_and_back(dataset, tmp_path, name), ("tokens", "ner_tags")) == compared(dataset)


@pytest.mark.parametrize("name", sorted({*FORMATS} - WITHOUT_IDS))
def test_documents_and_splits(name, tmp_path):
    skip_without_spacy(name)
    columns = {"tokens": [["a"], ["b", "c"], ["d"]], "ner_tags": [["B-X"], ["O", "O"], ["O"]]}
    ids = {"document_id": ["d2", "d2", "d10"], "sentence_id": ["0", "1", "0"]}
    dataset = DatasetDict({split: Dataset.from_dict(columns | ids) for split in ("train", "validation", "test")})
    found = there_and_back(dataset, tmp_path, name)
    assert list(found) == ["train", "validation", "test"]
    assert {split: compared(found[split]) for split in found} == {split: compared(dataset[split]) for split in dataset}


@pytest.mark.parametrize("name", ["spacy_json", "prodigy", "doccano", "label_studio", "brat", "webanno", "conllup"])
def test_texts_are_kept(name, tmp_path):
    dataset = Dataset.from_dict({"tokens": [["Ada", "'s"]], "ner_tags": [["B-X", "O"]], "text": ["  Ada's "]})
    if name == "brat":
        dataset = dataset.map(lambda row: {"text": "Ada 's"})
    found = there_and_back(dataset, tmp_path, name)
    assert found[0]["text"] == dataset[0]["text"]
    assert compared(found, ("tokens", "ner_tags")) == compared(dataset)


@given(sentences())
def test_spans_and_tags_say_the_same(sentence):
    tokens, spans = sentence
    assert spans_of(tags_of(spans, len(tokens))) == spans


def first_rows(dataset, number):
    return dataset.select(range(min(number, len(dataset))))


FLAT = ["crossner_politics", "ja_hironsan", "ncbi_disease", "uner_zh", "wikigold", "wnut17"]


@pytest.mark.data
@pytest.mark.parametrize("corpus", FLAT)
def test_corpora(corpus, shared, tmp_path):
    """The test split whole, and the first rows of the others."""
    splits = read_dataset(shared / "data" / corpus)
    heads = {
        name: split if name == "test" else split.select(range(min(200, len(split)))) for name, split in splits.items()
    }
    dataset = DatasetDict(heads)
    expected = {split: compared(rows) for split, rows in dataset.items()}
    for name in FORMATS:
        if name in NEEDS_SPACY and not spacy_is_there():
            continue
        found = there_and_back(dataset, tmp_path / name, name)
        names = COMPARED[:2] if name in WITHOUT_IDS else COMPARED
        for split, rows in found.items():
            kept = compared(rows)
            wanted = {column: values for column, values in expected[split].items() if column in names}
            assert {column: kept[column] for column in wanted} == wanted, (name, split)


def character_spans(dataset, folder):
    """A folder of texts with characters alone, the words joined by spaces."""
    write_dataset(dataset, folder, "doccano")
    for path in folder.iterdir():
        items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for item in items:
            del item["tokens"]
        path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    return read_dataset(folder, split_words="whitespace")


@pytest.mark.data
@pytest.mark.parametrize("corpus", FLAT)
def test_words_columns_and_characters_give_the_same_model_and_scores(corpus, shared, tiny_encoder, tmp_path):
    given = {name: first_rows(rows, 40) for name, rows in read_dataset(shared / "data" / corpus).items()}
    dataset = DatasetDict(train=given["train"], test=given["test"])
    inputs = {name: there_and_back(dataset, tmp_path / name, name) for name in ("jsonl", "conll")}
    inputs["characters"] = character_spans(dataset, tmp_path / "characters")
    labels = ["O", *sorted({tag for rows in dataset.values() for tags in rows["ner_tags"] for tag in tags} - {"O"})]
    scores, weights = [], []
    for splits in inputs.values():
        model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=32, entity_max_length=6)
        arguments = TrainingArguments(output_dir=str(tmp_path / "out"), seed=1, **QUICK_TRAINING)
        trainer = Trainer(give_opinions(model, outside=-100.0), arguments, train_dataset=splits["train"])
        trainer.train()
        weights.append({name: values.clone() for name, values in model.state_dict().items()})
        found = trainer.evaluate(splits["test"], metric_key_prefix="test")
        scores.append({name: value for name, value in found.items() if not name.endswith(("time", "per_second"))})
    assert scores[0]["test_loss"] > 0  # which every label of the test set tells upon, also where F1 is zero
    assert scores[0] == scores[1] == scores[2]
    for name, values in weights[0].items():
        assert torch.equal(values, weights[1][name]), name
        assert torch.equal(values, weights[2][name]), name


def spacy_is_there():
    try:
        import spacy  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.data
@pytest.mark.parametrize("name", FORMATS)
def test_a_nested_corpus(name, shared, tmp_path):
    skip_without_spacy(name)
    dataset = read_dataset(shared / "data" / "genia_nested_devtest")["test"]
    if name not in NESTED:
        with pytest.raises(ValueError, match=r"^Row \d+ \(.*test\.jsonl, line \d+\): the entities .* overlap, which a"):
            there_and_back(dataset, tmp_path, name)
        return
    found = there_and_back(dataset, tmp_path, name)
    assert compared(found, ("tokens", "spans")) == compared(dataset, ("tokens", "spans"))
