import os

import pytest
import tokenizers_zoo as zoo
from datasets import ClassLabel, Dataset, Features, Sequence, Value, load_from_disk
from hypothesis import given, settings
from hypothesis import strategies as st

from span_marker import preprocessing
from span_marker.configuration import SpanMarkerConfig
from span_marker.label_normalizer import AutoLabelNormalizer
from span_marker.preprocessing import encode_rows, is_preprocessed, preprocess, spread_sample
from span_marker.tokenizer import SpanMarkerTokenizer

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TOKENS = [["Ada", "Lovelace", "lives", "in", "London"], ["Paris", "is", "in"], ["Ada"]]
NER_TAGS = [[1, 2, 0, 0, 3], [3, 0, 0], [0]]
COLUMNS = ["input_ids", "num_spans", "start_position_ids", "end_position_ids", "labels", "num_words"]


def make_config(**kwargs):
    lengths = {"model_max_length": 12, "marker_max_length": 2, "entity_max_length": 2}
    config = SpanMarkerConfig({"model_type": "bert"}, **lengths | kwargs)
    config.set_labels(TAGS)
    return config


@pytest.fixture
def config():
    return make_config()


@pytest.fixture
def tokenizer(config):
    return SpanMarkerTokenizer(zoo.wordpiece(), config)


@pytest.fixture
def normalizer(config):
    return AutoLabelNormalizer.from_config(config)


def make(**columns):
    return Dataset.from_dict({"tokens": TOKENS, "ner_tags": NER_TAGS} | columns)


def test_encode_rows(config, tokenizer, normalizer):
    columns = encode_rows(make()[:], tokenizer, normalizer, config, for_evaluation=True)
    assert list(columns) == [*COLUMNS, "blank_words", "entities"]
    assert columns["num_spans"] == [9, 5, 1]
    assert [row.tolist() for row in columns["labels"]] == [[0, 2, 0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0]]
    assert columns["start_position_ids"][0].tolist() == [1, 1, 2, 2, 4, 4, 6, 6, 7]
    assert columns["end_position_ids"][0].tolist() == [1, 3, 3, 5, 5, 6, 6, 7, 7]
    assert columns["entities"] == [[[2, 0, 2], [1, 4, 5]], [[1, 0, 1]], []]
    assert columns["num_words"] == [5, 3, 1]


def test_one_row_a_sentence(config, tokenizer, normalizer):
    result = preprocess(make(), normalizer, tokenizer, config=config, spread=False)
    assert result.column_names == COLUMNS
    assert result["num_spans"] == [9, 5, 1]
    assert is_preprocessed(result)
    assert not is_preprocessed(make())


def test_spread(config, tokenizer, normalizer):
    result = preprocess(make(), normalizer, tokenizer, config=config, spread=True)
    # Nine tokens leave room for (12 + 2 * 2 - 9) // 2 = 3 spans.
    assert len(result["input_ids"][0]) == 9
    assert result["num_spans"] == [3, 3, 3, 5, 1]
    assert result["labels"] == [[0, 2, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0, 0, 0], [0]]
    assert result["num_words"] == [5, 5, 5, 3, 1]
    assert result.column_names == COLUMNS


def test_without_tags(config, tokenizer):
    for dataset in (make(), make().remove_columns("ner_tags")):
        result = preprocess(dataset, None, tokenizer, config=config, spread=False, for_evaluation=True)
        assert result.column_names == [*(name for name in COLUMNS if name != "labels"), "blank_words"]


def test_other_columns_go_and_ids_stay(config, tokenizer, normalizer):
    dataset = make(other=["a", "b", "c"], document_id=["x", "x", "y"], labels=[1, 2, 3])
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=True)
    assert result.column_names == ["document_id", *COLUMNS]
    assert result["document_id"] == ["x", "x", "x", "x", "y"]


