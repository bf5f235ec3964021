"""What a training pushes to the Hub, and how another goes on from there."""

import json

import pytest
import torch
from conftest import QUICK_TRAINING
from hub_api import READER
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError
from tiny_models import MODEL_FILES

from span_marker import SpanMarkerModel, Trainer, TrainingArguments

ROOT = {"training_args.bin", "training_curve.png"} | MODEL_FILES
CHECKPOINT = {"optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"} | ROOT


@pytest.fixture
def start(tiny_encoder, labels):
    def make():
        torch.manual_seed(0)
        return SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, model_max_length=32, entity_max_length=4)

    return make


@pytest.fixture
def trainer(start, dataset, tmp_path):
    """Makes Trainers whose trainings have four steps and save after two and after four."""

    def make(folder="ner", **settings):
        usual = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
        arguments = TrainingArguments(tmp_path / folder, **(QUICK_TRAINING | usual | settings))
        return Trainer(start(), arguments, train_dataset=dataset)

    return make


def folders(files):
    """Names of files by folder."""
    found = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, set()).add(name)
    return found


def step_in(files, folder):
    return json.loads(files[f"{folder}/trainer_state.json"])["global_step"]


@pytest.mark.parametrize(
    ("strategy", "checkpoints"),
    [
        ("end", {}),
        ("every_save", {}),
        ("checkpoint", {"last-checkpoint": 4}),
        ("all_checkpoints", {"checkpoint-2": 2, "checkpoint-4": 4}),
    ],
)
def test_strategies(hub, trainer, strategy, checkpoints):
    training = trainer(push_to_hub=True, hub_strategy=strategy, hub_always_push=True, hub_private_repo=True)
    training.train()
    files = hub.files("ada/ner")
    assert hub.repositories["model", "ada/ner"].private
    assert folders(files) == ({} if strategy == "end" else {"": ROOT} | dict.fromkeys(checkpoints, CHECKPOINT))
    assert {folder: step_in(files, folder) for folder in checkpoints} == checkpoints
    training.push_to_hub()
    assert folders(hub.files("ada/ner"))[""] == ROOT
    assert SpanMarkerModel.from_pretrained("ada/ner").classifier.weight.equal(training.model.classifier.weight)


@pytest.mark.parametrize("strategy", ["end", "every_save"])
def test_a_card_that_was_edited_on_the_hub_is_kept(hub, trainer, strategy):
    training = trainer(push_to_hub=True, hub_model_id="org/ner", hub_strategy=strategy, hub_always_push=True)
    training.push_to_hub()
    card = hub.files("org/ner")["README.md"].replace(b"# ner", b"# Mine")
    assert b"# Mine" in card
    HfApi().upload_file(repo_id="org/ner", path_in_repo="README.md", path_or_fileobj=card)
    training.train()
    training.push_to_hub()
    assert b"# Mine" in hub.files("org/ner")["README.md"]


def test_the_card_arrives_with_metadata(hub, trainer):
    training = trainer(push_to_hub=True, hub_model_id="org/ner")
    training.train()
    training.push_to_hub(commit_message="Done", language="en", license="mit", tags="mine")
    seen = HfApi().model_info("org/ner")
    assert seen.card_data.language == "en"
    assert seen.card_data.license == "mit"
    assert {"span-marker", "mine"} <= set(seen.tags)
    assert seen.library_name == "span-marker"
    assert hub.repositories["model", "org/ner"].history()[0] == "Done"


