import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import span_marker_cli.parsers
from span_marker.word_splitters import (
    WORD_SPLITTERS,
    choose_word_splitter,
    find_words,
    locate_words,
    split_at_punctuation,
    split_at_whitespace,
    split_characters,
)

SENTENCES = {
    "jieba": ("我来到北京清华大学 abc,3.", ["我", "来到", "北京", "清华大学", "abc", ",", "3", "."]),
    "fugashi": ("東京都の\0田中さんは　iPhoneを\n買う", None),
    "pythainlp": ("ฉันรักกรุงเทพมหานคร และ เชียงใหม่", ["ฉัน", "รัก", "กรุงเทพมหานคร", "และ", "เชียงใหม่"]),
}
FUGASHI = ["東京", "都", "の", "田中", "さん", "は", "iPhone", "を", "買う"]


def cut(text, words):
    return [text[start:end] for start, end in words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada met Alan", ["Ada met Alan"]),
        ("", []),
        ("中国人民银行in北京", ["中", "国", "人", "民", "银", "行", "in", "北", "京"]),
        ("東京タワーのiPhone", ["東", "京", "タ", "ワ", "ー", "の", "iPhone"]),
        ("ｶﾞﾝ", ["ｶﾞ", "ﾝ"]),
        ("か\u3099ん", ["か\u3099", "ん"]),
        ("กรุงน้ำ", ["ก", "รุ", "ง", "น้ำ"]),
        ("ວຽງຈັນ", ["ວ", "ຽ", "ງ", "ຈັ", "ນ"]),
        ("ភ្នំពេញ", ["ភ្នំ", "ពេ", "ញ"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),
        ("\u0e31ก", ["\u0e31", "ก"]),
        ("Łódź-é", ["Łódź-é"]),
        ("२०२४ हिन्दी", ["२०२४ हिन्दी"]),
    ],
)
def test_characters_of_scripts_without_spaces_are_words(text, expected):
    words = [(0, len(text))] if text else []
    assert cut(text, split_characters(text, words)) == expected


def test_words_are_split_where_they_are():
    text = "a 東京 b"
    assert split_characters(text, [(0, 1), (2, 4), (5, 6)]) == [(0, 1), (2, 3), (3, 4), (5, 6)]


def test_signs_that_a_tokenizer_splits_off_are_joined_again():
    assert split_characters("กรุง we've", [(0, 2), (2, 3), (3, 4), (5, 7), (7, 10)]) == [
        (0, 1),
        (1, 3),
        (3, 4),
        (5, 7),
        (7, 10),
    ]


def test_rules():
    assert split_at_whitespace(["a,b  c\u00a0d\n", ""]) == [[(0, 3), (5, 8)], []]
    assert split_at_punctuation(["a,b 東京タワー", ""]) == [
        [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)],
        [],
    ]


@pytest.mark.parametrize("name", SENTENCES)
def test_segmenters(name, capsys):
    text, expected = SENTENCES[name]
    split = choose_word_splitter(name)
    assert choose_word_splitter(name) is split
    words, none, blank = find_words(split, [text, "", " \n\u3000"])
    assert cut(text, words.tolist()) == (expected or FUGASHI)
    assert len(none) == len(blank) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", WORD_SPLITTERS)
@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_words_of_any_text_are_words(name, text):
    (words,) = find_words(choose_word_splitter(name), [text])
    blank = " \t\n\r\f\v" if name == "whitespace" else None  # other whitespace is part of its words
    assert all(text[start:end].strip(blank) for start, end in words.tolist())


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("jieba", "jieba", "chinese"), ("fugashi", "fugashi", "japanese"), ("pythainlp", "pythainlp.tokenize", "thai")],
)
def test_a_segmenter_that_is_missing(name, module, extra, monkeypatch):
    from span_marker import word_splitters

    make = word_splitters._SEGMENTERS[name]
    make.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}, .* pip install 'span_marker\[{extra}\]'"):
        choose_word_splitter(name)


def test_names():
    assert choose_word_splitter(None) is None
    assert choose_word_splitter(split_at_whitespace) is split_at_whitespace
    assert choose_word_splitter("whitespace") is split_at_whitespace
    assert span_marker_cli.parsers.WORD_SPLITTERS == WORD_SPLITTERS
    with pytest.raises(ValueError, match=r"split_words='jeiba'\. Did you mean 'jieba'\? A function of texts"):
        choose_word_splitter("jeiba", "split_words")
    with pytest.raises(TypeError, match=r"word_splitter is 3\. Expected a name or a function of texts"):
        choose_word_splitter(3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [(0, 3), (4, 9)],
            r"Text 1: the word splitter gives word 1 as \(4, 9\) after \(0, 3\) in a text of 8 characters",
        ),
        ([(3, 2)], r"gives word 0 as \(3, 2\) in a text"),
        ([(-1, 2)], r"gives word 0 as \(-1, 2\)"),
        ([(4, 8), (0, 3)], r"gives word 1 as \(0, 3\) after \(4, 8\)"),
        ([(0, 3), (2, 5)], r"gives word 1 as \(2, 5\) after \(0, 3\)"),
        (["Ada", "Love"], r"Text 1: the word splitter gives \['Ada', 'Love'\]\. Expected pairs of start and end"),
        ([(0, 3), (4,)], r"gives \[\(0, 3\), \(4,\)\]\. Expected pairs"),
        ([(0.0, 3.0)], r"Expected pairs"),
        ([0, 3], r"Expected pairs of start and end \(exclusive\) in ascending order, .*: 'Ada Love'"),
    ],
)
def test_words_that_are_none_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        find_words(lambda texts: [[], words], ["Ada", "Ada Love"])


def test_each_text_needs_words():
    with pytest.raises(ValueError, match="gives the words of 1 texts, but got 2"):
        find_words(lambda texts: [[(0, 3)]], ["Ada", "Ada"])


def test_words_may_be_of_any_kind_of_sequence():
    words = find_words(lambda texts: (np.array([[0, 3]]), iter([(0, 1)])), ["Ada", "Ada"])
    assert [row.tolist() for row in words] == [[[0, 3]], [[0, 1]]]


def test_words_are_located():
    assert locate_words("a b a", ["a", "a"], "here") == [(0, 1), (4, 5)]
    with pytest.raises(ValueError, match=r"here: word 1, 'b', is not in the text after character 5"):
        locate_words("a b a", ["b a", "b"], "here")