def test_document_context(config, tokenizer, normalizer):
    dataset = make(document_id=["x", "y", "x"], sentence_id=["2", "1", "10"])
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=False, for_evaluation=True)
    moved = ["input_ids", "start_position_ids", "end_position_ids"]
    kept = ["num_spans", "labels", "num_words", "blank_words", "entities"]
    assert result.column_names == ["document_id", "sentence_id", *kept, *moved]
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in result["input_ids"]]
    assert texts == ["ada lovelace lives in london ada", "paris is in", "ada lovelace lives in london ada"]
    assert result["start_position_ids"][2] == [8]
    config.max_prev_context = 0
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=False)
    assert tokenizer.decode(result["input_ids"][2], skip_special_tokens=True) == "ada"


def test_document_context_with_one_special_token():
    config = make_config()
    tokenizer = SpanMarkerTokenizer(zoo.llama_bpe(), config)
    dataset = Dataset.from_dict({"tokens": [["a"], ["b"]], "document_id": [0, 0], "sentence_id": [0, 1]})
    result = preprocess(dataset, None, tokenizer, config=config, spread=False)
    both = tokenizer.encode([["a", "b"]]).input_ids[0].tolist()
    assert result["input_ids"] == [both, both]


def test_gold_entities_that_cannot_be_predicted_are_kept(tokenizer):
    config = make_config(model_max_length=5)
    tokenizer.config = config
    normalizer = AutoLabelNormalizer.from_config(config)
    dataset = Dataset.from_dict({"tokens": [["in"] * 6], "ner_tags": [[1, 2, 2, 0, 0, 3]]})
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=False, for_evaluation=True)
    assert result["num_words"] == [3]
    assert result["labels"] == [[0] * 5]
    assert result["entities"] == [[[2, 0, 3], [1, 5, 6]]]


def test_regression_preprocessing_twice_changes_nothing(config, tokenizer, normalizer):
    dataset = make(document_id=[0, 0, 0], sentence_id=[0, 1, 2])
    for spread in (False, True):
        once = preprocess(dataset, normalizer, tokenizer, config=config, spread=spread)
        assert preprocess(once, normalizer, tokenizer, config=config, spread=spread) is once
    sentences = preprocess(dataset, normalizer, tokenizer, config=config, spread=False)
    both = preprocess(sentences, normalizer, tokenizer, config=config, spread=True)
    assert both.to_dict() == once.to_dict()


def test_regression_empty_sentences(config, tokenizer, normalizer):
    dataset = Dataset.from_dict({"tokens": [[], ["", "in"], ["\u200b"]], "ner_tags": [[], [1, 0], [3]]})
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=False)
    assert result["num_spans"] == [0, 3, 1]
    # Words without tokens begin and end no entity: their spans look like others to the model.
    assert result["labels"] == [[], [-100, -100, 0], [-100]]
    spread = preprocess(dataset, normalizer, tokenizer, config=config, spread=True)
    assert spread["num_spans"] == [3, 1]


def test_only_empty_sentences(config, tokenizer, normalizer):
    dataset = Dataset.from_dict({"tokens": [[], []], "ner_tags": [[], []]})
    result = preprocess(dataset, normalizer, tokenizer, config=config, spread=False, for_evaluation=True)
    assert result["start_position_ids"] == [[], []]
    assert preprocess(dataset, normalizer, tokenizer, config=config, spread=True).num_rows == 0


@pytest.mark.parametrize("documents", [False, True])
def test_no_sentences(config, tokenizer, normalizer, documents):
    dataset = make(document_id=[0, 0, 0], sentence_id=[0, 1, 2]) if documents else make()
    result = preprocess(dataset.select([]), normalizer, tokenizer, config=config, spread=True)
    assert result.num_rows == 0


def test_any_format_and_feature(config, tokenizer, normalizer):
    features = Features({"tokens": Sequence(Value("large_string")), "ner_tags": Sequence(ClassLabel(names=TAGS))})
    plain = preprocess(make(), normalizer, tokenizer, config=config, spread=True)
    dataset = make().cast(features).with_format("numpy")
    assert preprocess(dataset, normalizer, tokenizer, config=config, spread=True).to_dict() == plain.to_dict()
    shuffled = make().select([2, 0, 1])
    assert preprocess(shuffled, normalizer, tokenizer, config=config, spread=False)["num_spans"] == [1, 9, 5]


