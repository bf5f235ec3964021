import json
import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, make_dataset
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers import trainer as transformers_trainer
from transformers.utils import logging as transformers_logging

from span_marker import SpanMarkerModel, Trainer, TrainingArguments, trainer_hub
from span_marker.span_filter import UNCALIBRATED_THRESHOLD
from span_marker.span_loss import filter_loss

_ADDED = ("compute_loss_func", "optimizer_cls_and_kwargs")


@pytest.fixture(autouse=True)
def _quiet():
    transformers_logging.disable_progress_bar()
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def rows():
    return make_dataset(repeat=3)


@pytest.fixture
def start(tiny_encoder):
    """Start models, the same one each time."""

    def start(dropout=True, **kwargs):
        torch.manual_seed(0)
        model = SpanMarkerModel.from_pretrained(
            tiny_encoder, labels=LABELS, model_max_length=32, marker_max_length=24, entity_max_length=4, **kwargs
        )
        for module in () if dropout else model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.0
        return model

    return start


@pytest.fixture
def train(start, rows, tmp_path):
    """Train; arguments of the Trainer and of the TrainingArguments may be mixed."""

    def train(trainer_class=Trainer, resume=None, folder="output", **kwargs):
        own = {
            name: kwargs.pop(name)
            for name in ("model", "callbacks", "optimizers", "train_dataset", "eval_dataset", *_ADDED)
            if name in kwargs
        }
        own.setdefault("train_dataset", rows)
        own.setdefault("eval_dataset", rows)
        own.setdefault("model", start())
        settings = QUICK_TRAINING | {"learning_rate": 1e-3}
        trainer = trainer_class(args=TrainingArguments(tmp_path / folder, **(settings | kwargs)), **own)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return train


def logged(trainer, name="loss"):
    return [log[name] for log in trainer.state.log_history if name in log]


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# ---- Learning ----


def test_it_learns(train, start):
    # Without dropout the tiny model fits its sentences exactly, whatever a machine's rounding does on the way.
    trainer = train(
        model=start(dropout=False), num_train_epochs=40, learning_rate=3e-3, warmup_steps=5, logging_steps=50
    )
    metrics = trainer.evaluate()
    assert metrics["eval_f1"] > 0.9
    assert metrics["eval_loss"] < 0.1
    assert trainer.model.predict("Ada Lovelace lives in London .")[0]["label"] == "PER"


def test_training_twice(train):
    trainer = train()
    first = logged(trainer)
    trainer.train()
    assert len(logged(trainer)) == len(first)
    assert logged(trainer)[-1] < first[-1]


def test_the_same_seed_trains_the_same_model(train):
    first, second = train(), train()
    assert logged(first) == logged(second)
    assert same(weights(first.model), weights(second.model))
    assert logged(train(seed=1)) != logged(first)


# ---- Loss ----


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_accumulated_gradients_are_those_of_the_whole_batch(start, train, smoothing):
    settings = {
        "train_sampling_strategy": "sequential",
        "label_smoothing_factor": smoothing,
        "num_train_epochs": 2,
        "max_grad_norm": 0.5,
    }
    whole = train(model=start(dropout=False), per_device_train_batch_size=6, **settings)
    parts = train(model=start(dropout=False), per_device_train_batch_size=2, gradient_accumulation_steps=3, **settings)
    assert logged(parts) == pytest.approx(logged(whole), rel=1e-5)
    assert logged(parts, "grad_norm") == pytest.approx(logged(whole, "grad_norm"), rel=1e-4)


def test_label_smoothing_raises_the_loss_of_training_alone(start, train):
    plain = train(model=start(dropout=False), max_steps=1, learning_rate=0.0)
    smooth = train(model=start(dropout=False), max_steps=1, learning_rate=0.0, label_smoothing_factor=0.2)
    assert logged(smooth) != pytest.approx(logged(plain), rel=1e-6)
    assert smooth.evaluate()["eval_loss"] == plain.evaluate()["eval_loss"]


@pytest.mark.parametrize("filtered", [False, True])
def test_the_loss_may_be_the_users(start, train, filtered):
    seen = []

    def loss(outputs, labels, num_items_in_batch):
        seen.append(list(outputs))
        total = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), reduction="sum")
        if filtered:
            total = total + filter_loss(outputs.filter_logits, labels, models[0].config)
        return total / num_items_in_batch

    # As all spans are run for it, its loss is the model's own where that does so, too.
    plain = {"span_filter_vote": 0.0, "entity_weight": 1.0, "negatives_per_word": None}
    models = [start(dropout=False, span_filter=filtered, **plain) for _ in range(2)]
    settings = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    own = train(model=models[0], compute_loss_func=loss, **settings)
    assert logged(own) == pytest.approx(logged(train(model=models[1], **settings)), rel=1e-5)
    assert seen[0] == ["logits", "filter_logits"][: 1 + filtered]


