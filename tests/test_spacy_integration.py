from importlib.metadata import entry_points

import pytest
import spacy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from test_decoding import by_definition
from tiny_models import SENTENCES, TEXTS, make_finder, make_model
from tokenizers_zoo import byte_level_bpe

from span_marker.spacy_integration import SpacySpanMarkerWrapper, _sentences


@pytest.fixture(scope="module")
def model(tiny_encoder):
    return make_finder(tiny_encoder, model_max_length=20)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


@pytest.fixture
def make(folder):
    """A function that makes a blank pipeline with the component."""

    def make(*before, **config):
        nlp = spacy.blank("en")
        for name in before:
            nlp.add_pipe(name)
        nlp.add_pipe("span_marker", config={"model": str(folder), **config})
        return nlp

    return make


def entities(doc):
    return [(entity.start, entity.end, entity.label_, entity._.score) for entity in doc.ents]


def test_the_entry_point():
    (found,) = entry_points(group="spacy_factories", name="span_marker")
    assert found.value == "span_marker.spacy_integration:make_span_marker"


def test_a_document_without_sentences(make, model):
    doc = make()(TEXTS[0])
    expected = model.predict([[token.text for token in doc]])[0]
    assert entities(doc) == [
        (entity["word_start_index"], entity["word_end_index"], entity["label"], entity["score"]) for entity in expected
    ]
    assert doc.ents


def test_sentences(make, model):
    doc = make("sentencizer")("Ada lives in London. Nobody knows Paris.")
    sentences = list(doc.sents)
    assert len(sentences) == 2
    expected = model.predict([[token.text for token in sentence] for sentence in sentences])
    assert [(start, end) for start, end, _, _ in entities(doc)] == [
        (sentence.start + entity["word_start_index"], sentence.start + entity["word_end_index"])
        for sentence, found in zip(sentences, expected, strict=True)
        for entity in found
    ]


@pytest.mark.parametrize(("mode", "key"), [("nested", None), ("all", "found")])
def test_entities_that_overlap_are_in_a_span_group(make, model, mode, key):
    nlp = make("sentencizer", decoding=mode, spans_key=key)
    doc = nlp("Ada lives in London. Nobody knows Paris.")
    sentences = list(doc.sents)
    expected = model.predict([[token.text for token in sentence] for sentence in sentences], decoding=mode)
    everything = [
        (sentence.start + entity["word_start_index"], sentence.start + entity["word_end_index"], entity["label"])
        for sentence, found in zip(sentences, expected, strict=True)
        for entity in found
    ]
    group = doc.spans[key or "sc"]
    assert [(span.start, span.end, span.label_) for span in group] == everything
    assert [span._.score for span in group] == pytest.approx([e["score"] for row in expected for e in row], abs=1e-5)
    flat = by_definition(*zip(*((((0, e.label_, e.start, e.end)), e._.score) for e in group), strict=True), "flat")
    assert [(e.start, e.end) for e in doc.ents] == [everything[index][:2] for index in flat]
    assert 0 < len(doc.ents) < len(group)


def test_a_model_of_nested_entities_needs_no_settings(make, model, tmp_path):
    nlp = make()
    nlp.get_pipe("span_marker").load().config.decoding = "nested"
    nlp.to_disk(tmp_path)
    words = SENTENCES[0]
    doc = spacy.load(tmp_path)(Doc(nlp.vocab, words))
    expected = model.predict(words, decoding="nested")
    places = [(entity["word_start_index"], entity["word_end_index"]) for entity in expected]
    assert [(span.start, span.end) for span in doc.spans["sc"]] == places
    assert make()(TEXTS[0]).spans == {}


def test_thresholds(make, model):
    settings = {"threshold": {"PER": 0.6}, "top_k": 2}
    doc = make(**settings)(TEXTS[3])
    expected = model.predict([token.text for token in doc], **settings)
    assert [entity[:2] for entity in entities(doc)] == [(e["word_start_index"], e["word_end_index"]) for e in expected]
    assert len(doc.ents) <= 2
    with pytest.raises(ValueError, match="threshold names 'PERS'"):
        make(threshold={"PERS": 0.5})(TEXTS[0])


def test_context(make, model, monkeypatch):
    text = "Ada lives in London. Nobody knows Paris."
    alone = entities(make("sentencizer")(text))
    nlp = make("sentencizer")
    monkeypatch.setattr(nlp.get_pipe("span_marker").load().config, "trained_with_document_context", True)
    assert entities(nlp(text)) != alone
    together = list(nlp.pipe([text, text]))
    assert [entity[:3] for entity in entities(together[0])] == [entity[:3] for entity in entities(nlp(text))]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u200b", "👩‍👩‍👧 Ada", "word " * 300])
@pytest.mark.parametrize("before", [(), ("sentencizer",)], ids=["whole", "sentences"])
def test_odd_documents(make, before, text):
    nlp = make(*before)
    docs = list(nlp.pipe(["Ada lives.", text, "Paris"]))
    assert [doc.text for doc in docs] == ["Ada lives.", text, "Paris"]
    assert all(doc.ents for doc in (docs[0], docs[2]))
    assert all(not entity.text.isspace() for entity in docs[1].ents)
    if text.startswith("word"):
        assert docs[1].ents[-1].end == len(docs[1].text.split())


any_text = st.text(max_size=25) | st.text("Ada \n\t\u200b'.👩\u200d🇬ש中の\u0e38é\u0301<>[]", max_size=25)


