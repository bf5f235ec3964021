"""F1 in languages without spaces, from words and from raw text: Japanese (ja_hironsan) and Chinese (uner_zh).

For each data set two models are trained alike: one on its words, and one on its raw text (the words joined, entities as
characters), which is split by the package. Each predicts the test set in the form that it was trained on, and is scored
on the same gold: characters and type must be right::

    python benchmarks/raw_text.py --sentences 800 --bf16 --threads 1

The raw predictions' places are checked against the text. A line of JSON is added to ``results/raw_text.jsonl``; runs
that are there already are not repeated. The encoder's vocabulary is English and has only some of the characters: the
figures compare two ways of reading, and are not what a Japanese or Chinese encoder reaches.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpora import ENCODER, encoder_path
from datasets import Dataset
from quiet import set_up
from records import ROOT, Record, append, environment, find, read_results
from transformers import PrinterCallback, TrainingArguments, set_seed

from span_marker import SpanMarkerModel, Trainer, read_dataset
from span_marker.demo import DemoError
from span_marker.demo.corpus import SHARED_VARIABLE
from span_marker.readers.sentences import spans_of

DATA = ("ja_hironsan", "uner_zh")
RESULTS = ROOT / "benchmarks" / "results" / "raw_text.jsonl"
ARGUMENTS = {"learning_rate": 2e-4, "per_device_train_batch_size": 16, "warmup_steps": 0.1}
WORDS, TEXT = "words", "text"
COVERED = 0.995
"""Share of the training set's entities that the candidate spans cover."""

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Joined:
    """A sentence as raw text.

    Attributes:
        text: Its words, joined; with a space where two of them are Latin.
        words: Start and end of each word.
        entities: Its entities: first character, character after the last, type.
    """

    text: str
    words: list[tuple[int, int]]
    entities: list[Span]


def join(tokens: Sequence[str], tags: Sequence[str]) -> Joined:
    """Join the words of a sentence.

    Args:
        tokens: The words.
        tags: Their IOB2 tags.
    """
    text, words = "", []
    for token in tokens:
        if text[-1:].isascii() and text[-1:].isalnum() and token[:1].isascii() and token[:1].isalnum():
            text += " "
        words.append((len(text), len(text) + len(token)))
        text += token
    return Joined(text, words, [(words[start][0], words[end - 1][1], label) for start, end, label in spans_of(tags)])


def read_as_text(sentences: Sequence[Joined], word_splitter: str, folder: Path) -> Dataset:
    """Read sentences from a file of texts with entities, as the package reads such files.

    Args:
        sentences: The sentences.
        word_splitter: What splits them into words.
        folder: Folder for the file.
    """
    path = folder / "train.jsonl"
    rows = (json.dumps([one.text, {"entities": one.entities}], ensure_ascii=False) for one in sentences)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    rows_read: Any = read_dataset(path, split_words=word_splitter, align="snap", cache_dir=folder)
    return rows_read.select_columns(["tokens", "ner_tags"])


def predict(model: SpanMarkerModel, sentences: Sequence[Joined], form: str) -> list[set[Span]]:
    """Predict sentences, and check the places.

    Args:
        model: The model.
        sentences: The sentences.
        form: "words" or "text".

    Returns:
        Entities of each sentence, in characters.
    """
    texts = [one.text for one in sentences]
    if form == TEXT:
        found: Any = model.predict(texts, 32, is_split_into_words=False)
        for text, row in zip(texts, found, strict=True):
            assert all(text[e["char_start_index"] : e["char_end_index"]] == e["span"] for e in row), text
        return [{(e["char_start_index"], e["char_end_index"], e["label"]) for e in row} for row in found]
    found = model.predict([[one.text[start:end] for start, end in one.words] for one in sentences], 32)
    return [
        {(one.words[e["word_start_index"]][0], one.words[e["word_end_index"] - 1][1], e["label"]) for e in row}
        for one, row in zip(sentences, found, strict=True)
    ]


def score(predicted: Sequence[set[Span]], sentences: Sequence[Joined]) -> dict[str, float]:
    """Score entities: characters and type must be right.

    Args:
        predicted: Predicted entities of each sentence.
        sentences: The sentences.
    """
    gold = [set(one.entities) for one in sentences]
    right = sum(len(one & other) for one, other in zip(predicted, gold, strict=True))
    precision, recall = (right / max(sum(map(len, rows)), 1) for rows in (predicted, gold))
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-9)}


