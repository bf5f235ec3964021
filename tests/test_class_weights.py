import pytest

from span_marker.class_weights import balanced_weights, require_class_weights, weights_of

LABELS = ["O", "LOC", "PER"]


def test_weights_are_listed_by_label():
    assert weights_of(None, LABELS, 0) == [1.0, 1.0, 1.0]
    assert weights_of({"PER": 2}, LABELS, 0) == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"PERS": 2.0}, r"class_weights names 'PERS', which is no entity type of the model\. Did you mean 'PER'\?"),
        ({"O": 2.0}, r"names 'O', .* Choose from LOC, PER\. The weight of entities relative to .* is entity_weight\."),
        ("balanced", r"class_weights is 'balanced': the Trainer counts"),
    ],
)
def test_weights_that_fit_no_label_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        weights_of(weights, LABELS, 0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("even", r"class_weights must be 'balanced', or numbers by entity type .*, but it is 'even'"),
        ([1.0, 2.0], r"but it is \[1\.0, 2\.0\]"),
        ({"PER": 0.0}, r"class_weights\['PER'\] must be a number above 0, but it is 0\.0"),
        ({"PER": True}, r"but it is True"),
        ({"PER": float("inf")}, r"but it is inf"),
        ({"PER": "2"}, r"but it is '2'"),
    ],
)
def test_what_are_no_weights_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        require_class_weights(value)


@pytest.mark.parametrize("value", [None, "balanced", {}, {"PER": 1, "LOC": 0.5}])
def test_weights_are_accepted(value):
    require_class_weights(value)


def test_balanced_types_have_the_same_share():
    counts = {"PER": 60, "LOC": 30, "ORG": 10, "MISC": 0}
    weights = balanced_weights(counts)
    assert weights == {"PER": 0.5556, "LOC": 1.1111, "ORG": 3.3333, "MISC": 1.0}
    assert balanced_weights({"PER": 1000, "LOC": 1}) == {"PER": 0.5005, "LOC": 10.0}
    assert balanced_weights({"PER": 0}) == {"PER": 1.0}
    assert balanced_weights({}) == {}
