import ast
import copy
import json
import pickle
import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset
from huggingface_hub import ModelCard, metadata_eval_result
from huggingface_hub.repocard_data import model_index_to_eval_results
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cards import HARD, MARKDOWN, body_of, foreign_html, head_of, run_snippets, saved_as, section, snippets
from tokenizers import pre_tokenizers
from transformers import AutoConfig, BertConfig, TrainingArguments
from transformers.utils import logging as transformers_logging

from span_marker.configuration import SpanMarkerConfig
from span_marker.entity_errors import OUTCOMES, EntityErrors
from span_marker.label_normalizer import AutoLabelNormalizer, summarize_labels
from span_marker.model_card import SpanMarkerModelCardData, generate_model_card
from span_marker.model_card.evaluations import Evaluation
from span_marker.model_card.facts import write_facts
from span_marker.model_card.markdown import escape, literal, number, one_line, table
from span_marker.model_card.metadata import sort_metrics
from span_marker.model_card.sources import DataSource
from span_marker.model_card.training_set import describe_training_set

METRICS = {
    "eval_LOC": {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "number": 4},
    "eval_PER": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1200},
    "eval_overall_precision": 0.75,
    "eval_overall_recall": 0.7,
    "eval_overall_f1": 0.7241379310344827,
    "eval_overall_accuracy": 0.9,
    "eval_macro_precision": 0.75,
    "eval_macro_recall": 0.625,
    "eval_macro_f1": 2 / 3,
    "eval_f1": 0.7241379310344827,
    "eval_loss": 1.25,
    "eval_runtime": 3.5,
    "eval_samples_per_second": 10.0,
    "epoch": 3.0,
}
HEAD = ["library_name", "pipeline_tag", "tags", "metrics"]
TAGS = ["span-marker", "token-classification", "ner", "named-entity-recognition"]


def make_model(data=None, labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), encoder=None, **settings):
    """What the card needs of a model."""
    encoder = encoder or BertConfig(hidden_size=32, num_hidden_layers=2)
    config = SpanMarkerConfig(encoder, **settings)
    config.set_labels(list(labels))
    return SimpleNamespace(
        model_card_data=data or SpanMarkerModelCardData(),
        config=config,
        encoder=SimpleNamespace(config=encoder),
        tokenizer=None,
    )


def summarize(model, dataset):
    return summarize_labels(AutoLabelNormalizer.from_config(model.config), dataset["ner_tags"][:])


def recorded(model, dataset):
    model.model_card_data.set_training_data(dataset, summarize(model, dataset))
    return model


def cells(text):
    """The text of a Markdown document's table cells, and all the kinds of token that they hold."""
    tokens = MARKDOWN.parse(text)
    inline = [token for before, token in pairwise(tokens) if before.type in ("th_open", "td_open")]
    kinds = {child.type for token in inline for child in token.children}
    return ["".join(child.content for child in token.children) for token in inline], kinds


# --- the data


def test_known_names_are_accepted():
    names = {
        *("language", "license", "tags", "model_name", "model_id", "encoder_name", "encoder_id", "dataset_name"),
        *("dataset_id", "dataset_revision", "task_name", "hyperparameters", "eval_results_dict", "eval_lines_list"),
        *("metric_lines", "widget", "predict_example", "label_example_list", "tokenizer_warning"),
        *("train_set_metrics_list", "code_carbon_callback", "pipeline_tag", "library_name", "version", "metrics"),
        "model",
    }
    data = SpanMarkerModelCardData()
    same = SpanMarkerModelCardData(**{name: getattr(data, name) for name in names})
    assert same == data
    assert data.task_name == "Named Entity Recognition"


def test_tags_are_added_to_the_usual_ones():
    assert SpanMarkerModelCardData(tags=["news", "ner"]).tags == [*TAGS, "news"]
    assert SpanMarkerModelCardData(tags="news").tags == [*TAGS, "news"]
    assert SpanMarkerModelCardData(tags={"b", "a"}).tags == [*TAGS, "a", "b"]


@pytest.mark.parametrize("language", ["en", "nds", "pt-BR", "multilingual", ["en", "no"], None])
def test_language(language):
    assert SpanMarkerModelCardData(language=language).language == language


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"language": "English"}, ValueError, "language is 'English'. Expected an ISO 639 code"),
        ({"language": ["en", "xx yy"]}, ValueError, "'xx yy' is none"),
        ({"language": 5}, TypeError, "language is 5. Expected a string or a list of strings."),
        ({"tags": [1]}, TypeError, r"tags is \[1\]"),
        ({"license": 3}, TypeError, "license is 3. Expected a string."),
        ({"model_id": "/home/me/model"}, ValueError, "model_id is '/home/me/model'. Expected an id on the Hub"),
        ({"encoder_id": "./encoder"}, ValueError, "Leave it out for what is not on the Hub"),
        ({"dataset_id": "a/b/c"}, ValueError, "dataset_id is 'a/b/c'"),
        ({"hyperparameters": ["lr"]}, TypeError, "Expected a dictionary"),
        ({"widget": {"text": "x"}}, TypeError, "Expected a list of dictionaries"),
        ({"metric_lines": ["x"]}, TypeError, r"metric_lines is \['x'\]"),
    ],
)
def test_wrong_values_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        SpanMarkerModelCardData(**values)


