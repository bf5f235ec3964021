import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import assert_close, make_finder

from span_marker import Trainer, TrainingArguments
from span_marker.spans import enumerate_spans, span_index
from span_marker.windows import WindowSize, classify_in_windows, cut_into_windows

FIRST, LAST, PADDING = 101, 102, 0


def batch_of(lengths, longest=3, tokens_per_word=1):
    """A batch of sentences of some numbers of words, each token with an id of its own from 1000 on."""
    width = max(lengths) * tokens_per_word + 2
    spans = [enumerate_spans(words, longest) for words in lengths]
    most = max(len(starts) for starts, _ in spans)
    batch = {
        "input_ids": torch.full((len(lengths), width), PADDING),
        "attention_mask": torch.zeros(len(lengths), width, dtype=torch.bool),
        "start_positions": torch.zeros(len(lengths), most, dtype=torch.long),
        "end_positions": torch.zeros(len(lengths), most, dtype=torch.long),
        "num_spans": torch.tensor([len(starts) for starts, _ in spans]),
        "labels": torch.full((len(lengths), most), -100),
    }
    for row, (words, (starts, ends)) in enumerate(zip(lengths, spans, strict=True)):
        tokens = words * tokens_per_word
        ids = [FIRST, *range(1000, 1000 + tokens), LAST]
        batch["input_ids"][row, : len(ids)] = torch.tensor(ids)
        batch["attention_mask"][row, : len(ids)] = True
        batch["start_positions"][row, : len(starts)] = torch.from_numpy(starts * tokens_per_word + 1)
        batch["end_positions"][row, : len(ends)] = torch.from_numpy(ends * tokens_per_word)
        batch["labels"][row, : len(starts)] = torch.arange(len(starts))
    return batch


def test_two_windows():
    (batch, place), *others = cut_into_windows(batch_of([6], longest=1), WindowSize(6, 1, 1))
    assert not others
    assert batch["input_ids"].tolist() == [[101, 1000, 1001, 1002, 1003, 102], [101, 1002, 1003, 1004, 1005, 102]]
    assert batch["attention_mask"].all()
    assert batch["start_positions"].tolist() == batch["end_positions"].tolist() == [[1, 2, 3], [2, 3, 4]]
    assert batch["num_spans"].tolist() == [3, 3]
    assert batch["labels"].tolist() == place.spans.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert place.rows.tolist() == [0, 0]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5).filter(any),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(3, 30),
)
def test_every_span_is_in_one_window_and_means_the_same_tokens(lengths, longest, tokens_per_word, room):
    batch, size = batch_of(lengths, longest, tokens_per_word), WindowSize(room + 2, 1, 1)
    seen = torch.zeros_like(batch["start_positions"])
    fits = min(longest, max(lengths)) * tokens_per_word <= room // 2
    for windows, place in cut_into_windows(batch, size):
        lengths_of_windows = windows["attention_mask"].sum(1)
        assert lengths_of_windows.max() == windows["input_ids"].shape[1] <= room + 2
        for row, (sentence, length, count) in enumerate(
            zip(place.rows.tolist(), lengths_of_windows.tolist(), windows["num_spans"].tolist(), strict=True)
        ):
            ids = windows["input_ids"][row, :length].tolist()
            assert (ids[0], ids[-1]) == (FIRST, LAST)
            assert ids[1:-1] == list(range(ids[1], ids[1] + length - 2))
            spans = place.spans[row, :count]
            assert windows["labels"][row].tolist() == spans.tolist() + [-100] * (place.spans.shape[1] - count)
            seen[sentence, spans] += 1
            for name in ("start_positions", "end_positions"):
                positions = windows[name][row, :count]
                assert ((positions >= 1) & (positions <= length - 2)).all()
                if fits:
                    there = batch["input_ids"][sentence, batch[name][sentence, spans]]
                    assert windows["input_ids"][row, positions].tolist() == there.tolist()
    counts = batch["num_spans"][:, None]
    assert (seen == (torch.arange(seen.shape[1]) < counts)).all()


