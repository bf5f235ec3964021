"""Tiny random encoders of every family that the package runs, and of some that it refuses."""

import copy

import torch
from transformers import CONFIG_MAPPING, AutoModel

from span_marker.attention import POSITION_OFFSET, MarkerLayout, additive_mask
from span_marker.encoders import choose_runner

VOCABULARY = 61
POSITIONS = 40
START, END = 59, 60
"""Ids of the markers."""

_BERT_LIKE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": POSITIONS,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "cls_token_id": 0,
    "sep_token_id": 2,
    "mask_token_id": 3,
}
_DEBERTA_V3 = {
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 4,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}

SHARED = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "camembert": {},
    "electra": {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 24},
    "albert": {"embedding_size": 16},
    "nomic_bert": {},
    # Windows of two tokens on either side, far less than a sentence; the third layer sees everything.
    "modernbert": {
        "num_hidden_layers": 3,
        "local_attention": 4,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "attention_dropout": 0.1,
    },
    "eurobert": {"num_key_value_heads": 2, "attention_dropout": 0.1},
}
"""Families that take the package's attention function: name to settings."""

DEBERTA = {"deberta-v2": _DEBERTA_V3}

DENSE = {
    "megatron-bert": {},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "luke": {"entity_vocab_size": 5, "entity_emb_size": 8},
    "big_bird": {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1},
}
"""Families that take a dense mask."""

FAMILIES = SHARED | DEBERTA | DENSE

REFUSED = {
    "mpnet": ({}, "it places markers by their index in the sequence and not by position_ids alone"),
    "convbert": ({"embedding_size": 16}, "markers change the text or the markers of another span"),
    "roformer": ({"embedding_size": 16}, "it takes no position_ids, so that markers cannot be placed at their word"),
    "deberta": (_DEBERTA_V3 | {"share_att_key": False}, "it takes distances from the index in the sequence"),
    "qwen3": ({"num_key_value_heads": 2, "head_dim": 8}, "its own attention is causal"),
    "gpt2": ({}, "its own attention is causal"),
    "t5": ({"d_model": 32, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 4}, "it takes no position_ids"),
}
"""Families that cannot carry markers: name to settings and a piece of the refusal."""

ROWS = [
    ([0, 11, 12, 13, 14, 15, 16, 17, 2], [1, 1, 3, 7], [1, 4, 3, 7]),
    ([0, 21, 22, 23, 2], [2, 1], [3, 1]),
    ([0, 31, 32, 2], [], []),
    ([0, 41, 42, 43, 44, 45, 2], [5, 1, 3], [5, 5, 4]),
]
"""Sentences of unequal length as token ids, first tokens and last tokens of their spans; one has no span."""


def build(family, *, sharp=True, **settings):
    """Build an encoder of a family in evaluation mode, the same one each time.

    ``sharp`` draws weights so large that a wrong mask or position moves the states far beyond rounding; fresh weights
    (``sharp=False``) attend almost evenly.
    """
    known = FAMILIES[family] if family in FAMILIES else REFUSED.get(family, ({},))[0]
    torch.manual_seed(0)
    encoder = AutoModel.from_config(CONFIG_MAPPING[family](**(_BERT_LIKE | known | settings)))
    if sharp:
        with torch.no_grad():
            for parameter in encoder.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3)
    return encoder.eval()


def lay_out(rows, markers=(START, END)):
    """Pad sentences into one batch: the ids of text and markers, and the layout."""

    def pad(column, value, least):
        width = max(least, *(len(row[column]) for row in rows))
        return torch.tensor([[*row[column], *[value] * (width - len(row[column]))] for row in rows], dtype=torch.long)

    text, starts, ends = pad(0, 1, 1), pad(1, 0, 0), pad(2, 0, 0)
    text_mask, span_mask = (
        torch.arange(width) < torch.tensor([len(row[column]) for row in rows])[:, None]
        for column, width in ((0, text.shape[1]), (1, starts.shape[1]))
    )
    ids = [torch.full_like(starts, marker) for marker in markers]
    return torch.cat([text, *ids], dim=1), MarkerLayout(text_mask, span_mask, starts, ends)


def run(encoder, rows, **kwargs):
    """Run an encoder over sentences the package's way; returns its output and the layout."""
    input_ids, layout = lay_out(rows)
    return choose_runner(encoder)(encoder, input_ids, layout, **kwargs), layout


def run_dense(encoder, rows):
    """Run a copy of an encoder with its own attention and an additive mask over all pairs of tokens."""
    input_ids, layout = lay_out(rows)
    encoder = copy.deepcopy(encoder)
    encoder.set_attn_implementation("eager")
    positions, visible = layout.position_ids, layout.visible()
    masks = additive_mask(visible[:, None], encoder.dtype)
    if encoder.config.model_type == "modernbert":
        near = (positions[:, :, None] - positions[:, None, :]).abs() <= encoder.config.local_attention // 2
        near[:, :, layout.text_mask.shape[1] :] = True  # the window is about text: partners see each other from afar
        masks = {"full_attention": masks, "sliding_attention": additive_mask((visible & near)[:, None], encoder.dtype)}
    states = encoder(input_ids=input_ids, position_ids=positions, attention_mask=masks).last_hidden_state
    return encoder, states


def run_plain(encoder, ids):
    """Run a copy of an encoder over one text as it runs without markers, at the positions that the package gives."""
    encoder = copy.deepcopy(encoder)
    encoder.set_attn_implementation("eager")
    text = torch.tensor([ids])
    positions = torch.arange(text.shape[1])[None] + POSITION_OFFSET
    return encoder(input_ids=text, position_ids=positions).last_hidden_state[0]


def split_states(states, layout):
    """Cut states into one triple a sentence without padding: text, start markers, end markers."""
    text, spans = layout.text_mask.shape[1], layout.span_mask.shape[1]
    parts = states.split([text, spans, spans], dim=1)
    masks = (layout.text_mask, layout.span_mask, layout.span_mask)
    return [tuple(part[row][mask[row]] for part, mask in zip(parts, masks, strict=True)) for row in range(len(states))]
