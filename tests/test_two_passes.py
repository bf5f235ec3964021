"""Texts read once, spans read afterwards: the same states as in one pass."""

import pytest
import torch
from encoder_zoo import FAMILIES, ROWS, SHARED, build, lay_out, run
from tiny_models import SENTENCES, collate, make_model
from tokenizers_zoo import wordpiece

from span_marker.attention import TextMemory
from span_marker.classification import classify_spans, is_span, read_labels
from span_marker.encoders import choose_runner


def without_spans(rows):
    return [(text, [], []) for text, _, _ in rows]


def read_text(encoder, rows):
    memory = TextMemory()
    ids, layout = lay_out(without_spans(rows))
    with torch.no_grad():
        states = choose_runner(encoder)(encoder, ids, layout, memory).last_hidden_state
    return states, memory


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_one_pass(family):
    encoder = build(family)
    with torch.no_grad():
        output, layout = run(encoder, ROWS)
    states, memory = read_text(encoder, ROWS)
    text = layout.text_mask.shape[1]
    one_pass = output.last_hidden_state
    assert torch.allclose(states[layout.text_mask], one_pass[:, :text][layout.text_mask], atol=1e-5)
    ids, layout = lay_out(ROWS)
    for _ in range(2):  # the memory may be read again
        with torch.no_grad():
            markers = choose_runner(encoder)(encoder, ids, layout, memory).last_hidden_state
        mask = layout.token_mask[:, text:]
        assert torch.allclose(markers[:, text:][mask], one_pass[:, text:][mask], atol=1e-5)


@pytest.mark.parametrize("family", SHARED)
def test_the_second_pass_runs_markers_alone(family):
    encoder = build(family)
    _, memory = read_text(encoder, ROWS)
    assert len(memory) == encoder.config.num_hidden_layers
    seen = []
    embeddings = encoder.get_input_embeddings()
    hook = embeddings.register_forward_hook(lambda module, args, output: seen.append(args[0].numel()))
    ids, layout = lay_out(ROWS)
    with torch.no_grad():
        choose_runner(encoder)(encoder, ids, layout, memory)
    hook.remove()
    assert seen == [2 * sum(len(starts) for _, starts, _ in ROWS)]


@pytest.mark.parametrize("rows", [ROWS[2:3], [([0, 2], [], [])], [([0, 2], [], []), ROWS[0]]])
def test_texts_without_spans(rows):
    encoder = build("bert")
    states, memory = read_text(encoder, rows)
    ids, layout = lay_out(rows)
    with torch.no_grad():
        expected = choose_runner(encoder)(encoder, ids, layout).last_hidden_state
        found = choose_runner(encoder)(encoder, ids, layout, memory).last_hidden_state
    text = layout.text_mask.shape[1]
    assert torch.allclose(states[layout.text_mask], expected[:, :text][layout.text_mask], atol=1e-5)
    mask = layout.token_mask[:, text:]
    assert torch.allclose(found[:, text:][mask], expected[:, text:][mask], atol=1e-5)


@pytest.mark.parametrize("model_type", ["bert", "albert", "deberta-v2"])
def test_logits_are_those_of_forward(tmp_path, model_type):
    model = make_model(tmp_path / "model", wordpiece(), model_type)
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        expected = model(**batch).logits
        text = model.read_text(batch["input_ids"], batch["attention_mask"])
        found = model.read_spans(text, *(batch[name] for name in ("start_positions", "end_positions", "num_spans")))
    assert torch.allclose(found[is_span(batch)], expected[is_span(batch)], atol=1e-5)


def test_any_part_of_the_spans_can_be_read(tmp_path):
    model = make_model(tmp_path / "model", wordpiece())
    batch = collate(model, SENTENCES)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        labels, scores = classify_spans(model, batch)
        text = model.read_text(batch["input_ids"], batch["attention_mask"])
        for share in (0.0, 0.1, 0.5, 1.0):
            wanted = is_span(batch) & (torch.rand(labels.shape, generator=generator) < share)
            found, probabilities = read_labels(model, text, batch, wanted)
            assert torch.equal(found[wanted], labels[wanted])
            assert torch.allclose(probabilities[wanted], scores[wanted], atol=1e-5)
            assert (found[~wanted] == model.config.outside_id).all()
            assert (probabilities[~wanted] == 0).all()
