import copy
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from encoder_zoo import (
    DEBERTA,
    DENSE,
    END,
    FAMILIES,
    POSITIONS,
    REFUSED,
    ROWS,
    SHARED,
    START,
    build,
    lay_out,
    run,
    run_dense,
    run_plain,
    split_states,
)
from transformers.modeling_layers import GradientCheckpointingLayer

from span_marker import SpanMarkerConfig, SpanMarkerModel
from span_marker.attention import ATTENTION_NAME, MarkerLayout
from span_marker.data_collator import SpanMarkerDataCollator
from span_marker.encoders import DebertaV2, DenseMask, SharedAttention, check_encoder, choose_runner

TOKENIZER = SimpleNamespace(pad_token_id=1, marker_ids=(START, END))
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]

each_family = pytest.mark.parametrize("family", FAMILIES)


def make_model(family, **settings):
    encoder = build(family, **settings)
    config = SpanMarkerConfig(encoder.config, model_max_length=16)
    config.set_labels(LABELS)
    model = SpanMarkerModel(config, encoder)
    model.set_tokenizer(TOKENIZER)
    return model


def make_batch():
    labels = [[1, 0, 2, 0], [0, 1], [], [2, 0, 0]]
    rows = [
        {"input_ids": ids, "start_position_ids": starts, "end_position_ids": ends, "labels": of_spans}
        for (ids, starts, ends), of_spans in zip(ROWS, labels, strict=True)
    ]
    return SpanMarkerDataCollator(TOKENIZER)(rows)


def gradients(model):
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


class TestChoice:
    @pytest.mark.parametrize(
        ("families", "runner", "attention"),
        [(SHARED, SharedAttention, ATTENTION_NAME), (DEBERTA, DebertaV2, "eager"), (DENSE, DenseMask, "eager")],
    )
    def test_way_of_each_family(self, families, runner, attention):
        for family in families:
            encoder = build(family)
            assert type(choose_runner(encoder)) is runner, family
            assert encoder.config._attn_implementation == attention, family

    @each_family
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_fresh_weights_pass_the_check(self, family, dtype):
        encoder = build(family, sharp=False).to(dtype)
        check_encoder(encoder, choose_runner(encoder))

    @pytest.mark.parametrize("family", REFUSED)
    def test_refused(self, family):
        _, reason = REFUSED[family]
        encoder = build(family)
        with pytest.raises(ValueError, match=reason) as raised:
            check_encoder(encoder, choose_runner(encoder))
        message = str(raised.value)
        assert message.startswith(f"{type(encoder).__name__} cannot be used as an encoder for span markers: {reason}")
        assert message.endswith("such as BERT, RoBERTa, XLM-RoBERTa, ELECTRA, DeBERTa-v3 or ModernBERT.")

    @pytest.mark.parametrize("family", ["mpnet", "t5"])
    def test_model_refuses(self, family):
        encoder = build(family)
        with pytest.raises(ValueError, match=REFUSED[family][1]):
            SpanMarkerModel(SpanMarkerConfig(encoder.config), encoder)

    def test_deberta_with_convolution_is_refused(self):
        encoder = build("deberta-v2", conv_kernel_size=3)
        with pytest.raises(ValueError, match="cannot be used as an encoder"):
            check_encoder(encoder, choose_runner(encoder))