def test_sentences_without_words_do_not_spoil_the_loss(train):
    rows = Dataset.from_dict({"tokens": [[], ["Paris"], []], "ner_tags": [[], [3], []]})
    trainer = train(train_dataset=rows, eval_dataset=rows, label_smoothing_factor=0.1, per_device_train_batch_size=1)
    assert trainer.state.global_step == 1
    assert 0 < logged(trainer)[0] < 100


# ---- Precision, memory, speed ----


def test_bf16(start, train):
    seen = []
    model = start()
    model.classifier.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    trainer = train(model=model, bf16=True, max_steps=2)
    trainer.evaluate()
    assert set(seen) == {torch.bfloat16}
    assert logged(trainer) == pytest.approx(logged(train(max_steps=2)), rel=0.02)
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


def test_gradient_checkpointing(start, train):
    calls = []
    model = start(dropout=False)
    model.encoder.encoder.layer[0].attention.register_forward_hook(lambda *_: calls.append(1))
    names = TrainingArguments.__dataclass_fields__
    name = "activation_checkpointing" if "activation_checkpointing" in names else "gradient_checkpointing"
    trainer = train(model=model, max_steps=1, **{name: True})
    assert len(calls) == 2 * 2 + 2 * 3  # texts and markers, twice each in training, once for each batch of calibration
    plain = train(model=start(dropout=False), max_steps=1)
    assert logged(trainer) == pytest.approx(logged(plain))
    assert logged(trainer, "grad_norm") == pytest.approx(logged(plain, "grad_norm"), rel=1e-4)


