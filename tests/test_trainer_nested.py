"""Training and evaluation on entities that overlap."""

import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, SENTENCES, make_dataset
from datasets import Dataset
from model_cards import body_of, run_snippets, section
from test_decoding import crosses
from transformers.utils import logging as transformers_logging

from span_marker import Decoding, SpanMarkerModel, Trainer, TrainingArguments
from span_marker.decoding_modes import MODES
from span_marker.readers.sentences import spans_of

ROWS = [
    ("Ada Lovelace lives in London .", [(0, 2, "PER"), (1, 2, "LOC"), (4, 5, "LOC")]),
    ("Paris is big .", [(0, 1, "LOC")]),
    ("Nobody knows .", []),
    ("New York met Grace Hopper today .", [(0, 2, "LOC"), (0, 3, "PER"), (3, 5, "PER"), (3, 4, "LOC")]),
    ("", []),
]
LENGTHS = {"model_max_length": 32, "marker_max_length": 24, "entity_max_length": 4}


def dictionaries(rows=ROWS, **columns):
    spans = [[dict(zip(("start", "end", "label"), span, strict=True)) for span in row] for _, row in rows]
    return Dataset.from_dict({"tokens": [text.split() for text, _ in rows], "spans": spans, **columns})


def lists(rows=ROWS):
    return Dataset.from_list(
        [{"tokens": text.split(), "spans": [list(span) for span in row]} for text, row in rows],
        on_mixed_types="use_json",
    )


def spans_of_tags(dataset):
    """The same entities in "spans"."""
    rows = [
        [{"start": start, "end": end, "label": label} for start, end, label in spans_of([LABELS[tag] for tag in tags])]
        for tags in dataset["ner_tags"]
    ]
    return dataset.remove_columns("ner_tags").add_column("spans", rows)


@pytest.fixture(scope="module")
def trainer(tiny_encoder, tmp_path_factory):
    """A Trainer that has learnt the rows by heart."""
    torch.manual_seed(0)
    rows = dictionaries(ROWS * 4)
    model = SpanMarkerModel.from_pretrained(tiny_encoder, **LENGTHS)
    arguments = QUICK_TRAINING | {"num_train_epochs": 40, "learning_rate": 5e-3, "logging_steps": 1000}
    trainer = Trainer(
        model,
        TrainingArguments(str(tmp_path_factory.mktemp("nested")), **arguments),
        train_dataset=rows,
        eval_dataset=dictionaries(),
    )
    assert model.config.tags == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert model.config.decoding == "flat"
    trainer.train()
    return trainer


@pytest.fixture
def make(tiny_encoder, tmp_path):
    """Make a Trainer."""

    def make(train_dataset=None, labels=LABELS, settings=(), **kwargs):
        torch.manual_seed(0)
        model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, **LENGTHS, **dict(settings))
        return Trainer(model, TrainingArguments(str(tmp_path), **QUICK_TRAINING), train_dataset=train_dataset, **kwargs)

    return make


