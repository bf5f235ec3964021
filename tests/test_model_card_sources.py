import logging

import pytest
from conftest import LABELS, QUICK_TRAINING
from datasets import Dataset, DatasetInfo, SplitDict, SplitInfo, concatenate_datasets
from huggingface_hub import constants
from transformers import BertConfig

from span_marker import Trainer, TrainingArguments
from span_marker.model_card.sources import DataSource, cached_metadata, encoder_id, find_source

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """The cache of files from the Hub."""
    folder = tmp_path / "hub"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    return folder


def keep_card(cache, repository, text):
    """Put a card into the cache as a download does."""
    snapshot = cache / repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "README.md").write_text(text, encoding="utf-8")
    (cache / repository / "refs").mkdir()
    (cache / repository / "refs" / "main").write_text(REVISION)


def make_dataset(tmp_path, folder=f"org___my_data/default/0.0.0/{REVISION}", rows=None, **info):
    """A data set of three rows as `load_dataset` caches it."""
    path = tmp_path / "datasets" / folder
    Dataset.from_dict(rows or {"tokens": [["a"], ["b"], ["c"]]}).save_to_disk(path)
    (file,) = path.glob("*.arrow")
    splits = SplitDict({"train": SplitInfo("train", num_examples=3), "test": SplitInfo("test", num_examples=9)})
    known = {"builder_name": "parquet", "config_name": "default", "splits": splits} | info
    return Dataset.from_file(str(file), info=DatasetInfo(**known), split="train")


@pytest.fixture
def cached(tmp_path, hub_cache):
    keep_card(hub_cache, "datasets--org--MyData", "---\nlanguage: [en, 'bad code']\npretty_name: My data\n---\n")
    return make_dataset(tmp_path)


def test_a_data_set_from_the_hub(cached):
    assert find_source(cached) == DataSource(
        name="My data",
        id="org/MyData",
        revision=REVISION,
        split="train",
        splits={"train": 3, "test": 9},
        languages=("en",),
    )


@pytest.mark.parametrize("strings", [False, True])
def test_a_training_records_the_source(model, tmp_path, hub_cache, strings):
    keep_card(hub_cache, "datasets--org--MyData", "---\nlanguage: en\n---\n")
    tagged = make_dataset(tmp_path, rows={"words": [["Ada", "left", "Paris"]] * 3, "ner_tags": [[1, 0, 3]] * 3})
    tagged = tagged.rename_column("words", "tokens")
    if strings:
        tagged = tagged.map(lambda row: {"tags": [LABELS[tag] for tag in row["ner_tags"]]}, remove_columns="ner_tags")
    arguments = TrainingArguments(str(tmp_path / "out"), max_steps=1, **QUICK_TRAINING)
    trainer = Trainer(model, arguments, train_dataset=tagged, column="tags" if strings else "ner_tags")
    trainer.train()
    trainer.evaluate(tagged.select([0]))
    card = model.model_card_data
    assert (card.training_set.source.id, card.training_set.source.split) == ("org/MyData", "train")
    assert (card.evaluations["evaluation"].source.id, card.evaluations["evaluation"].source.split) == (
        "org/MyData",
        None,
    )


def test_a_part_of_it_is_no_split(cached):
    for part in (cached.select([2, 0]), cached.filter(lambda row: row["tokens"] != ["b"])):
        found = find_source(part)
        assert (found.id, found.split) == ("org/MyData", None)
    assert find_source(cached.map(lambda row: row)).split == "train"


def test_recorded_downloads_tell_the_source_as_well(tmp_path, hub_cache):
    urls = {f"hf://datasets/org/Other-Data@{REVISION}/data/train-{part}.parquet": {} for part in range(2)}
    found = find_source(make_dataset(tmp_path, "somewhere", download_checksums=urls, config_name="big"))
    assert (found.id, found.revision, found.config) == ("org/Other-Data", REVISION, "big")


@pytest.mark.parametrize(
    ("folder", "checksums"),
    [
        ("org___my_data/default/0.0.0/abc", {}),
        (f"my_data/default/0.0.0/{REVISION}", {}),
        (f"org___other/default/0.0.0/{REVISION}", {}),
        ("somewhere", {"/home/me/data.json": {}, "https://example.org/x@y": {}}),
        ("somewhere", {f"hf://datasets/{name}@{REVISION}/x": {} for name in ("a/b", "a/c")}),
        ("somewhere", {f"hf://datasets/..@{REVISION}/x": {}}),
    ],
    ids=["no revision", "no owner", "another name", "no files of the Hub", "several data sets", "no id"],
)
def test_what_is_not_certain_has_no_id(tmp_path, hub_cache, folder, checksums):
    keep_card(hub_cache, "datasets--org--MyData", "---\nlanguage: en\n---\n")
    found = find_source(make_dataset(tmp_path, folder, download_checksums=checksums))
    assert found == DataSource(split="train", splits={"train": 3, "test": 9})


def test_rows_streams_and_concatenations_have_no_source(cached):
    rows = Dataset.from_dict({"tokens": [["a"]]})
    for dataset in (rows, cached.to_iterable_dataset(), concatenate_datasets([cached, rows]), None):
        assert find_source(dataset) == DataSource()
    assert find_source(concatenate_datasets([cached, cached])).split is None


def test_cards_in_the_cache_are_read_without_the_network(hub_cache, caplog):
    keep_card(hub_cache, "models--org--encoder", "---\nlicense: mit\n---\n# x\n")
    keep_card(hub_cache, "models--org--broken", "---\n- a\n---\n# x\n")
    assert cached_metadata("org/encoder") == {"license": "mit"}
    with caplog.at_level(logging.INFO, "span_marker"):
        assert cached_metadata("org/broken") == cached_metadata("org/unknown") == {}


def test_a_hub_that_does_not_answer_is_no_error(hub_cache):
    assert cached_metadata("org/unknown", online=True) == {}


def test_there_and_back():
    source = DataSource("N", "org/d", REVISION, "c", "test", {"test": 3}, ("en", "de"))
    assert DataSource.from_dict(source.to_dict()) == source
    foreign = source.to_dict() | {"id": "a/../b", "languages": ["en", "<b>"], "name": 5}
    assert DataSource.from_dict(foreign) == DataSource(None, None, REVISION, "c", "test", {"test": 3}, ("en",))


def test_an_encoder_of_a_folder_has_no_id():
    config = BertConfig()
    config._name_or_path = "org/encoder"
    assert encoder_id(config) is None
    config._commit_hash = REVISION
    assert encoder_id(config) == "org/encoder"
