"""The parts of `report.py`, each measured once and kept as lines of a file: data sets, and three scaling curves."""

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contestants import (
    FLOAT,
    INT8,
    REFERENCE,
    TOKEN,
    Arena,
    Contestant,
    choose,
    f1_score,
    finder,
    line_up,
    progress,
    tagger,
)
from corpora import LENGTHS, Corpus, encoder_path, read_corpus
from datasets import Dataset
from records import Record, append, environment, find, read_results
from speed_models import Models, digest, models_of, save_for_reference, save_fresh, save_onnx

DATA, LENGTH, LABELS, CORPUS = "data", "length", "labels", "corpus"
KEPT = 0.01
"""Share of the spans that fresh models keep."""
_ONNX = "OnnxSpanMarkerModel"
_EXPORTS = {FLOAT: None, INT8: "int8"}


@dataclass(frozen=True)
class Set:
    """A data set and its models."""

    name: str
    corpus: Corpus
    models: Models

    @property
    def key(self) -> Record:
        """What tells its results from others."""
        return {"data": self.name, "model": digest(self.models.span)}

    def tagger(self, encoder: str, batch_size: int) -> Contestant:
        """Token classification with its model, or with an untrained one of as many tags."""
        if self.models.tagger is None:
            return tagger(encoder, batch_size, len(self.corpus.labels))
        return tagger(str(self.models.tagger), batch_size)