class TestCheck:
    """Ways of running BERT that break one rule each."""

    @staticmethod
    def check(change):
        encoder = build("bert")
        way = choose_runner(encoder)

        class Broken:
            attention = ATTENTION_NAME
            supports = staticmethod(SharedAttention.supports)

            def __call__(self, encoder, input_ids, layout, **kwargs):
                return way(encoder, *change(input_ids, layout), **kwargs)

        check_encoder(encoder, Broken())

    def test_sound(self):
        self.check(lambda input_ids, layout: (input_ids, layout))

    def test_padding_is_seen(self):
        with pytest.raises(ValueError, match=r"BertModel .*: padding changes the text or the markers"):
            self.check(lambda ids, layout: (ids, replace(layout, text_mask=torch.ones_like(layout.text_mask))))

    def test_positions_are_ignored(self):
        nowhere = {name: torch.zeros(5, 2, dtype=torch.long) for name in ("start_positions", "end_positions")}
        with pytest.raises(ValueError, match="it ignores position_ids, so that markers cannot be placed"):
            self.check(lambda ids, layout: (ids, replace(layout, **nowhere)))

    def test_index_is_heeded(self):
        with pytest.raises(ValueError, match="by their index in the sequence and not by position_ids alone"):
            self.check(
                lambda ids, layout: (ids, replace(layout, start_positions=layout.start_positions + torch.arange(2)))
            )

    def test_markers_are_text(self):
        def all_text(ids, layout):
            none = torch.zeros(len(ids), 0, dtype=torch.long)
            mask = torch.ones_like(ids, dtype=torch.bool)
            mask[:, 5] = False
            return ids, MarkerLayout(mask, none.bool(), none, none)

        with pytest.raises(ValueError, match="markers change the text or the markers of another span"):
            self.check(all_text)

    def test_failure_is_told(self):
        def fail(ids, layout):
            raise RuntimeError("no kernel")

        with pytest.raises(ValueError, match=r"a forward pass over text and markers fails \(no kernel\)") as raised:
            self.check(fail)
        assert isinstance(raised.value.__cause__, RuntimeError)

    @pytest.mark.parametrize("training", [True, False])
    def test_training_mode_is_restored(self, training):
        encoder = build("bert").train(training)
        check_encoder(encoder, choose_runner(encoder))
        assert encoder.training is training
        assert encoder.embeddings.dropout.training is training


class TestEquality:
    @each_family
    def test_padded_equals_alone(self, family):
        encoder = build(family)
        output, layout = run(encoder, ROWS)
        for row, states in zip(ROWS, split_states(output.last_hidden_state, layout), strict=True):
            alone, layout_alone = run(encoder, [row])
            for part, part_alone in zip(states, split_states(alone.last_hidden_state, layout_alone)[0], strict=True):
                torch.testing.assert_close(part, part_alone, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("family", SHARED)
    def test_shared_attention_equals_dense_mask(self, family):
        encoder = build(family)
        output, layout = run(encoder, ROWS)
        dense, dense_states = run_dense(encoder, ROWS)
        seen = layout.token_mask
        torch.testing.assert_close(output.last_hidden_state[seen], dense_states[seen], rtol=0, atol=1e-5)

        weights = torch.randn(output.last_hidden_state[seen].shape, generator=torch.Generator().manual_seed(1))
        for states in (output.last_hidden_state, dense_states):
            (states[seen] * weights).mean().backward()
        expected = gradients(dense)
        assert gradients(encoder).keys() == expected.keys()
        for name, gradient in gradients(encoder).items():
            torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5, msg=name)

    @each_family
    def test_text_equals_the_run_without_markers(self, family):
        encoder = build(family)
        output, layout = run(encoder, ROWS)
        for (ids, _, _), (text, _, _) in zip(ROWS, split_states(output.last_hidden_state, layout), strict=True):
            torch.testing.assert_close(text, run_plain(encoder, ids), rtol=0, atol=1e-5)

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"position_buckets": -1},
            {"max_relative_positions": 6},
            {"share_att_key": False},
            {"pos_att_type": ["c2p"], "norm_rel_ebd": "none"},
            {"position_biased_input": True, "relative_attention": False, "type_vocab_size": 2},
        ],
    )
    def test_deberta_equals_its_own_distances(self, settings):
        # Markers that stand right behind the text are where DeBERTa's own distances put them.
        encoder = build("deberta-v2", **settings)
        ids = [0, 11, 12, 13, 14, 15, 16, 17, 2]
        output, layout = run(encoder, [(ids, [len(ids)], [len(ids) + 1])])
        input_ids = torch.tensor([[*ids, START, END]])
        visible = torch.ones(1, len(ids) + 2, len(ids) + 2)
        visible[:, :-2, -2:] = 0
        embedded = encoder.embeddings(input_ids, position_ids=layout.position_ids, mask=torch.ones_like(input_ids))
        expected = encoder.encoder(embedded, visible).last_hidden_state
        torch.testing.assert_close(output.last_hidden_state, expected, rtol=0, atol=1e-5)

    @each_family
    def test_spans_do_not_see_each_other(self, family):
        encoder = build(family)
        ids, starts, ends = ROWS[0]
        together = split_states(*_states(encoder, ROWS[0]))[0]
        for index, span in enumerate(zip(starts, ends, strict=True)):
            text, start, end = split_states(*_states(encoder, (ids, [span[0]], [span[1]])))[0]
            torch.testing.assert_close(text, together[0], rtol=0, atol=1e-5)
            torch.testing.assert_close(start[0], together[1][index], rtol=0, atol=1e-5)
            torch.testing.assert_close(end[0], together[2][index], rtol=0, atol=1e-5)

    @each_family
    def test_markers_see_text_partner_and_place(self, family):
        encoder = build(family)
        ids, _, _ = ROWS[0]
        _, start, end = split_states(*_states(encoder, (ids, [2], [3])))[0]
        near = [*ids[:4], 50, *ids[5:]]
        for other in ((near, [2], [3]), (ids, [2], [4]), (ids, [1], [3])):
            _, other_start, other_end = split_states(*_states(encoder, other))[0]
            assert (start - other_start).abs().max() > 1e-3
            assert (end - other_end).abs().max() > 1e-3

    def test_windows_hold_around_the_word(self):
        # One layer with a window of two: the marker of token 2 sees tokens 0 to 4, its partner however far.
        encoder = build("modernbert", num_hidden_layers=1, layer_types=["sliding_attention"])
        ids, _, _ = ROWS[0]

        def markers(changed, last):
            changed_ids = [50 if index == changed else token for index, token in enumerate(ids)]
            _, start, end = split_states(*_states(encoder, (changed_ids, [2], [last])))[0]
            return start[0], end[0]

        start, end = markers(None, 7)
        for index in range(len(ids)):
            changed_start, changed_end = markers(index, 7)
            assert torch.allclose(start, changed_start, rtol=0, atol=1e-6) == (index > 4), index
            assert torch.allclose(end, changed_end, rtol=0, atol=1e-6) == (index < 5), index


