import json

import pytest
import tokenizers_zoo as zoo
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import BertTokenizer

from span_marker.tokenizer_pipeline import (
    load_tokenizer,
    make_readable_by_transformers_4,
    mark_words,
    require_backend,
    special_ids,
    split_punctuation,
)

WORDS = ["Ada", "is", "in", "London"]


def steps(tokenizer):
    return json.loads(tokenizer.backend_tokenizer.to_str())


def tokens(tokenizer, words=WORDS):
    backend = tokenizer.backend_tokenizer
    return "".join(backend.encode(words, is_pretokenized=True, add_special_tokens=False).tokens)


@pytest.mark.parametrize("build", [zoo.byte_level_bpe, zoo.modernbert, zoo.llama_bpe])
def test_words_get_a_space_where_a_tokenizer_needs_one(build):
    tokenizer = build()
    assert tokens(tokenizer) == "AdaisinLondon"
    mark_words(tokenizer, may_prepend=True)
    assert tokens(tokenizer) == "ĠAdaĠisĠinĠLondon"
    before = steps(tokenizer)
    mark_words(tokenizer, may_prepend=True)
    assert steps(tokenizer) == before


def test_prefix_space_is_a_setting_of_the_pre_tokenizer_where_there_is_one():
    tokenizer = zoo.modernbert()
    mark_words(tokenizer, may_prepend=False)
    assert steps(tokenizer)["pre_tokenizer"]["add_prefix_space"] is True
    assert steps(tokenizer)["normalizer"] == {"type": "NFC"}
    assert tokenizer.add_prefix_space is True


def test_prepended_space_keeps_the_other_normalizers():
    tokenizer = zoo.llama_bpe()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    mark_words(tokenizer, may_prepend=True)
    assert [step["type"] for step in steps(tokenizer)["normalizer"]["normalizers"]] == ["Prepend", "NFC"]


def test_saved_models_get_no_space_that_the_reference_did_not_put():
    tokenizer = zoo.llama_bpe()
    before = steps(tokenizer)
    mark_words(tokenizer, may_prepend=False)
    assert steps(tokenizer) == before


@pytest.mark.parametrize(
    "build", [zoo.wordpiece, zoo.unigram, zoo.xlm_roberta, lambda: zoo.byte_level_bpe(add_prefix_space=True)]
)
def test_tokenizers_that_mark_words_stay_as_they_are(build):
    tokenizer = build()
    before = steps(tokenizer)
    mark_words(tokenizer, may_prepend=True)
    assert steps(tokenizer) == before


def test_a_space_that_does_not_help_is_taken_back():
    tokenizer = zoo.wordpiece()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    tokenizer.backend_tokenizer.normalizer = normalizers.Strip()
    before = steps(tokenizer)
    mark_words(tokenizer, may_prepend=True)
    assert steps(tokenizer) == before


def test_first_character_of_a_text_is_not_trimmed():
    tokenizer = zoo.byte_level_bpe()
    mark_words(tokenizer, may_prepend=True)
    assert tokenizer.backend_tokenizer.encode("Ada", add_special_tokens=False).offsets[0][0] == 0
    assert steps(tokenizer)["post_processor"]["add_prefix_space"] is True
    tokenizer = zoo.byte_level_bpe()
    tokenizer.backend_tokenizer.post_processor = None
    mark_words(tokenizer, may_prepend=True)
    assert tokenizer.backend_tokenizer.encode("Ada").offsets[0][0] == 0


def test_xlm_roberta_splits_punctuation_off_once():
    tokenizer = zoo.xlm_roberta()
    for _ in range(2):
        split_punctuation(tokenizer)
        types = [step["type"] for step in steps(tokenizer)["pre_tokenizer"]["pretokenizers"]]
        assert types == ["Punctuation", "WhitespaceSplit", "Metaspace"]
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    split_punctuation(tokenizer)
    types = [step["type"] for step in steps(tokenizer)["pre_tokenizer"]["pretokenizers"]]
    assert types == ["Punctuation", "Metaspace"]
    assert "".join(tokenizer.backend_tokenizer.encode("isn't", add_special_tokens=False).tokens) == "▁isn▁'▁t"


def test_other_tokenizers_do_not_split_punctuation_off():
    tokenizer = zoo.unigram()
    before = steps(tokenizer)
    split_punctuation(tokenizer)
    assert steps(tokenizer) == before


