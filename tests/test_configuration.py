import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, BertConfig, DistilBertConfig

from span_marker import SpanMarkerConfig
from span_marker.configuration import is_setting
from span_marker.schemes import Scheme

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]

# What span-marker 1.x writes: ids are strings, and what came with later versions is absent.
OLD = {
    "architectures": ["SpanMarkerModel"],
    "encoder": {
        "_name_or_path": "somebody/bert",
        "hidden_size": 32,
        "id2label": {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC", "4": "I-LOC"},
        "label2id": {"O": 0, "B-PER": 1, "I-PER": 2, "B-LOC": 3, "I-LOC": 4},
        "model_type": "bert",
        "torch_dtype": "float32",
        "vocab_size": 30,
    },
    "entity_max_length": 6,
    "id2label": {"0": "O", "1": "LOC", "2": "PER"},
    "label2id": {"LOC": 1, "O": 0, "PER": 2},
    "marker_max_length": 64,
    "model_max_length": 64,
    "model_type": "span-marker",
    "torch_dtype": "float32",
    "transformers_version": "4.27.2",
}


def make_config(tags=TAGS, **settings):
    config = SpanMarkerConfig(BertConfig(hidden_size=32, num_hidden_layers=1, vocab_size=30), **settings)
    config.set_labels(tags)
    return config


def through_json(config):
    return SpanMarkerConfig.from_dict(json.loads(json.dumps(config.to_dict())))


def test_defaults():
    config = SpanMarkerConfig()
    assert (config.model_max_length, config.marker_max_length, config.entity_max_length) == (None, 128, 8)
    assert (config.max_prev_context, config.max_next_context) == (None, None)
    assert config.trained_with_document_context is False
    assert config.span_marker_version is None
    assert not config.has_labels


@pytest.mark.parametrize(
    "make",
    [
        lambda encoder: SpanMarkerConfig(encoder, entity_max_length=3),
        lambda encoder: SpanMarkerConfig(encoder.to_dict(), entity_max_length=3),
        lambda encoder: SpanMarkerConfig(encoder=encoder.to_dict(), entity_max_length=3),
    ],
    ids=["object", "dictionary", "as saved"],
)
def test_the_encoder_configuration_is_kept_as_a_dictionary(make):
    config = make(BertConfig(hidden_size=24, vocab_size=31))
    assert config.encoder["hidden_size"] == 24
    assert config.encoder["model_type"] == "bert"
    assert config.vocab_size == 31
    assert config.entity_max_length == 3


@pytest.mark.parametrize("name", ["tags", "num_labels", "to_dict", "encoder", "model_type", "attn_implementation"])
def test_regression_what_is_no_setting_was_overwritten(name):
    config = make_config()
    before = config.to_dict()
    assert config.override({name: 3}) == {name: 3}
    assert config.to_dict() == before


def test_settings_are_those_of_the_model_and_of_its_encoder():
    config = make_config()
    settings = {"entity_max_length": 3, "hidden_size": 24, "output_hidden_states": True, "nonsense": 1}
    assert config.override(settings) == {"nonsense": 1}
    assert (config.entity_max_length, config.encoder["hidden_size"]) == (3, 24)
    assert config.output_hidden_states is config.encoder["output_hidden_states"] is True


@pytest.mark.parametrize(
    ("config", "name", "expected"),
    [
        (BertConfig(), "hidden_size", True),
        (DistilBertConfig(), "hidden_size", True),
        (BertConfig(), "output_attentions", True),
        (BertConfig(), "dim", False),
        (BertConfig(), "use_return_dict", False),
        (BertConfig(), "save_pretrained", False),
        (BertConfig(), "num_labels", False),
    ],
)
def test_settings_are_told_from_other_attributes(config, name, expected):
    assert is_setting(config, name) is expected


def test_the_given_dictionary_is_not_changed():
    given_settings = {"model_type": "bert"}
    SpanMarkerConfig(given_settings).set_labels(TAGS)
    assert given_settings == {"model_type": "bert"}


@pytest.mark.parametrize("value", [0, -1, 2.0, "8", True])
@pytest.mark.parametrize("name", ["model_max_length", "marker_max_length", "entity_max_length"])
def test_lengths_are_positive_integers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least .*, but it is {value!r}"):
        SpanMarkerConfig(**{name: value})


@pytest.mark.parametrize("name", ["marker_max_length", "entity_max_length"])
def test_lengths_with_a_default_cannot_be_none(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        SpanMarkerConfig(**{name: None})


@pytest.mark.parametrize("value", [-1, 1.5, False, "1"])
@pytest.mark.parametrize("name", ["max_prev_context", "max_next_context"])
def test_context_is_limited_by_a_number_of_sentences(name, value):
    assert getattr(SpanMarkerConfig(**{name: 0}), name) == 0
    assert getattr(SpanMarkerConfig(**{name: None}), name) is None
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 0"):
        SpanMarkerConfig(**{name: value})


def test_a_text_needs_room_for_a_token_between_its_special_tokens():
    assert SpanMarkerConfig(model_max_length=3).model_max_length == 3
    with pytest.raises(ValueError, match="at least 3, but it is 2"):
        SpanMarkerConfig(model_max_length=2)


def test_labels_are_reduced_from_tags():
    config = make_config()
    assert config.tags == TAGS
    assert config.labels == ["O", "LOC", "PER"]
    assert config.id2label == {0: "O", 1: "LOC", 2: "PER"}
    assert config.label2id == {"O": 0, "LOC": 1, "PER": 2}
    assert config.id2reduced_id == {0: 0, 1: 2, 2: 2, 3: 1, 4: 1}
    assert config.encoder["id2label"] == dict(enumerate(TAGS))
    assert config.encoder["label2id"] == {tag: index for index, tag in enumerate(TAGS)}
    assert (config.num_labels, config.outside_id) == (3, 0)
    assert config.label_scheme.scheme is Scheme.IOB2
    assert config.scheme is None


def test_labels_without_a_scheme_are_their_own_types():
    config = make_config(["PER", "O", "LOC"])
    assert config.labels == ["PER", "O", "LOC"]
    assert config.id2reduced_id is None
    assert config.outside_id == 1
    assert config.label_scheme.scheme is Scheme.NONE


def test_a_given_scheme_is_remembered():
    config = make_config()
    config.set_labels(TAGS, "iob1")
    assert config.scheme == "IOB1"
    assert config.label_scheme.scheme is Scheme.IOB1
    assert through_json(config).label_scheme.scheme is Scheme.IOB1


@pytest.mark.parametrize(
    ("tags", "scheme", "message"),
    [
        (["B-PER", "I-PER"], None, "no 'O'"),
        (["O", "B-PER", "B-PER"], None, "more than once"),
        ([], None, "empty"),
        (["O"], None, "only 'O'"),
        (["O", "S-PER"], "IOB2", "does not fit the scheme"),
        (TAGS, "IOB3", "IOB1"),
    ],
)
def test_labels_that_fit_no_scheme_are_refused_and_change_nothing(tags, scheme, message):
    config = make_config()
    before = copy.deepcopy(config.to_dict())
    with pytest.raises(ValueError, match=message):
        config.set_labels(tags, scheme)
    assert config.to_dict() == before


def test_regression_an_iterator_of_tags_was_used_up():
    config = make_config(iter(TAGS))
    assert config.tags == TAGS
    assert config.labels == ["O", "LOC", "PER"]


def test_labels_can_be_left_open():
    config = make_config()
    config.set_labels(None, "IOB1")
    assert not config.has_labels
    assert config.labels == config.tags == ["O"]
    assert config.id2reduced_id is None
    assert config.scheme == "IOB1"
    assert not through_json(config).has_labels


def test_the_labels_of_an_encoder_are_none():
    assert not SpanMarkerConfig(BertConfig()).has_labels
    assert make_config().has_labels
    assert make_config(["O", "PER"]).has_labels


def test_tags_are_sorted_by_number_and_not_by_digits():
    tags = ["O", *(f"{prefix}-type{index}" for index in range(6) for prefix in "BI")]
    config = through_json(make_config(tags))
    assert config.tags == tags
    assert config.labels == ["O", *(f"type{index}" for index in range(6))]


@pytest.mark.parametrize(
    ("tags", "schemed", "prefixes", "groups"),
    [
        (TAGS, True, {"B", "I", "O"}, {"O": {0}, "B": {1, 3}, "I": {2, 4}}),
        (["O", "PER"], False, {"O", "P"}, {"O": {0}, "P": {1}}),
    ],
)
def test_tags_are_grouped_by_prefix(tags, schemed, prefixes, groups):
    config = make_config(tags)
    assert config.are_labels_schemed() is schemed
    assert config.get_scheme_tags() == prefixes
    assert config.group_label_ids_by_tag() == groups


def test_get_finds_the_first_setting_of_the_encoder():
    config = SpanMarkerConfig({"dropout": 0.2, "hidden_dropout_prob": None, "zero": 0})
    assert config.get("dropout") == 0.2
    assert config.get(("hidden_dropout_prob", "dropout")) == 0.2
    assert config.get(["zero", "dropout"]) == 0
    assert config.get("missing") is None
    assert config.get(["missing", "hidden_dropout_prob"], default=0.1) == 0.1


def test_override_changes_the_model_and_the_encoder():
    config = make_config()
    rest = config.override({"entity_max_length": 3, "hidden_size": 64, "output_hidden_states": True, "device_map": 0})
    assert rest == {"device_map": 0}
    assert config.entity_max_length == 3
    assert config.encoder["hidden_size"] == config.encoder_config.hidden_size == 64
    assert config.output_hidden_states
    assert config.encoder["output_hidden_states"]
    assert "entity_max_length" not in config.encoder


def test_override_checks_lengths():
    with pytest.raises(ValueError, match="entity_max_length"):
        make_config().override({"entity_max_length": 0})


def test_the_encoder_configuration_has_its_own_class():
    config = SpanMarkerConfig(DistilBertConfig(dim=24, n_heads=2))
    assert isinstance(config.encoder_config, DistilBertConfig)
    assert config.encoder_config.hidden_size == 24


def test_the_encoder_configuration_leaves_loading_alone():
    settings = BertConfig(dtype="bfloat16").to_dict() | {
        "_name_or_path": "somebody/bert",
        "torch_dtype": "float16",
        "attn_implementation": "somebody/kernel",
    }
    config = SpanMarkerConfig(settings)
    assert config.encoder_config.name_or_path == ""
    assert config.encoder_config.dtype is None
    assert config.encoder_config._attn_implementation is None
    assert config.encoder["_name_or_path"] == "somebody/bert"


@pytest.mark.parametrize("settings", [{}, {"model_type": "martian"}, {"model_type": None}])
def test_an_unknown_encoder_is_an_error_that_says_so(settings):
    with pytest.raises(ValueError, match=r"encoder has model_type .*Upgrade transformers"):
        SpanMarkerConfig(settings).encoder_config  # noqa: B018


def test_round_trip(tmp_path):
    config = make_config(model_max_length=50, marker_max_length=20, max_prev_context=1, max_next_context=0)
    config.trained_with_document_context = True
    config.span_marker_version = "2.0.0"
    config.set_labels(TAGS, "IOB2")
    config.save_pretrained(tmp_path)
    for loaded in (
        through_json(config),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
        SpanMarkerConfig.from_pretrained(tmp_path),
        AutoConfig.from_pretrained(tmp_path),
    ):
        assert type(loaded) is SpanMarkerConfig
        expected, found = (json.loads(json.dumps(c.to_dict(), sort_keys=True)) for c in (config, loaded))
        for name in ("_name_or_path", "architectures"):
            expected.pop(name, None)
            found.pop(name, None)
        assert found == expected
        assert loaded.id2reduced_id == config.id2reduced_id
        assert loaded.label_scheme == config.label_scheme


def test_the_scheme_is_written_only_where_it_was_given():
    config = make_config()
    assert "scheme" not in config.to_dict()
    config.set_labels(TAGS, Scheme.IOB1)
    assert config.to_dict()["scheme"] == "IOB1"


def test_a_configuration_of_version_1_loads():
    config = SpanMarkerConfig.from_dict(copy.deepcopy(OLD))
    assert config.tags == TAGS
    assert config.id2label == {0: "O", 1: "LOC", 2: "PER"}
    assert config.labels == ["O", "LOC", "PER"]
    assert config.label_scheme.reduced_ids == (0, 2, 2, 1, 1)
    assert config.id2reduced_id is None
    assert config.outside_id == 0
    assert (config.model_max_length, config.marker_max_length, config.entity_max_length) == (64, 64, 6)
    assert config.encoder_config.vocab_size == config.vocab_size == 30
    assert config.has_labels
    again = through_json(config)
    assert again.tags == TAGS
    assert again.labels == config.labels


def test_reduced_ids_are_read_with_string_keys():
    settings = copy.deepcopy(OLD) | {"id2reduced_id": {"0": 0, "1": 2, "2": 2, "3": 1, "4": 1}}
    assert SpanMarkerConfig.from_dict(settings).id2reduced_id == {0: 0, 1: 2, 2: 2, 3: 1, 4: 1}


def test_the_auto_class_knows_the_configuration():
    assert isinstance(AutoConfig.for_model("span-marker", entity_max_length=3), SpanMarkerConfig)


@given(st.lists(st.text(min_size=1).filter(lambda name: name != "O"), min_size=1, max_size=12, unique=True))
def test_any_entity_type_survives_a_file(types):
    config = make_config(["O", *(f"{prefix}-{name}" for name in types for prefix in "BI")])
    loaded = through_json(config)
    assert loaded.labels == config.labels == ["O", *sorted(types)]
    assert loaded.tags == config.tags
    assert loaded.label_scheme == config.label_scheme


def test_decoding():
    assert SpanMarkerConfig().decoding == "flat"
    assert SpanMarkerConfig.from_dict(SpanMarkerConfig(decoding="nested").to_dict()).decoding == "nested"
    config = SpanMarkerConfig()
    config.override({"decoding": "all"})
    assert config.decoding == "all"
    with pytest.raises(ValueError, match=r"decoding must be one of .* but it is 'x'\. Choose from flat, nested, all"):
        SpanMarkerConfig(decoding="x")
