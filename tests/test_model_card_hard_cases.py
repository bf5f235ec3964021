"""Cards of trained models of every difficult kind, on a Hub: metadata, numbers, and code that runs from there."""

import re

import pytest
from conftest import LABELS, QUICK_TRAINING, make_dataset
from datasets import Dataset, DatasetDict
from hub_api import check_metadata
from huggingface_hub import ModelCard, constants
from model_cards import HARD, body_of, foreign_html, run_snippets, section, snippets

from span_marker import SpanMarkerModel, Trainer, read_dataset, write_dataset
from span_marker.model_card import look_up_hub

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")  # by the cards' code, as readers run it
MANY = [f"TYPE {number}" for number in range(200)]
PLACEHOLDERS = re.compile(r"\b(?:None|nan|TODO|[Uu]nknown|[Mm]ore [Ii]nformation)\b")


def rows_of(names, in_a_sentence=10):
    """Sentences in which each of some types occurs once, with tags as strings."""
    parts = [names[at : at + in_a_sentence] for at in range(0, len(names), in_a_sentence)]
    return Dataset.from_dict(
        {
            "tokens": [[*(f"Ada{name}" for name in part), "."] for part in parts],
            "ner_tags": [[*(f"B-{name}" for name in part), "O"] for part in parts],
        }
    )


def local_files(folder):
    write_dataset(DatasetDict({name: make_dataset() for name in ("train", "test")}), folder / "corpus", "jsonl")
    read = read_dataset(folder / "corpus")
    return read["train"], {"test": read["test"]}


def stream(folder):
    """What the Trainer says that a stream should be made into."""
    lazy = make_dataset().to_iterable_dataset()
    return Dataset.from_generator(lambda: iter(lazy), features=lazy.features, cache_dir=str(folder)), {}


CASES = {
    "local data": local_files,
    "no evaluation": lambda folder: (make_dataset(), {}),
    "no training": lambda folder: (None, {"test": make_dataset()}),
    "nothing known": lambda folder: (None, {}),
    "a stream": stream,
    "hard names": lambda folder: (rows_of(HARD), {"test": rows_of(HARD), HARD[1]: rows_of(HARD)}),
    "200 labels": lambda folder: (rows_of(MANY), {"validation": rows_of(MANY), "test": rows_of(MANY)}),
}


def make_model(encoder, train):
    labels = {"labels": LABELS} if train is None else {}
    return SpanMarkerModel.from_pretrained(encoder, model_max_length=32, entity_max_length=4, **labels)


def make_trainer(encoder, case, folder):
    """A Trainer of a case that has been trained and has evaluated, and what it found on each set."""
    train, evaluation_sets = CASES[case](folder)
    arguments = QUICK_TRAINING | {"output_dir": str(folder / "output"), "dataloader_pin_memory": False}
    trainer = Trainer(make_model(encoder, train), arguments, train_dataset=train)
    if train is not None:
        trainer.train()
    trainer.model.classifier.bias.data[trainer.model.config.outside_id] = -10  # there is something to predict
    found = {name: trainer.evaluate(rows, metric_key_prefix=name) for name, rows in evaluation_sets.items()}
    return trainer, found


def scores_in(card):
    """The results in the metadata, by name of the evaluation set and of the metric."""
    results = ModelCard(card).data.eval_results or []
    assert all(result.task_type == "token-classification" for result in results)
    return {(result.dataset_name, result.metric_type): result.metric_value for result in results}


@pytest.mark.parametrize("case", CASES)
def test_cards_on_the_hub(case, hub, tiny_encoder, tmp_path, monkeypatch, capsys):
    trainer, found = make_trainer(tiny_encoder, case, tmp_path)
    trainer.model.push_to_hub("org/ner")
    card = hub.files("org/ner")["README.md"].decode()
    assert ModelCard.load("org/ner").data.to_dict() == ModelCard(card).data.to_dict()
    assert check_metadata(card) == []
    assert scores_in(card) == {
        (" ".join(name.split()), score): metrics[f"{name}_overall_{score}"]
        for name, metrics in found.items()
        for score in ("precision", "recall", "f1")
    }
    assert foreign_html(card) == []
    assert PLACEHOLDERS.findall(body_of(card)) == []
    assert ("## Training set" in card) == (CASES[case](tmp_path / "again")[0] is not None)
    assert ("## Evaluation" in card) == bool(found)
    assert len(snippets(card)) == 3
    (tmp_path / "elsewhere").mkdir()
    run_snippets(card, tmp_path / "elsewhere", monkeypatch, capsys)


def test_a_card_offline(hub, tiny_encoder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    trainer, found = make_trainer(tiny_encoder, "local data", tmp_path)
    data = trainer.model.model_card_data
    data.encoder_id, data.dataset_id = "org/encoder", "org/data"
    look_up_hub(data)
    trainer.save_model()
    card = (tmp_path / "output" / "README.md").read_text(encoding="utf-8")
    assert hub.requests == []
    assert scores_in(card)["org/data", "f1"] == found["test"]["test_overall_f1"]
    assert ModelCard(card).data.base_model == "org/encoder"
    assert "license" not in section(card, "## Model details").lower()
    run_snippets(card, tmp_path / "output", monkeypatch, capsys)