def test_wrong_values_are_refused_later_too():
    data = SpanMarkerModelCardData(language="en")
    with pytest.raises(ValueError, match="encoder_id is '/home/me/encoder'"):
        data.encoder_id = "/home/me/encoder"
    assert data.encoder_id is None
    vars(data)["encoder_id"] = "/home/me/encoder"
    with pytest.raises(ValueError, match="encoder_id is '/home/me/encoder'"):
        generate_model_card(make_model(data))


def test_versions_that_are_not_known_are_left_out(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    assert list(SpanMarkerModelCardData().version)[:3] == ["python", "span_marker", "transformers"]
    monkeypatch.setattr("span_marker.model_card.setup.installed_version", missing)
    assert list(SpanMarkerModelCardData().version) == ["python", "span_marker"]


def test_two_cards_share_nothing():
    settings_, rows = {"lr": 1}, [{"text": "x"}]
    first, second = (SpanMarkerModelCardData(hyperparameters=settings_, widget=rows) for _ in range(2))
    first.hyperparameters["lr"] = 2
    first.widget[0]["text"] = "y"
    first.tags.append("z")
    first.version["python"] = "1"
    first.set_evaluation(METRICS)
    assert (second.hyperparameters, second.widget, second.tags) == ({"lr": 1}, [{"text": "x"}], TAGS)
    assert second.version["python"] != "1"
    assert second.evaluations == {}


def test_metrics_are_copied():
    data, metrics = SpanMarkerModelCardData(), copy.deepcopy(METRICS)
    data.set_evaluation(metrics)
    metrics["eval_PER"]["f1"] = 0
    assert data.evaluations["evaluation"].metrics["eval_PER"]["f1"] == 1.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_copies_and_pickles_leave_the_live_objects_out(duplicate, dataset):
    live = (line for line in "x")  # can be neither copied nor pickled
    data = SpanMarkerModelCardData(language="en", model=live, code_carbon_callback=live, hyperparameters={"lr": 1})
    recorded(make_model(data), dataset)
    same = duplicate(data)
    assert same == data
    assert same.keeps_hyperparameters
    assert same.model is None
    assert data.model is live
    assert same.training_set is not data.training_set


# --- the training set


def test_training_set(dataset):
    model = make_model()
    found = describe_training_set(dataset, summarize(model, dataset))
    assert (found.num_sentences, found.num_words, found.num_entities) == (6, 32, 10)
    assert found.entity_counts == {"LOC": 6, "PER": 4}
    assert found.entity_widths == {1: 5, 2: 5}
    assert found.examples == {"LOC": ["London", "Paris", "New York"], "PER": ["Ada Lovelace", "Grace Hopper", "Grace"]}
    assert [" ".join(row["tokens"]) for row in found.sentences] == [
        "Ada Lovelace lives in London .",
        "New York met Grace Hopper today .",
        "Grace saw Paris and London .",
    ]
    assert found.sentences[0]["ner_tags"] == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert found.lengths == [
        {"Training set": "Words per sentence", "Minimum": 3, "Median": 6, "95 %": 7, "Maximum": 7},
        {"Training set": "Entities per sentence", "Minimum": 0, "Median": 2, "95 %": 3, "Maximum": 3},
        {"Training set": "Words per entity", "Minimum": 1, "Median": 1, "95 %": 2, "Maximum": 2},
    ]


def test_training_set_in_parts_is_the_same(dataset, monkeypatch):
    model = make_model()
    whole = describe_training_set(dataset, summarize(model, dataset))
    monkeypatch.setattr("span_marker.model_card.training_set._BATCH", 2)
    assert describe_training_set(dataset, summarize(model, dataset)) == whole


def test_training_set_of_selected_rows(dataset):
    model, part = make_model(), dataset.select([3, 1])
    found = describe_training_set(part, summarize(model, part))
    assert found.examples == {"LOC": ["New York", "Paris"], "PER": ["Grace Hopper"]}
    assert [row["tokens"][0] for row in found.sentences] == ["New"]


def test_examples_differ():
    dataset = Dataset.from_dict(
        {"tokens": [["Rome", "to", "Rome"], ["Oslo"], ["\u200b", "\n"]], "ner_tags": [[3, 0, 3], [3], [0, 3]]}
    )
    model = make_model()
    assert describe_training_set(dataset, summarize(model, dataset)).examples == {"LOC": ["Rome", "Oslo"]}


def test_a_stream_tells_its_summary_only(dataset):
    found = describe_training_set(dataset.to_iterable_dataset(), summarize(make_model(), dataset))
    assert (found.num_entities, found.lengths, found.examples, found.sentences) == (10, [], {}, [])


def test_an_empty_training_set_and_empty_sentences():
    model = make_model()
    for rows in ([], [[]]):
        dataset = Dataset.from_dict({"tokens": rows, "ner_tags": rows})
        found = describe_training_set(dataset, summarize_labels(AutoLabelNormalizer.from_config(model.config), rows))
        assert (found.num_sentences, found.entity_widths, found.sentences) == (len(rows), {}, [])
        assert "0 words, 0 entities" in generate_model_card(recorded_as(model, found))


def recorded_as(model, training_set):
    model.model_card_data.training_set = training_set
    return model


# --- hyperparameters


def arguments(tmp_path, **values):
    return TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True, **values)


