"""Models, tokenizers and data sets that go to the Hub and come back, by the real client libraries."""

import ast
import json
import os
import re
import subprocess
import sys
import threading

import pytest
from datasets import load_dataset
from hub_api import OWNER, READER
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError
from safetensors.torch import load
from tiny_models import MODEL_FILES, SENTENCES, assert_close, give_opinions
from transformers import AutoTokenizer

from span_marker import SpanMarkerModel, SpanMarkerTokenizer
from span_marker.hub import connection_error


@pytest.fixture
def opinionated(model):
    return give_opinions(model, outside=-100.0)


@pytest.fixture
def pushed(hub, opinionated):
    """A model on the Hub, and nothing of it in the cache."""
    opinionated.push_to_hub("org/ner")
    hub.requests.clear()
    return opinionated


def commits_of(hub):
    """Revisions whose files were asked for."""
    return {re.search("/resolve/([^/]+)/", path)[1] for path in hub.asked("/resolve/")}


def same(first, second):
    return first.predict(SENTENCES) == second.predict(SENTENCES)


# ---- There and back ----


def test_a_pushed_model_comes_back(hub, pushed):
    assert hub.files("org/ner").keys() == MODEL_FILES
    assert same(SpanMarkerModel.from_pretrained("org/ner"), pushed)
    assert {token for _, path, token in hub.requests if path.startswith("/lfs/")} == {None}


def test_one_commit_is_loaded(hub, pushed):
    SpanMarkerModel.from_pretrained("org/ner")
    assert commits_of(hub) == {"main", hub.repositories["model", "org/ner"].branches["main"]}
    assert len(hub.asked("/resolve/main/config.json", "HEAD")) == len(hub.asked("/resolve/main")) - 1 == 1


