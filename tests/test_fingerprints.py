from datasets import Dataset

from span_marker.fingerprints import derive_fingerprint


def test_fingerprint_depends_on_all_that_goes_in():
    first, second = Dataset.from_dict({"a": [1]}), Dataset.from_dict({"a": [2]})
    name = derive_fingerprint(first, "step", (1, None))
    assert name == derive_fingerprint(first, "step", (1, None))
    assert len(name) == 32
    others = {
        derive_fingerprint(second, "step", (1, None)),
        derive_fingerprint(first, "other", (1, None)),
        derive_fingerprint(first, "step", (1, 0)),
    }
    assert len(others | {name}) == 4