def run_once(splits: dict[str, list[Joined]], rows: Dataset, key: Record, encoder: str) -> Record:
    """Train a model on words, or on raw text, and score it.

    Args:
        splits: The sentences.
        rows: The training sentences as words.
        key: The settings of the run.
        encoder: Path of the encoder.

    Returns:
        Scores and times.
    """
    set_seed(key["seed"])
    with tempfile.TemporaryDirectory() as folder:
        if key["form"] == TEXT:
            rows = read_as_text(splits["train"], key["word_splitter"], Path(folder))
        lengths = [end - start for tags in rows["ner_tags"] for start, end, _ in spans_of(tags)]
        longest = int(np.quantile(lengths, COVERED, method="higher"))
        model = SpanMarkerModel.from_pretrained(encoder, model_max_length=256, entity_max_length=longest)
        arguments = TrainingArguments(
            folder,
            use_cpu=not torch.cuda.is_available(),
            seed=key["seed"],
            num_train_epochs=key["epochs"],
            bf16=key["bf16"],
            dataloader_pin_memory=torch.cuda.is_available(),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **ARGUMENTS,
        )
        trainer = Trainer(model, arguments, train_dataset=rows)
        trainer.remove_callback(PrinterCallback)
        begin = time.process_time()
        trainer.train()
        seconds = time.process_time() - begin
    test = splits["test"]
    found = score(predict(model, test, key["form"]), test)
    words = sum(map(len, rows["tokens"])) / len(rows)
    return found | {
        "entity_max_length": longest,
        "words_per_sentence": words,
        "training_processor_seconds": seconds,
    }


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare words with raw text.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(DATA), help="data sets in $SPAN_MARKER_SHARED/data")
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--word-splitter", default="punctuation", help="what splits raw text into words")
    parser.add_argument("--sentences", type=int, help="training sentences (default: all)")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true", help="train in mixed precision")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished runs, added to")
    return parser.parse_args(argv)


def _read(name: str, split: str, most: int | None) -> Dataset:
    path = Path(os.environ.get(SHARED_VARIABLE, ROOT.parent / "shared")) / "data" / name / f"{split}.jsonl"
    if not path.is_file():
        raise DemoError(f"There is no {path}: set ${SHARED_VARIABLE}.")
    rows: Any = read_dataset(path)
    return rows.select(range(min(most or len(rows), len(rows))))


def run(settings: argparse.Namespace) -> list[Record]:
    """Make the runs that are not finished yet.

    Args:
        settings: The parsed arguments.

    Returns:
        All that were asked for.

    Raises:
        DemoError: A data set or the encoder is missing.
    """
    encoder, records = encoder_path(settings.encoder), []
    for data in settings.data:
        rows = {
            split: _read(data, split, settings.sentences if split == "train" else None) for split in ("train", "test")
        }
        splits = {split: list(map(join, part["tokens"], part["ner_tags"])) for split, part in rows.items()}
        for form in (WORDS, TEXT):
            key = {
                "data": data,
                "form": form,
                "word_splitter": settings.word_splitter if form == TEXT else None,
                "encoder": Path(settings.encoder).name,
                **{name: getattr(settings, name) for name in ("sentences", "epochs", "seed", "bf16")},
                **ARGUMENTS,
            }
            record = find(read_results(settings.results), key)
            if record is None:
                words = rows["train"].select_columns(["tokens", "ner_tags"])
                record = key | run_once(splits, words, key, encoder) | environment()
                append(settings.results, record)
            records.append(record)
    return records


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, or 2 where something is missing.
    """
    settings = _parse(argv)
    set_up(settings.threads)
    try:
        records = run(settings)
    except DemoError as error:
        print(f"raw_text: {error}", file=sys.stderr)
        return 2
    print("| data | read as | words a sentence | entity_max_length | F1 | precision | recall | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    for record in records:
        scores = " | ".join(f"{100 * record[name]:.2f}" for name in ("f1", "precision", "recall"))
        minutes = record["training_processor_seconds"] / 60
        form = record["form"] if record["form"] == WORDS else f"text ({record['word_splitter']})"
        print(
            f"| {record['data']} | {form} | {record['words_per_sentence']:.1f} | {record['entity_max_length']} "
            f"| {scores} | {minutes:.1f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
