import re

import pytest

from span_marker.model_card.citations import encoder_citation


@pytest.mark.parametrize(
    ("base_model", "key"),
    [
        ("bert-base-cased", "devlin2018bert"),
        ("google-bert/bert-large-uncased", "devlin2018bert"),
        ("FacebookAI/xlm-roberta-base", "conneau2019unsupervised"),
        ("roberta-large", "liu2019roberta"),
        ("microsoft/mdeberta-v3-base", "he2021debertav3"),
        ("google/electra-small-discriminator", "clark2020electra"),
        ("distilbert-base-cased", "sanh2019distilbert"),
        ("sentence-transformers/all-MiniLM-L6-v2", "reimers2019sentence"),
    ],
)
def test_papers_of_known_encoders(base_model, key):
    entry = encoder_citation(base_model)
    assert re.match(r"@misc\{(\w+),", entry)[1] == key
    assert entry.count("{") == entry.count("}")


@pytest.mark.parametrize(
    "base_model", [None, "", "me/bert-base-cased", "bert-base-cased-ner", "sentence-transformers/LaBSE"]
)
def test_others_have_none(base_model):
    assert encoder_citation(base_model) is None