def test_hyperparameters_that_differ_are_recorded(tmp_path):
    data = SpanMarkerModelCardData()
    changed = {"learning_rate": 2e-4, "per_device_train_batch_size": 16, "lr_scheduler_type": "cosine", "seed": 1}
    data.set_hyperparameters(arguments(tmp_path, hub_token="secret", run_name="x", **changed))
    assert data.hyperparameters == changed
    json.dumps(data.hyperparameters)
    card = generate_model_card(make_model(data))
    assert section(card, "## Hyperparameters") == (
        "These differ from the defaults of `transformers.TrainingArguments` and of span-marker 1.x:\n\n"
        "- learning_rate: 0.0002\n"
        "- per_device_train_batch_size: 16\n- lr_scheduler_type: cosine\n- seed: 1"
    )
    assert str(tmp_path) not in card
    assert "secret" not in card


def test_default_hyperparameters(tmp_path):
    data = SpanMarkerModelCardData()
    data.set_hyperparameters(arguments(tmp_path))
    assert data.hyperparameters == {}
    text = section(generate_model_card(make_model(data)), "## Hyperparameters")
    assert text == "All were the defaults of `transformers.TrainingArguments` and of span-marker 1.x."


def test_given_hyperparameters_are_kept(tmp_path):
    data = SpanMarkerModelCardData(hyperparameters={"lr": 1e-3})
    data.set_hyperparameters(arguments(tmp_path, learning_rate=2e-4))
    assert section(generate_model_card(make_model(data)), "## Hyperparameters") == "- lr: 0.001"


# --- metrics and the head


def test_metrics_are_sorted_out():
    found = sort_metrics(METRICS)
    assert found.overall == {"precision": 0.75, "recall": 0.7, "f1": 0.7241379310344827}
    assert found.macro == {"precision": 0.75, "recall": 0.625, "f1": 2 / 3}
    assert found.types == {"LOC": METRICS["eval_LOC"], "PER": METRICS["eval_PER"]}
    assert found.other == {"overall_accuracy": 0.9, "loss": 1.25}
    bare = {key.removeprefix("eval_"): value for key, value in METRICS.items()}
    assert sort_metrics(bare) == found


def test_metrics_of_numpy_become_plain():
    data = SpanMarkerModelCardData()
    data.set_evaluation({"overall_f1": np.float32(0.5), "extra": np.float32(0.25)})
    card = generate_model_card(make_model(data))
    assert head_of(card)["model-index"][0]["results"][0]["metrics"] == [{"type": "f1", "value": 0.5, "name": "F1"}]
    assert "- extra: 0.2500" in card


def test_head_of_an_unknown_model_has_no_guesses():
    head = head_of(generate_model_card(make_model()))
    assert list(head) == HEAD
    assert head["library_name"] == "span-marker"
    assert head["pipeline_tag"] == "token-classification"
    assert head["tags"] == TAGS
    assert head["metrics"] == ["precision", "recall", "f1"]


def test_head_of_a_known_model():
    data = SpanMarkerModelCardData(
        language=["en", "no"],
        license="apache-2.0",
        encoder_id="org/encoder",
        dataset_id="org/data",
        widget=[{"text": "Ada"}],
        tags=["news"],
    )
    head = head_of(generate_model_card(make_model(data)))
    assert head == {
        "language": ["en", "no"],
        "license": "apache-2.0",
        "library_name": "span-marker",
        "pipeline_tag": "token-classification",
        "tags": [*TAGS, "news"],
        "base_model": "org/encoder",
        "base_model_relation": "finetune",
        "datasets": ["org/data"],
        "metrics": ["precision", "recall", "f1"],
        "widget": [{"text": "Ada"}],
    }


def test_model_index_reads_back_the_numbers_of_the_evaluation():
    data = SpanMarkerModelCardData(dataset_id="org/data", dataset_name="News", dataset_revision="main")
    for name in ("eval", "test", "WNUT 17", "other"):
        data.set_evaluation(METRICS, name)
    loaded = ModelCard(generate_model_card(make_model(data))).data
    assert loaded.model_name == "SpanMarker on News"
    assert [(entry.metric_type, entry.metric_value) for entry in loaded.eval_results] == 4 * [
        ("precision", 0.75),
        ("recall", 0.7),
        ("f1", 0.7241379310344827),
    ]
    assert [
        (entry.dataset_name, entry.dataset_type, entry.dataset_split, entry.dataset_revision)
        for entry in loaded.eval_results[::3]
    ] == [
        ("News", "org/data", None, "main"),
        ("News", "org/data", "test", "main"),
        ("WNUT 17", "local:WNUT 17", None, None),
        ("other", "local:other", None, None),
    ]
    _, again = model_index_to_eval_results(loaded.to_dict()["model-index"])
    assert again == loaded.eval_results


def test_model_index_of_local_data():
    data = SpanMarkerModelCardData(eval_results_dict=METRICS)
    loaded = ModelCard(generate_model_card(make_model(data))).data
    assert {(entry.dataset_name, entry.dataset_type) for entry in loaded.eval_results} == {
        ("evaluation", "local:evaluation")
    }