class TestShapes:
    @each_family
    def test_batch_without_spans(self, family):
        encoder = build(family)
        rows = [(ids, [], []) for ids, _, _ in ROWS]
        output, layout = run(encoder, rows)
        assert output.last_hidden_state.shape == (4, 9, 32)
        for row, (text, starts, ends) in zip(rows, split_states(output.last_hidden_state, layout), strict=True):
            assert len(starts) == len(ends) == 0
            torch.testing.assert_close(text, run_plain(encoder, row[0]), rtol=0, atol=1e-5)

    @each_family
    def test_many_spans_and_full_length(self, family):
        # Text and markers together are longer than any table of positions or token types.
        ids = [0, *range(4, POSITIONS), 2]
        assert len(ids) == POSITIONS - 2
        last = len(ids) - 1
        output, _ = run(build(family), [(ids, [0, last] * 12, [last, last] * 12)])
        assert output.last_hidden_state.isfinite().all()
        torch.testing.assert_close(
            output.last_hidden_state[:, last + 1 : last + 3], output.last_hidden_state[:, last + 3 : last + 5]
        )

    @pytest.mark.parametrize("family", SHARED)
    def test_layers_see_no_padding(self, family):
        encoder = build(family)
        first = next(module for module in encoder.modules() if isinstance(module, torch.nn.Linear))
        seen = []
        first.register_forward_pre_hook(lambda _, args: seen.append(tuple(args[0].shape[:2])))
        run(encoder, ROWS)
        tokens = sum(len(ids) + 2 * len(starts) for ids, starts, _ in ROWS)
        assert seen == [(1, tokens)]
        assert tokens < lay_out(ROWS)[0].numel()

    @each_family
    def test_hidden_states(self, family):
        encoder = build(family)
        output, layout = run(encoder, ROWS, output_hidden_states=True)
        states = output.hidden_states
        assert len(states) == encoder.config.num_hidden_layers + 1
        assert {tuple(layer.shape) for layer in states} == {(4, 9 + 2 * 4, 32)}
        torch.testing.assert_close(states[-1], output.last_hidden_state)
        alone, layout_alone = run(encoder, ROWS[:1], output_hidden_states=True)
        for layer, layer_alone in zip(states, alone.hidden_states, strict=True):
            for part, part_alone in zip(
                split_states(layer, layout)[0], split_states(layer_alone, layout_alone)[0], strict=True
            ):
                torch.testing.assert_close(part, part_alone, rtol=0, atol=1e-5)
        assert run(encoder, ROWS)[0].hidden_states is None

    def test_regression_distilbert_hidden_states(self):
        model = make_model("distilbert").eval()
        output = model(**make_batch(), output_hidden_states=True)
        assert [tuple(states.shape) for states in output.hidden_states] == [(4, 17, 32)] * 3
        assert output.logits.shape == (4, 4, 3)


