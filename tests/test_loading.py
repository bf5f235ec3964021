"""Errors of loading."""

import pytest
import torch

from span_marker import SpanMarkerModel
from span_marker.loading import find_folder, naming, suggesting


def test_a_folder_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path), "org", "org/name", "./org", "."):
        assert find_folder(path).samefile(path)


@pytest.mark.parametrize("name", ["bert-base-cased", "org/name", "org/name-1.5_x"])
def test_a_name_is_a_repository(name):
    assert find_folder(name) is None


@pytest.mark.parametrize(
    "path", ["/no/folder", "./none", "../none", "~/none", "a/b/c", "org/", "org/na me", "", "a--b"]
)
def test_neither_is_an_error(path):
    with pytest.raises(OSError, match=r"There is no folder .*, and it is no name of a repository on the Hub"):
        find_folder(path)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried ..."),
    ],
)
def test_regression_out_of_memory_blamed_the_file(error):
    with pytest.raises(type(error)) as raised, naming("weights", "folder"):
        raise error
    assert raised.value is error


def test_a_folder_has_nothing_to_do_with_the_hub(tmp_path):
    error = OSError("no space left")
    error.__context__ = ConnectionError("of somebody else")
    message = rf"The weights in '{tmp_path}' cannot be read\. no space left"
    with pytest.raises(OSError, match=message), naming("weights", str(tmp_path)):
        raise error
    message = "The weights of 'org/name' cannot be loaded from the Hub: ConnectionError"
    with pytest.raises(OSError, match=message), naming("weights", "org/name"):
        raise error


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("entity_max_lenght", "does not take 'entity_max_lenght'. Did you mean 'entity_max_length'"),
        ("hiden_dropout_prob", "does not take 'hiden_dropout_prob'. Did you mean 'hidden_dropout_prob'"),
        ("label", "does not take 'label'. Did you mean 'labels'"),
        ("qqq", "does not take 'qqq'. It is a setting neither of the model nor of its encoder."),
    ],
)
@pytest.mark.parametrize("kind", ["encoder", "model"])
def test_a_misspelt_keyword_names_the_nearest(tiny_encoder, model, tmp_path, kind, given, message):
    path = tiny_encoder
    if kind == "model":
        path = tmp_path
        model.save_pretrained(path)
    with pytest.raises(TypeError, match=message):
        SpanMarkerModel.from_pretrained(path, **{given: 1})


def test_other_type_errors_stay():
    with pytest.raises(TypeError, match=r"^something else$"), suggesting(["a"]):
        raise TypeError("something else")