def test_a_later_evaluation_replaces_the_earlier():
    data = SpanMarkerModelCardData()
    data.set_evaluation({"eval_overall_f1": 0.1}, "eval")
    data.set_evaluation({"eval_overall_f1": 0.2})
    results = ModelCard(generate_model_card(make_model(data))).data.eval_results
    assert [entry.metric_value for entry in results] == [0.2]


def test_a_new_training_forgets_the_evaluations_of_the_model_before(dataset):
    model = make_model(SpanMarkerModelCardData(eval_results_dict={"eval_overall_f1": 0.1}))
    data = model.model_card_data
    data.set_evaluation({"eval_overall_f1": 0.2})
    data.set_evaluation({"test_overall_f1": 0.3}, "test")
    recorded(model, dataset)
    assert {name: found.metrics for name, found in data.evaluations.items()} == {"evaluation": {"eval_overall_f1": 0.1}}


def card_with_emissions(**changed):
    """The card of a model whose training codecarbon measured (the fields that are read, as codecarbon 3.3 has them)."""
    measured = {
        "emissions": 0.0123456,
        "duration": 1800.5,
        "cpu_model": "CPU",
        "gpu_model": "",
        "country_name": "Norway",
    }
    measured |= {"country_iso_code": "NOR", "longitude": None, "latitude": None}
    callback = SimpleNamespace(tracker=SimpleNamespace(final_emissions_data=SimpleNamespace(**(measured | changed))))
    return generate_model_card(make_model(SpanMarkerModelCardData(code_carbon_callback=callback)))


def head_with_emissions(**changed):
    return head_of(card_with_emissions(**changed))


def test_emissions():
    assert "- Emissions: 12.3 g of CO2 equivalents (codecarbon, Norway)\n" in card_with_emissions()
    assert head_with_emissions()["co2_eq_emissions"] == {
        "emissions": 12.3,
        "source": "codecarbon",
        "training_type": "fine-tuning",
        "geographical_location": "Norway",
        "hardware_used": "CPU",
        "hours_used": 0.5,
    }
    assert head_with_emissions(gpu_model="1 x H200")["co2_eq_emissions"]["hardware_used"] == "1 x H200"


def test_regression_emissions_of_a_country_that_codecarbon_assumed(caplog):
    # What codecarbon 3.3 says without a network. The electricity of Canada is cleaner than that of most countries.
    transformers_logging.warning_once.cache_clear()
    place = {"country_iso_code": "CAN", "country_name": "Canada", "longitude": -71.2, "latitude": 46.8}
    assert "co2_eq_emissions" not in head_with_emissions(**place)
    assert caplog.text.count("OfflineEmissionsTracker(country_iso_code=") == 1
    assert "co2_eq_emissions" in head_with_emissions(**(place | {"longitude": -73.57, "latitude": 45.5}))


# --- the encoder's id


def test_a_folder_is_never_the_base_model(tiny_encoder):
    encoder = AutoConfig.from_pretrained(tiny_encoder)
    card = generate_model_card(make_model(encoder=encoder))
    assert "base_model" not in head_of(card)
    assert tiny_encoder not in card


@pytest.mark.parametrize(
    ("name", "commit", "expected"),
    [
        ("org/encoder", "abc", "org/encoder"),
        ("bert-base-cased", "abc", "bert-base-cased"),
        ("models/encoder", None, None),
        ("/somewhere/snapshots/abc", "abc", None),
        ("", "abc", None),
    ],
)
def test_base_model_is_what_came_from_the_hub(name, commit, expected):
    encoder = BertConfig()
    encoder._name_or_path, encoder._commit_hash = name, commit
    card = generate_model_card(make_model(encoder=encoder))
    assert head_of(card).get("base_model") == expected
    if expected:
        assert f"- **Encoder:** [{expected}](https://huggingface.co/{expected}) (bert, 12 layers" in card


def test_a_folder_that_looks_like_an_id_is_not_the_base_model(tmp_path, monkeypatch):
    (tmp_path / "models" / "encoder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    encoder = BertConfig()
    encoder._name_or_path, encoder._commit_hash = "models/encoder", "abc"
    assert "base_model" not in head_of(generate_model_card(make_model(encoder=encoder)))


# --- the text


def test_model_details():
    data = SpanMarkerModelCardData(
        language="de",
        license="mit",
        encoder_name="MiniLM",
        dataset_name="News",
        dataset_id="org/news",
        dataset_revision="v1",
    )
    model = make_model(data, model_max_length=128, entity_max_length=6, trained_with_document_context=True)
    assert section(generate_model_card(model), "## Model details").splitlines() == [
        "- **Encoder:** MiniLM (bert, 2 layers, hidden size 32)",
        "- **Data set:** [News](https://huggingface.co/datasets/org/news), revision v1",
        "- **Language:** de",
        "- **License:** mit",
        "- **Longest text:** 128 tokens at once",
        "- **Longest entity:** 6 words",
        "- **Context:** trained on sentences together with their neighbours in the document",
        "- **Method:** levitated markers, [PL-Marker](https://aclanthology.org/2022.acl-long.337/) (Ye et al., 2022) "
        "and [SpanMarker](https://github.com/tomaarsen/SpanMarkerNER) (Aarsen, 2023)",
    ]


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({}, "SpanMarker for LOC, PER"),
        ({"encoder_id": "org/enc"}, "SpanMarker with org/enc"),
        ({"encoder_id": "org/enc", "encoder_name": "Enc", "dataset_id": "org/d"}, "SpanMarker with Enc on org/d"),
        ({"dataset_name": "D"}, "SpanMarker on D"),
        ({"model_name": "My\nmodel", "dataset_name": "D"}, "My model"),
    ],
)
def test_title(values, title):
    assert f"\n# {title}\n" in generate_model_card(make_model(SpanMarkerModelCardData(**values)))