def test_a_transform_is_refused(config, tokenizer, normalizer):
    dataset = make().with_transform(lambda batch: batch)
    with pytest.raises(ValueError, match="The data set has a transform"):
        preprocess(dataset, normalizer, tokenizer, config=config, spread=True)


def test_several_processes(config, tokenizer, normalizer):
    columns = {"tokens": TOKENS * 4, "ner_tags": NER_TAGS * 4}
    dataset = Dataset.from_dict(columns | {"document_id": [0] * 12, "sentence_id": list(range(12))})
    tokenizer.encode(TOKENS * 20)
    alone = preprocess(dataset, normalizer, tokenizer, config=config, spread=True)
    together = preprocess(dataset, normalizer, tokenizer, config=config, spread=True, num_proc=2)
    assert together.to_dict() == alone.to_dict()
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_the_setting_for_threads_is_respected(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    with preprocessing._safe_to_fork(2):
        assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
    monkeypatch.delenv("TOKENIZERS_PARALLELISM")
    for processes, value in ((None, None), (1, None), (2, "false")):
        with preprocessing._safe_to_fork(processes):
            assert os.environ.get("TOKENIZERS_PARALLELISM") == value


def test_regression_same_call_comes_from_the_cache(tmp_path, config, tokenizer, normalizer, monkeypatch):
    make(document_id=[0, 0, 0], sentence_id=[0, 1, 2]).save_to_disk(tmp_path)

    def run(**kwargs):
        settings = {"config": config, "spread": True} | kwargs
        return preprocess(load_from_disk(tmp_path), normalizer, tokenizer, **settings)

    first = run()
    tokenizer.tokenizer(["Ada"], truncation=True, max_length=3, padding="max_length")
    monkeypatch.setattr(preprocessing, "encode_rows", None)
    again = run(num_proc=None)
    assert (again._fingerprint, again.to_dict()) == (first._fingerprint, first.to_dict())
    with pytest.raises(TypeError):
        run(for_evaluation=True)
    config.entity_max_length = 3
    with pytest.raises(TypeError):
        run()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"words": TOKENS}, r"no column 'tokens', only 'words'\. Rename one"),
        ({"tokens": TOKENS}, r"no column 'ner_tags', only 'tokens'"),
        ({"tokens": TOKENS, "ner_tags": [[1], [], [0]]}, "Row 0 has 5 tokens but 1 tags"),
        ({"tokens": TOKENS, "ner_tags": [*NER_TAGS[:2], [0, 0]]}, "Row 2 has 1 tokens but 2 tags"),
        ({"tokens": ["a b"], "ner_tags": [[0]]}, "'tokens' must hold a list of words a row, but its type is string"),
        ({"tokens": [[1]], "ner_tags": [[0]]}, "'tokens' must hold a list of words"),
        (
            {"tokens": [["a"]], "ner_tags": [["O"]]},
            "'ner_tags' must hold a list of tag ids a row, but its type is list",
        ),
        ({"tokens": [["a"], None], "ner_tags": [[0], [0]]}, "Row 1 has no tokens"),
        ({"tokens": [["a"], [], ["b", None]], "ner_tags": [[0], [], [0, 0]]}, "Row 2 has an element of 'tokens'"),
        ({"tokens": [["a"], ["b"]], "ner_tags": [[0], [None]]}, "Row 1 has an element of 'ner_tags' that is missing"),
        ({"tokens": [["a"]], "ner_tags": [[7]]}, "the tag 7 is no id of the 5 labels"),
    ],
)
def test_wrong_rows_are_named(config, tokenizer, normalizer, columns, message):
    with pytest.raises(ValueError, match=message):
        preprocess(Dataset.from_dict(columns), normalizer, tokenizer, config=config, spread=True)


