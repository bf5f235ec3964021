"""Check that a checkpoint saved by this package loads in span-marker 1.8.1 and predicts the same there.

A model is trained briefly on WNUT17, saved, and applied by both packages to WNUT17 test sentences: the same entities
must come out, their scores within 1e-4. Encoders: MiniLM (WordPiece), and two tiny random ones, byte-level BPE and
SentencePiece. The bias of "O" is lowered until there are enough entities to compare, for a tiny encoder finds none on
its own::

    SPAN_MARKER_SHARED=../shared python benchmarks/loads_in_reference.py

The reference looks for tokenizer files at the path that the configuration names as the encoder's own
(``_name_or_path``); the encoder must therefore lie where it was when the model was saved.

``--inputs text`` compares raw text too. There the packages differ on purpose: with SentencePiece the reference's spans
take in the space before them, and it may end a span within the word at which a text is cut off.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import peer
import torch
from corpora import LENGTHS, Corpus, encoder_path, read_corpus
from quiet import set_up
from transformers import PrinterCallback, TrainingArguments, set_seed

from span_marker import SpanMarkerModel, Trainer
from span_marker.demo import MINILM, DemoError

TOLERANCE = 1e-4
"""Largest difference of two scores that count as equal."""
TINY_LENGTHS = {"model_max_length": 64, "marker_max_length": 64, "entity_max_length": 6}
"""The tiny encoders hold so many positions."""
PER_SENTENCE = 0.5
"""Fewest entities per sentence to compare, on average."""

_SCRIPT = """
from span_marker import SpanMarkerModel

def run(payload):
    model = SpanMarkerModel.from_pretrained(payload["model"])
    return [model.predict(inputs, batch_size=payload["batch_size"]) for inputs in payload["inputs"]]
