import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import SENTENCES, collate, give_opinions, make_encoder, make_model
from tokenizers_zoo import llama_bpe, modernbert, wordpiece
from torch import nn
from transformers import AutoModel, BertConfig, BertModel

from span_marker import (
    SpanMarkerConfig,
    SpanMarkerModel,
    SpanMarkerModelCardData,
    SpanMarkerOutput,
    SpanMarkerTokenizer,
)

LONG = [f"word{index % 7}" for index in range(500)]


@pytest.fixture(scope="module")
def shared_model(tiny_encoder):
    """One model for all tests that leave it as it is."""
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    settings = {"labels": tags, "entity_max_length": 4, "span_filter": False}
    return give_opinions(SpanMarkerModel.from_pretrained(tiny_encoder, **settings))


def logits_of(model, sentences):
    """Logits of each sentence's spans, all sentences in one batch."""
    batch = collate(model, sentences)
    with torch.no_grad():
        logits = model(**batch).logits
    return [logits[row, :count] for row, count in enumerate(batch["num_spans"].tolist())]


# ---- Forward ----


def test_output(shared_model):
    batch = collate(shared_model, SENTENCES)
    with torch.no_grad():
        output = shared_model(**batch)
    assert isinstance(output, SpanMarkerOutput)
    assert output.logits.shape == (len(SENTENCES), batch["num_spans"].max(), 3)
    assert output.logits.isfinite().all()
    assert output.loss is None
    assert output.hidden_states is None
    assert output.attentions is None


def test_output_as_a_tuple(shared_model, monkeypatch):
    batch = collate(shared_model, SENTENCES)
    with torch.no_grad():
        (logits,) = shared_model(**batch, return_dict=False)
        output = shared_model(**batch, return_dict=True)
    assert torch.equal(logits, output.logits)
    expected = shared_model.predict(SENTENCES)
    monkeypatch.setattr(shared_model.config, "return_dict", False)
    assert shared_model.predict(SENTENCES) == expected


def test_regression_hidden_states_can_be_asked_for(shared_model, tiny_encoder, labels, tmp_path):
    batch = collate(shared_model, SENTENCES)
    length = batch["input_ids"].shape[1] + 2 * batch["start_positions"].shape[1]
    shared_model.save_pretrained(tmp_path)
    for model, options in (
        (shared_model, {"output_hidden_states": True}),
        (SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, output_hidden_states=True), {}),
        (SpanMarkerModel.from_pretrained(tmp_path, output_hidden_states=True), {}),
    ):
        with torch.no_grad():
            output = model(**batch, **options)
        assert [tuple(states.shape) for states in output.hidden_states] == [(len(SENTENCES), length, 32)] * 3
        assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_integer_masks_are_as_good_as_boolean_ones(shared_model):
    batch = collate(shared_model, SENTENCES)
    with torch.no_grad():
        expected = shared_model(**batch).logits
        found = shared_model(**(batch | {"attention_mask": batch["attention_mask"].long()})).logits
    assert torch.equal(found, expected)


@pytest.fixture(scope="module")
def alone(shared_model):
    """Logits of each sentence in a batch of its own."""
    return [logits_of(shared_model, [sentence])[0] for sentence in SENTENCES]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(SENTENCES) - 1), min_size=1, max_size=6))
def test_a_sentence_has_the_same_logits_in_any_batch(shared_model, alone, rows):
    together = logits_of(shared_model, [SENTENCES[row] for row in rows])
    for row, logits in zip(rows, together, strict=True):
        assert torch.allclose(logits, alone[row], rtol=0, atol=2e-5)


# ---- Loss ----


def labelled_batch(model):
    batch = collate(model, SENTENCES)
    labels = torch.full(batch["start_positions"].shape, -100)
    for row, count in enumerate(batch["num_spans"].tolist()):
        labels[row, :count] = torch.arange(count) % 3
    return batch | {"labels": labels}