def test_rows_are_counted_over_batches(config, tokenizer, normalizer, monkeypatch):
    monkeypatch.setattr(preprocessing, "_BATCH", 1)
    dataset = Dataset.from_dict({"tokens": [["a"]] * 25, "ner_tags": [[0]] * 23 + [[0, 0], [0]]})
    with pytest.raises(ValueError, match="Row 23 has 1 tokens but 2 tags"):
        preprocess(dataset, normalizer, tokenizer, config=config, spread=True)


BATCH = {
    "input_ids": [[1, 2, 3], [1, 5, 6, 3], [1, 3]],
    "num_spans": [3, 5, 0],
    "start_position_ids": [[1, 1, 1], [1, 1, 1, 2, 2], []],
    "end_position_ids": [[1, 2, 3], [1, 2, 3, 4, 5], []],
    "labels": [[0, 1, 2], [0, 1, 2, 3, 4], []],
    "document_id": ["a", "b", "c"],
}


def test_spread_sample():
    assert spread_sample(BATCH, 4, 2) == {
        "input_ids": [[1, 2, 3]] * 2 + [[1, 5, 6, 3]] * 3,
        "num_spans": [2, 1, 2, 2, 1],
        "start_position_ids": [[1, 1], [1], [1, 1], [1, 2], [2]],
        "end_position_ids": [[1, 2], [3], [1, 2], [3, 4], [5]],
        "labels": [[0, 1], [2], [0, 1], [2, 3], [4]],
        "document_id": ["a", "a", "b", "b", "b"],
    }
    assert spread_sample(BATCH, 5, 2)["num_spans"] == [3, 2, 2, 1]


def test_regression_spread_sample_without_room_takes_one_span_a_row():
    assert spread_sample(BATCH, 2, 0)["num_spans"] == [1] * 8
    assert spread_sample(BATCH, 1, 0)["num_spans"] == [1] * 8


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 30)), max_size=6), st.integers(4, 12), st.integers(1, 8))
def test_spreading_keeps_every_span_in_order(sizes, length, markers):
    starts = [list(range(spans)) for _, spans in sizes]
    batch = {
        "input_ids": [[row] * tokens for row, (tokens, _) in enumerate(sizes)],
        "num_spans": [spans for _, spans in sizes],
        "start_position_ids": starts,
        "end_position_ids": [list(row) for row in starts],
    }
    spread = spread_sample(batch, length, markers)
    found = {row: [] for row in range(len(sizes))}
    for ids, count, start, end in zip(*spread.values(), strict=True):
        assert len(start) == len(end) == count <= max((length + 2 * markers - len(ids)) // 2, 1)
        found[ids[0]] += start
    assert list(found.values()) == starts
    assert spread_sample(spread, length, markers) == spread


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_labels_are_those_of_the_entities(data):
    config = make_config(entity_max_length=3)
    tokenizer = SpanMarkerTokenizer(zoo.wordpiece(), config)
    normalizer = AutoLabelNormalizer.from_config(config)
    words = st.sampled_from(["Ada", "in", "", "Lovelace"])
    tokens = data.draw(st.lists(st.lists(words, max_size=9), min_size=1, max_size=4))
    tags = [data.draw(st.lists(st.integers(0, 4), min_size=len(row), max_size=len(row))) for row in tokens]
    columns = encode_rows({"tokens": tokens, "ner_tags": tags}, tokenizer, normalizer, config, for_evaluation=True)
    rows = zip(tokens, *(columns[name] for name in ("num_words", "labels", "entities")), strict=True)
    for row, kept, labels, entities in rows:
        spans = [(start, end) for start in range(kept) for end in range(start + 1, min(start + 3, kept) + 1)]
        known = {(start, end): label for label, start, end in entities}
        blank = {(start, end) for start, end in spans if not (row[start] and row[end - 1])}
        assert labels.tolist() == [-100 if span in blank else known.get(span, 0) for span in spans]