def test_regression_files_of_two_commits_are_mixed(hub, pushed, monkeypatch):
    old = {name: tensor.clone() for name, tensor in pushed.state_dict().items()}
    api = HfApi.model_info

    def pushed_meanwhile(self, *args, **kwargs):
        monkeypatch.undo()
        other = SpanMarkerModel(pushed.config)
        other.set_tokenizer(pushed.tokenizer)
        other.push_to_hub("org/ner", token=OWNER)
        return api(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        monkeypatch = patch
        patch.setattr(HfApi, "model_info", pushed_meanwhile)
        loaded = SpanMarkerModel.from_pretrained("org/ner")
    assert len(hub.repositories["model", "org/ner"].history()) == 3
    assert all(tensor.equal(old[name]) for name, tensor in loaded.state_dict().items())


def test_a_model_is_loaded_without_the_hub_once_it_is_there(hub, pushed, monkeypatch):
    SpanMarkerModel.from_pretrained("org/ner")
    hub.requests.clear()
    assert same(SpanMarkerModel.from_pretrained("org/ner", local_files_only=True), pushed)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert same(SpanMarkerModel.from_pretrained("org/ner"), pushed)
    assert hub.requests == []


def test_a_model_is_loaded_from_the_cache_while_the_hub_is_down(hub, pushed, waits):
    SpanMarkerModel.from_pretrained("org/ner")
    hub.fail("", 503, times=1000)
    assert same(SpanMarkerModel.from_pretrained("org/ner"), pushed)


@pytest.mark.parametrize("part_size", [None, 20_000], ids=["one part", "parts"])
def test_shards(hub, opinionated, part_size):
    hub.part_size = part_size
    opinionated.push_to_hub("org/ner", max_shard_size="30KB")
    assert sum(name.endswith(".safetensors") for name in hub.files("org/ner")) > 1
    assert same(SpanMarkerModel.from_pretrained("org/ner"), opinionated)


def test_a_model_in_a_subfolder(hub, pushed):
    hub.create("org/nested", files={f"inner/model/{name}": data for name, data in hub.files("org/ner").items()})
    assert same(SpanMarkerModel.from_pretrained("org/nested", subfolder="inner/model"), pushed)


def test_revisions(hub, pushed, labels):
    first = hub.repositories["model", "org/ner"].branches["main"]
    pushed.set_labels(["O", "B-X", "I-X"])
    commit = pushed.push_to_hub("org/ner", revision="experiments/x", commit_message="Other labels")
    assert hub.repositories["model", "org/ner"].history("experiments/x")[0] == "Other labels"
    revisions = {None: labels, "main": labels, first: labels, "experiments/x": ["O", "B-X", "I-X"]}
    for revision, tags in (revisions | {commit.oid: ["O", "B-X", "I-X"]}).items():
        assert SpanMarkerModel.from_pretrained("org/ner", revision=revision).config.tags == tags
    with pytest.raises(OSError, match="nope is not a valid git identifier"):
        SpanMarkerModel.from_pretrained("org/ner", revision="nope")


def test_a_pull_request(hub, pushed):
    pushed.set_labels(["O", "B-X", "I-X"])
    pushed.push_to_hub("org/ner", create_pr=True, token=READER)
    assert SpanMarkerModel.from_pretrained("org/ner", revision="refs/pr/1").config.tags == ["O", "B-X", "I-X"]
    assert SpanMarkerModel.from_pretrained("org/ner").config.tags != ["O", "B-X", "I-X"]


def test_saving_can_push(hub, opinionated, tmp_path):
    opinionated.save_pretrained(tmp_path / "ner", push_to_hub=True, commit_message="First", private=True)
    assert hub.files("ada/ner").keys() == MODEL_FILES
    assert hub.repositories["model", "ada/ner"].private
    assert hub.repositories["model", "ada/ner"].history()[0] == "First"
    opinionated.save_pretrained(tmp_path / "ner", push_to_hub=True, repo_id="org/other")
    assert same(SpanMarkerModel.from_pretrained("org/other"), opinionated)


def test_regression_transformers_card_replaced_the_models(hub, opinionated):
    opinionated.model_card_data.license = "mit"
    opinionated.push_to_hub("org/ner", tags=["mine"])
    seen = HfApi().model_info("org/ner")
    assert seen.card_data.license == "mit"
    assert {"span-marker", "mine"} <= set(seen.tags)
    assert (seen.library_name, seen.pipeline_tag) == ("span-marker", "token-classification")
    assert 'from_pretrained("org/ner")' in hub.files("org/ner")["README.md"].decode()
    assert "mine" not in opinionated.model_card_data.tags
    assert opinionated.model_card_data.model_id is None


def test_a_card_that_was_edited_on_the_hub_is_kept(hub, pushed):
    card = hub.files("org/ner")["README.md"].replace(b"# SpanMarker", b"# Mine")
    HfApi().upload_file(repo_id="org/ner", path_in_repo="README.md", path_or_fileobj=card)
    pushed.model_card_data.license = "mit"
    pushed.push_to_hub("org/ner")
    assert b"# Mine" in hub.files("org/ner")["README.md"]
    assert HfApi().model_info("org/ner").card_data.license == "mit"


def test_other_processes_push_nothing(hub, opinionated, tmp_path):
    opinionated.save_pretrained(tmp_path / "ner", is_main_process=False, push_to_hub=True)
    assert not hub.requests


def test_a_pushed_tokenizer_comes_back(hub, opinionated):
    opinionated.tokenizer.push_to_hub("org/tokenizer", private=True)
    assert hub.repositories["model", "org/tokenizer"].private
    assert hub.files("org/tokenizer").keys() == {"tokenizer.json", "tokenizer_config.json"}
    opinionated.config.push_to_hub("org/tokenizer")
    loaded = SpanMarkerTokenizer.from_pretrained("org/tokenizer")
    assert loaded.fingerprint == opinionated.tokenizer.fingerprint
    assert AutoTokenizer.from_pretrained("org/tokenizer").convert_tokens_to_ids("<end>") == loaded.end_marker_id


def encoder_in(folder):
    """What span-marker 1.x follows to the encoder."""
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["encoder"]["_name_or_path"]


def test_a_new_model_names_its_encoder_on_the_hub(hub, tiny_encoder, labels, tmp_path):
    HfApi().create_repo("org/encoder")
    HfApi().upload_folder(repo_id="org/encoder", folder_path=tiny_encoder)
    for local in (False, True):
        model = SpanMarkerModel.from_pretrained("org/encoder", labels=labels, local_files_only=local)
        assert "base_model: org/encoder" in model.generate_model_card()
    model.save_pretrained(tmp_path / "model")
    assert encoder_in(tmp_path / "model") == "org/encoder"
    SpanMarkerModel.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "again")
    assert encoder_in(tmp_path / "again") == "org/encoder"


def test_the_encoder_that_span_marker_1_looks_for(model, tiny_encoder, tmp_path):
    model.save_pretrained(tmp_path)
    assert encoder_in(tmp_path) == str(tiny_encoder)
    model.model_card_data.encoder_id = "org/encoder"
    model.save_pretrained(tmp_path)
    assert encoder_in(tmp_path) == "org/encoder"


def test_a_data_set_from_the_hub(hub, dataset, waits):
    rows = "\n".join(json.dumps(row) for row in dataset).encode()
    hub.create("org/data", "dataset", files={"train.jsonl": rows, "test.jsonl": rows}, private=True)
    loaded = load_dataset("org/data")
    assert loaded["test"]["tokens"] == dataset["tokens"]
    assert loaded["train"].to_list() == dataset.to_list()


def test_the_endpoint_of_the_environment(hub, pushed, tmp_path):
    load_it = "from span_marker import SpanMarkerModel; model = SpanMarkerModel.from_pretrained('org/ner')"
    code = f"{load_it}; print(model.predict({SENTENCES!r}))"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "other"), "HF_TOKEN": OWNER}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_close(ast.literal_eval(done.stdout), pushed.predict(SENTENCES))


# ---- Access ----


