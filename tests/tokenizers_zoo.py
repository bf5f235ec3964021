"""Small tokenizers of every kind that the package handles, the same ones in every run.

`tokenizers` breaks ties by chance when it trains WordPiece and Unigram, so that these two have fixed vocabularies.
"""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, XLMRobertaTokenizer

TEXTS = [
    "Ada Lovelace lives in London , near the river Thames .",
    "The river Seine runs through Paris , says Marie Curie .",
    "New York is a city ; Rome isn't in France !",
    "Grace Hopper met Alan Turing at 10:30 in Berlin ( Germany ) .",
    "\"Don't\" , she said , and we've seen it : 3-0 !",
] * 4

PIECES = ["Ada", "Love", "##lace", "liv", "##es", "in", "London", "Rome", "Paris", "is", "the", "river", "New", "York"]

BERT_NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA_NAMES = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
    "cls_token": "<s>",
    "sep_token": "</s>",
}
_ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
_SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"


def wordpiece(*, cased=False, texts=TEXTS, pieces=PIECES):
    """WordPiece as BERT has it: the pieces, and the characters of the texts."""
    characters = _characters(texts if cased else map(str.lower, texts))
    words = [word if cased else word.lower() for word in pieces]
    vocab = [*BERT_NAMES.values(), *characters, *(f"##{character}" for character in characters), *words]
    ids = {piece: index for index, piece in enumerate(dict.fromkeys(vocab))}
    tokenizer = Tokenizer(models.WordPiece(vocab=ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _wrap(tokenizer, "[CLS]", "[SEP]", BERT_NAMES)


def byte_level_bpe(*, add_prefix_space=False, texts=TEXTS, vocab_size=340):
    """Byte-level BPE as RoBERTa has it; its own post-processor trims offsets."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    _train_bytes(tokenizer, texts, vocab_size, _ROBERTA_SPECIAL)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=add_prefix_space
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **ROBERTA_NAMES)


def modernbert(*, texts=TEXTS, vocab_size=340):
    """Byte-level BPE as ModernBERT has it: no prefix space, BERT's special tokens, offsets not trimmed."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    _train_bytes(tokenizer, texts, vocab_size, list(BERT_NAMES.values()))
    return _wrap(tokenizer, "[CLS]", "[SEP]", BERT_NAMES)


def llama_bpe(*, texts=TEXTS, vocab_size=340):
    """Byte-level BPE as EuroBERT and Llama 3 have it: split by an expression, one special token, before the text."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _train_bytes(tokenizer, texts, vocab_size, ["<|begin|>", "<|pad|>", "<|mask|>"])
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]),
        ]
    )
    names = {"bos_token": "<|begin|>", "pad_token": "<|pad|>", "mask_token": "<|mask|>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def unigram():
    """SentencePiece's Unigram with spaces as part of the words."""
    tokenizer = Tokenizer(models.Unigram(_unigram_pieces(), unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(_ROBERTA_SPECIAL)
    return _wrap(tokenizer, "<s>", "</s>", ROBERTA_NAMES)


def xlm_roberta():
    """SentencePiece's Unigram in XLM-R's own class, which splits punctuation off."""
    return XLMRobertaTokenizer(vocab=_unigram_pieces(), model_max_length=64)


def all_tokenizers():
    """One of each kind, by name."""
    return {
        "wordpiece_uncased": wordpiece(),
        "wordpiece_cased": wordpiece(cased=True),
        "byte_level_bpe": byte_level_bpe(),
        "byte_level_bpe_prefix_space": byte_level_bpe(add_prefix_space=True),
        "modernbert": modernbert(),
        "llama_bpe": llama_bpe(),
        "unigram": unigram(),
        "xlm_roberta": xlm_roberta(),
    }


def _train_bytes(tokenizer, texts, vocab_size, special):
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)


def _characters(texts):
    return sorted(set("".join(texts)) - {" "})


def _unigram_pieces():
    """(piece, log-probability): special tokens, characters, and words, which are more likely than their characters."""
    words = [piece.removeprefix("##") if piece.startswith("##") else f"▁{piece}" for piece in PIECES]
    characters = ["▁", *_characters(TEXTS)]
    return [
        *((token, 0.0) for token in _ROBERTA_SPECIAL),
        *((character, -6.0) for character in characters),
        *((word, -4.0) for word in words),
    ]


def _wrap(tokenizer, before, after, names):
    ids = [(token, tokenizer.token_to_id(token)) for token in (before, after)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{before} $A {after}", pair=f"{before} $A {after} $B:1 {after}:1", special_tokens=ids
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)