def test_the_loss_is_the_mean_cross_entropy_of_the_spans(shared_model):
    batch = labelled_batch(shared_model)
    with torch.no_grad():
        output = shared_model(**batch)
    flat = torch.cat([logits[:count] for logits, count in zip(output.logits, batch["num_spans"], strict=True)])
    gold = torch.cat([labels[:count] for labels, count in zip(batch["labels"], batch["num_spans"], strict=True)])
    expected = -flat.log_softmax(-1)[torch.arange(len(gold)), gold].mean()
    assert output.loss.shape == ()
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_ignored_labels_do_not_count(shared_model):
    batch = labelled_batch(shared_model)
    batch["labels"][0] = -100
    others = {name: tensor[1:] for name, tensor in batch.items()}
    with torch.no_grad():
        assert shared_model(**batch).loss.item() == pytest.approx(shared_model(**others).loss.item(), rel=1e-5)


@pytest.mark.parametrize("kind", [int, torch.tensor])
def test_accumulated_batches_share_one_average(shared_model, kind):
    batch = labelled_batch(shared_model)
    total = kind(int(batch["num_spans"].sum()))
    halves = [{name: tensor[rows] for name, tensor in batch.items()} for rows in (slice(0, 2), slice(2, None))]
    with torch.no_grad():
        whole = shared_model(**batch).loss
        parts = [shared_model(**half, num_items_in_batch=total).loss for half in halves]
    assert sum(parts).item() == pytest.approx(whole.item(), rel=1e-5)


def test_a_batch_without_spans_has_no_loss(model):
    batch = labelled_batch(model)
    batch = {name: tensor[[2, 2]] for name, tensor in batch.items()}
    loss = model.train()(**batch).loss
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_training_steps_lower_the_loss(model):
    model.train()
    batch = labelled_batch(model)
    batch["labels"].clamp_(max=0)  # all spans are outside
    losses = []
    for _ in range(5):
        loss = model(**batch).loss
        losses.append(loss.item())
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= 0.0 if gradient is None else 0.5 * gradient
    assert losses[-1] < losses[0] / 2


def test_markers_text_and_classifier_are_trained(model):
    model.train()(**labelled_batch(model)).loss.backward()
    embedding = model.encoder.get_input_embeddings().weight.grad
    assert embedding[list(model.tokenizer.marker_ids)].abs().sum(-1).gt(0).all()
    assert embedding[model.tokenizer.convert_tokens_to_ids("in")].abs().sum() > 0
    assert model.classifier.weight.grad.abs().sum() > 0
    untrained = [name for name, p in model.named_parameters() if p.grad is None]
    assert all("pooler" in name for name in untrained)


def test_gradient_checkpointing_changes_no_gradient(model):
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    batch = labelled_batch(model)
    model(**batch).loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    model(**batch).loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(parameter.grad, expected[name], atol=1e-6), name


# ---- Starting from an encoder ----


def test_a_new_model_is_ready_to_predict(model, labels):
    assert not model.training
    assert model.has_labels
    assert model.config.tags == labels
    assert model.config.labels == ["O", "LOC", "PER"]
    assert model.tokenizer.config is model.config
    assert (model.config.model_max_length, model.config.marker_max_length, model.config.entity_max_length) == (
        32,
        24,
        4,
    )


def test_markers_start_from_the_mask_token(tiny_encoder, labels):
    encoder = BertModel.from_pretrained(tiny_encoder)
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels)
    table = model.encoder.get_input_embeddings().weight
    mask = table[model.tokenizer.mask_token_id]
    for marker in model.tokenizer.marker_ids:
        assert torch.equal(table[marker], mask)
    before = encoder.get_input_embeddings().weight
    assert torch.equal(table[: len(before)], before)
    assert len(table) % 8 == 0
    assert len(table) == model.config.vocab_size == model.config.encoder["vocab_size"]
    assert len(table) == model.encoder.config.vocab_size


def test_markers_start_from_the_mean_where_there_is_no_mask_token(tmp_path, labels):
    tokenizer = wordpiece()
    tokenizer.mask_token = None
    path = make_encoder(tmp_path, tokenizer, vocab_size=160)
    before = BertModel.from_pretrained(path).get_input_embeddings().weight
    table = SpanMarkerModel.from_pretrained(path, labels=labels).encoder.get_input_embeddings().weight
    assert len(table) == 160, "rows to spare are used"
    assert torch.allclose(table[len(tokenizer)], before.mean(dim=0))