def test_a_training_goes_on_from_the_last_checkpoint_on_the_hub(hub, trainer, tmp_path):
    unbroken = trainer("unbroken")
    unbroken.train()
    broken = trainer("broken", push_to_hub=True, hub_model_id="org/ner", hub_strategy="checkpoint")

    class StopError(Exception):
        pass

    step = broken.training_step

    def stop(*args, **kwargs):
        if broken.state.global_step == 2:
            raise StopError
        return step(*args, **kwargs)

    broken.training_step = stop
    with pytest.raises(StopError):
        broken.train()
    broken._finish_current_push()
    folder = snapshot_download("org/ner", allow_patterns="last-checkpoint/*", local_dir=tmp_path / "fresh")
    resumed = trainer("fresh")
    resumed.train(resume_from_checkpoint=f"{folder}/last-checkpoint")
    assert resumed.state.global_step == 4
    expected = unbroken.model.state_dict()
    assert all(tensor.equal(expected[name]) for name, tensor in resumed.model.state_dict().items())


@pytest.mark.parametrize("strategy", ["end", "every_save"])
def test_regression_a_branch_that_does_not_exist_was_not_made(hub, trainer, strategy):
    settings = {"push_to_hub": True, "hub_revision": "experiments/x", "hub_strategy": strategy}
    training = trainer(hub_model_id="org/ner", **settings)
    training.train()
    training.push_to_hub()
    assert folders(hub.files("org/ner", "experiments/x")) == {"": ROOT}
    assert hub.files("org/ner") == {}
    training.push_to_hub(revision="other")
    assert folders(hub.files("org/ner", "other")) == {"": ROOT}


def test_a_trainer_pushes_without_having_been_asked_to(hub, trainer):
    training = trainer(hub_private_repo=True)
    training.push_to_hub()
    assert hub.repositories["model", "ada/ner"].private
    assert folders(hub.files("ada/ner")) == {"": ROOT - {"training_curve.png"}}


def test_who_may_not_write_is_told_before_the_training(hub, trainer):
    hub.create("org/ner")
    training = trainer(push_to_hub=True, hub_model_id="org/ner", hub_token=READER)
    with pytest.raises(HfHubHTTPError, match="403 Forbidden: You don't have the rights to write to org/ner"):
        training.push_to_hub()
    with pytest.raises(HfHubHTTPError, match="403 Forbidden"):
        trainer(push_to_hub=True, hub_model_id="org/other", hub_token=READER).train()


def test_regression_nobody_heard_of_a_push_that_failed(hub, trainer, caplog):
    training = trainer(push_to_hub=True, hub_strategy="every_save", hub_always_push=True)
    hub.fail("/commit/", 500)
    training.train()
    said = [record.message for record in caplog.records if "A push to 'ada/ner' failed" in record.message]
    assert len(said) == 1
    assert "500" in said[0]
    assert "trainer.push_to_hub() uploads them" in said[0]
    assert folders(hub.files("ada/ner")) == {"": ROOT}  # the second push


# ---- Damaged checkpoints ----


@pytest.fixture(scope="module")
def checkpoint(tiny_encoder, tmp_path_factory):
    """A checkpoint after two of four steps."""
    from conftest import LABELS, make_dataset

    folder = tmp_path_factory.mktemp("training")
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=LABELS, model_max_length=32, entity_max_length=4)
    arguments = TrainingArguments(
        folder, **(QUICK_TRAINING | {"max_steps": 2, "save_strategy": "steps", "save_steps": 2})
    )
    Trainer(model, arguments, train_dataset=make_dataset()).train()
    return folder / "checkpoint-2"


@pytest.mark.parametrize("damage", ["empty", "half", "other"])
@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"])
def test_regression_a_damaged_file_of_a_checkpoint_is_not_named(trainer, checkpoint, name, damage):
    file = checkpoint / name
    content = file.read_bytes()
    file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "other": b"nonsense"}[damage])
    try:
        with pytest.raises((OSError, ValueError), match=rf"{name}.*'{checkpoint}' cannot be"):
            trainer().train(resume_from_checkpoint=str(checkpoint))
    finally:
        file.write_bytes(content)


def test_a_folder_that_is_no_checkpoint(trainer, start, tmp_path):
    start().save_pretrained(tmp_path / "model")
    with pytest.raises(OSError, match=r"is no checkpoint of a training: it has no trainer_state\.json"):
        trainer().train(resume_from_checkpoint=str(tmp_path / "model"))
