from types import SimpleNamespace

import pytest
import torch

from span_marker import SpanMarkerDataCollator, Trainer, TrainingArguments
from span_marker.span_sampling import SamplingCollator
from span_marker.spans import count_spans

ROW = {
    "input_ids": [2, 7, 8, 9, 3],
    "start_position_ids": [1, 1, 2, 2, 3],
    "end_position_ids": [1, 2, 2, 3, 3],
    "labels": [0, 2, 0, 0, 1],
}


@pytest.mark.parametrize(("share", "kept"), [(0.0, [1, 4]), (1.0, [0, 1, 2, 3, 4])])
def test_sampling_keeps_every_entity(share, kept):
    collate = SpanMarkerDataCollator(SimpleNamespace(pad_token_id=0))
    batch = SamplingCollator(collate, outside_id=0, share=share)([ROW])
    assert batch["labels"].tolist() == [[ROW["labels"][index] for index in kept]]
    assert batch["start_positions"].tolist() == [[ROW["start_position_ids"][index] for index in kept]]
    assert batch["end_positions"].tolist() == [[ROW["end_position_ids"][index] for index in kept]]
    assert batch["num_spans"].tolist() == [len(kept)]
    assert batch["negative_share"].tolist() == [share]


def test_sampling_draws_the_share_anew():
    torch.manual_seed(0)
    row = ROW | {name: [1] * 10_000 for name in ("start_position_ids", "end_position_ids")} | {"labels": [0] * 10_000}
    collate = SamplingCollator(SpanMarkerDataCollator(SimpleNamespace(pad_token_id=0)), outside_id=0, share=0.15)
    sizes = [collate([row])["num_spans"].item() for _ in range(2)]
    assert sizes[0] != sizes[1]
    assert sizes == pytest.approx([1500, 1500], rel=0.1)


def test_sampling_is_for_training_only(model, dataset, tmp_path):
    arguments = TrainingArguments(output_dir=str(tmp_path), dataloader_pin_memory=False)
    trainer = Trainer(model, arguments, train_dataset=dataset, eval_dataset=dataset, negative_span_ratio=0.15)
    training = sum(batch["num_spans"].sum() for batch in trainer.get_train_dataloader())
    evaluation = sum(batch["num_spans"].sum() for batch in trainer.get_eval_dataloader())
    assert training < evaluation / 2
    assert evaluation == count_spans([len(tokens) for tokens in dataset["tokens"]], 4).sum()
    assert "negative_span_ratio" in model.model_card_data.hyperparameters


@pytest.mark.parametrize("ratio", [0, -0.1, 1.5])
def test_a_ratio_out_of_range_is_refused(model, ratio):
    with pytest.raises(ValueError, match=f"negative_span_ratio .* {ratio!r}"):
        Trainer(model, negative_span_ratio=ratio)
