"""What is pushed; the Hub is a folder here."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from span_marker import SpanMarkerModel, pushing


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder of repositories in place of the Hub."""
    root = tmp_path / "the hub"

    class Api:
        def __init__(self, **kwargs):
            pass

        def create_repo(self, repo_id, **kwargs):
            name = repo_id if "/" in repo_id else f"me/{repo_id}"
            (root / name).mkdir(parents=True, exist_ok=True)
            return type("Url", (), {"repo_id": name})

    def upload(self, folder, repo_id, files_timestamps, **kwargs):
        for file in Path(folder).iterdir():
            if file.name not in files_timestamps or file.stat().st_mtime > files_timestamps[file.name]:
                shutil.copy(file, root / repo_id)
        return kwargs

    def card(repo_id, token=None, revision=None):
        file = root / repo_id / "README.md"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    monkeypatch.setattr(pushing, "HfApi", Api)
    monkeypatch.setattr(pushing, "published_card", card)
    monkeypatch.setattr(SpanMarkerModel, "_upload_modified_files", upload)
    return root


def test_regression_the_models_own_card_is_pushed(model, hub):
    model.push_to_hub("org/tiny", tags=["mine"], commit_message="x")
    text = (hub / "org/tiny/README.md").read_text(encoding="utf-8")
    assert 'SpanMarkerModel.from_pretrained("org/tiny")' in text
    assert ModelCard(text).data.tags[-1] == "mine"
    assert model.model_card_data.model_id is None
    assert "mine" not in model.model_card_data.tags
    loaded = SpanMarkerModel.from_pretrained(hub / "org/tiny")
    assert loaded.config.labels == model.config.labels


def test_settings_reach_the_upload(model, hub):
    settings = {"commit_message": "a", "commit_description": "b", "token": "c", "revision": "d", "create_pr": True}
    assert model.push_to_hub("tiny", private=True, **settings) == settings


def test_an_edited_card_on_the_hub_is_kept(model, hub):
    model.push_to_hub("tiny")
    file = hub / "me/tiny/README.md"
    file.write_text(file.read_text(encoding="utf-8").replace("# SpanMarker", "# Mine"), encoding="utf-8")
    model.model_card_data.license = "mit"
    model.push_to_hub("tiny")
    text = file.read_text(encoding="utf-8")
    assert "# Mine" in text
    assert ModelCard(text).data.license == "mit"


def test_saving_can_push_what_is_new(model, hub, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "optimizer.pt").write_text("not for the Hub")
    model.save_pretrained(folder, push_to_hub=True)
    names = {
        "README.md",
        "config.json",
        "model.safetensors",
        "model_card.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert {file.name for file in (hub / "me/tiny").iterdir()} == names
    assert 'from_pretrained("me/tiny")' in (folder / "README.md").read_text(encoding="utf-8")
    model.save_pretrained(folder, push_to_hub=True, repo_id="org/other", max_shard_size="1GB")
    assert (hub / "org/other/model.safetensors").is_file()


def test_other_processes_push_nothing(model, hub, tmp_path):
    model.save_pretrained(tmp_path / "tiny", is_main_process=False, push_to_hub=True)
    assert not hub.exists()