def test_results_are_put_back():
    batch = batch_of([40, 3, 0, 17], longest=4)
    (found,) = classify_in_windows(lambda windows: (windows["labels"] + 1,), batch, WindowSize(12, 1, 1), 0)
    assert found.tolist() == (batch["labels"] + 1).clamp(min=0).tolist()


def test_what_fits_is_not_cut():
    batch = batch_of([10, 3])
    assert classify_in_windows(lambda given: (given,), batch, WindowSize(12, 1, 1), 0) == (batch,)


def test_regression_of_spans_that_are_cut_alike_the_shortest_counts():
    batch = batch_of([4], longest=3)  # spans: 0, 0-1, 0-2, 1, 1-2, 1-3, 2, 2-3, 3
    (found,) = classify_in_windows(lambda windows: (windows["labels"],), batch, WindowSize(3, 1, 1), -7)
    assert found.tolist() == [[0, -7, -7, 3, -7, -7, 6, -7, 8]]
    words = batch_of([3], longest=2, tokens_per_word=4)  # 0, 0-1, 1, 1-2, 2: longer than windows
    (found,) = classify_in_windows(lambda windows: (windows["labels"],), words, WindowSize(5, 1, 1), -7)
    assert found[0, [0, 2, 4]].tolist() == [0, 2, 4]


def test_regression_a_word_longer_than_the_model_is_an_entity_by_itself(finder):
    sentences = [["in", "y" * 40, "Ada", "y" * 30, "."] * 3, ["Paris", "y" * 25], ["nobody", "y" * 35, "in"] * 5]
    alone = [finder.predict([sentence])[0] for sentence in sentences]
    for sentence, found in zip(sentences, alone, strict=True):
        long = [entity["span"] for entity in found if any(word.startswith("y") for word in entity["span"])]
        assert long == [[word] for word in sentence if word.startswith("y")]
    assert_close(finder.predict(sentences, batch_size=3), alone)


def test_windows_do_not_grow_with_the_longest_word():
    batch = batch_of([200], longest=1)
    batch["end_positions"][0, 50] = 150  # a word of a hundred tokens
    windows = [len(place.rows) for _, place in cut_into_windows(batch, WindowSize(22, 1, 1))]
    assert sum(windows) == 20 - 1


@pytest.mark.parametrize("words", [1, 2, 3])
def test_an_entity_on_every_border_is_found(words):
    """An entity at each place of a long sentence: in the middle of windows, at their ends, and across them."""
    size, sentence = WindowSize(12, 1, 1), batch_of([60], longest=3)
    borders = {
        int(edge)
        for windows, _ in cut_into_windows(sentence, size)
        for row in windows["input_ids"]
        for edge in (row[1], row[-2] + 1)
    }
    assert len(borders) > 10
    crossed = set()
    for start in range(60 - words + 1):
        first, last = 1000 + start, 1000 + start + words - 1

        def classify(windows, first=first, last=last):
            ids = windows["input_ids"]
            edges = (ids.gather(1, windows[name]) for name in ("start_positions", "end_positions"))
            is_entity = torch.stack([edge == token for edge, token in zip(edges, (first, last), strict=True)]).all(0)
            return (is_entity.long(),)

        (found,) = classify_in_windows(classify, sentence, size, 0)
        places = found[0].nonzero()[:, 0].tolist()
        assert places == [int(span_index(start, start + words, 60, 3))]
        crossed |= {border for border in borders if first <= border <= last}
    assert crossed == borders & set(range(1000, 1060))


