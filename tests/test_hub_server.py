"""The Hub of the tests answers the real client as the Hub does."""

import pytest
from hub_api import READER
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

WEIGHTS = bytes(range(256)) * 40


def upload(api, path, data, repo_id="ada/model", **kwargs):
    return api.upload_file(path_or_fileobj=data, path_in_repo=path, repo_id=repo_id, **kwargs)


@pytest.fixture
def api(hub):
    api = HfApi()
    api.create_repo("model")
    return api


def test_users_and_repositories(api, hub):
    assert api.whoami()["name"] == "ada"
    assert api.create_repo("ada/model", exist_ok=True).repo_id == "ada/model"
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_repo("ada/model")
    with pytest.raises(HfHubHTTPError, match="403"):
        api.create_repo("somebody/model")
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        api.whoami(token="hf_nobody")
    assert api.model_info("ada/model").private is False


@pytest.mark.parametrize("part_size", [None, 1000], ids=["one part", "parts"])
def test_files_come_back_as_they_went(api, hub, part_size):
    hub.part_size = part_size
    upload(api, "model.safetensors", WEIGHTS)
    upload(api, "folder/config.json", b"{}")
    assert hub.files("ada/model") == {"model.safetensors": WEIGHTS, "folder/config.json": b"{}"}
    assert len(hub.asked("/lfs/", "PUT")) == (1 if part_size is None else 11)
    folder = snapshot_download("ada/model")
    for path, data in hub.files("ada/model").items():
        with open(f"{folder}/{path}", "rb") as file:
            assert file.read() == data
    assert {token for _, path, token in hub.requests if path.startswith("/lfs/")} == {None}  # no token for the CDN


def test_unchanged_files_make_no_commit(api, hub):
    for _ in range(2):
        upload(api, "model.safetensors", WEIGHTS)
        upload(api, "config.json", b"{}")
    assert len(hub.repositories["model", "ada/model"].history()) == 3


def test_commits_change_and_delete(api, hub):
    for path in ("a.txt", "b/c.txt", "b/d.txt"):
        upload(api, path, path.encode())
    deletions = [CommitOperationDelete("a.txt"), CommitOperationDelete("b/")]
    api.create_commit("ada/model", [*deletions, CommitOperationAdd("e.txt", b"e")], commit_message="change")
    assert hub.files("ada/model") == {"e.txt": b"e"}
    assert hub.repositories["model", "ada/model"].history()[0] == "change"
    with pytest.raises(EntryNotFoundError):
        api.delete_file("a.txt", "ada/model")


def test_a_commit_on_an_old_parent_is_refused(api):
    parent = upload(api, "a.txt", b"a").oid
    upload(api, "a.txt", b"b", parent_commit=parent)
    with pytest.raises(HfHubHTTPError, match="412"):
        upload(api, "a.txt", b"c", parent_commit=parent)


def test_branches_and_revisions(api, hub):
    first = upload(api, "a.txt", b"1").oid
    api.create_branch("ada/model", branch="dev/x")
    upload(api, "a.txt", b"2", revision="dev/x")
    assert {branch.name for branch in api.list_repo_refs("ada/model").branches} == {"main", "dev/x"}
    for revision, content in {"main": b"1", "dev/x": b"2", first: b"1"}.items():
        with open(hf_hub_download("ada/model", "a.txt", revision=revision), "rb") as file:
            assert file.read() == content
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download("ada/model", "a.txt", revision="none")
    with pytest.raises(EntryNotFoundError):
        hf_hub_download("ada/model", "b.txt")


def test_trees(api):
    for path in ("a.txt", "b/c.txt", "b/d/e.bin"):
        upload(api, path, b"x")
    assert [entry.path for entry in api.list_repo_tree("ada/model")] == [".gitattributes", "a.txt", "b"]
    assert [entry.path for entry in api.list_repo_tree("ada/model", "b", recursive=True)] == [
        "b/c.txt",
        "b/d",
        "b/d/e.bin",
    ]
    assert [entry.path for entry in api.get_paths_info("ada/model", ["b/d", "none", "a.txt"])] == ["b/d", "a.txt"]


def test_private_and_gated(api, hub):
    hub.create("org/secret", files={"a.txt": b"a"}, private=True)
    hub.create("org/gated", files={"a.txt": b"a"}, gated=True)
    assert hf_hub_download("org/secret", "a.txt")
    for token in (False, READER):
        with pytest.raises(RepositoryNotFoundError):
            api.model_info("org/secret", token=token)
        with pytest.raises(GatedRepoError):
            hf_hub_download("org/gated", "a.txt", token=token)
        assert api.model_info("org/gated", token=token).gated == "auto"
    with pytest.raises(HfHubHTTPError, match="403"):
        upload(api, "a.txt", b"b", token=READER)


def test_metadata_is_checked(api, hub):
    card = "---\ntags: [ner]\nlicense: mit\nlibrary_name: span-marker\n---\ntext\n"
    upload(api, "README.md", card.encode())
    seen = api.model_info("ada/model")
    assert (seen.tags, seen.card_data.license, seen.library_name) == (["ner"], "mit", "span-marker")
    for wrong in ("tags: [ner", "base_model: ./folder", "tags: [1]", "model-index: [{}]"):
        with pytest.raises(ValueError, match="Invalid metadata"):
            upload(api, "README.md", f"---\n{wrong}\n---\n".encode())


def test_a_large_file_is_checked(api, hub):
    hub.create("ada/other")
    hub.fail("/lfs/", 200, method="PUT")  # says that it was stored
    with pytest.raises(RuntimeError, match=r"Error while uploading 'model\.safetensors'"):
        upload(api, "model.safetensors", WEIGHTS)
    assert "model.safetensors" not in hub.files("ada/model")


def test_failures_on_demand(api, hub, waits):
    hub.create("org/model", files={"model.safetensors": WEIGHTS[1:]})
    hub.fail("/preupload/", 503, times=2)
    hub.fail("/preupload/", 429, Retry_After="7")
    hub.fail("/lfs/", "drop", method="PUT")
    hub.fail("/lfs/", "cut", method="GET")
    upload(api, "model.safetensors", WEIGHTS)
    assert waits == [1, 2, 8, 1]
    with open(hf_hub_download("org/model", "model.safetensors"), "rb") as file:
        assert file.read() == WEIGHTS[1:]
    hub.fail("/api/models/", 500)
    with pytest.raises(HfHubHTTPError, match="500"):
        api.model_info("org/model")
    assert api.model_info("org/model").sha


def test_a_server_that_does_not_answer(api, hub):
    hub.fail("/api/models/", "hang")
    with pytest.raises(Exception, match="timed out"):
        api.model_info("ada/model", timeout=0.1)
    assert api.model_info("ada/model", timeout=5).sha