class TestTraining:
    @each_family
    def test_step_changes_the_loss(self, family):
        model, batch = make_model(family).eval(), make_batch()
        before = model(**batch).loss
        before.backward()
        reached = gradients(model)
        assert all(gradient.isfinite().all() for gradient in reached.values())
        table = model.encoder.get_input_embeddings().weight.grad
        used = table.abs().sum(-1) > 0
        assert used[[START, END, 11, 21, 41]].all()  # markers and text
        assert not used[[31, 32]].any()  # text without spans
        layers = [name for name in reached if ".bias" not in name and reached[name].abs().sum() > 0]
        assert len(layers) > 10
        with torch.no_grad():
            for weight in model.parameters():
                if weight.grad is not None:
                    weight -= 1e-3 * weight.grad / weight.grad.norm().clamp(min=1e-6)
        assert model(**batch).loss < before

    @pytest.mark.parametrize("family", [family for family in FAMILIES if family != "albert"])  # has no such layers
    def test_gradient_checkpointing(self, family):
        model, batch = make_model(family).train(), make_batch()
        twin = copy.deepcopy(model)
        enable = getattr(twin, "activation_checkpointing_enable", None) or twin.gradient_checkpointing_enable
        enable()
        calls = Counter()
        for name, each in (("kept", model), ("checkpointed", twin)):
            for layer in each.encoder.modules():
                if isinstance(layer, GradientCheckpointingLayer):
                    first = next(module for module in layer.modules() if isinstance(module, torch.nn.Linear))
                    first.register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
            torch.manual_seed(0)
            each(**batch).loss.backward()
        assert calls["checkpointed"] == 2 * calls["kept"] > 0
        expected = gradients(model)
        assert gradients(twin).keys() == expected.keys()
        for name, gradient in gradients(twin).items():
            torch.testing.assert_close(gradient, expected[name], msg=name)

    @each_family
    def test_dropout(self, family):
        model, batch = make_model(family), make_batch()
        seen = batch["labels"] >= 0
        model.dropout.p = 0.0
        model.eval()
        assert torch.equal(model(**batch).logits[seen], model(**batch).logits[seen])
        model.train()
        assert not torch.allclose(model(**batch).logits[seen], model(**batch).logits[seen], atol=1e-4)

    def test_attention_dropout_alone(self):
        encoder = build("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5).train()
        first, second = (split_states(run(encoder, ROWS[:1])[0].last_hidden_state, lay_out(ROWS[:1])[1]) for _ in "12")
        for part, other in zip(first[0], second[0], strict=True):
            assert not torch.allclose(part, other, atol=1e-2)


class TestPrecision:
    @each_family
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast(self, family, dtype):
        model, batch = make_model(family, sharp=False).eval(), make_batch()
        seen = batch["labels"] >= 0
        exact = model(**batch)
        with torch.autocast("cpu", dtype):
            output = model(**batch)
        output.loss.backward()
        assert all(gradient.isfinite().all() for gradient in gradients(model).values())
        torch.testing.assert_close(output.logits[seen].float(), exact.logits[seen], rtol=0, atol=0.03)
        assert output.loss.dtype == torch.float32

    @each_family
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision_weights(self, family, dtype):
        with nullcontext() if dtype == torch.bfloat16 else torch.no_grad():
            model, batch = make_model(family, sharp=False).eval().to(dtype), make_batch()
            output = model(**batch)
        seen = batch["labels"] >= 0
        assert output.logits[seen].isfinite().all()
        assert output.logits.dtype == dtype
        assert output.loss.isfinite()


def _states(encoder, row):
    output, layout = run(encoder, [row])
    return output.last_hidden_state, layout
