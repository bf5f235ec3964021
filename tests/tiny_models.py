"""Models that are small and untrained, but have opinions."""

import pytest
import torch
from transformers import AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from span_marker import SpanMarkerModel
from span_marker.span_filter import SpanFilter

MODEL_FILES = {
    "README.md",
    "config.json",
    "model.safetensors",
    "model_card.json",
    "tokenizer.json",
    "tokenizer_config.json",
}
"""What a saved model consists of."""
TEXTS = [
    "Ada Lovelace lives in London .",
    "Paris",
    "",
    "Grace Hopper met Alan Turing in New York today , and nobody knows why .",
    "Nobody knows .",
]
SENTENCES = [text.split() for text in TEXTS]


def give_opinions(model, outside=-1.0):
    """Draw weights so large that context matters, and let labels win equally often, but for what is added to "O".

    Processors round differently, so that tests must not count on an entity unless "O" can never win: ``outside=-100``.
    """
    generator = torch.Generator().manual_seed(0)
    training = model.training
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        bias = model.classifier.bias.zero_()
        bias -= model.eval()(**collate(model, [max(SENTENCES, key=len)])).logits[0].mean(0)
        bias[model.config.outside_id] += outside
    return model.train(training)


def give_filter(model, vote=0.0):
    """Give a model a span filter that keeps about half of the spans."""
    torch.manual_seed(3)
    config = model.config
    config.span_filter, config.span_filter_threshold, config.span_filter_vote = True, 0.5, vote
    model.span_filter = SpanFilter(model.encoder.config.hidden_size, config.num_labels, config.outside_id, 0.2)
    model.span_filter.output.bias.data.zero_()
    return model.eval()


def make_encoder(folder, tokenizer, model_type="bert", **settings):
    """Save a tiny random encoder with a tokenizer."""
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 66,
        "pad_token_id": tokenizer.pad_token_id,
    }
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    AutoModel.from_config(CONFIG_MAPPING[model_type](**(sizes | settings))).save_pretrained(folder)
    return str(folder)


def make_model(folder, tokenizer, model_type="bert", outside=-1.0, **settings):
    """Start a model with opinions on a tiny random encoder."""
    path = make_encoder(folder, tokenizer, model_type, **settings)
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    model = SpanMarkerModel.from_pretrained(path, labels=labels, entity_max_length=4, span_filter=False)
    return give_opinions(model, outside)


def collate(model, sentences):
    """Batch sentences as prediction does."""
    from span_marker import SpanMarkerDataCollator

    columns = model.tokenizer({"tokens": sentences})
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return SpanMarkerDataCollator(model.tokenizer)(rows)


def make_finder(encoder, model_max_length=40, entity_max_length=4):
    """A model that finds entities of both types everywhere."""
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    model = SpanMarkerModel.from_pretrained(
        encoder,
        labels=tags,
        model_max_length=model_max_length,
        entity_max_length=entity_max_length,
        span_filter=False,
    )
    return give_opinions(model, outside=-100.0)


def assert_close(found, expected):
    """Compare predicted entities; scores may differ by rounding."""
    assert len(found) == len(expected)
    for row, others in zip(found, expected, strict=True):
        assert [{**entity, "score": None} for entity in row] == [{**entity, "score": None} for entity in others]
        assert [entity["score"] for entity in row] == pytest.approx([entity["score"] for entity in others], abs=1e-5)
