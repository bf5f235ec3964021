import json

import pytest
import torch
from datasets import Dataset

from span_marker import SpanMarkerModel, Trainer, TrainingArguments

CASES = ["bert", "roberta", "xlm_roberta", "bert_document_context"]
# As in the README of the reference checkpoints.
SETTINGS = {
    "learning_rate": 2e-3,
    "lr_scheduler_type": "linear",
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 8,
    "train_sampling_strategy": "sequential",
    "seed": 7,
}
WARMUP_RATIO = 0.1


@pytest.mark.reference
@pytest.mark.parametrize("case", CASES)
def test_every_step_of_training_has_the_reference_loss(case, shared, tmp_path):
    folder = shared / "reference" / case
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    model = SpanMarkerModel.from_pretrained(folder / "initial")
    args = TrainingArguments(
        tmp_path,
        warmup_steps=WARMUP_RATIO,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **SETTINGS,
    )
    trainer = Trainer(model, args, train_dataset=Dataset.from_dict(expected["training"]["rows"]))
    trainer.train()

    logged = [log for log in trainer.state.log_history if "loss" in log]
    reference = expected["training"]["logged"]
    assert len(logged) == len(reference)
    for name, absolute in (("loss", 2e-4), ("grad_norm", 2e-3)):
        torch.testing.assert_close(
            torch.tensor([log[name] for log in logged]),
            torch.tensor([log[name] for log in reference]),
            atol=absolute,
            rtol=2e-3,
        )
    assert [log["learning_rate"] for log in logged] == pytest.approx([log["learning_rate"] for log in reference])