@settings(max_examples=25, deadline=None)
@given(st.lists(any_text, max_size=6))
def test_arbitrary_documents(pipelines, model, texts):
    """No error, places within the document, and what the model says of the same words, alone or with others."""
    texts = [text.encode("utf-8", "replace").decode() for text in texts]  # spaCy takes no half of a surrogate pair
    for nlp in pipelines:
        docs = list(nlp.pipe(texts))
        assert [doc.text for doc in docs] == texts
        for doc in docs:
            words = [[token for token in part if not token.is_space] for part in _sentences(doc)]
            expected = [
                (row[e["word_start_index"]].i, row[e["word_end_index"] - 1].i + 1, e["label"], e["score"])
                for row, found in zip(words, model.predict([[t.text for t in row] for row in words]), strict=True)
                for e in found
            ]
            assert [entity[:3] for entity in entities(doc)] == [entity[:3] for entity in expected]
            scores = [entity[3] for entity in expected]
            assert [entity[3] for entity in entities(doc)] == pytest.approx(scores, abs=1e-5)
            for entity in doc.ents:
                assert doc.text[entity.start_char : entity.end_char] == entity.text.strip() != ""


@pytest.fixture(scope="module")
def pipelines(folder):
    """Pipelines with and without sentences."""
    whole, sentences = spacy.blank("en"), spacy.blank("xx")
    sentences.add_pipe("sentencizer")
    for nlp in (whole, sentences):
        nlp.add_pipe("span_marker", config={"model": str(folder), "batch_size": 3})
    return whole, sentences


def test_pipe_equals_call(make):
    nlp, texts = make("sentencizer", batch_size=3), list(TEXTS * 3)
    together = list(nlp.pipe(texts, batch_size=4))
    for doc, text in zip(together, texts, strict=True):
        assert [entity[:3] for entity in entities(doc)] == [entity[:3] for entity in entities(nlp(text))]
    pairs = list(nlp.pipe([(text, index) for index, text in enumerate(texts)], as_tuples=True))
    assert [context for _, context in pairs] == list(range(len(texts)))
    assert list(nlp.pipe([])) == []


def test_entities_that_are_there(make):
    def documents(nlp):
        doc = Doc(nlp.vocab, SENTENCES[3])
        doc.ents = [Span(doc, 1, 2, "VERB")]
        return doc

    component = make().get_pipe("span_marker")
    doc = component(documents(make()))
    assert (1, 2, "VERB", None) in entities(doc)
    assert len(doc.ents) > 1
    component.overwrite_entities = True
    assert "VERB" not in {entity.label_ for entity in component(documents(make())).ents}


def test_regression_an_entity_that_stays_keeps_its_score(make):
    nlp = make()
    found = nlp(TEXTS[0]).ents[0]
    doc = nlp.make_doc(TEXTS[0])
    doc.ents = [Span(doc, found.start, found.end, "MINE")]
    assert entities(nlp.get_pipe("span_marker")(doc))[0] == (found.start, found.end, "MINE", None)


def test_regression_no_entity_begins_or_ends_with_whitespace(tmp_path):
    make_model(tmp_path / "encoder", byte_level_bpe(add_prefix_space=True), "roberta", -100.0).save_pretrained(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("span_marker", config={"model": str(tmp_path)})
    plain, spaced, empty = nlp.pipe(["Ada lives in London", "Ada  lives\n\nin   London \n", " \n"])
    assert [token.is_space for token in spaced].count(True) == 4
    assert [entity.text.split() for entity in spaced.ents] == [entity.text.split() for entity in plain.ents]
    assert not any(entity[edge].is_space for entity in spaced.ents for edge in (0, -1))
    assert not empty.ents


def test_span_groups(make):
    doc = make(spans_key="found")(TEXTS[0])
    assert [(span.start, span.end, span.label_, span._.score) for span in doc.spans["found"]] == entities(doc)


def test_saving_is_self_contained(make, tmp_path, folder, monkeypatch):
    nlp = make("sentencizer", batch_size=7, spans_key="found")
    expected = entities(nlp(TEXTS[0]))
    nlp.to_disk(tmp_path / "nlp")
    config = (tmp_path / "nlp" / "config.cfg").read_text()
    moved = config.replace(str(folder), "nowhere/at-all")
    assert moved != config
    (tmp_path / "nlp" / "config.cfg").write_text(moved)
    loaded = spacy.load(tmp_path / "nlp")
    component = loaded.get_pipe("span_marker")
    assert (component.batch_size, component.spans_key) == (7, "found")
    assert entities(loaded(TEXTS[0])) == expected


def test_the_model_is_loaded_when_it_is_needed(folder):
    component = SpacySpanMarkerWrapper(folder, device="cpu", entity_max_length=2)
    assert not hasattr(component, "model")
    assert component.load().config.entity_max_length == 2
    assert component.load() is component.model
    assert component.model.device == torch.device("cpu")
    nlp = spacy.blank("en")
    nlp.add_pipe("span_marker", config={"model": "no/such-folder-here"})
    with pytest.raises(OSError, match="no/such-folder-here"):
        nlp("Ada")


def test_several_processes(make):
    nlp = make()
    expected = [[entity[:3] for entity in entities(nlp(text))] for text in TEXTS]
    torch.set_num_threads(1)  # threads do not survive a fork
    found = list(nlp.pipe(TEXTS, n_process=2, batch_size=2))
    assert [[entity[:3] for entity in entities(doc)] for doc in found] == expected


def test_the_scorer_and_displacy(make):
    nlp = make()
    gold = [nlp(text) for text in TEXTS if text.strip()]
    examples = [Example(nlp(doc.text), doc) for doc in gold]
    assert nlp.evaluate(examples)["ents_f"] == 1.0
    gold[0].ents = gold[0].ents[1:]
    scores = nlp.evaluate([Example(nlp(doc.text), doc) for doc in gold])
    assert scores["ents_r"] == 1.0 > scores["ents_p"]
    assert "PER" in displacy.render(gold[0], style="ent", jupyter=False) or gold[0].ents[0].label_ == "LOC"