class Bench:
    """Measures parts, those that are not in the file of results.

    Args:
        settings: The parsed arguments of `report.py`.
        peer_python: The reference's interpreter.
    """

    def __init__(self, settings: argparse.Namespace, peer_python: Path | None) -> None:
        self._settings = settings
        self._peer_python = peer_python
        self._encoder = encoder_path(settings.encoder)
        self._sets: dict[str, Set] = {}
        self._environment = environment()  # the commit that runs, whatever is checked out meanwhile
        self._common = {
            "encoder": Path(settings.encoder).name,
            "threads": settings.threads,
            "repetitions": settings.repetitions,
            "batch_size": settings.batch_size,
            **LENGTHS,
        }

    def run(self) -> None:
        """Measure the parts that are asked for."""
        measure = {DATA: self._data_sets, LENGTH: self._lengths, LABELS: self._labels, CORPUS: self._corpora}
        for part in self._settings.parts:
            measure[part]()

    def _once(self, key: Record, measure: Callable[[], Record]) -> None:
        """Measure what is not in the file of results yet."""
        key = self._common | key
        if find(read_results(self._settings.results), key) is None:
            append(self._settings.results, key | measure() | self._environment | {"threads": key["threads"]})
        progress(f"{key['part']}, {key.get(key['part'], key.get('data'))}: done")

    def _set(self, data: str) -> Set:
        name = Path(data).name
        if name not in self._sets:
            corpus = read_corpus(data)
            self._sets[name] = Set(name, corpus, models_of(name, corpus, self._encoder, self._settings))
        return self._sets[name]

    def _test(self, corpus: Corpus, number: int | None) -> Dataset:
        """So many test sentences, or all."""
        return choose(corpus.splits["test"], number, self._settings.batch_size)

    def _measure(
        self, arena: Arena, what: str, contestants: list[Contestant], repetitions: int | None = None, **task: Any
    ) -> Record:
        return {"times": arena.measure(what, contestants, task, repetitions or self._settings.repetitions)}

    def _data_sets(self) -> None:
        """All contestants on each data set, and their F1."""
        for data in self._settings.data:
            one = self._set(data)
            timed, scored = (
                self._test(one.corpus, number) for number in (self._settings.sentences, self._settings.scored)
            )
            key = {"part": DATA, "sentences": len(timed), "scored": len(scored), "tagger": digest(one.models.tagger)}
            self._once(key | one.key, lambda one=one, timed=timed, scored=scored: self._data_set(one, timed, scored))

    def _data_set(self, one: Set, timed: Dataset, scored: Dataset) -> Record:
        """Measure one data set."""
        assert self._peer_python is not None
        size, model = self._settings.batch_size, str(one.models.span)
        with tempfile.TemporaryDirectory() as folder, Arena(self._settings.threads) as arena:
            reference = finder(
                REFERENCE, save_for_reference(one.models.span, self._encoder, Path(folder, "copy")), size
            )
            exported = {name: save_onnx(one.models.span, Path(folder, name), way) for name, way in _EXPORTS.items()}
            contestants = [
                one.tagger(self._encoder, size),
                replace(reference, batch_sizes=self._settings.peer_batch_sizes, python=self._peer_python),
                *line_up(model, size),
                *(finder(name, path, size, **{"class": _ONNX}) for name, path in exported.items()),
            ]
            record = self._measure(arena, one.name, contestants, sentences=list(timed["tokens"]))
            # The reference cannot use the filter's vote, and an untrained classifier finds nothing.
            silent = {REFERENCE} | ({TOKEN} if one.models.tagger is None else set())
            f1 = {
                contestant.name: f1_score(arena.find(contestant, list(scored["tokens"])), scored, one.corpus.labels)
                for contestant in contestants
                if contestant.name not in silent
            }
        progress(f"{one.name}, F1: " + ", ".join(f"{name} {100 * score:.2f}" for name, score in f1.items()))
        return record | {"f1": f1}

    def _lengths(self) -> None:
        """Sentences of equal length, cut out of the first data set's test text."""
        one = self._set(self._settings.data[0])
        size, text = self._settings.batch_size, list(one.corpus.splits["test"]["tokens"])
        contestants = [one.tagger(self._encoder, size), *line_up(str(one.models.span), size)[:2]]
        with Arena(self._settings.threads) as arena:
            for length in (*self._settings.lengths, self._settings.long_text):
                sentences = pieces(text, length, max(self._settings.words, length))
                key = {"part": LENGTH, "length": length, "words": len(sentences) * length}
                # The long text is there to show that it works.
                repetitions = {"repetitions": 1} if length == self._settings.long_text else {}
                self._once(
                    key | one.key | repetitions,
                    lambda sentences=sentences, length=length, repetitions=repetitions: self._measure(
                        arena, f"{length} words", contestants, sentences=sentences, **repetitions
                    ),
                )

    def _labels(self) -> None:
        """Fresh models with more and more entity types, on sentences of the first data set."""
        data = self._settings.data[0]
        sentences = list(self._test(read_corpus(data), self._settings.label_sentences)["tokens"])
        with Arena(self._settings.threads) as arena:
            for number in self._settings.labels:
                key = {"part": LABELS, "labels": number, "data": Path(data).name, "sentences": len(sentences)}
                self._once(key | {"kept": KEPT}, lambda number=number: self._with_labels(arena, number, sentences))

    def _with_labels(self, arena: Arena, number: int, sentences: list[list[str]]) -> Record:
        """Measure one number of entity types."""
        size = self._settings.batch_size
        with tempfile.TemporaryDirectory() as folder:
            save_fresh(self._encoder, number, sentences, KEPT, Path(folder))
            contestants = [tagger(self._encoder, size, 2 * number + 1), *line_up(folder, size)[:2]]
            return self._measure(arena, f"{number} types", contestants, sentences=sentences)

    def _corpora(self) -> None:
        """More and more short sentences from a generator."""
        one, words = self._set(self._settings.data[0]), self._settings.corpus_words
        text = list(one.corpus.splits["test"]["tokens"])
        sentences = pieces(text, words, sum(map(len, text)))
        contestants = line_up(str(one.models.span), self._settings.batch_size)[1:]
        with Arena(self._settings.threads) as arena:
            for size in self._settings.corpus_sizes:
                self._once(
                    {"part": CORPUS, "corpus": size, "words": words} | one.key,
                    lambda size=size: self._measure(
                        arena, f"{size} sentences", contestants, sentences=sentences, stream=size
                    ),
                )


def pieces(sentences: Iterable[Sequence[str]], length: int, total: int) -> list[list[str]]:
    """Cut a text into sentences of equal length.

    Args:
        sentences: Its sentences; they are used again where they are too few.
        length: Words of a piece.
        total: Words of all pieces, rounded down to whole ones.

    Returns:
        The pieces.
    """
    words = itertools.cycle(itertools.chain.from_iterable(sentences))
    return [list(itertools.islice(words, length)) for _ in range(total // length)]