def test_auto_find_batch_size(train):
    sizes = []

    class Small(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            sizes.append(len(inputs["input_ids"]))
            if sizes[-1] > 7:
                raise RuntimeError("CUDA out of memory.")
            return super().training_step(model, inputs, *args, **kwargs)

    trainer = train(Small, per_device_train_batch_size=8, auto_find_batch_size=True)
    assert sizes == [8, 7, 7, 4]
    assert trainer.state.train_batch_size == 7


def padded_tokens(loader):
    """Count the tokens of all batches, padding included."""
    return sum(
        batch["input_ids"].numel() + batch["start_positions"].numel() + batch["end_positions"].numel()
        for batch in loader
    )


def test_rows_of_similar_length_share_a_batch(start, tmp_path):
    rows = make_dataset(repeat=20)
    totals = {}
    for strategy in ("random", "group_by_length"):
        args = TrainingArguments(
            tmp_path, per_device_train_batch_size=4, train_sampling_strategy=strategy, use_cpu=True, report_to=[]
        )
        totals[strategy] = padded_tokens(Trainer(start(), args, train_dataset=rows).get_train_dataloader())
    assert totals["group_by_length"] < 0.9 * totals["random"]


def test_the_optimizer_may_be_given_by_its_class(train):
    trainer = train(max_steps=1, optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": 0.25, "momentum": 0.5}))
    optimizer = trainer.optimizer.optimizer
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.defaults["momentum"] == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"dataloader_num_workers": 2},
        {"dataloader_num_workers": 1, "dataloader_persistent_workers": True},
        {"remove_unused_columns": False},
        {"neftune_noise_alpha": 5.0},
        {"include_num_input_tokens_seen": "non_padding"},
        {"full_determinism": True},
        {"optim": "adafactor"},
        {"lr_scheduler_type": "cosine", "warmup_steps": 2},
        {"dataloader_drop_last": True},
        {"torch_empty_cache_steps": 1},
        {"skip_memory_metrics": False},
        {"label_names": ["labels"]},
        {"train_sampling_strategy": "batch_rebalance"},
        {"length_column_name": "labels"},
        {"length_column_name": "num_spans", "train_sampling_strategy": "batch_rebalance"},
        {"eval_on_start": True, "eval_strategy": "steps", "eval_steps": 2, "eval_delay": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_other_arguments(train, settings):
    trainer = train(max_steps=3, **settings)
    assert trainer.state.global_step == 3
    assert all(loss < 10 for loss in logged(trainer))
    torch.use_deterministic_algorithms(False)


def test_optimizers_of_the_user(start, train):
    model = start()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    before = weights(model)
    trainer = train(model=model, optimizers=(optimizer, scheduler), max_steps=1)
    assert logged(trainer, "learning_rate") == [0.25]
    assert not same(before, weights(model))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_torch_compile(train):
    # Without code generation, which takes minutes.
    compiled = train(max_steps=2, torch_compile=True, torch_compile_backend="eager")
    assert logged(compiled) == pytest.approx(logged(train(max_steps=2)), rel=1e-4)
    assert compiled.evaluate()["eval_loss"] < 2


# ---- Evaluation in training ----


def test_the_best_model_is_loaded_at_the_end(train):
    trainer = train(
        num_train_epochs=4,
        learning_rate=1e-2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        save_total_limit=2,
    )
    scores, losses = logged(trainer, "eval_f1"), logged(trainer, "eval_loss")
    best = scores.index(max(scores))
    trainer.model.config.span_filter_threshold = UNCALIBRATED_THRESHOLD  # as on the way
    metrics = trainer.evaluate()
    assert metrics["eval_f1"] == max(scores) == trainer.state.best_metric
    assert metrics["eval_loss"] == pytest.approx(losses[best], abs=1e-6)
    assert not any(isinstance(value, dict) for log in trainer.state.log_history[:-1] for value in log.values())


def test_the_model_card_tells_of_the_best_model(train):
    settings = {"eval_strategy": "epoch", "save_strategy": "epoch", "num_train_epochs": 3, "learning_rate": 1e-2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True}
    recorded = []
    for choice in ({}, best):
        trainer = train(**settings, **choice)
        recorded.append(trainer.model.model_card_data.evaluations["evaluation"].metrics["eval_loss"])
        assert max(logged(trainer, "eval_loss")) > logged(trainer, "eval_loss")[-1]
        assert trainer.evaluate()["eval_loss"] == recorded[-1]
    assert recorded[1] > recorded[0]


def test_the_model_card_tells_of_each_type_after_a_training(train, rows):
    trainer = train(eval_strategy="epoch", num_train_epochs=2, save_strategy="epoch")
    card = trainer.model.model_card_data
    recorded = card.evaluations["evaluation"]
    metrics = trainer.evaluate()
    assert recorded.metrics["eval_PER"] == metrics["eval_PER"]
    assert recorded.errors == card.evaluations["evaluation"].errors
    assert recorded.num_sentences == len(trainer.eval_dataset)
    assert not any(isinstance(value, dict) for log in trainer.state.log_history[:-1] for value in log.values())
    # The course of the training, and nothing that came after it.
    assert {row["Step"] for row in card.curve if "F1" in row} == {
        log["step"] for log in trainer.state.log_history if "eval_f1" in log
    }
    before = list(card.curve)
    trainer.evaluate(rows.select([0]))
    trainer.save_model()
    assert card.curve == before
    folder = Path(trainer.args.output_dir)
    assert (folder / "training_curve.png").is_file()
    assert "](training_curve.png)" in (folder / "README.md").read_text(encoding="utf-8")
    checkpoints = [folder / f"checkpoint-{step}" / "model_card.json" for step in (5, 10)]
    assert [len(json.loads(file.read_text(encoding="utf-8"))["curve"]) for file in checkpoints] == [
        len(before) // 2,
        len(before),
    ]


def test_early_stopping(train):
    trainer = train(
        num_train_epochs=10,
        learning_rate=0.0,
        eval_strategy="epoch",
        save_strategy="best",
        load_best_model_at_end=True,
        metric_for_best_model="eval_f1",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    assert trainer.state.epoch == 3


def test_several_evaluation_sets(train, rows):
    trainer = train(
        eval_dataset={"first": rows, "second": rows.select([1])},
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="second_loss",
    )
    assert len(logged(trainer, "eval_first_f1")) == len(logged(trainer, "eval_second_f1")) == 1
    assert set(trainer.model.model_card_data.evaluations) == {"first", "second"}


def test_callbacks(train):
    class Watch(TrainerCallback):
        def __init__(self):
            self.events = []

        def on_evaluate(self, args, state, control, metrics, **kwargs):
            self.events.append(("evaluate", "eval_f1" in metrics))

        def on_step_end(self, args, state, control, model, processing_class, train_dataloader, **kwargs):
            self.events.append((processing_class is model.tokenizer, len(train_dataloader)))

    watch = Watch()
    train(callbacks=[watch], max_steps=1, eval_strategy="steps", eval_steps=1)
    assert watch.events == [(True, 5), ("evaluate", True)]


def test_an_interrupted_training_is_over(train):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            raise KeyboardInterrupt

    class Kept(Trainer):
        def train(self, *args, **kwargs):
            with pytest.raises(KeyboardInterrupt):
                super().train(*args, **kwargs)

    trainer = train(Kept, callbacks=[Stop()])
    assert "eval_PER" in trainer.evaluate()


# ---- Checkpoints ----


def test_checkpoints_are_whole_models(train):
    trainer = train(save_strategy="steps", save_steps=2, max_steps=3)
    folder = Path(trainer.args.output_dir) / "checkpoint-2"
    for name in (
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "README.md",
        "optimizer.pt",
        "training_args.bin",
    ):
        assert (folder / name).is_file()
    loaded = SpanMarkerModel.from_pretrained(folder)
    trainer.train(resume_from_checkpoint=str(folder))
    trainer.save_model()
    again = SpanMarkerModel.from_pretrained(trainer.args.output_dir)
    assert loaded.config.labels == again.config.labels == trainer.model.config.labels
    assert same(weights(again), weights(trainer.model))
    assert "Grace Hopper" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("strategy", ["random", "group_by_length", "batch_rebalance"])
def test_a_resumed_training_equals_the_unbroken_one(train, strategy):
    class StopAt(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 8

    settings = {
        "num_train_epochs": 3,
        "save_strategy": "steps",
        "save_steps": 7,
        "eval_strategy": "epoch",
        "train_sampling_strategy": strategy,
    }
    unbroken = train(folder="unbroken", **settings)
    stopped = train(folder="stopped", callbacks=[StopAt()], **settings)
    assert stopped.state.global_step == 8
    resumed = train(folder="stopped", resume=True, **settings)
    assert resumed.state.global_step == unbroken.state.global_step == 15
    assert logged(resumed) == logged(unbroken)
    assert logged(resumed, "eval_loss") == logged(unbroken, "eval_loss")
    assert same(weights(resumed.model), weights(unbroken.model))


def test_a_missing_checkpoint_is_an_error(train):
    with pytest.raises(ValueError, match="No valid checkpoint found"):
        train(resume=True)


@pytest.fixture
def checkpoint(train):
    """A checkpoint of the labels PER and LOC."""
    return Path(train(save_strategy="steps", save_steps=1, max_steps=1).args.output_dir) / "checkpoint-1"


@pytest.mark.parametrize("types", [["GENE", "DRUG"], ["GENE"]], ids=["as many", "fewer"])
def test_regression_a_checkpoint_of_other_labels_went_on(train, start, checkpoint, types):
    model = start()
    model.set_labels(["O", *(f"{prefix}-{name}" for name in types for prefix in "BI")])
    rows = Dataset.from_dict({"tokens": [["a", "b"]], "ner_tags": [[1, 0]]})
    error = f"The checkpoint in '{checkpoint}' was trained with the tags .*'B-PER'.* but the model has .*'B-GENE'"
    with pytest.raises(ValueError, match=error):
        train(model=model, train_dataset=rows, eval_dataset=rows, resume=checkpoint)


def test_a_checkpoint_of_the_same_types_in_another_scheme_goes_on(train, start, checkpoint, rows):
    model = start()
    model.config.set_labels(["O", *(f"{prefix}-{name}" for name in ("LOC", "PER") for prefix in "BIES")])
    assert train(model=model, resume=checkpoint, max_steps=2).state.global_step == 2


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_regression_a_damaged_checkpoint_is_not_named(train, checkpoint, name):
    content = (checkpoint / name).read_bytes()
    (checkpoint / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=str(checkpoint)):
        train(resume=checkpoint)


def test_a_checkpoint_of_another_size_is_named(train, checkpoint):
    weights = load_file(checkpoint / "model.safetensors")
    save_file(
        {name: tensor[..., :1].contiguous() for name, tensor in weights.items()}, checkpoint / "model.safetensors"
    )
    with pytest.raises(ValueError, match=f"The weights in '{checkpoint}' have other sizes than the model's"):
        train(resume=checkpoint)


def test_push_to_hub(train, monkeypatch, tmp_path):
    uploads = []

    class Hub:
        def create_repo(self, name, **kwargs):
            return type("Url", (), {"repo_id": f"me/{name}"})

        def upload_folder(self, *, folder_path, repo_id, **kwargs):
            uploads.append((repo_id, sorted(os.listdir(folder_path))))
            return type("Commit", (), {})

    monkeypatch.setattr(transformers_trainer, "hf_api", Hub)
    published = []
    monkeypatch.setattr(trainer_hub, "published_card", lambda *place: published[-1] if published else None)
    trainer = train(max_steps=1, hub_model_id="tiny")
    trainer.push_to_hub(tags="mine")
    ((repository, files),) = uploads
    assert repository == "me/tiny"
    assert {"README.md", "model.safetensors", "tokenizer.json", "config.json"} <= set(files)
    text = (tmp_path / "output" / "README.md").read_text(encoding="utf-8")
    assert "me/tiny" in text
    assert "- mine" in text
    published.append(text.replace("# tiny", "# Edited on the Hub"))
    trainer.push_to_hub()
    text = (tmp_path / "output" / "README.md").read_text(encoding="utf-8")
    assert "# Edited on the Hub" in text
    assert "- mine" not in text


# ---- Search ----


@pytest.mark.parametrize("evaluated", [True, False])
def test_hyperparameter_search(start, rows, tmp_path, evaluated):
    args = TrainingArguments(
        tmp_path,
        max_steps=2,
        eval_strategy="steps" if evaluated else "no",
        eval_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    sets = rows if evaluated else {"first": rows, "second": rows}
    trainer = Trainer(args=args, train_dataset=rows, eval_dataset=sets, model_init=lambda trial: start())
    rates = []

    def space(trial):
        rates.append(trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True))
        return {"learning_rate": rates[-1]}

    best = trainer.hyperparameter_search(space, n_trials=2, backend="optuna")
    assert 0.0 <= best.objective <= 1.0
    assert best.hyperparameters["learning_rate"] in rates
    losses = []
    best = trainer.hyperparameter_search(
        space,
        compute_objective=lambda metrics: (
            losses.append(sum(v for k, v in metrics.items() if k.endswith("_loss"))) or losses[-1]
        ),
        n_trials=2,
    )
    assert best.objective in losses


def test_a_search_needs_model_init(train):
    with pytest.raises(RuntimeError, match="model_init"):
        train(max_steps=1).hyperparameter_search()


# ---- Several processes ----

SCRIPT = """
import json, sys
from conftest import LABELS, QUICK_TRAINING, make_dataset
from datasets import Dataset
from tiny_models import give_opinions
from span_marker import SpanMarkerModel, Trainer, TrainingArguments, trainer_hub

encoder, output = sys.argv[1:]
rows = make_dataset(repeat=3).select(range(17))
model = give_opinions(SpanMarkerModel.from_pretrained(encoder, labels=LABELS, model_max_length=32, entity_max_length=4))
args = TrainingArguments(
    output, use_cpu=True, report_to=[], disable_tqdm=True, per_device_train_batch_size=4, per_device_eval_batch_size=2,
    max_steps=2, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True,
    metric_for_best_model="f1",
)
trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows)
predicted = trainer.predict(rows)
trainer.train()
trainer.create_model_card()
if trainer.is_world_process_zero():
    found = [[(e["label"], e["start"], e["end"]) for e in row] for row in predicted.predictions]
    metrics = {name: predicted.metrics[name] for name in ("test_f1", "test_loss", "test_LOC")}
    with open(output + "/result.json", "w") as file:
        json.dump([args.world_size, trainer.state.global_step, found, metrics], file)
"""


@pytest.mark.slow
def test_two_processes_evaluate_as_one(tiny_encoder, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    tests = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)]), "OMP_NUM_THREADS": "1"}
    results = []
    for processes in (1, 2):
        output = tmp_path / f"output-{processes}"
        output.mkdir()
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        subprocess.run(
            [*command, str(tmp_path / "script.py"), tiny_encoder, str(output)],
            check=True,
            env=environment,
            capture_output=True,
            timeout=300,
        )
        results.append(json.loads((output / "result.json").read_text(encoding="utf-8")))
    one, two = results
    assert (one[0], two[0]) == (1, 2)
    assert one[1] == two[1] == 2
    assert one[2] == two[2]
    assert len(one[2]) == 17
    assert two[3]["test_loss"] == pytest.approx(one[3].pop("test_loss"))
    assert two[3] == one[3] | {"test_loss": two[3]["test_loss"]}