def test_entities_within_others_are_learnt(trainer):
    assert trainer.model.config.decoding == "nested"
    metrics = trainer.evaluate()
    assert metrics["eval_f1"] == metrics["eval_overall_f1"] == 1.0
    assert (metrics["eval_LOC"]["number"], metrics["eval_PER"]["number"]) == (5, 3)
    assert "eval_overall_accuracy" not in metrics
    found = trainer.model.predict(ROWS[3][0].split())
    assert [(e["word_start_index"], e["word_end_index"], e["label"]) for e in found] == sorted(ROWS[3][1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("settings", [{}, {"threshold": {"LOC": 0.5, "PER": 0.25}}, {"top_k": 2}])
def test_evaluate_is_predict_scored(trainer, mode, settings):
    unseen = [("London met Ada Lovelace and New York", [(0, 1, "LOC"), (2, 7, "PER"), (5, 7, "LOC"), (2, 4, "PER")])]
    dataset = dictionaries(ROWS + unseen)
    trainer.decoding = Decoding(mode, **settings)
    try:
        output = trainer.predict(dataset)
        metrics = trainer.evaluate(dataset)
    finally:
        trainer.decoding = None
    predicted = trainer.model.predict(dataset, decoding=mode, **settings)
    found = {
        (row, e["word_start_index"], e["word_end_index"], e["label"]) for row, es in enumerate(predicted) for e in es
    }
    assert found == {(row, e["start"], e["end"], e["label"]) for row, es in enumerate(output.predictions) for e in es}
    scores = [[e["score"] for e in row] for row in predicted]
    assert scores == [[pytest.approx(e["score"], abs=1e-6) for e in row] for row in output.predictions]
    gold = {(row, *span) for row, (_, spans) in enumerate(ROWS + unseen) for span in spans}
    assert gold == {(row, e["start"], e["end"], e["label"]) for row, es in enumerate(output.label_ids) for e in es}
    right = len(found & gold)
    assert metrics["eval_overall_precision"] == right / len(found)
    assert metrics["eval_overall_recall"] == right / len(gold)
    assert metrics["eval_overall_f1"] == output.metrics["test_overall_f1"]
    if mode == "nested":
        places = [(row, 0, start, end) for row, start, end, _ in found]
        assert not any(crosses(a, b) for a in places for b in places)


def test_the_mode_is_saved(trainer, tmp_path):
    trainer.model.save_pretrained(tmp_path)
    loaded = SpanMarkerModel.from_pretrained(tmp_path)
    assert loaded.config.decoding == "nested"
    text = ROWS[3][0]
    assert loaded.predict(text) == trainer.model.predict(text) != loaded.predict(text, decoding="flat")
    assert SpanMarkerModel.from_pretrained(tmp_path, decoding="flat").config.decoding == "flat"


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_the_model_card(trainer, tmp_path, monkeypatch, capsys):
    trainer.evaluate()
    trainer.model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "- **Entities within others:** found" in card
    assert "[[{'start': 0, 'end': 2, 'label': 'PER'}" in card
    assert 'for entity in doc.spans["sc"]' in card
    assert "only the most probable is kept" in section(card, "## Limitations")
    assert "What became of the gold entities" in body_of(card)
    assert "| PER | 1.0000 | 1.0000 | 1.0000 | 3 |" in card
    SpanMarkerModel.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")  # what is known is loaded and written
    assert (tmp_path / "again" / "README.md").read_text(encoding="utf-8") == card
    run_snippets(card, tmp_path, monkeypatch, capsys)


def test_lists_are_read_as_dictionaries(make):
    trainers = [make(rows, labels=None) for rows in (dictionaries(), lists())]
    rows = [trainer.preprocess_dataset(trainer.train_dataset)[:] for trainer in trainers]
    assert rows[0] == rows[1]
    assert trainers[0].model.config.tags == trainers[1].model.config.tags


@pytest.mark.parametrize("settings", [(), {"span_filter": False}.items()], ids=["hardest", "spread"])
def test_without_overlap_spans_are_as_tags(make, settings):
    dataset = make_dataset(documents=True)
    trainer = make(settings=settings)
    tags, spans = (trainer.preprocess_dataset(rows) for rows in (dataset, spans_of_tags(dataset)))
    assert tags[:] == spans[:]
    expected, found = trainer.evaluate(dataset), trainer.evaluate(spans_of_tags(dataset))
    for metrics in (expected, found):
        for name in ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time"):
            metrics.pop(f"eval_{name}", None)
    assert found == expected
    assert "eval_overall_accuracy" in found
    assert trainer.model.model_card_data.evaluations["evaluation"].errors is not None


def test_a_training_without_overlap_stays_flat(make):
    trainer = make(spans_of_tags(make_dataset()))
    trainer.train()
    assert trainer.model.config.decoding == "flat"


def test_all_stays_all(make):
    trainer = make(dictionaries(), settings={"decoding": "all"}.items())
    trainer.train()
    assert trainer.model.config.decoding == "all"


def test_tags_go_before_spans_unless_the_column_says_otherwise(make, caplog):
    both = make_dataset().add_column("spans", [[{"start": 0, "end": 1, "label": "LOC"}]] * len(SENTENCES))
    transformers_logging.warning_once.cache_clear()
    assert make().predict(both).metrics["test_PER"]["number"] == 4
    assert "tags in 'ner_tags' and entities in 'spans', of which the tags are read" in caplog.text
    output = make(column="spans").predict(both)
    assert [len(row) for row in output.label_ids] == [1] * len(SENTENCES)


def test_sets_without_gold(make):
    output = make().predict(dictionaries().remove_columns("spans"))
    assert output.label_ids is None


def test_a_set_with_tags_scores_a_model_of_spans(make):
    trainer = make(spans_of_tags(make_dataset()), labels=None)
    assert trainer.evaluate(make_dataset())["eval_LOC"]["number"] == 6


def test_labels_of_all_sets(make):
    other = dictionaries([("Rome", [(0, 1, "CITY")])])
    assert make(dictionaries(), labels=None, eval_dataset=other).model.config.labels == ["O", "CITY", "LOC", "PER"]
    plain = make(dictionaries(), labels=None, settings={"scheme": "NONE"}.items())
    assert plain.model.config.tags == ["O", "LOC", "PER"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3, "PER")], "Row 1: the entity 'PER' at words 0 to 3 lies outside the sentence of 2 words"),
        ([(1, 1, "PER")], "Row 1: the entity 'PER' at words 1 to 1 covers no word"),
        ([(0, 1, "PER"), (0, 1, "LOC")], "Row 1: the words 0 to 1 are an entity 'LOC' and one 'PER'"),
        ([(0, 1, "PERSON")], "Row 1: the entity 'PERSON' at words 0 to 1 has a type that is none of the 2"),
    ],
)
def test_bad_rows_are_named(make, spans, message):
    dataset = dictionaries([ROWS[0], ("Ada left", spans)])
    with pytest.raises(ValueError, match=message):
        make(dataset).train()
    with pytest.raises(ValueError, match=message):
        make().evaluate(dataset)


def test_no_entity_at_all(make):
    with pytest.raises(ValueError, match="training set holds no entity: its 2 rows have no spans"):
        make(dictionaries([("Ada left", []), ("Paris", [])])).train()


def test_long_entities_are_out_of_reach(make, caplog):
    metrics = make().evaluate(dictionaries([("New York met Grace Hopper today .", [(0, 5, "PER"), (0, 2, "LOC")])]))
    assert metrics["eval_PER"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1}
    assert "1 of the 2 entities of the evaluation set (50.00%) are out of the model's reach" in caplog.text


def test_the_mode_of_evaluations(make):
    with pytest.raises(ValueError, match="decoding must be one of"):
        make(decoding="nestd")
    with pytest.raises(ValueError, match="threshold names 'X', which is no entity type"):
        make(decoding=Decoding(threshold={"X": 0.5})).evaluate(make_dataset())
    assert make(decoding="all").decoding == Decoding("all")