"""
_INPUTS: dict[str, Callable[[list[list[str]]], list[Any]]] = {
    "words": lambda sentences: sentences,
    "text": lambda sentences: [" ".join(words) for words in sentences],
}
Entities: TypeAlias = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Comparison:
    """What both packages predict for the same inputs.

    Attributes:
        entities: Number of entities that this package finds.
        differing: Indices of the sentences with other entities.
        score: Largest difference of the scores of the same entity.
    """

    entities: int
    differing: list[int]
    score: float

    @property
    def is_equal(self) -> bool:
        """Whether the predictions are the same."""
        return not self.differing and self.score <= TOLERANCE


def compare(ours: Entities, theirs: Entities) -> Comparison:
    """Compare predictions.

    Args:
        ours: Entities of each sentence.
        theirs: The same, of the other package.

    Returns:
        How they differ. A sentence with other entities has no part in the difference of scores.
    """
    differing, score = [], 0.0
    for index, (our_row, their_row) in enumerate(zip(ours, theirs, strict=True)):
        if [_without_score(entity) for entity in our_row] != [_without_score(entity) for entity in their_row]:
            differing.append(index)
            continue
        pairs = zip(our_row, their_row, strict=True)
        score = max([score, *(abs(our["score"] - their["score"]) for our, their in pairs)])
    return Comparison(sum(map(len, ours)), differing, score)


def _without_score(entity: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entity.items() if name != "score"}


def train(encoder: str, corpus: Corpus, sentences: int, lengths: dict[str, int]) -> SpanMarkerModel:
    """Train a model for one epoch.

    Args:
        encoder: Folder of the encoder.
        corpus: The corpus.
        sentences: Number of training sentences.
        lengths: The model's lengths.

    Returns:
        The model.
    """
    set_seed(0)
    model = SpanMarkerModel.from_pretrained(encoder, labels=corpus.labels, span_filter=False, **lengths)
    rows = corpus.splits["train"].select(range(min(sentences, len(corpus.splits["train"]))))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=16,
            learning_rate=2e-4,
            num_train_epochs=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=rows.select_columns(["tokens", "ner_tags"]))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model


def _fits(model: SpanMarkerModel, sentence: list[str]) -> bool:
    """Tell whether the model reads all of a sentence at once, given as words or as text."""
    inputs = ([sentence], [" ".join(sentence)])
    lengths = [len(model.tokenizer.encode(given, truncate=False).token_ids) for given in inputs]
    return max(lengths) <= model.tokenizer.model_max_length


def ensure_entities(model: SpanMarkerModel, sentences: list[list[str]]) -> None:
    """Lower the bias of "O" until the model finds entities, and no more than needed.

    Args:
        model: The model.
        sentences: Sentences as words, some of those that are compared.
    """

    def is_enough() -> bool:
        return sum(map(len, model.predict(sentences, batch_size=8))) >= PER_SENTENCE * len(sentences)

    if is_enough():
        return
    bias = model.classifier.bias
    original, low, high = bias[model.config.outside_id].item(), 0.0, 20.0
    for _ in range(12):
        middle = (low + high) / 2
        with torch.no_grad():
            bias[model.config.outside_id] = original - middle
        low, high = (low, middle) if is_enough() else (middle, high)
    with torch.no_grad():
        bias[model.config.outside_id] = original - high


def check(case: str, corpus: Corpus, settings: argparse.Namespace, python: Path) -> dict[str, Comparison]:
    """Train, save, and compare the predictions of both packages.

    Args:
        case: "minilm", or the name of a folder in the reference folder.
        corpus: The corpus.
        settings: The parsed arguments.
        python: The reference's interpreter.

    Returns:
        The comparison of each kind of input.
    """
    is_tiny = case != MINILM
    encoder = encoder_path(str(_reference() / case / "encoder") if is_tiny else case)
    model = train(encoder, corpus, settings.train_sentences, TINY_LENGTHS if is_tiny else LENGTHS)
    # span-marker 1.8.1 cuts sentences that are longer than the model, this package reads them whole.
    words = [sentence for sentence in corpus.splits["test"]["tokens"] if _fits(model, sentence)][: settings.sentences]
    ensure_entities(model, words[:40])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        inputs = {kind: _INPUTS[kind](words) for kind in settings.inputs}
        payload = {"model": folder, "inputs": list(inputs.values()), "batch_size": 8}
        theirs = peer.run_script(python, _SCRIPT, payload, settings.threads)
        loaded = SpanMarkerModel.from_pretrained(folder)
    return {
        kind: compare(loaded.predict(given, batch_size=8, is_split_into_words=kind == "words"), found)
        for (kind, given), found in zip(inputs.items(), theirs, strict=True)
    }


def _reference() -> Path:
    """Locate the reference's checkpoints.

    Raises:
        DemoError: There are none.
    """
    folder = Path(os.environ.get("SPAN_MARKER_SHARED", "../shared"), "reference").resolve()
    if not folder.is_dir():
        raise DemoError(f"There is no folder {folder}. Set SPAN_MARKER_SHARED to the folder that holds reference/.")
    return folder


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Check that span-marker 1.8.1 loads what this package saves, and predicts the same.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    cases = [MINILM, "roberta", "xlm_roberta"]
    parser.add_argument("--cases", nargs="+", default=cases, metavar="CASE", help="'minilm' or folders in reference/")
    parser.add_argument("--inputs", nargs="+", choices=list(_INPUTS), default=["words"], help="what to predict on")
    parser.add_argument("--sentences", type=int, default=200, help="number of test sentences")
    parser.add_argument("--train-sentences", type=int, default=320, help="number of training sentences")
    peer.add_arguments(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the check.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, 1 where predictions differ, 2 where something is missing or failed.
    """
    settings = _parse(argv)
    set_up(settings.threads)
    failed = 0
    try:
        python = peer.find_peer(settings.peer_python)
        corpus = read_corpus("wnut17")
        print("| case | input | sentences | entities | sentences that differ | largest score difference | |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for case in settings.cases:
            for kind, result in check(case, corpus, settings, python).items():
                failed += not result.is_equal
                print(
                    f"| {case} | {kind} | {settings.sentences} | {result.entities} | {result.differing or 'none'} "
                    f"| {result.score:.1e} | {'equal' if result.is_equal else 'DIFFERENT'} |",
                    flush=True,
                )
    except (peer.PeerError, DemoError) as error:
        print(f"loads_in_reference: {error}", file=sys.stderr)
        return 2
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