def test_a_title_of_types_is_short():
    model = make_model(labels=hard_labels(f"TYPE {number}" for number in range(20)))
    assert "\n# SpanMarker\n" in generate_model_card(model)
    model.config = SpanMarkerConfig(BertConfig())
    assert "\n# SpanMarker\n" in generate_model_card(model)


def test_the_summary_tells_types_and_the_score_on_the_test_set():
    model = make_model()
    intro = "as an entity of some type or as no entity.\n"
    types = f"{intro}It finds entities of 2 types: LOC, PER.\n"
    assert f"{types}\n## Model details" in generate_model_card(model)
    model.model_card_data.set_evaluation({"eval_overall_f1": 0.25})
    assert (
        f"{types}Its F1 on the evaluation set is 0.2500 ([all scores](#evaluation)).\n\n## Model"
        in generate_model_card(model)
    )
    model.model_card_data.set_evaluation({"test_overall_f1": 0.5}, "test")
    model.model_card_data.set_evaluation({"dev_overall_f1": 0.75}, "dev|")
    assert (
        f'{types}Its F1 on the evaluation set "test" is 0.5000 ([all scores](#evaluation)).\n\n## Model'
        in generate_model_card(model)
    )
    del model.model_card_data.evaluations["test"]
    assert f'{types}Its F1 on the evaluation set "dev\\|" is 0.7500 ([all' in generate_model_card(model)
    one = make_model(labels=["O", "B-A", "I-A"])
    assert f"{intro}It finds entities of 1 type: A.\n" in generate_model_card(one)
    many = make_model(labels=hard_labels(map(str, range(200))))
    assert f"{intro}It finds entities of 200 types.\n" in generate_model_card(many)


def test_models_that_span_marker_1_runs_badly_say_so():
    text = "span-marker 1.x loads the model without its span filter"
    assert text not in generate_model_card(make_model(span_filter=True))
    assert text in generate_model_card(make_model(span_filter=True, negatives_per_word=0.33))


def test_entity_types(dataset):
    assert (
        section(generate_model_card(make_model()), "### Entity types") == "| Entity type |\n| :-- |\n| LOC |\n| PER |"
    )
    card = generate_model_card(recorded(make_model(), dataset))
    assert section(card, "### Entity types").splitlines() == [
        "| Entity type | In the training set | Examples |",
        "| :-- | --: | :-- |",
        '| LOC | 6 | "London", "Paris", "New York" |',
        '| PER | 4 | "Ada Lovelace", "Grace Hopper", "Grace" |',
    ]


def test_text_of_the_training_set_can_be_kept_out(dataset):
    data = SpanMarkerModelCardData(label_example_list=[])
    card = generate_model_card(recorded(make_model(data), dataset))
    facts = write_facts(data, None)
    for word in ("Paris", "Hopper"):
        assert word not in card
        assert word not in facts
    assert "| LOC | 6 |" in card


def test_a_model_without_labels_has_no_table_of_types():
    model = make_model()
    model.config = SpanMarkerConfig(BertConfig())
    assert "Entity types" not in generate_model_card(model)


def test_given_tables_are_shown():
    data = SpanMarkerModelCardData(
        label_example_list=[{"Label": "X", "Examples": "y"}],
        metric_lines=[{"Label": "X", "F1": 0.5}],
        eval_lines_list=[{"Epoch": 1.0, "F1": 0.25}],
        train_set_metrics_list=[{"Training set": "Sentence length", "Min": 1}],
    )
    card = generate_model_card(make_model(data))
    assert section(card, "### Entity types").endswith("| X | y |")
    assert section(card, "## Evaluation").endswith("| X | 0.5000 |")
    assert section(card, "## Course of the training").endswith("| 1.0000 | 0.2500 |")
    assert section(card, "## Training set").endswith("| Sentence length | 1 |")


def test_evaluation():
    data = SpanMarkerModelCardData()
    data.set_evaluation(METRICS, "test")
    assert section(generate_model_card(make_model(data)), "### Evaluation set: test").splitlines() == [
        "| Entity type | Precision | Recall | F1 | Support |",
        "| :-- | --: | --: | --: | --: |",
        "| LOC | 0.5000 | 0.2500 | 0.3333 | 4 |",
        "| PER | 1.0000 | 1.0000 | 1.0000 | 1,200 |",
        "| All (micro) | 0.7500 | 0.7000 | 0.7241 | 1,204 |",
        "| All (macro) | 0.7500 | 0.6250 | 0.6667 | 1,204 |",
        "",
        "- Accuracy of the words' tags: 0.9000",
        "- Loss of a candidate span: 1.25",
    ]