def test_the_encoder_keeps_its_weights(tiny_encoder, model):
    before = BertModel.from_pretrained(tiny_encoder).state_dict()
    for name, tensor in model.encoder.state_dict().items():
        if "word_embeddings" not in name:
            assert torch.equal(tensor, before[name]), name


def test_a_hand_made_encoder_keeps_its_weights():
    encoder = BertModel(BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.uniform_(-0.5, 0.5)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    config = SpanMarkerConfig(encoder.config)
    config.set_labels(["O", "PER"])
    model = SpanMarkerModel(config, encoder)
    assert model.encoder is encoder
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.encoder.state_dict().items())


def test_a_model_of_a_configuration_alone_has_random_weights():
    config = SpanMarkerConfig(BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    config.set_labels(["O", "PER"])
    for model in (SpanMarkerModel(config), AutoModel.from_config(config)):
        assert isinstance(model, SpanMarkerModel)
        assert 0.01 < model.classifier.weight.std() < 0.03
        assert not model.classifier.bias.any()
        assert 0.01 < model.encoder.embeddings.word_embeddings.weight.std() < 0.03


def test_initialisation_leaves_the_encoders_modules_alone(shared_model):
    linear = nn.Linear(2, 2)
    before = copy.deepcopy(linear.state_dict())
    shared_model._init_weights(linear)
    assert all(torch.equal(tensor, before[name]) for name, tensor in linear.state_dict().items())


def test_dropout_follows_the_encoder(tiny_encoder, labels):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, hidden_dropout_prob=0.25)
    assert model.dropout.p == model.encoder.config.hidden_dropout_prob == 0.25
    assert model.config.encoder["hidden_dropout_prob"] == 0.25
    assert model.train()(**(batch := collate(model, SENTENCES))).logits.ne(model(**batch).logits).any()


def test_settings_of_nothing_are_refused(tiny_encoder, labels, tmp_path):
    with pytest.raises(TypeError, match="entity_max_len"):
        SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, entity_max_len=3)
    SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels).save_pretrained(tmp_path)
    with pytest.raises(TypeError, match="entity_max_len"):
        SpanMarkerModel.from_pretrained(tmp_path, entity_max_len=3)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.bfloat16, torch.bfloat16), ("bfloat16", torch.bfloat16), ("auto", torch.float32), (None, torch.float32)],
)
def test_a_new_model_in_another_type(tiny_encoder, labels, dtype, expected):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, dtype=dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {expected}
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_a_given_configuration_is_used_but_not_changed(tiny_encoder):
    config = SpanMarkerConfig(entity_max_length=3, marker_max_length=16, max_prev_context=2)
    config.set_labels(["O", "B-PER", "I-PER"], "IOB1")
    before = copy.deepcopy(config.to_dict())
    model = SpanMarkerModel.from_pretrained(tiny_encoder, config=config, entity_max_length=5)
    assert config.to_dict() == before
    assert (model.config.entity_max_length, model.config.marker_max_length) == (5, 16)
    assert model.config.max_prev_context == 2
    assert model.config.tags == ["O", "B-PER", "I-PER"]
    assert model.config.scheme == "IOB1"
    assert model.config.encoder["hidden_size"] == 32
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_given_labels_replace_those_of_a_given_configuration(tiny_encoder, labels):
    config = SpanMarkerConfig()
    config.set_labels(["O", "X"])
    model = SpanMarkerModel.from_pretrained(tiny_encoder, config=config, labels=labels)
    assert model.config.tags == labels


def test_a_scheme_can_be_given(tiny_encoder, labels):
    assert SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, scheme="IOB1").config.scheme == "IOB1"
    with pytest.raises(ValueError, match="does not fit the scheme"):
        SpanMarkerModel.from_pretrained(tiny_encoder, labels=["O", "E-PER"], scheme="IOB2")


def test_model_card_data_are_kept(tiny_encoder, labels, tmp_path):
    data = SpanMarkerModelCardData(language="en")
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_card_data=data)
    assert model.model_card_data is data
    model.save_pretrained(tmp_path)
    other = SpanMarkerModel.from_pretrained(tmp_path)
    assert other.model_card_data is not data
    assert SpanMarkerModel.from_pretrained(tmp_path, model_card_data=data).model_card_data is data


