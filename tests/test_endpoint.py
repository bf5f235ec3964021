"""The handler that Inference Endpoints load from a model's folder."""

import importlib.util
import json

import pytest
from tiny_models import SENTENCES, TEXTS, give_opinions

import span_marker
from span_marker import SpanMarkerModel


@pytest.fixture
def folder(model, tmp_path):
    give_opinions(model, outside=-100.0).save_pretrained(tmp_path, inference_handler=True)
    return tmp_path


@pytest.fixture
def handler(folder):
    """The handler, loaded as the container does: a file, not a module of a package."""
    spec = importlib.util.spec_from_file_location("handler", folder / "handler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EndpointHandler(path=str(folder))


@pytest.mark.parametrize("inputs", [TEXTS[0], TEXTS, SENTENCES[0], SENTENCES, [], ""], ids=str)
def test_answers_are_those_of_predict(handler, folder, inputs):
    answer = handler({"inputs": inputs})
    assert answer == SpanMarkerModel.from_pretrained(folder).predict(inputs)
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"batch_size": 1},
        {"is_split_into_words": False},
        {"return_scores": True},
        {"decoding": "all", "threshold": {"PER": 0.5}, "top_k": 1},
    ],
)
def test_parameters(handler, folder, parameters):
    words = ["Ada", "Paris"]
    expected = SpanMarkerModel.from_pretrained(folder).predict(words, **(parameters or {}))
    assert handler({"inputs": words, "parameters": parameters}) == expected


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({}, ValueError, 'The request has no "inputs"'),
        ({"inputs": None}, ValueError, 'The request has no "inputs"'),
        ("Ada", ValueError, 'The request has no "inputs"'),
        ({"inputs": 3}, TypeError, "but got int"),
        ({"inputs": ["Ada", 3]}, TypeError, "row 1 is int"),
        ({"inputs": "Ada", "parameters": [1]}, TypeError, r'"parameters" is \[1\]'),
        (
            {"inputs": "Ada", "parameters": {"top_p": 1}},
            ValueError,
            "Unknown parameters: top_p. Known ones are: ",
        ),
        ({"inputs": "Ada", "parameters": {"batch_size": 0}}, ValueError, "batch"),
        ({"inputs": "Ada", "parameters": {"span_filter": True}}, ValueError, "no calibrated span filter"),
    ],
)
def test_bad_requests_are_told(handler, data, error, message):
    with pytest.raises(error, match=message):
        handler(data)


def test_the_package_is_required(folder):
    assert (folder / "requirements.txt").read_text(encoding="utf-8") == f"span_marker>={span_marker.__version__}\n"


def test_a_handler_is_written_on_request_only(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert not (tmp_path / "handler.py").exists()
    assert not (tmp_path / "requirements.txt").exists()


def test_a_handler_is_pushed(hub, model):
    model.push_to_hub("org/ner", inference_handler=True)
    assert {"handler.py", "requirements.txt"} <= hub.files("org/ner").keys()