def test_sections_without_content_are_left_out():
    titles = [line for line in generate_model_card(make_model()).splitlines() if line.startswith("#")]
    assert titles == [
        "# SpanMarker for LOC, PER",
        "## Model details",
        "### Entity types",
        "## How to use",
        "## Environment",
        "## Limitations",
        "## Citation",
    ]


def test_limitations(dataset):
    model = recorded(make_model(entity_max_length=1, model_max_length=32), dataset)
    model.model_card_data.tokenizer_warning = True
    assert section(generate_model_card(model), "## Limitations").splitlines() == [
        "- Entities of more than 1 word are not found. In the training set these are 5 of 10 entities (50.00%).",
        "- A sentence of more than 32 tokens is read in windows that overlap.",
        "- Entities within other entities are not found: of overlapping ones the most probable is kept.",
        "- The encoder's tokenizer does not separate punctuation from words: separate it by a space, as in "
        '"Paris ." for "Paris.".',
    ]


def test_card_has_no_stray_space_and_no_missing_value(dataset):
    full = SpanMarkerModelCardData(language="en", license="mit", dataset_name="D", eval_results_dict=METRICS)
    for model in (make_model(), recorded(make_model(full, trained_with_document_context=True), dataset)):
        card = generate_model_card(model)
        assert "None" not in card
        assert "\n\n\n" not in card
        assert all(line == line.rstrip() for line in card.splitlines())
        assert "\n```\n\n<!-- Generated by span_marker;" in card
        assert generate_model_card(model) == card


def test_values_are_not_run_as_templates():
    data = SpanMarkerModelCardData(model_name="{{ 7 + 7 }}", license="{% raw %}")
    card = generate_model_card(make_model(data))
    assert "# {{ 7 + 7 }}" in card
    assert "- **License:** {% raw %}" in card


def test_hard_names_break_no_table(dataset):
    labels = ["O", *(f"B-{name}" for name in HARD), *(f"I-{name}" for name in HARD)]
    data = SpanMarkerModelCardData(model_name=HARD[0], task_name=HARD[1], license=HARD[2], dataset_name=HARD[4])
    data.set_evaluation({name: {"precision": 0.5, "recall": 0.5, "f1": 0.5, "number": 1} for name in HARD}, HARD[5])
    card = generate_model_card(make_model(data, labels=labels))
    shown, kinds = cells(card)
    assert kinds <= {"text", "text_special"}
    assert shown[: 1 + len(HARD)] == ["Entity type", *sorted(map(one_line, HARD), key=shown.index)]
    assert shown[1 + len(HARD) :: 5] == ["Entity type", *map(one_line, HARD)]
    assert "<script>" not in MARKDOWN.render(card.split("---\n", 2)[2])
    assert ModelCard(card).data.tags == TAGS


# --- Markdown


def test_one_line():
    assert one_line(" a\r\n\tb\u2028c\x00d\u202ee\ud800 ") == "a b c de"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (12345, "12,345"),
        (0.0, "0.0000"),
        (1.0, "1.0000"),
        (0.123456, "0.1235"),
        (2.5, "2.5"),
        (1234.0, "1,234"),
        (np.float32(0.5), "0.5000"),
        (True, "True"),
        ("a_b *", "a_b \\*"),
        ("https://x.org www.y.org 1: 2", "https\\://x.org www\\.y.org 1: 2"),
    ],
)
def test_number(value, shown):
    assert number(value) == shown


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=8))
def test_literals_are_code_of_the_same_value(value):
    assert ast.literal_eval(literal(value)) == value


def test_literals_prefer_double_quotes():
    assert literal(["a", "it's", 'say "x"', 1, "\n"]) == """["a", "it's", 'say "x"', 1, "\\n"]"""


def test_table():
    rows = [{"a": "x|y", "b": 1}, {"b": 2.5, "c": None}]
    assert table(rows) == "| a | b | c |\n| :-- | --: | :-- |\n| x\\|y | 1 |  |\n|  | 2.5 |  |"


@given(st.text())
def test_escaped_text_is_shown_as_it_is(text):
    shown, kinds = cells(table([{"head": text}]))
    assert shown == ["head", one_line(text)]
    assert kinds <= {"text", "text_special"}
    tokens = MARKDOWN.parse(f"# x {escape(text)}")
    assert "".join(child.content for child in tokens[1].children) == f"x {one_line(text)}".strip()


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1).filter(one_line), st.text(min_size=1).filter(one_line))
def test_any_name_survives_the_head(model_name, dataset_name):
    data = SpanMarkerModelCardData(
        model_name=model_name, dataset_name=dataset_name, eval_results_dict={"overall_f1": 0.5}
    )
    loaded = ModelCard(generate_model_card(make_model(data))).data
    assert loaded.model_name == one_line(model_name)
    assert loaded.eval_results[0].dataset_name == one_line(dataset_name)


# --- the snippets


@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1).filter(one_line))
def test_any_example_is_valid_python(text):
    data = SpanMarkerModelCardData(predict_example=text, model_id="org/model")
    snippet = snippets(generate_model_card(make_model(data)))[0]
    compile(snippet, "card", "exec")
    texts = [node.value for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Constant)]
    assert one_line(text) in texts