@pytest.mark.parametrize("name", ["model_max_length", "marker_max_length", "entity_max_length"])
def test_wrong_lengths_are_refused(tiny_encoder, labels, tmp_path, name):
    SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels).save_pretrained(tmp_path)
    for path in (tiny_encoder, tmp_path):
        with pytest.raises(ValueError, match=f"{name} must be an integer of at least"):
            SpanMarkerModel.from_pretrained(path, labels=labels, **{name: 0})


def test_an_encoder_that_cannot_carry_markers_is_refused(tmp_path, labels):
    path = make_encoder(tmp_path, wordpiece(), "mpnet")
    with pytest.raises(ValueError, match="MPNetModel cannot be used as an encoder for span markers"):
        SpanMarkerModel.from_pretrained(path, labels=labels)


def test_regression_distilbert(tmp_path):
    model = make_model(tmp_path / "encoder", wordpiece(), "distilbert", outside=-100.0, dim=32, n_heads=4)
    expected = model.predict(SENTENCES)
    assert any(expected)
    model.save_pretrained(tmp_path / "model")
    assert SpanMarkerModel.from_pretrained(tmp_path / "model").predict(SENTENCES) == expected
    model.train()(**labelled_batch(model)).loss.backward()


# ---- Labels ----


def test_a_model_can_start_without_labels(tiny_encoder, labels):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, scheme="IOB1")
    assert not model.has_labels
    assert model.config.labels == ["O"]
    with pytest.raises(ValueError, match="no entity types yet"):
        model.predict(SENTENCES)
    model.set_labels(labels, model.config.scheme)
    assert model.has_labels
    assert model.config.scheme == "IOB1"
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_set_labels_starts_a_new_classifier(model):
    old = give_opinions(model).to(torch.bfloat16).classifier
    model.set_labels(["O", "A", "B", "C"])
    assert model.classifier is not old
    assert model.classifier.weight.shape == (4, 64)
    assert model.classifier.weight.dtype == torch.bfloat16
    assert 0.015 < model.classifier.weight.std() < 0.025
    assert not model.classifier.bias.any()
    assert model.config.labels == ["O", "A", "B", "C"]


def test_wrong_labels_leave_the_model_as_it_is(model, labels):
    classifier = model.classifier
    with pytest.raises(ValueError, match="no 'O'"):
        model.set_labels(["B-PER", "I-PER"])
    assert model.classifier is classifier
    assert model.config.tags == labels


# ---- Length ----


@pytest.fixture
def said(caplog):
    """Messages that are said once only, as if nothing had been said before."""
    from transformers.utils import logging

    logging.warning_once.cache_clear()
    caplog.set_level("WARNING")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("span_marker")]


def test_regression_full_length_input_does_not_overflow_the_position_table(tmp_path, labels, said):
    tokenizer = wordpiece()
    tokenizer.model_max_length = 66
    path = make_encoder(tmp_path / "encoder", tokenizer, max_position_embeddings=66)
    model = SpanMarkerModel.from_pretrained(path, labels=labels, model_max_length=66, entity_max_length=3)
    assert model.config.model_max_length == model.tokenizer.model_max_length == 64
    SpanMarkerModel.from_pretrained(path, labels=labels, model_max_length=66)
    (message,) = said()
    assert "model_max_length is 66, but BertModel and its tokenizer take at most 64 tokens" in message

    batch = collate(model, [LONG])
    assert batch["input_ids"].shape == (1, 64)
    assert model(**batch).logits.isfinite().all()
    assert len(model.predict([LONG])) == 1

    # A checkpoint that says otherwise, as those of version 1.x do.
    model.config.model_max_length = 66
    model.save_pretrained(tmp_path / "model")
    loaded = SpanMarkerModel.from_pretrained(tmp_path / "model")
    assert loaded.config.model_max_length == loaded.tokenizer.model_max_length == 64
    assert collate(loaded, [LONG])["input_ids"].shape == (1, 64)
    assert len(loaded.predict([LONG])) == 1


def test_a_length_that_fits_is_not_worth_a_word(tiny_encoder, labels, said):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=64)
    assert model.config.model_max_length == 64
    assert SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels).config.model_max_length == 64
    assert said() == []


