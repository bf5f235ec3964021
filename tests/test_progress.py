import datasets
import pytest
from conftest import QUICK_TRAINING, make_dataset

from span_marker import Trainer, TrainingArguments
from span_marker.progress import progress_bars


@pytest.fixture
def _bars():
    datasets.enable_progress_bars()
    yield
    datasets.disable_progress_bars()


@pytest.mark.usefixtures("_bars")
def test_bars_come_back():
    with progress_bars(False):
        assert datasets.are_progress_bars_disabled()
    assert not datasets.are_progress_bars_disabled()
    with progress_bars(True):
        assert not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    with progress_bars(True):
        assert datasets.are_progress_bars_disabled()


@pytest.mark.usefixtures("_bars")
@pytest.mark.parametrize("disable", [True, False])
def test_disable_tqdm_holds_for_preprocessing_too(disable, model, tmp_path, capsys):
    dataset = make_dataset(documents=True)
    arguments = TrainingArguments(str(tmp_path), **QUICK_TRAINING | {"disable_tqdm": disable})
    trainer = Trainer(model, arguments, train_dataset=dataset, eval_dataset=make_dataset(documents=True))
    capsys.readouterr()
    trainer.train()
    trainer.evaluate()
    shown = capsys.readouterr().err
    bars = ("Encoding the sentences", "Adding document-level context", "it/s")
    assert [bar in shown for bar in bars] == [not disable] * 3
    assert disable == ("|" not in shown)