def test_regression_the_card_loads_what_is_known():
    card = generate_model_card(make_model(SpanMarkerModelCardData(model_id="org/model")))
    assert 'SpanMarkerModel.from_pretrained("org/model")' in snippets(card)[0]
    card = generate_model_card(make_model())
    assert 'folder = "."  # the folder that holds this file' in snippets(card)[0]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
@pytest.mark.parametrize("repository", [None, "me/model"])
@pytest.mark.parametrize("trained", [True, False])
def test_snippets_run(model, dataset, tmp_path, monkeypatch, capsys, repository, trained):
    model.config.trained_with_document_context = True
    model.classifier.bias.data[model.config.outside_id] = -10  # so that there is something to print
    model.model_card_data.model_id = repository
    if trained:
        recorded(model, dataset)
    model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert len(snippets(card)) == 4
    with saved_as(repository, tmp_path, monkeypatch):
        run_snippets(card, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("labels", "tags"),
    [
        (["O", "I-A", "B-A"], ["O", "O", "O", "O", "I-A"]),
        (["O", "B-A", "I-A"], ["O", "O", "O", "O", "B-A"]),
        (["O", *(f"{letter}-A" for letter in "BIES")], ["O", "O", "O", "O", "S-A"]),
        (["O", *(f"{letter}-A" for letter in "BILU")], ["O", "O", "O", "O", "U-A"]),
        (["O", "A"], ["O", "O", "O", "O", "A"]),
    ],
)
def test_tagged_examples_follow_the_scheme(labels, tags):
    scheme = "IOB1" if labels[1] == "I-A" else None
    model = make_model(labels=labels)
    model.config.set_labels(labels, scheme)
    assert f'"ner_tags": [{literal(tags)}]' in snippets(generate_model_card(model))[-1]


def test_a_model_without_labels_shows_no_tagged_example():
    model = make_model()
    model.config = SpanMarkerConfig(BertConfig())
    assert len(snippets(generate_model_card(model))) == 2


# --- hard cases


def hard_labels(names):
    return ["O", *(f"{prefix}-{name}" for name in names for prefix in "BI")]


def hard_card(kind, dataset):
    """A model of a difficult kind."""
    if kind == "200 labels":
        names = [f"TYPE {number}" for number in range(200)]
        model = make_model(labels=hard_labels(names))
        scores = {name: {"precision": 0.5, "recall": 0.5, "f1": 0.5, "number": 1} for name in names}
        model.model_card_data.set_evaluation(scores | {"overall_f1": 0.5}, "test")
        return model
    if kind == "hard names":
        model = make_model(SpanMarkerModelCardData(dataset_name="<b>|`"), labels=hard_labels(HARD))
        columns = {
            "tokens": [[f"{name}{name}" for name in HARD]] * 2,
            "ner_tags": [[1 + 2 * at for at in range(len(HARD))]] * 2,
        }
        data = Dataset.from_dict(columns)
        recorded(model, data)
        outcomes = {name: dict.fromkeys((*OUTCOMES, "spurious"), 1) for name in HARD}
        errors = EntityErrors(outcomes, tuple((name, name, 1) for name in HARD))
        model.model_card_data.set_evaluation({"overall_f1": 0.5}, "<i>|", errors=errors, dataset=data)
        return model
    model = make_model()
    if kind == "stream":
        return recorded_as(model, describe_training_set(dataset.to_iterable_dataset(), summarize(model, dataset)))
    if kind == "local data":
        recorded(model, dataset).model_card_data.set_evaluation(METRICS, "test", dataset=dataset)
    if kind == "several evaluations":
        for name in ("eval", "dev", "a|b", "<script>", "two\nlines"):
            model.model_card_data.set_evaluation(METRICS, name)
    return model


