"""Nothing that a checkpoint's files say may run code or reach the network."""

import json
import pickle
import shutil
import socket
from contextlib import suppress

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_models import SENTENCES, give_opinions, make_encoder
from tokenizers_zoo import wordpiece
from transformers import AutoConfig, AutoModel

from span_marker import SpanMarkerModel, SpanMarkerTokenizer

TAGS = ["O", "B-PER", "I-PER"]

CODE = """
from pathlib import Path

from transformers import BertConfig, BertModel, BertTokenizer

Path({marker!r}).write_text("run")


class Config(BertConfig):
    model_type = "planted"


class Model(BertModel):
    config_class = Config


class Tokenizer(BertTokenizer):
    pass
"""
AUTO_MAP = {
    "AutoConfig": "planted.Config",
    "AutoModel": "planted.Model",
    "AutoTokenizer": ["planted.Tokenizer", "planted.Tokenizer"],
}


@pytest.fixture(autouse=True)
def _contained(monkeypatch, tmp_path):
    """Keep what transformers copies of a checkpoint's code in the test's folder, and let nobody be asked."""
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "no")
    yield
    assert asked == []


@pytest.fixture
def ran(tmp_path):
    """Tell whether planted code was run."""
    return (tmp_path / "ran").exists


@pytest.fixture(scope="module")
def saved(tiny_encoder, tmp_path_factory):
    """A saved model."""
    folder = tmp_path_factory.mktemp("saved")
    give_opinions(SpanMarkerModel.from_pretrained(tiny_encoder, labels=TAGS)).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved model with a module beside it that leaves a trace when it is run."""
    copied = shutil.copytree(saved, tmp_path / "model")
    (copied / "planted.py").write_text(CODE.format(marker=str(tmp_path / "ran")), encoding="utf-8")
    return copied


def edit(file, changes, part=None):
    """Change a JSON file, or a part of it."""
    content = json.loads(file.read_text(encoding="utf-8"))
    (content if part is None else content[part]).update(changes)
    file.write_text(json.dumps(content), encoding="utf-8")


EVIL = {
    "trust_remote_code": True,
    "auto_map": AUTO_MAP,
    "custom_pipelines": {"span-marker": {"impl": "planted.Model", "pt": ["AutoModel"]}},
    "attn_implementation": "somebody/kernel",
    "_attn_implementation": "somebody/kernel",
    "_attn_implementation_internal": "somebody/kernel",
    "experts_implementation": "somebody/kernel",
    "_experts_implementation": "somebody/kernel",
    "use_kernels": True,
    "allow_all_kernels": True,
    "code_revision": "main",
    "token": "secret",
    "_name_or_path": "somebody/encoder",
    "name_or_path": "somebody/encoder",
}


def test_planted_code_would_run_if_it_were_trusted(folder, ran):
    edit(folder / "config.json", {"model_type": "planted", "auto_map": AUTO_MAP})
    AutoConfig.from_pretrained(folder, trust_remote_code=True)
    assert ran(), "if this fails, the other tests prove nothing"


@pytest.mark.parametrize("part", [None, "encoder"], ids=["configuration", "encoder's configuration"])
@pytest.mark.parametrize("key", [*EVIL, "everything"])
def test_regression_the_configuration_runs_no_code(folder, ran, part, key, saved, monkeypatch):
    edit(folder / "config.json", EVIL if key == "everything" else {key: EVIL[key]}, part)
    reached = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: reached.append(args) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda *args: reached.append(args))
    model = SpanMarkerModel.from_pretrained(folder)
    assert not ran()
    assert reached == []
    assert type(model) is SpanMarkerModel
    assert type(model.encoder).__module__.startswith("transformers.")
    assert model.predict(SENTENCES) == SpanMarkerModel.from_pretrained(saved).predict(SENTENCES)


@pytest.mark.parametrize("load", [SpanMarkerModel.from_pretrained, SpanMarkerTokenizer.from_pretrained])
@pytest.mark.parametrize(
    "planted",
    [
        {"auto_map": AUTO_MAP},
        {"auto_map": AUTO_MAP, "tokenizer_class": "Tokenizer", "trust_remote_code": True},
        {"auto_map": {"AutoTokenizer": ["somebody/code--planted.Tokenizer", None]}, "tokenizer_class": "Tokenizer"},
        {"tokenizer_file": "/etc/hostname", "vocab_file": "/etc/hostname", "name_or_path": "somebody/tokenizer"},
        {"chat_template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"},
    ],
    ids=range(5),
)
def test_regression_the_tokenizer_configuration_runs_no_code(folder, ran, planted, load):
    edit(folder / "tokenizer_config.json", planted)
    with suppress(OSError, ValueError):  # refusing is as good
        load(folder)
    assert not ran()


@pytest.mark.parametrize("part", [None, "encoder"])
def test_regression_an_unknown_architecture_is_refused_and_not_fetched(folder, ran, part):
    edit(folder / "config.json", {"model_type": "planted", "auto_map": AUTO_MAP, "trust_remote_code": True}, part)
    with pytest.raises(ValueError, match="trust_remote_code=True" if part is None else "model_type 'planted'"):
        SpanMarkerModel.from_pretrained(folder)
    assert not ran()


@pytest.mark.parametrize("trusted", [None, False])
def test_regression_an_encoder_with_code_is_refused(tmp_path, folder, ran, trusted):
    encoder = tmp_path / "encoder"
    make_encoder(encoder, wordpiece())
    shutil.copy(folder / "planted.py", encoder)
    edit(encoder / "config.json", {"model_type": "planted", "auto_map": AUTO_MAP, "trust_remote_code": True})
    options = {} if trusted is None else {"trust_remote_code": trusted}
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SpanMarkerModel.from_pretrained(encoder, labels=TAGS, **options)
    assert not ran()


def test_an_encoder_with_code_is_taken_when_the_caller_trusts_it(tmp_path, folder, ran):
    encoder = tmp_path / "encoder"
    make_encoder(encoder, wordpiece())
    shutil.copy(folder / "planted.py", encoder)
    edit(encoder / "config.json", {"model_type": "planted", "auto_map": {**AUTO_MAP, "AutoTokenizer": None}})
    model = SpanMarkerModel.from_pretrained(encoder, labels=TAGS, trust_remote_code=True)
    assert ran()
    assert type(model.encoder).__name__ == "Model"
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (self.target.write_text, ("run",))


@pytest.mark.parametrize("protocol", ["torch", "pickle"])
def test_regression_pickled_weights_run_no_code(folder, ran, tmp_path, protocol):
    weights = load_file(folder / "model.safetensors") | {"bomb": Bomb(tmp_path / "ran")}
    file = folder / "pytorch_model.bin"
    torch.save(weights, file) if protocol == "torch" else file.write_bytes(pickle.dumps(weights))
    (folder / "model.safetensors").unlink()
    with pytest.raises((OSError, ValueError), match=str(folder)):
        SpanMarkerModel.from_pretrained(folder)
    assert not ran()
    torch.load(file, weights_only=False) if protocol == "torch" else pickle.loads(file.read_bytes())
    assert ran(), "if this fails, the test proves nothing"


def test_safetensors_are_preferred_to_a_pickle(folder, ran, tmp_path):
    torch.save({"bomb": Bomb(tmp_path / "ran")}, folder / "pytorch_model.bin")
    assert len(SpanMarkerModel.from_pretrained(folder).predict(SENTENCES)) == len(SENTENCES)
    assert not ran()


def test_weights_are_written_as_safetensors_only(saved):
    assert not list(saved.glob("*.bin"))
    assert list(saved.glob("*.safetensors"))


def test_the_auto_class_runs_no_code_either(folder, ran):
    edit(folder / "config.json", EVIL)
    assert isinstance(AutoModel.from_pretrained(folder), SpanMarkerModel)
    assert not ran()
