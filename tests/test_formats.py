import pytest
from datasets import Dataset

from span_marker.formats import refuse_transform

ROWS = Dataset.from_dict({"tokens": [["Ada"]], "ner_tags": [[1]]})


@pytest.mark.parametrize("kind", [None, "numpy", "arrow"])
def test_formats_are_fine(kind):
    refuse_transform(ROWS.with_format(kind))
    refuse_transform(ROWS.with_format(kind, columns=["tokens"]))


def test_regression_a_transform_is_dropped():
    with pytest.raises(ValueError, match=r"The training set has a transform .*map\(transform, batched=True\)"):
        refuse_transform(ROWS.with_transform(lambda batch: batch), "training")
    with pytest.raises(ValueError, match="The data set has a transform"):
        refuse_transform(ROWS.with_transform(lambda batch: batch, columns=["tokens"]))