def test_a_long_text_is_its_sentences(finder):
    """Where a model looks at an entity's words alone, windows show what the sentences by themselves show."""
    model = copy.deepcopy(finder)
    with torch.no_grad():
        model.encoder.embeddings.position_embeddings.weight.zero_()
        for name, weights in model.encoder.named_parameters():
            if "attention.output.dense" in name:
                weights.zero_()
    sentences = [["Ada", "in", "London", "."], ["nobody"], ["Grace", "Hopper", "met", "Alan", "today", "."]] * 700
    alone = model.predict(sentences, decoding="all", batch_size=64)
    together = model.predict([word for sentence in sentences for word in sentence], decoding="all")
    starts = np.cumsum([0, *map(len, sentences)])
    expected = {
        (int(start) + e["word_start_index"], int(start) + e["word_end_index"]): (e["label"], e["score"])
        for start, row in zip(starts, alone, strict=False)
        for e in row
    }
    found = {(e["word_start_index"], e["word_end_index"]): (e["label"], e["score"]) for e in together}
    assert len(found) == len(together)
    assert expected.keys() <= found.keys()
    assert [found[place][0] for place in expected] == [label for label, _ in expected.values()]
    scores = [score for _, score in expected.values()]
    assert [found[place][1] for place in expected] == pytest.approx(scores, abs=1e-4)


@pytest.fixture(scope="module")
def finder(tiny_encoder):
    """A model that reads 12 tokens at once and finds entities everywhere."""
    return make_finder(tiny_encoder, model_max_length=12, entity_max_length=2)


def words_of(entities):
    return [word for entity in entities for word in range(entity["word_start_index"], entity["word_end_index"])]


def test_long_sentences_are_read_to_their_end(finder):
    words = ["Ada", "Lovelace", "lives", "in", "London", "."] * 50
    entities = finder.predict(words)
    assert words_of(entities) == list(range(300))  # everything is an entity: nothing is left out, nothing twice
    assert all(entity["span"] == words[entity["word_start_index"] : entity["word_end_index"]] for entity in entities)
    text = " ".join(words)
    found = finder.predict(text)
    assert all(text[entity["char_start_index"] : entity["char_end_index"]] == entity["span"] for entity in found)
    assert found[-1]["char_end_index"] == len(text)


def test_long_sentences_do_not_depend_on_their_batch(finder):
    sentences = [["Ada", "in", "London"] * 9, ["Paris"], ["nobody"] * 31, []]
    alone = [finder.predict([sentence])[0] for sentence in sentences]
    assert_close(finder.predict(sentences, batch_size=4), alone)


def test_evaluation_reads_what_prediction_reads(finder, tmp_path):
    rows = [(["Ada", "in", "London"] * 9, [1, 0, 3] * 9), (["Paris"], [3]), (["nobody"] * 31, [0] * 31)]
    dataset = Dataset.from_dict({"tokens": [row[0] for row in rows], "ner_tags": [row[1] for row in rows]})
    arguments = TrainingArguments(
        str(tmp_path), report_to="none", per_device_eval_batch_size=2, dataloader_pin_memory=False
    )
    trainer = Trainer(finder, arguments, eval_dataset=dataset)
    output = trainer.predict(dataset)
    found = [[(e["start"], e["end"], e["label"]) for e in sentence] for sentence in output.predictions]
    predicted = finder.predict(dataset)
    assert found == [
        [(e["word_start_index"], e["word_end_index"], e["label"]) for e in sentence] for sentence in predicted
    ]
    assert [len(row) for row in output.label_ids] == [18, 1, 0]
    assert np.isfinite(output.metrics["test_loss"])


def test_the_loss_of_windows_is_that_of_all_spans(finder, tmp_path):
    words = ["Ada", "in", "London"] * 9
    arguments = TrainingArguments(str(tmp_path), report_to="none", dataloader_pin_memory=False)
    losses = []
    for rows in ([words], [words[:8], words[8:]]):
        data = Dataset.from_dict({"tokens": rows, "ner_tags": [[0] * len(row) for row in rows]})
        losses.append(Trainer(finder, arguments, eval_dataset=data).evaluate()["eval_loss"])
    # Other neighbours, other logits; but a forgotten or a doubled window would be far off.
    assert losses[0] == pytest.approx(losses[1], rel=0.5)
    assert losses[0] > 10


def test_a_long_text_with_a_span_filter(finder):
    model = copy.deepcopy(finder)
    sentences = [["Ada", "in", "London"] * 9, ["Paris", "is", "far"]] * 8
    report = model.fit_span_filter(sentences, batch_size=2)
    assert report.num_entities
    model.config.span_filter_threshold = 1e-9
    assert_close(model.predict(sentences), finder.predict(sentences))
