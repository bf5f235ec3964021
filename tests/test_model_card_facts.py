import json

import numpy as np
import pytest
from huggingface_hub import ModelCard
from transformers import TrainingArguments

from span_marker import SpanMarkerModel, SpanMarkerModelCardData
from span_marker.entity_errors import EntityErrors
from span_marker.label_normalizer import AutoLabelNormalizer, summarize_labels
from span_marker.model_card import facts, generate_model_card, look_up_hub, sources
from span_marker.model_card.facts import FACTS_FILE, read_facts, write_facts

METRICS = {"eval_LOC": {"f1": 0.5, "number": 4}, "eval_overall_f1": np.float32(0.5), "note": "x"}


@pytest.fixture
def data(model, dataset, tmp_path):
    """All that can be known, given and recorded."""
    data = SpanMarkerModelCardData(
        language="en",
        license="mit",
        tags=["mine"],
        model_id="me/model",
        dataset_id="org/data",
        dataset_name="Data",
        widget=[{"text": "x"}],
    )
    data.set_training_data(
        dataset, summarize_labels(AutoLabelNormalizer.from_config(model.config), dataset["ner_tags"])
    )
    data.set_hyperparameters(TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, seed=7))
    data.set_training_curve([{"loss": 1.0, "epoch": 1.0, "step": 1}, {"loss": 0.5, "epoch": 2.0, "step": 2}])
    data.set_evaluation(METRICS, "test", errors=EntityErrors({}, (("LOC", "PER", 3),)), dataset=dataset)
    data.emissions = {"emissions": 1.5, "source": "codecarbon"}
    data.encoder_license = "apache-2.0"
    return data


def test_there_and_back(data):
    same = read_facts(write_facts(data, None))
    assert same.model_id is None
    same.model_id = data.model_id
    assert same == data
    assert "dataset_id" in same.loaded
    assert "license" not in same.loaded


def test_a_reloaded_model_has_the_same_card(model, data, tmp_path):
    model.model_card_data = data
    model.save_pretrained(tmp_path / "one")
    again = SpanMarkerModel.from_pretrained(tmp_path / "one")
    again.model_card_data.model_id = "me/model"
    assert generate_model_card(again) == generate_model_card(model)
    again.model_card_data.model_id = None
    again.save_pretrained(tmp_path / "two")
    assert (tmp_path / "two" / FACTS_FILE).read_text() == (tmp_path / "one" / FACTS_FILE).read_text()
    for name in ("one", "two"):
        assert ModelCard.load(tmp_path / name / "README.md").data.eval_results[0].metric_value == 0.5


def test_the_encoders_id_is_kept(model, tmp_path):
    model.encoder.config._name_or_path, model.encoder.config._commit_hash = "org/encoder", "abc"
    model.save_pretrained(tmp_path)
    assert ModelCard(SpanMarkerModel.from_pretrained(tmp_path).generate_model_card()).data.base_model == "org/encoder"


def test_a_training_ends_what_was_loaded_of_an_earlier_one(data):
    same = read_facts(write_facts(data, "org/encoder"))
    same.dataset_name = "Newly given"
    same.start_training()
    assert (same.language, same.license, same.encoder_id) == ("en", "mit", "org/encoder")
    assert (same.dataset_id, same.widget, same.hyperparameters, same.training_set) == (None, None, None, None)
    assert (same.curve, same.environment, same.emissions, same.evaluations) == ([], {}, None, {})
    assert same.dataset_name == "Newly given"
    assert same.version["python"]


def test_given_hyperparameters_end_with_the_next_training_of_a_loaded_model(tmp_path):
    data = SpanMarkerModelCardData(hyperparameters={"lr": 1})
    data.start_training()
    assert data.hyperparameters == {"lr": 1}
    same = read_facts(write_facts(data, None))
    assert same.keeps_hyperparameters
    same.start_training()
    same.set_hyperparameters(TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, seed=7))
    assert same.hyperparameters == {"seed": 7}


def test_new_labels_forget_the_training(model, data, tmp_path):
    model.model_card_data = data
    model.save_pretrained(tmp_path)
    again = SpanMarkerModel.from_pretrained(tmp_path, labels=["O", "B-X", "I-X"], ignore_mismatched_sizes=True)
    assert again.model_card_data.training_set is None
    assert again.model_card_data.evaluations == {}


def test_models_without_the_file_have_an_empty_card(model, tmp_path):
    model.save_pretrained(tmp_path)
    (tmp_path / FACTS_FILE).unlink()
    assert SpanMarkerModel.from_pretrained(tmp_path).model_card_data == SpanMarkerModelCardData()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"values": {"what": 1}}', '{"values": {"dataset_id": "a/b/c"}}', '{"values": {}, "curve": 3}'],
)
def test_a_damaged_file_is_told_and_not_used(model, tmp_path, text, caplog):
    model.save_pretrained(tmp_path)
    (tmp_path / FACTS_FILE).write_text(text)
    assert SpanMarkerModel.from_pretrained(tmp_path).model_card_data == SpanMarkerModelCardData()
    assert f"The file {FACTS_FILE} in '{tmp_path}' is not used for the model card." in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        {"curve": [{"Step": 1}]},
        {"curve": [{"Step": 1, "Epoch": "x"}]},
        {"training_set": {"num_words": 1}},
        {"evaluations": {"test": {"metrics": {}, "errors": {"outcomes": {"LOC": {}}, "confusions": []}}}},
    ],
)
def test_a_file_that_would_not_render_is_refused(data, change):
    with pytest.raises(ValueError, match="It does not hold what is known of a model"):
        read_facts(json.dumps(json.loads(write_facts(data, None)) | change))


def test_text_that_is_no_unicode_can_be_saved(model, tmp_path):
    model.model_card_data.predict_example = "half a character: \ud83d"
    model.save_pretrained(tmp_path)
    SpanMarkerModel.from_pretrained(tmp_path).save_pretrained(tmp_path)


def test_a_foreign_file_injects_nothing(model, data, tmp_path):
    values = json.loads(write_facts(data, None))
    values["training_set"]["source"] |= {"id": "a](x)", "name": "<script>", "languages": ["<b>", "en"]}
    values["training_set"]["examples"] = {"LOC": ["<script>"]}
    values["environment"] = {"<script>": "<script>"}
    values["values"]["dataset_id"] = values["values"]["language"] = None
    values["values"]["dataset_name"] = None
    model.model_card_data = read_facts(json.dumps(values))
    body = generate_model_card(model).split("---\n", 2)[2]
    assert "<script>" not in body
    assert "a](x)" not in body
    assert "- **Language:** en\n" in body


def test_the_hub_is_asked_only_on_request(data, monkeypatch):
    asked = []

    def answer(repo_id, repo_type="model", revision=None, *, online=False):
        asked.append((repo_id, repo_type, online))
        return {"language": ["de", "no code"], "license": "gpl"} if online else {}

    monkeypatch.setattr(facts, "cached_metadata", answer)
    data.language, data.encoder_license = None, None
    write_facts(data, "org/encoder")
    assert asked == [("org/encoder", "model", False)]
    look_up_hub(data, "org/encoder")
    assert (data.language, data.encoder_license) == (["de"], "gpl")
    look_up_hub(data, "org/encoder")
    assert len(asked) == 3


def test_a_hub_that_does_not_answer_changes_nothing(data, tmp_path, monkeypatch):
    monkeypatch.setattr(sources.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    data.language, data.encoder_license = None, None
    look_up_hub(data, "org/encoder")
    assert (data.language, data.encoder_license) == (None, None)
