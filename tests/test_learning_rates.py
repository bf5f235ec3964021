import pytest
import torch
from conftest import LABELS, QUICK_TRAINING, make_dataset
from torch import nn

from span_marker import SpanMarkerModel, Trainer, TrainingArguments
from span_marker.learning_rates import scale_learning_rate


def test_groups_are_split():
    first, second, third = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    optimizer = torch.optim.AdamW([{"params": [first, second], "weight_decay": 0.1}, {"params": [third]}], lr=1e-3)
    scale_learning_rate(optimizer, [second, nn.Parameter(torch.zeros(1))], 5.0)
    groups = [(group["params"], group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    assert [len(parameters) for parameters, _, _ in groups] == [1, 1, 1]
    assert [rate for _, rate, _ in groups] == [1e-3, 1e-3, 5e-3]
    assert groups[2][0][0] is second
    assert groups[2][2] == 0.1


def test_a_group_of_nothing_else_stays_one():
    encoder, head = (nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = torch.optim.AdamW([{"params": [head]}, {"params": [encoder]}], lr=1e-3)
    scale_learning_rate(optimizer, [head], 5.0)
    assert [group["lr"] for group in optimizer.param_groups] == [5e-3, 1e-3]


def test_an_optimizer_without_a_rate_is_left():
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    optimizer.param_groups[0]["lr"] = None
    scale_learning_rate(optimizer, [parameter], 5.0)
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("rate", [1.0, 5.0])
def test_the_classifiers_learn_faster(tiny_encoder, tmp_path, rate):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=LABELS, model_max_length=32, head_rate=rate)
    arguments = TrainingArguments(tmp_path, **(QUICK_TRAINING | {"max_steps": 2, "logging_steps": 1}))
    trainer = Trainer(model, arguments, train_dataset=make_dataset(repeat=3))
    trainer.train()
    rates = {}
    for group in trainer.optimizer.param_groups:
        rates |= dict.fromkeys(map(id, group["params"]), group["initial_lr"])
    assert len(rates) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        factor = 1.0 if name.startswith("encoder.") else rate
        assert rates[id(parameter)] == pytest.approx(arguments.learning_rate * factor)
    logged = next(log["learning_rate"] for log in trainer.state.log_history if "learning_rate" in log)
    assert logged <= arguments.learning_rate


def test_a_given_optimizer_is_left(tiny_encoder, tmp_path):
    model = SpanMarkerModel.from_pretrained(tiny_encoder, labels=LABELS, model_max_length=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    arguments = TrainingArguments(tmp_path, **(QUICK_TRAINING | {"max_steps": 1}))
    trainer = Trainer(model, arguments, train_dataset=make_dataset(), optimizers=(optimizer, None))
    trainer.train()
    assert len(optimizer.param_groups) == 1