@pytest.mark.parametrize("length", [3, 7, 33, 63])
def test_regression_odd_lengths(tiny_encoder, labels, length):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=length, marker_max_length=5)
    batch = collate(model, [LONG, *SENTENCES])
    assert batch["input_ids"].shape[1] == length
    assert model(**batch).logits.isfinite().all()
    assert len(model.predict([LONG, *SENTENCES])) == 1 + len(SENTENCES)


def test_the_tokenizer_limits_the_length_before_and_after_saving(tmp_path, labels, said):
    tokenizer = wordpiece()
    tokenizer.model_max_length = 20
    path = make_encoder(tmp_path / "encoder", tokenizer)
    model = SpanMarkerModel.from_pretrained(path, labels=labels)
    assert model.config.model_max_length == model.tokenizer.model_max_length == 20
    model.save_pretrained(tmp_path / "model")
    loaded = SpanMarkerModel.from_pretrained(tmp_path / "model")
    assert loaded.config.model_max_length == loaded.tokenizer.model_max_length == 20
    assert said() == []


def test_encoders_without_a_position_table_take_any_length(tmp_path, labels, said):
    tokenizer = modernbert()
    tokenizer.model_max_length = 5000
    path = make_encoder(tmp_path, tokenizer, "modernbert", max_position_embeddings=2048)
    assert SpanMarkerModel.from_pretrained(path, labels=labels).config.model_max_length == 512
    model = SpanMarkerModel.from_pretrained(path, labels=labels, model_max_length=3000)
    assert model.config.model_max_length == 3000
    assert said() == []


def test_encoders_without_a_position_table_say_their_default_length(tmp_path, labels):
    tokenizer = llama_bpe()
    path = make_encoder(tmp_path, tokenizer, "modernbert", max_position_embeddings=48)
    assert SpanMarkerModel.from_pretrained(path, labels=labels).config.model_max_length == 48


# ---- The module as a whole ----


def test_a_model_without_a_tokenizer_says_what_to_do(tiny_encoder, labels, shared_model):
    config = SpanMarkerConfig(BertConfig(vocab_size=160, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    config.set_labels(labels)
    model = SpanMarkerModel(config)
    for use in (lambda: model.predict(SENTENCES), lambda: model(**collate(shared_model, SENTENCES))):
        with pytest.raises(ValueError, match=r"no tokenizer.*set_tokenizer"):
            use()
    model.set_tokenizer(SpanMarkerTokenizer.from_pretrained(tiny_encoder, config=model.config))
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_equal_and_independent(model, copied):
    give_opinions(model)
    expected = model.predict(SENTENCES)
    other = copied(model)
    assert other.predict(SENTENCES) == expected
    assert other.tokenizer.config is other.config
    other.set_labels(["O", "X"])
    other.config.entity_max_length = 1
    assert model.predict(SENTENCES) == expected


def test_try_cuda_stays_where_there_is_no_gpu(model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert model.try_cuda() is model
    assert model.device.type == "cpu"


def test_try_cuda_moves_where_there_is_one(model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(model, "cuda", lambda device=None: (model, device))
    assert model.try_cuda("cuda:1") == (model, "cuda:1")


def test_autocast_gives_nearly_the_same(shared_model):
    batch = collate(shared_model, SENTENCES)
    with torch.no_grad():
        expected = shared_model(**batch).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = shared_model(**batch).logits
    mask = torch.arange(expected.shape[1]) < batch["num_spans"][:, None]
    assert (found.float() - expected)[mask].abs().max() < 0.25


def test_a_compiled_model_gives_the_same(shared_model):
    batch = collate(shared_model, SENTENCES[:2])
    compiled = torch.compile(copy.deepcopy(shared_model), backend="eager")
    with torch.no_grad():
        assert torch.allclose(compiled(**batch).logits, shared_model(**batch).logits, atol=1e-5)
    torch.compiler.reset()


def test_the_auto_class_loads_a_whole_model(shared_model, tmp_path):
    shared_model.save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path)
    assert isinstance(model, SpanMarkerModel)
    assert model.predict(SENTENCES) == shared_model.predict(SENTENCES)
