import json
import shutil
import socket
import struct

import pytest
import torch
from datasets import ClassLabel
from safetensors.torch import load_file, save_file
from tiny_models import MODEL_FILES, SENTENCES, TEXTS, collate, give_opinions
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig

from span_marker import SpanMarkerConfig, SpanMarkerModel, SpanMarkerTokenizer, __version__

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
OTHER_TAGS = ["O", "B-X", "I-X"]


@pytest.fixture(scope="module")
def original(tiny_encoder):
    """The model that was saved."""
    return give_opinions(
        SpanMarkerModel.from_pretrained(tiny_encoder, labels=TAGS, model_max_length=40, entity_max_length=4),
        outside=-100.0,
    )


@pytest.fixture(scope="module")
def saved(original, tmp_path_factory):
    """A folder with the model; tests that change it take `folder`."""
    path = tmp_path_factory.mktemp("saved")
    original.save_pretrained(path)
    return path


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved model, to change."""
    return shutil.copytree(saved, tmp_path / "model")


def edit_json(file, **changes):
    """Set keys of a JSON file; those set to None are removed."""
    content = json.loads(file.read_text(encoding="utf-8")) | changes
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")


def edit_encoder(folder, **changes):
    """Set keys of the encoder's part of a model's configuration."""
    file = folder / "config.json"
    edit_json(file, encoder=json.loads(file.read_text(encoding="utf-8"))["encoder"] | changes)


def assert_same_model(model, original):
    """Compare weights, logits and entities exactly."""
    weights = original.state_dict()
    assert model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    batch = collate(model, SENTENCES)
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, original(**batch).logits)
    for inputs in (SENTENCES, TEXTS):
        assert model.predict(inputs) == original.predict(inputs)


# ---- There and back ----


def test_files(saved):
    assert {path.name for path in saved.iterdir()} == MODEL_FILES
    settings = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert settings["span_marker_version"] == __version__
    assert settings["model_type"] == "span-marker"
    assert settings["architectures"] == ["SpanMarkerModel"]
    assert {name.split(".")[0] for name in load_file(saved / "model.safetensors")} == {
        "encoder",
        "classifier",
        "span_filter",
    }


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_a_saved_model_loads_as_it_was(saved, original, kind):
    model = SpanMarkerModel.from_pretrained(kind(saved))
    assert_same_model(model, original)
    assert not model.training
    assert model.tokenizer.config is model.config
    assert model.config.tags == TAGS
    for name in ("model_max_length", "marker_max_length", "entity_max_length", "id2label", "id2reduced_id"):
        assert getattr(model.config, name) == getattr(original.config, name)


def test_a_model_survives_generations(original, tmp_path):
    model = original
    for generation in range(3):
        model.save_pretrained(tmp_path / str(generation))
        model = SpanMarkerModel.from_pretrained(tmp_path / str(generation))
    assert_same_model(model, original)
    files = [(tmp_path / str(generation) / "config.json").read_text(encoding="utf-8") for generation in (1, 2)]
    assert files[0] == files[1]


def test_saving_again_overwrites(original, folder):
    model = SpanMarkerModel.from_pretrained(folder)
    model.set_labels(OTHER_TAGS)
    model.save_pretrained(folder)
    assert SpanMarkerModel.from_pretrained(folder).config.tags == OTHER_TAGS


def test_a_model_loads_from_a_subfolder(folder, original):
    assert_same_model(SpanMarkerModel.from_pretrained(folder.parent, subfolder="model"), original)


def test_a_model_in_shards(original, tmp_path):
    original.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_same_model(SpanMarkerModel.from_pretrained(tmp_path), original)
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(OSError, match=str(tmp_path)):
        SpanMarkerModel.from_pretrained(tmp_path)


def test_regression_a_card_that_could_not_be_written_lost_the_model(original, tmp_path, monkeypatch):
    monkeypatch.setattr("span_marker.model_saving.write_model_card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        original.save_pretrained(tmp_path / "model")
    assert_same_model(SpanMarkerModel.from_pretrained(tmp_path / "model"), original)


def test_only_the_main_process_writes(original, tmp_path):
    original.save_pretrained(tmp_path / "other", is_main_process=False)
    assert not (tmp_path / "other").exists() or not any((tmp_path / "other").glob("*.json"))


def test_a_model_without_a_tokenizer_can_be_saved(original, saved, tmp_path):
    model = SpanMarkerModel(original.config)
    model.save_pretrained(tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()
    with pytest.raises((OSError, ValueError), match="tokenizer"):
        SpanMarkerModel.from_pretrained(tmp_path)


def test_the_auto_classes_load_the_parts(saved, original):
    config = AutoConfig.from_pretrained(saved)
    assert isinstance(config, SpanMarkerConfig)
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert tokenizer.convert_tokens_to_ids(["<start>", "<end>"]) == list(original.tokenizer.marker_ids)
    assert SpanMarkerTokenizer.from_pretrained(saved).marker_ids == original.tokenizer.marker_ids
    assert_same_model(AutoModel.from_pretrained(saved), original)


def test_a_model_trains_after_loading(saved):
    model = SpanMarkerModel.from_pretrained(saved).train()
    batch = collate(model, SENTENCES)
    model(**batch, labels=torch.zeros_like(batch["start_positions"])).loss.backward()
    assert model.encoder.get_input_embeddings().weight.grad is not None


# ---- Without a network ----


def test_regression_a_checkpoint_is_self_contained(tiny_encoder, original, tmp_path, monkeypatch):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    SpanMarkerModel.from_pretrained(encoder, labels=TAGS).save_pretrained(tmp_path / "first")
    shutil.rmtree(encoder)
    first = SpanMarkerModel.from_pretrained(tmp_path / "first")
    first.save_pretrained(tmp_path / "second")
    shutil.rmtree(tmp_path / "first")

    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: asked.append(args) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda *args: asked.append(args))
    second = SpanMarkerModel.from_pretrained(tmp_path / "second")
    assert asked == []
    assert_same_model(second, first)


@pytest.mark.parametrize("planted", ["somebody/private-encoder", "/no/such/folder", "bert-base-uncased"])
def test_regression_the_encoders_old_path_is_not_followed(folder, original, planted, monkeypatch):
    edit_encoder(folder, _name_or_path=planted)
    edit_json(folder / "config.json", _name_or_path=planted)
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: asked.append(args) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda *args: asked.append(args))
    assert_same_model(SpanMarkerModel.from_pretrained(folder), original)
    assert asked == []


def test_what_only_the_hub_understands_reaches_transformers_alone(saved, original, monkeypatch, tmp_path):
    options = {"revision": "main", "cache_dir": str(tmp_path), "local_files_only": True, "token": False}
    seen = {}

    def spy(owner, name):
        method = getattr(owner, name)

        def call(*args, **kwargs):
            seen[owner] = {key: kwargs[key] for key in (*options, "entity_max_length") if key in kwargs}
            return method(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    for owner in (AutoConfig, AutoTokenizer):
        spy(owner, "from_pretrained")
    model = SpanMarkerModel.from_pretrained(saved, entity_max_length=4, **options)
    assert seen == {AutoConfig: options, AutoTokenizer: options}
    assert_same_model(model, original)
    assert not {*options} & {*model.config.to_dict(), *model.config.encoder}


# ---- Settings given on loading ----


def test_lengths_can_be_changed_on_loading(saved, original):
    model = SpanMarkerModel.from_pretrained(saved, entity_max_length=2, model_max_length=20, max_prev_context=1)
    assert model.config.entity_max_length == 2
    assert model.config.max_prev_context == 1
    assert model.tokenizer.model_max_length == 20
    assert max(e["word_end_index"] - e["word_start_index"] for row in model.predict(SENTENCES) for e in row) == 2
    assert original.config.entity_max_length == 4


def test_a_configuration_can_be_given_on_loading(saved, original):
    config = SpanMarkerConfig.from_pretrained(saved, entity_max_length=2)
    model = SpanMarkerModel.from_pretrained(saved, config=config, marker_max_length=7)
    assert (model.config.entity_max_length, model.config.marker_max_length) == (2, 7)
    assert config.marker_max_length == 128, "what was given is not changed"


def test_the_encoders_settings_can_be_changed_on_loading(saved):
    model = SpanMarkerModel.from_pretrained(saved, hidden_dropout_prob=0.3)
    assert model.dropout.p == model.encoder.config.hidden_dropout_prob == 0.3


@pytest.fixture(params=["encoder", "model"])
def path(request, tiny_encoder, saved):
    """An encoder to start a model from, and a saved model."""
    return tiny_encoder if request.param == "encoder" else saved


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ({"id2label": dict(enumerate(TAGS))}, "`labels=`"),
        ({"label2id": {"O": 0, "X": 1}}, "`labels=`"),
        ({"num_labels": 7}, "`labels=`"),
        ({"tags": TAGS}, "`labels=`"),
        ({"id2reduced_id": {0: 1}}, "`labels=`"),
        ({"attn_implementation": "sdpa"}, "leave it out"),
        ({"experts_implementation": "eager"}, "leave it out"),
        ({"output_loading_info": True}, "The model alone is returned"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_regression_settings_were_followed_by_half(path, setting, remedy):
    with pytest.raises(TypeError, match=f"from_pretrained does not take '{next(iter(setting))}'.*{remedy}"):
        SpanMarkerModel.from_pretrained(path, **setting)


@pytest.mark.parametrize("name", ["to_dict", "get", "has_labels", "use_return_dict", "model_type", "nonsense"])
def test_regression_what_is_no_setting_was_overwritten(path, name):
    with pytest.raises(TypeError, match=f"from_pretrained does not take '{name}'"):
        SpanMarkerModel.from_pretrained(path, **{name: 3})


def test_arguments_that_ask_for_nothing_are_ignored(path):
    model = SpanMarkerModel.from_pretrained(path, labels=TAGS, attn_implementation=None, output_loading_info=False)
    assert isinstance(model, SpanMarkerModel)


def test_regression_the_configuration_of_another_model(path):
    for make in (SpanMarkerModel, lambda config: SpanMarkerModel.from_pretrained(path, config=config)):
        with pytest.raises(TypeError, match="of type BertConfig"):
            make(BertConfig())


@pytest.mark.parametrize("dtype", [torch.bfloat16, "bfloat16"])
def test_a_model_loads_in_another_type(saved, dtype, tmp_path):
    model = SpanMarkerModel.from_pretrained(saved, dtype=dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert len(model.predict(SENTENCES)) == len(SENTENCES)
    model.save_pretrained(tmp_path)
    assert_same_model(SpanMarkerModel.from_pretrained(tmp_path, dtype="auto"), model)
    again = SpanMarkerModel.from_pretrained(tmp_path, dtype=torch.float32)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}


# ---- Labels ----


@pytest.mark.parametrize("labels", [None, TAGS, tuple(TAGS), TAGS[::-1]])
def test_labels_of_the_same_types_keep_the_classifier(saved, original, labels):
    model = SpanMarkerModel.from_pretrained(saved, labels=labels)
    assert_same_model(model, original)
    assert model.config.tags == list(labels or TAGS)


@pytest.mark.parametrize("kind", [iter, lambda tags: ClassLabel(names=tags)], ids=["iterator", "ClassLabel"])
@pytest.mark.parametrize("tags", [TAGS, TAGS[::-1]], ids=["its own", "reordered"])
def test_regression_labels_of_another_kind(saved, kind, tags):
    assert SpanMarkerModel.from_pretrained(saved, labels=kind(tags)).config.tags == tags


@pytest.mark.parametrize("labels", [set(TAGS), dict.fromkeys(TAGS), "O"], ids=lambda labels: type(labels).__name__)
def test_labels_without_an_order_are_refused(saved, labels):
    with pytest.raises(TypeError, match="`labels` is of type"):
        SpanMarkerModel.from_pretrained(saved, labels=labels)


def test_the_same_types_in_another_scheme_keep_the_classifier(saved, original):
    tags = ["O", *(f"{prefix}-{name}" for name in ("PER", "LOC") for prefix in "BIES")]
    model = SpanMarkerModel.from_pretrained(saved, labels=tags)
    assert_same_model(model, original)
    assert model.config.tags == tags
    model = SpanMarkerModel.from_pretrained(saved, scheme="IOB1")
    assert_same_model(model, original)
    assert model.config.label_scheme.scheme.value == "IOB1"


def test_other_labels_are_refused(saved):
    with pytest.raises(ValueError, match=r"trained with the tags \['O', 'B-PER'.*ignore_mismatched_sizes=True"):
        SpanMarkerModel.from_pretrained(saved, labels=OTHER_TAGS)


@pytest.mark.parametrize("labels", [OTHER_TAGS, ["O", "PER", "LOC"]], ids=["fewer", "as many"])
def test_other_labels_start_a_new_classifier_on_request(saved, original, labels):
    model = SpanMarkerModel.from_pretrained(saved, labels=labels, ignore_mismatched_sizes=True)
    assert model.config.tags == labels
    assert model.classifier.out_features == model.config.num_labels
    assert 0.015 < model.classifier.weight.std() < 0.025
    encoder = original.encoder.state_dict()
    assert all(torch.equal(tensor, encoder[name]) for name, tensor in model.encoder.state_dict().items())
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_a_model_saved_without_labels_takes_any(tiny_encoder, tmp_path):
    SpanMarkerModel.from_pretrained(tiny_encoder).save_pretrained(tmp_path)
    assert not SpanMarkerModel.from_pretrained(tmp_path).has_labels
    assert SpanMarkerModel.from_pretrained(tmp_path, scheme="IOB1").config.scheme == "IOB1"
    model = SpanMarkerModel.from_pretrained(tmp_path, labels=TAGS)
    assert model.config.labels == ["O", "LOC", "PER"]
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


# ---- Checkpoints of version 1.x ----


def test_a_version_1_configuration_loads(folder, original):
    edit_json(
        folder / "config.json",
        id2reduced_id=None,
        span_marker_version=None,
        trained_with_document_context=None,
        vocab_size=None,
        max_prev_context=None,
        max_next_context=None,
        dtype=None,
        torch_dtype="float32",
        transformers_version="4.27.2",
    )
    edit_encoder(folder, dtype=None, torch_dtype="float32", use_bfloat16=False, pruned_heads={}, top_k=50)
    assert_same_model(SpanMarkerModel.from_pretrained(folder), original)


def test_pickled_weights_of_version_1_load(folder, original):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert_same_model(SpanMarkerModel.from_pretrained(folder), original)


def test_tensors_that_the_model_does_not_have_are_left_out(folder, original):
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"encoder.embeddings.position_ids": torch.arange(66)[None]}, folder / "model.safetensors")
    assert_same_model(SpanMarkerModel.from_pretrained(folder), original)


def test_a_pooler_is_not_needed(folder, original):
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor for name, tensor in weights.items() if "pooler" not in name}, folder / "model.safetensors")
    assert SpanMarkerModel.from_pretrained(folder).predict(SENTENCES) == original.predict(SENTENCES)


# ---- Damage ----


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file):
    file.write_bytes(b"")


def overwrite(file):
    file.write_bytes(b"\x00\xff" * 500)


def remove(file):
    file.unlink()


@pytest.mark.parametrize("damage", [truncate, empty, overwrite, remove], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_an_error_that_names_its_folder(folder, name, damage):
    damage(folder / name)
    with pytest.raises((OSError, ValueError), match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("damage", [truncate, empty, overwrite], ids=lambda damage: damage.__name__)
def test_a_damaged_tokenizer_configuration_is_an_error_that_names_its_folder(folder, damage):
    damage(folder / "tokenizer_config.json")
    with pytest.raises((OSError, ValueError), match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("damage", [truncate, empty, overwrite], ids=lambda damage: damage.__name__)
def test_damaged_pickled_weights_are_an_error_that_names_its_folder(folder, damage):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    damage(folder / "pytorch_model.bin")
    with pytest.raises((OSError, ValueError), match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("damage", [truncate, empty, overwrite, remove], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_encoder_is_an_error_that_names_its_folder(tiny_encoder, tmp_path, name, damage):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    damage(encoder / name)
    with pytest.raises((OSError, ValueError), match=str(encoder)):
        SpanMarkerModel.from_pretrained(encoder, labels=TAGS)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '"span-marker"',
        "3",
        "null",
        "{}",
        '{"model_type": "span-marker"}',
        '{"model_type": "span-marker", "encoder": {"model_type": "martian"}}',
        '{"model_type": "span-marker", "encoder": []}',
        '{"model_type": "span-marker", "encoder": {"model_type": "bert"}, "entity_max_length": "many"}',
        '{"model_type": "span-marker", "encoder": {"model_type": "bert"}, "id2label": {"a": "b"}}',
        '{"model_type": "bert", "hidden_size": "wide"}',
    ],
)
def test_a_configuration_that_says_nonsense_is_an_error_that_names_its_folder(folder, content):
    (folder / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises((OSError, ValueError), match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("name", ["classifier.weight", "encoder.embeddings.word_embeddings.weight"])
def test_missing_tensors_are_an_error_that_names_them(folder, name):
    weights = load_file(folder / "model.safetensors")
    save_file({key: tensor for key, tensor in weights.items() if key != name}, folder / "model.safetensors")
    with pytest.raises(OSError, match=f"lack 1 of the model's tensors: {name}") as error:
        SpanMarkerModel.from_pretrained(folder)
    assert str(folder) in str(error.value)


def test_weights_of_another_model_are_an_error(folder):
    save_file({"something.else": torch.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(OSError, match="The file does not belong to the model's configuration"):
        SpanMarkerModel.from_pretrained(folder)


def test_weights_of_another_size_are_an_error_that_names_the_folder(folder):
    edit_encoder(folder, intermediate_size=50)
    with pytest.raises(ValueError, match=f"{folder}' have other sizes than the model's configuration"):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("setting", [{"hidden_size": 16}, {"vocab_size": 3}, {"max_position_embeddings": 30}])
def test_regression_a_wrong_setting_was_blamed_on_the_file(path, setting):
    given = ", ".join(f"{name}={value}" for name, value in setting.items())
    with pytest.raises(ValueError, match=f"{path}' have other sizes than the given {given}. Load them") as error:
        SpanMarkerModel.from_pretrained(path, labels=TAGS, hidden_act="gelu", num_attention_heads=4, **setting)
    assert "damaged" not in str(error.value)
    assert "ignore_mismatched_sizes" not in str(error.value)


def test_regression_layers_that_were_not_saved_were_blamed_on_the_file(saved):
    with pytest.raises(OSError, match="does not belong to the given num_hidden_layers=3, or"):
        SpanMarkerModel.from_pretrained(saved, num_hidden_layers=3)


def test_a_file_that_claims_to_be_huge_is_an_error(folder):
    header = json.dumps({"classifier.bias": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}})
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())
    with pytest.raises(OSError, match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)


@pytest.mark.parametrize("name", ["no-such-folder", "./no-such-folder", "/no/such/folder"])
def test_a_folder_that_does_not_exist_is_an_error_that_names_it(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((OSError, ValueError), match=name):
        SpanMarkerModel.from_pretrained(name, labels=TAGS)


def test_an_empty_folder_is_an_error_that_names_it(tmp_path):
    with pytest.raises((OSError, ValueError), match=str(tmp_path)):
        SpanMarkerModel.from_pretrained(tmp_path, labels=TAGS)


@pytest.mark.parametrize("path", ["/no/such/folder", "./nowhere", "models/conll/final"])
def test_a_missing_folder_is_named(path):
    with pytest.raises(OSError, match="There is no folder"):
        SpanMarkerModel.from_pretrained(path)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(OSError, match=r"holds no model: it has no config\.json"):
        SpanMarkerModel.from_pretrained(tmp_path)
