import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Sequence, Value, disable_progress_bars
from datasets import config as datasets_config
from hub_api import OWNER
from hub_server import HubServer
from huggingface_hub import constants as hub_constants
from huggingface_hub import file_download as hub_downloads
from huggingface_hub import set_client_factory
from huggingface_hub.utils import _http as hub_http
from pytest_socket import disable_socket, enable_socket, socket_allow_hosts
from tokenizers_zoo import wordpiece
from transformers import BertConfig, BertModel

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
QUICK_TRAINING = {
    "num_train_epochs": 1,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "save_strategy": "no",
    "use_cpu": True,
    "report_to": [],
    "disable_tqdm": True,
}
"""Arguments of trainings that log every step and keep nothing."""
SENTENCES = [
    (["Ada", "Lovelace", "lives", "in", "London", "."], [1, 2, 0, 0, 3, 0]),
    (["Paris", "is", "big", "."], [3, 0, 0, 0]),
    (["Nobody", "knows", "."], [0, 0, 0]),
    (["New", "York", "met", "Grace", "Hopper", "today", "."], [3, 4, 0, 1, 2, 0, 0]),
    (["Grace", "saw", "Paris", "and", "London", "."], [1, 0, 3, 0, 3, 0]),
    (["Alan", "Turing", "left", "New", "York", "."], [1, 2, 0, 3, 4, 0]),
]


def pytest_runtest_setup():
    disable_socket(allow_unix_socket=True)


@pytest.fixture(autouse=True, scope="session")
def _quiet():
    torch.set_num_threads(1)  # tiny models: more threads only get in each other's way
    disable_progress_bars()


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and reference checkpoints, which is no part of the repository."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("SPAN_MARKER_SHARED", root.parent / "shared"))
    if not (folder / "reference").is_dir():
        pytest.skip(f"no shared data at {folder}; set SPAN_MARKER_SHARED")
    return folder


@pytest.fixture(scope="session")
def labels():
    return list(LABELS)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory):
    """A folder with a tiny random BERT and its WordPiece tokenizer."""
    folder = tmp_path_factory.mktemp("tiny-encoder")
    words = sorted({word for tokens, _ in SENTENCES for word in tokens})
    pieces = [piece for word in words for piece in (word[:5], f"##{word[5:]}")[: 1 + (len(word) > 5)]]
    tokenizer = wordpiece(texts=words, pieces=pieces)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=66,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return str(folder)


def make_dataset(repeat=1, documents=False):
    """Rows of the six sentences with ClassLabel tags, several times over."""
    rows = [
        {"tokens": tokens, "ner_tags": tags} | ({"document_id": copy, "sentence_id": index} if documents else {})
        for copy in range(repeat)
        for index, (tokens, tags) in enumerate(SENTENCES)
    ]
    features = {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=LABELS))}
    if documents:
        features |= {"document_id": Value("int64"), "sentence_id": Value("int64")}
    return Dataset.from_list(rows, features=Features(features))


@pytest.fixture
def dataset():
    return make_dataset()


@pytest.fixture
def document_dataset():
    return make_dataset(repeat=2, documents=True)


@pytest.fixture
def model(tiny_encoder, labels):
    """A new span marker model on the tiny encoder."""
    from span_marker import SpanMarkerModel

    torch.manual_seed(0)
    return SpanMarkerModel.from_pretrained(
        tiny_encoder, labels=labels, model_max_length=32, marker_max_length=24, entity_max_length=4
    )


def client_of(server):
    """The HTTP client of the libraries, whose requests to the Hub arrive at a server of the tests."""
    usual = hub_http.default_client_factory()
    library = sys.modules[type(usual).__module__.partition(".")[0]]  # httpx, or httpx2 with newer releases

    class Transport(library.HTTPTransport):
        def handle_request(self, request):
            if request.url.host != "127.0.0.1":
                url = request.url.copy_with(scheme="http", host="127.0.0.1", port=server.port)
                kept = {"headers": request.headers, "stream": request.stream, "extensions": request.extensions}
                request = library.Request(request.method, url, **kept)
            return super().handle_request(request)

    return type(usual)(transport=Transport(), event_hooks=usual.event_hooks, follow_redirects=True, timeout=None)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub on the loopback that all client libraries talk to, as its user "ada", with a cache of their own."""
    caches = {"HF_HUB_CACHE": "hub", "HF_TOKEN_PATH": "token", "HF_HOME": "home"}
    for name, folder in caches.items():
        monkeypatch.setattr(hub_constants, name, str(tmp_path / "cache" / folder))
    monkeypatch.setattr(hub_constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache" / "datasets")
    monkeypatch.setenv("HF_TOKEN", OWNER)
    enable_socket()
    socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    with HubServer() as server:
        set_client_factory(lambda: client_of(server))
        yield server
        set_client_factory(hub_http.default_client_factory)


@pytest.fixture
def waits(monkeypatch):
    """Seconds that the client would have waited before trying again."""
    seconds = []
    clock = SimpleNamespace(**vars(time) | {"sleep": seconds.append})
    for module in (hub_http, hub_downloads):
        monkeypatch.setattr(module, "time", clock)
    return seconds