def test_special_ids():
    assert special_ids(zoo.wordpiece().backend_tokenizer) == ([2], [3])
    assert special_ids(zoo.llama_bpe().backend_tokenizer) == ([0], [])
    assert special_ids(Tokenizer.from_str(_without_vocabulary())) == ([0], [1])
    bare = zoo.wordpiece().backend_tokenizer
    bare.post_processor = None
    assert special_ids(bare) == ([], [])


def _without_vocabulary():
    state = json.loads(zoo.modernbert().backend_tokenizer.to_str())
    state["model"] |= {"vocab": {"[CLS]": 0, "[SEP]": 1}, "merges": [], "unk_token": None}
    state["added_tokens"] = []
    for token, index in (("[CLS]", 0), ("[SEP]", 1)):
        state["post_processor"]["special_tokens"][token]["ids"] = [index]
    return json.dumps(state)


def test_regression_steps_of_the_file_count(tmp_path):
    tokenizer = zoo.xlm_roberta()
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
    backend.normalizer = normalizers.Lowercase()
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded).__name__ == "XLMRobertaTokenizer"
    for step in ("normalizer", "pre_tokenizer", "post_processor", "added_tokens"):
        assert steps(loaded)[step] == steps(tokenizer)[step]


def test_casing_of_the_settings_counts(tmp_path):
    BertTokenizer(vocab=zoo.wordpiece(cased=True).get_vocab(), do_lower_case=False).save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["normalizer"]["lowercase"] = True
    file.write_text(json.dumps(content))
    assert load_tokenizer(tmp_path).tokenize("Ada") == ["Ada"]


def test_what_only_the_settings_hold_is_added(tmp_path):
    vocab = zoo.wordpiece().get_vocab()
    BertTokenizer(vocab=vocab).save_pretrained(tmp_path)
    file, settings = tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"
    content = json.loads(file.read_text())
    content["post_processor"] = None
    file.write_text(json.dumps(content))
    extra = {"content": "<x>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    first, second = len(vocab), len(vocab) + 1
    added = {str(first): extra | {"special": True}, str(second): extra | {"content": "yy", "special": False}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"added_tokens_decoder": added}))
    loaded = load_tokenizer(tmp_path)
    assert loaded.convert_tokens_to_ids(["<x>", "yy"]) == [first, second]
    assert loaded("Ada")["input_ids"][0] == loaded.cls_token_id


def test_vocabulary_files_without_steps(tmp_path):
    vocab = zoo.wordpiece().get_vocab()
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.get)))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert load_tokenizer(tmp_path).get_vocab() == vocab


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_damaged_file_is_named(tmp_path, name):
    zoo.wordpiece().save_pretrained(tmp_path)
    (tmp_path / name).write_text("{]")
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        load_tokenizer(tmp_path)


def test_regression_missing_vocabulary_is_an_error(tmp_path):
    BertTokenizer(vocab=zoo.wordpiece().get_vocab()).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(OSError, match=r"no vocabulary .* tokenizer\.json.* vocab\.txt"):
        load_tokenizer(tmp_path)


def test_missing_files_are_an_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="no tokenizer to load"):
        load_tokenizer(tmp_path)


def test_regression_files_cannot_enable_remote_code(tmp_path):
    zoo.wordpiece().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    file = tmp_path / "tokenizer_config.json"
    settings = json.loads(file.read_text()) | {
        "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
        "trust_remote_code": True,
        "tokenizer_class": "Evil",
    }
    file.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_tokenizer(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_tokenizers_without_backend_are_refused():
    with pytest.raises(ValueError, match="object is no tokenizer of the `tokenizers` library"):
        require_backend(object())


def test_make_readable_by_transformers_4(tmp_path):
    file = tmp_path / "tokenizer_config.json"
    file.write_text('{"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["é"], "a": 1}', encoding="utf-8")
    make_readable_by_transformers_4(file)
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "additional_special_tokens": ["é"],
        "a": 1,
    }
    file.write_text('{"tokenizer_class": "BertTokenizer", "extra_special_tokens": {}}')
    make_readable_by_transformers_4(file)
    assert json.loads(file.read_text()) == {"tokenizer_class": "BertTokenizer", "extra_special_tokens": {}}