@pytest.mark.parametrize(
    "kind", ["nothing known", "local data", "stream", "several evaluations", "200 labels", "hard names"]
)
def test_hard_cases_parse(kind, dataset, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    card = generate_model_card(hard_card(kind, dataset))
    loaded = ModelCard(card)
    assert loaded.data.tags == TAGS
    for result in loaded.data.eval_results or ():
        expected = metadata_eval_result(
            model_pretty_name=loaded.data.model_name,
            task_pretty_name=result.task_name,
            task_id=result.task_type,
            metrics_pretty_name=result.metric_name,
            metrics_id=result.metric_type,
            metrics_value=result.metric_value,
            dataset_pretty_name=result.dataset_name,
            dataset_id=result.dataset_type,
        )
        assert model_index_to_eval_results(expected["model-index"])[1][0].metric_value == result.metric_value
    assert foreign_html(card) == []
    for snippet in snippets(card):
        compile(snippet, "card", "exec")
    assert len(snippets(card)) == 3
    assert body_of(card).count("```") == 2 * 4


def test_long_tables_are_folded(dataset):
    card = generate_model_card(hard_card("200 labels", dataset))
    assert card.count("<details>\n<summary>200 rows</summary>\n\n| Entity type |") == 1
    assert card.count("<details>\n<summary>201 rows</summary>\n\n| Entity type |") == 1
    assert "<details>" not in generate_model_card(recorded(make_model(), dataset))


def test_results_of_parts_of_one_data_set_stay_apart():
    data = SpanMarkerModelCardData(dataset_id="org/data")
    for name, score in (("eval", 0.25), ("validation", 0.5), ("test", 0.75)):
        data.set_evaluation({"overall_f1": score}, name)
    data.evaluations["again"] = replace(data.evaluations["test"], source=DataSource(id="org/data", split="test"))
    results = ModelCard(generate_model_card(make_model(data))).data.eval_results
    assert [(entry.dataset_type, entry.dataset_split, entry.metric_value) for entry in results] == [
        ("org/data", None, 0.25),
        ("org/data", "validation", 0.5),
        ("org/data", "test", 0.75),
        ("local:again", None, 0.75),
    ]


# --- what else the card tells


def test_sources_of_training_and_evaluation_sets(dataset):
    model = recorded(make_model(), dataset)
    data = model.model_card_data
    source = DataSource("WNUT 17", "org/wnut", "abc", "small", "train", {"train": 6, "test": 1000}, ("en", "de"))
    data.training_set = replace(data.training_set, source=source)
    data.evaluations["test"] = Evaluation(METRICS, None, replace(source, split="test"), 1000)
    card = generate_model_card(model)
    head, (result, *_) = head_of(card), ModelCard(card).data.eval_results
    assert (head["datasets"], head["language"]) == (["org/wnut"], ["en", "de"])
    assert (result.dataset_type, result.dataset_config, result.dataset_split, result.dataset_revision) == (
        *("org/wnut", "small"),
        *("test", "abc"),
    )
    link = "[WNUT 17](https://huggingface.co/datasets/org/wnut), configuration small, revision abc"
    assert f"- **Data set:** {link}\n" in card
    assert f"\n1,000 sentences, split test, {link}.\n" in card
    assert "Sentences of the data set's splits: train 6, test 1,000.\n" in card
    assert "- It was trained on texts in these languages only (ISO 639): en, de." in card
    data.dataset_id = "me/other"
    assert "revision abc" not in section(generate_model_card(model), "## Model details")


def test_confusions(dataset):
    data = SpanMarkerModelCardData()
    outcomes = {"LOC": {"found": 1, "other_words": 2, "other_type": 3, "other_both": 4, "missed": 5, "spurious": 6}}
    errors = EntityErrors(outcomes, (("LOC", "a|b", 7), *(("PER", str(number), 1) for number in range(20))))
    data.set_evaluation(METRICS, "test", errors=errors)
    text = section(generate_model_card(make_model(data)), "### Evaluation set: test")
    assert "| Entity type | Found | Other words | Other type | Both | Missed | Spurious |" in text
    assert "| LOC | 1 | 2 | 3 | 4 | 5 | 6 |" in text
    assert "- LOC taken for a\\|b: 7\n- PER taken for 0: 1\n" in text
    assert text.count(" taken for ") == 10


def test_limitations_of_the_tokenizer(model, dataset):
    text = section(generate_model_card(model), "## Limitations")
    assert 'the model cannot tell "US" from "us"' in text
    assert "punctuation" not in text
    model.tokenizer.tokenizer.backend_tokenizer.normalizer = None
    model.tokenizer.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = section(generate_model_card(model), "## Limitations")
    assert "capital letters" not in text
    assert "does not separate punctuation from words" in text
    model.model_card_data.tokenizer_warning = False
    assert "punctuation" not in generate_model_card(model)


def test_entities_that_are_cut_off(dataset):
    model = make_model(model_max_length=32)
    coverage = SimpleNamespace(cut_off=2)
    model.model_card_data.set_training_data(dataset, summarize(model, dataset), coverage)
    text = section(generate_model_card(model), "## Limitations")
    assert "Training read the first only: 2 of its 10 entities (20.00%) lie behind." in text


def test_the_widget_shows_rows_of_the_training_set(dataset):
    model = recorded(make_model(), dataset)
    texts = [row["text"] for row in head_of(generate_model_card(model))["widget"]]
    assert texts[0] == "Ada Lovelace lives in London ."
    assert len(texts) == 3
    model.model_card_data.widget = []
    assert "widget" not in head_of(generate_model_card(model))


def test_the_training_curve_is_shown():
    data = SpanMarkerModelCardData()
    data.set_training_curve(
        [{"loss": 0.5, "epoch": 1.0, "step": 5}, {"eval_overall_f1": 0.75, "epoch": 1.0, "step": 5}]
    )
    model = make_model(data)
    title = "## Course of the training"
    table_ = "| Epoch | Step | Training loss | F1 |\n| :-- | --: | --: | --: |\n| 1 | 5 | 0.5000 | 0.7500 |"
    assert section(generate_model_card(model), title) == table_
    picture = "![Losses and scores by training step](x.png)"
    assert section(generate_model_card(model, "x.png"), title) == f"{picture}\n\n{table_}"


def test_the_environment_names_no_machine(tmp_path):
    data = SpanMarkerModelCardData()
    data.set_hyperparameters(arguments(tmp_path))
    assert data.environment == {"System": platform.system(), "Device": "CPU"}


def test_the_papers_of_the_encoder():
    data = SpanMarkerModelCardData(encoder_id="bert-base-cased")
    assert "@misc{devlin2018bert," in section(generate_model_card(make_model(data)), "## Citation")
    assert "devlin" not in generate_model_card(make_model())