@pytest.mark.parametrize("token", [False, READER])
def test_a_private_repository_needs_a_token(hub, pushed, token, waits):
    hub.repositories["model", "org/ner"].private = True
    with pytest.raises(
        OSError, match=r"private repository, make sure to pass a token .* by passing `token=<your_token>`"
    ):
        SpanMarkerModel.from_pretrained("org/ner", token=token)
    assert waits == []
    assert same(SpanMarkerModel.from_pretrained("org/ner", token=OWNER), pushed)


def test_a_gated_repository_says_where_to_ask(hub, pushed):
    hub.repositories["model", "org/ner"].gated = True
    with pytest.raises(OSError, match=r"gated repo.\nMake sure to have access to it at https://huggingface.co/org/ner"):
        SpanMarkerModel.from_pretrained("org/ner", token=READER)


def test_no_such_repository(hub):
    with pytest.raises(OSError, match="org/none is not a local folder and is not a valid model identifier"):
        SpanMarkerModel.from_pretrained("org/none")


def test_a_repository_without_a_model(hub):
    hub.create("org/empty")
    with pytest.raises(OSError, match=r"'org/empty' holds no model: it has no config\.json"):
        SpanMarkerModel.from_pretrained("org/empty")


def test_who_may_not_write_is_told(hub, pushed):
    with pytest.raises(HfHubHTTPError, match="403 Forbidden: You don't have the rights to write to org/ner"):
        pushed.push_to_hub("org/ner", token=READER)
    with pytest.raises(HfHubHTTPError, match="401"):
        pushed.push_to_hub("org/ner", token="hf_wrong")
    assert hub.repositories["model", "org/ner"].history() == ["Upload model", "initial commit"]


# ---- A Hub that fails ----


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("config.json", 429),
        ("config.json", 503),
        ("tokenizer.json", 503),
        ("safetensors", 503),
        ("^/lfs/", 429),
        ("^/lfs/", "drop"),
        ("^/lfs/", "cut"),
    ],
)
def test_a_short_failure_is_tried_again(hub, pushed, path, what, waits):
    hub.fail(path, what, times=2)
    assert same(SpanMarkerModel.from_pretrained("org/ner"), pushed)


@pytest.mark.parametrize("what", [429, 503, "drop"])
@pytest.mark.parametrize("path", ["config.json", "tokenizer.json", "tokenizer_config.json", "safetensors", "^/lfs/"])
def test_a_lasting_failure_is_named(hub, pushed, path, what, waits):
    hub.fail(path, what, times=1000)
    reason = "disconnected without sending a response" if what == "drop" else str(what)
    with pytest.raises(OSError, match=rf"of 'org/ner' cannot be loaded from the Hub: \w+\. (.|\n)*{reason}") as error:
        SpanMarkerModel.from_pretrained("org/ner")
    assert "damaged" not in str(error.value)
    hub.recover()
    assert same(SpanMarkerModel.from_pretrained("org/ner"), pushed)


def test_a_hub_that_is_not_there(hub, pushed, waits):
    hub.port = 9  # discard: nobody listens there
    with pytest.raises(OSError, match="The files of 'org/ner' cannot be loaded from the Hub: ConnectError"):
        SpanMarkerModel.from_pretrained("org/ner")


def test_an_upload_is_repeated(hub, opinionated, waits):
    hub.fail("^/lfs/", "drop", times=1000)
    with pytest.raises(RuntimeError, match=r"Error while uploading 'model\.safetensors' to the Hub"):
        opinionated.push_to_hub("org/ner")
    assert hub.files("org/ner") == {}
    hub.recover()
    hub.fail("/commit/", 500)
    with pytest.raises(HfHubHTTPError, match="500"):
        opinionated.push_to_hub("org/ner")
    assert hub.files("org/ner") == {}
    hub.requests.clear()
    opinionated.push_to_hub("org/ner")
    assert hub.asked("/lfs/", "PUT") == []  # the weights had arrived
    assert same(SpanMarkerModel.from_pretrained("org/ner"), opinionated)


def test_two_writers_do_not_mix(hub, tiny_encoder, labels):
    models = {}
    for name, length in {"first": 3, "second": 5}.items():
        models[name] = SpanMarkerModel.from_pretrained(tiny_encoder, labels=labels, entity_max_length=length)
    threads = [
        threading.Thread(target=model.push_to_hub, args=("org/ner",), kwargs={"commit_message": name})
        for name, model in models.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    titles = hub.repositories["model", "org/ner"].history()
    assert sorted(titles[:-1]) == ["first", "second"]
    last, files = models[titles[0]], hub.files("org/ner")
    assert json.loads(files["config.json"])["entity_max_length"] == last.config.entity_max_length
    assert load(files["model.safetensors"])["classifier.weight"].equal(last.classifier.weight)


def test_errors_that_come_from_no_connection():
    error = OSError("not there")
    error.__cause__ = KeyError("either")
    assert connection_error(error) is None
    assert connection_error(None) is None
    error.__cause__.__context__ = reset = ConnectionResetError()
    assert connection_error(error) is reset
