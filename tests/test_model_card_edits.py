import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

from span_marker.model_card.edits import dump_yaml, merge_card, write_card

RESULT = {
    "task": {"type": "token-classification"},
    "dataset": {"name": "D", "type": "org/d", "split": "test"},
    "metrics": [{"type": "f1", "value": 0.5}],
}


def card(body="# Model", **head):
    return write_card(dump_yaml({"library_name": "span-marker", "tags": ["ner"]} | head), body)


def head_of(text):
    return yaml.safe_load(text.split("---\n")[1])


def index(*results):
    return [{"name": "Model", "results": list(results)}]


def result(value, **dataset):
    return RESULT | {"dataset": RESULT["dataset"] | dataset, "metrics": [{"type": "f1", "value": value}]}


def values(text):
    return {(entry.dataset_split, entry.metric_value) for entry in ModelCard(text).data.eval_results}


def test_a_generated_card_is_replaced():
    assert merge_card(card("# New"), card("# Old", license="mit")) == card("# New")
    assert merge_card(card("# New"), None) == merge_card(card("# New")) == card("# New")


@pytest.mark.parametrize(
    "harmless",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip() + "\n\n",
        lambda text: str(ModelCard(text)),
        lambda text: "\ufeff" + text,
    ],
    ids=["line ends of Windows", "spaces at the end", "metadata written by huggingface_hub", "byte order mark"],
)
def test_what_editors_and_the_hub_do_is_no_edit(harmless):
    old = card("# Old\n\ntext", language=["en"], **{"model-index": index(RESULT)})
    # As files are read: with universal line ends, and without the mark of the encoding.
    text = harmless(old).removeprefix("\ufeff").replace("\r\n", "\n")
    assert merge_card(card("# New"), text) == card("# New")


def test_an_edited_text_is_kept_with_new_metadata():
    old = card("# Old", language="en").replace("# Old", "# Mine")
    merged = merge_card(card("# New", language="de"), old)
    assert "# Mine" in merged
    assert "# New" not in merged
    assert head_of(merged)["language"] == "de"
    # Again: what was generated of it follows, what was edited stays.
    again = merge_card(card("# Newer", language="nl"), merged)
    assert "# Mine" in again
    assert head_of(again)["language"] == "nl"


def test_edited_metadata_are_completed_and_the_text_follows():
    old = card("# Old", license="mit").replace("license: mit", "license: gpl-3.0\ninference: false")
    old = old.replace("- ner", "- ner\n- mine")
    merged = merge_card(card("# New", license="mit", language="de", tags=["ner", "new"]), old)
    assert "# New" in merged
    assert head_of(merged) == {
        "library_name": "span-marker",
        "tags": ["ner", "mine", "new"],
        "license": "gpl-3.0",
        "inference": False,
        "language": "de",
    }
    again = merge_card(card("# Newer", license="mit"), merged)
    assert "# Newer" in again
    assert head_of(again)["license"] == "gpl-3.0"


def test_a_card_of_a_person_is_kept():
    merged = merge_card(card(license="mit"), "# All mine\n")
    assert merged.endswith("# All mine\n")
    assert head_of(merged) == {"library_name": "span-marker", "tags": ["ner"], "license": "mit"}
    assert merge_card(card(license="mit"), merged) == merged


def test_metadata_that_need_nothing_are_left_as_they_are_written():
    old = "---\ntags: [ner]  # a comment\nlibrary_name: span-marker\n---\n\n# Mine\n"
    assert merge_card(card(), old) == old


def test_the_first_edited_card_counts():
    generated, first, second = (
        card("# Old"),
        card("# Old").replace("Old", "First"),
        card("# Old").replace("Old", "Second"),
    )
    assert "# First" in merge_card(card("# New"), first, second)
    assert "# Second" in merge_card(card("# New"), generated, second)
    assert "# Second" in merge_card(card("# New"), None, second)
    assert "# New" in merge_card(card("# New"), generated, generated)


def test_measurements_are_the_new_ones_and_others_are_kept():
    old = card(**{"model-index": index(result(0.1), result(0.2, split="dev"))}, co2_eq_emissions={"emissions": 1})
    old = old.replace("# Model", "# Mine").replace("- ner", "- mine")
    merged = merge_card(card(**{"model-index": index(result(0.9))}, co2_eq_emissions={"emissions": 2}), old)
    assert values(merged) == {("dev", 0.2), ("test", 0.9)}
    assert head_of(merged)["co2_eq_emissions"] == {"emissions": 2}
    assert values(merge_card(card(), old)) == {("dev", 0.2), ("test", 0.1)}


@pytest.mark.parametrize("broken", ["x", [], [{"name": "x"}], [{"results": 5}], {"name": "x"}])
def test_results_that_cannot_be_read_are_left(broken, caplog):
    old = card().replace("tags:", f"model-index: {broken}\ntags:")
    assert head_of(merge_card(card(**{"model-index": index(RESULT)}), old))["model-index"] == broken


@pytest.mark.parametrize("head", ["a: [", "- a list", "just text"])
def test_a_card_whose_metadata_cannot_be_read_is_left(head, caplog):
    old = f"---\n{head}\n---\n\n# Mine\n"
    assert merge_card(card(), old) == old
    assert "The model card is left as it is, because its metadata cannot be read" in caplog.text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_card_of_any_text_is_told_from_an_edited_one(body):
    old = card(body)
    assert merge_card(card("# New"), old) == card("# New")
    edited = merge_card(card("# New"), old.replace("\n\n", "\n\nedited ", 1))
    assert edited.split("---\n")[2].strip().startswith("edited")
