import re
import runpy
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from transformers import TrainingArguments

from span_marker import Trainer
from span_marker.arguments import argument_hints, read_arguments
from span_marker.settings import check_settings

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {"learning_rate": 3e-4, "seed": 7, "eval_strategy": "no", "use_cpu": True, "report_to": []}


def comparable(arguments):
    return {name: value for name, value in arguments.to_dict().items() if name != "logging_dir"}


@pytest.fixture
def expected(tmp_path):
    return comparable(TrainingArguments(output_dir=str(tmp_path), **SETTINGS))


def omega(values):
    return pytest.importorskip("omegaconf").OmegaConf.create(values)


def test_every_argument_accepts_its_own_default():
    defaults = {entry.name: entry.default for entry in fields(TrainingArguments) if entry.default is not MISSING}
    assert check_settings(defaults, argument_hints()) == defaults


def test_training_arguments_are_returned_as_they_are(tmp_path):
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    assert read_arguments(arguments) is arguments


def test_all_ways_give_the_same(model, tmp_path, expected):
    settings = SETTINGS | {"output_dir": str(tmp_path)}
    nested = {"folder": str(tmp_path), "training": SETTINGS | {"output_dir": "${folder}"}, "model": {"name": "???"}}
    trainers = [
        Trainer(model, settings),
        Trainer(model, TrainingArguments(**settings)),
        Trainer(model, omega(settings)),
        Trainer.from_training_args(settings, model),
        Trainer.from_training_args(omega(settings), model),
        Trainer.from_training_args(TrainingArguments(**settings), model),
        Trainer.from_hydra_config(omega(nested), model),
        Trainer.from_hydra_config(omega(settings), model),
        Trainer.from_hydra_config({"training": settings, "model": "x"}, model),
    ]
    assert [comparable(trainer.args) for trainer in trainers] == [expected] * len(trainers)


def test_the_trainers_own_arguments_are_handed_on(model, dataset, tmp_path):
    settings = SETTINGS | {"output_dir": str(tmp_path)}
    first = Trainer.from_training_args(settings, model, train_dataset=dataset, negative_span_ratio=0.5)
    second = Trainer.from_hydra_config({"training": settings}, model_init=lambda: model, column="tags")
    assert (first.train_dataset, first.negative_span_ratio) == (dataset, 0.5)
    assert second.column == "tags"


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"learning_rat": 1}, TypeError, r"'training\.learning_rat'\. Did you mean 'learning_rate'\?"),
        ({"learning_rate": "fast"}, TypeError, r"training\.learning_rate is 'fast'.*Expected a number"),
        ({"seed": "???"}, ValueError, r"training\.seed is '\?\?\?'"),
    ],
)
@pytest.mark.parametrize("make", [dict, omega], ids=["dictionary", "DictConfig"])
def test_what_is_wrong_is_named(make, values, kind, message):
    with pytest.raises(kind, match=message):
        Trainer.from_hydra_config(make({"training": values}))


def test_a_node_of_another_kind_is_named():
    for config in ({"training": 3}, omega({"training": 3}), omega({"training": None})):
        with pytest.raises(TypeError, match=r"training is .*Expected TrainingArguments"):
            Trainer.from_hydra_config(config)
    with pytest.raises(ValueError, match=r"training is '\?\?\?'"):
        Trainer.from_hydra_config(omega({"training": "???"}))


def test_interpolations_that_lead_nowhere_are_named():
    config = omega({"training": {"seed": "${nowhere}"}})
    with pytest.raises(ValueError, match=r"training\.seed cannot be resolved: Interpolation key 'nowhere' not found"):
        Trainer.from_hydra_config(config)


@pytest.mark.parametrize("given", ["a text", 3, ["a"], pytest.param(None, id="ListConfig")])
def test_other_things_are_refused(given):
    given = omega(["a"]) if given is None else given
    with pytest.raises(TypeError, match="Expected TrainingArguments, a dictionary of them or a DictConfig"):
        Trainer(args=given)
    with pytest.raises(TypeError, match="Expected TrainingArguments"):
        Trainer.from_hydra_config(given)


def test_omegaconf_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "omegaconf", raising=False)
    assert read_arguments({"use_cpu": True}).use_cpu
    with pytest.raises(TypeError, match="Expected TrainingArguments"):
        read_arguments("a text")
    assert "omegaconf" not in sys.modules


def blocks(page):
    """Code blocks of a page of the documentation that begin with the name of a file, by that name."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL))


def test_the_documented_hydra_application_runs(tiny_encoder, dataset, tmp_path, monkeypatch):
    pytest.importorskip("hydra")
    from span_marker import write_dataset

    for name, code in blocks("configuration.md").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    for split in ("train", "validation"):
        write_dataset(dataset, tmp_path / "corpus" / f"{split}.jsonl", "jsonl")
    monkeypatch.chdir(tmp_path)
    overrides = ["training.learning_rate=1e-3,2e-3", "training.num_train_epochs=1", "+training.use_cpu=true"]
    quiet = ["hydra/job_logging=none", "hydra/hydra_logging=none"]
    monkeypatch.setattr(sys, "argv", ["train.py", "--multirun", f"model.name={tiny_encoder}", *overrides, *quiet])
    runpy.run_path("train.py", run_name="__main__")
    saved = sorted(path.parent for path in tmp_path.glob("multirun/**/model.safetensors"))
    assert [folder.name for folder in saved] == ["0", "1"]
    rates = [(folder / ".hydra" / "overrides.yaml").read_text(encoding="utf-8") for folder in saved]
    assert "learning_rate=0.001" in rates[0]
    assert "learning_rate=0.002" in rates[1]
    assert (saved[0] / "model.safetensors").read_bytes() != (saved[1] / "model.safetensors").read_bytes()
