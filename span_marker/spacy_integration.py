"""A spaCy component that finds entities with a span marker model: ``nlp.add_pipe("span_marker", ...)``.

spaCy finds it by its entry point: nothing needs to be imported.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from spacy.language import Language
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span, Token
from spacy.training import Example

from span_marker.decoding import choose_decoding, decode_flat
from span_marker.decoding_modes import FLAT
from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID
from span_marker.modeling import SpanMarkerModel
from span_marker.types import EntityTable

DOCUMENTS = 128
"""Documents whose sentences are batched together."""
_USUAL_KEY = "sc"


class SpacySpanMarkerWrapper:
    """Adds the entities that a span marker model finds to documents.

    A document is predicted sentence by sentence if something before in the pipeline sets sentence boundaries, such as
    the parser, the senter or the sentencizer, and otherwise as a whole, in windows. A model that was trained with
    document-level context gets each sentence's neighbours. Entities begin and end with spaCy's tokens, but not with
    whitespace; their probabilities are in ``Span._.score``.

    Args:
        model: Folder or name of the model. It is loaded when it is needed first, so that a pipeline that was saved
            with `nlp.to_disk` loads its own copy and nothing else.
        *args: Handed on to ``SpanMarkerModel.from_pretrained``.
        batch_size: Number of sentences in a batch.
        device: Where to run the model. ``None``: on the GPU if there is one.
        overwrite_entities: Whether to drop the entities that documents have already. Otherwise they stay, and those
            that are found are added where they do not overlap one.
        spans_key: Name of a span group in ``Doc.spans`` to put the found entities into. ``None``: no group where
            entities share no word, otherwise "sc", spaCy's usual name.
        decoding: As in ``SpanMarkerModel.predict``. Where entities may overlap, ``Doc.ents`` gets those that share no
            word, the most probable first, and the span group all of them.
        threshold: Least probability of an entity, or one by entity type.
        top_k: Most entities of a sentence.
        **kwargs: Handed on to ``SpanMarkerModel.from_pretrained``.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        *args: Any,
        batch_size: int = 4,
        device: str | torch.device | None = None,
        overwrite_entities: bool = False,
        spans_key: str | None = None,
        decoding: str | None = None,
        threshold: float | Mapping[str, float] | None = None,
        top_k: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._source = (model, args, kwargs)
        self.batch_size = batch_size
        self.device = device
        self.overwrite_entities = overwrite_entities
        self.spans_key = spans_key
        self.decoding, self.threshold, self.top_k = decoding, threshold, top_k
        if not Span.has_extension("score"):
            Span.set_extension("score", default=None)

    def load(self) -> SpanMarkerModel:
        """Load the model, if that has not been done.

        Returns:
            The model, which is also the attribute ``model`` from then on. That is no property that loads it: spaCy asks
            components what attributes they have.

        Raises:
            OSError: There is no such model.
        """
        if "model" not in vars(self):
            path, args, kwargs = self._source
            self._adopt(SpanMarkerModel.from_pretrained(path, *args, **kwargs))
        return self.model

    def _adopt(self, model: SpanMarkerModel) -> None:
        """Take a model to the wanted device."""
        self.model = model.try_cuda() if self.device is None else model.to(self.device)

    def __call__(self, doc: Doc) -> Doc:
        """Add entities to a document.

        Args:
            doc: The document, changed in place.

        Returns:
            The same document.
        """
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = DOCUMENTS) -> Iterator[Doc]:
        """Add entities to documents, the sentences of many in common batches.

        Args:
            stream: The documents.
            batch_size: Number of documents that are looked at together.

        Yields:
            The same documents in their order.
        """
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._annotate(batch)
            yield from batch

    def _annotate(self, docs: list[Doc]) -> None:
        """Add entities to documents."""
        sentences = [(index, _words(sentence)) for index, doc in enumerate(docs) for sentence in _sentences(doc)]
        columns: dict[str, Any] = {"tokens": [[token.text for token in words] for _, words in sentences]}
        model = self.load()
        if model.config.trained_with_document_context:
            columns[DOCUMENT_ID] = [index for index, _ in sentences]
            columns[SENTENCE_ID] = list(range(len(sentences)))
        decoding = choose_decoding(self.decoding, self.threshold, self.top_k, model.config)
        predictions: Any = model.predict(Dataset.from_dict(columns), batch_size=self.batch_size, decoding=decoding)
        spans_key = _USUAL_KEY if self.spans_key is None and decoding.mode != FLAT else self.spans_key
        found: list[dict[Span, float]] = [{} for _ in docs]
        for (index, words), entities in zip(sentences, predictions, strict=True):
            for entity in entities:
                first, last = words[entity["word_start_index"]], words[entity["word_end_index"] - 1]
                span = Span(docs[index], first.i, last.i + 1, label=entity["label"])
                found[index][span] = entity["score"]
        for doc, scores in zip(docs, found, strict=True):
            self._set(doc, scores, spans_key)

    def _set(self, doc: Doc, scores: dict[Span, float], spans_key: str | None) -> None:
        """Set a document's entities: those found, with their scores."""
        kept = [] if self.overwrite_entities else list(doc.ents)
        taken = {token.i for entity in kept for token in entity}
        added = [span for span in _flat(scores) if taken.isdisjoint(range(span.start, span.end))]
        doc.set_ents(kept + added)
        if spans_key is not None:
            doc.spans[spans_key] = list(scores)
        # A score belongs to a place: that of an entity which is left out would become that of the one which stays.
        for span in added if spans_key is None else scores:
            span._.score = scores[span]

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score predicted documents as spaCy scores its own entity recognizer; `nlp.evaluate` calls it.

        Args:
            examples: Predicted documents and what they should be.
            **kwargs: Handed on to spaCy.

        Returns:
            ``ents_p``, ``ents_r``, ``ents_f`` and ``ents_per_type``.
        """
        scores: dict[str, Any] = get_ner_prf(examples, **kwargs)
        return scores

    def to_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Save the model, as `nlp.to_disk` asks.

        Args:
            path: The folder.
            exclude: Ignored.
        """
        self.load().save_pretrained(path)

    def from_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> "SpacySpanMarkerWrapper":
        """Load the model that `to_disk` saved.

        Args:
            path: The folder.
            exclude: Ignored.

        Returns:
            This component.
        """
        self._adopt(SpanMarkerModel.from_pretrained(path))
        return self


def _flat(scores: dict[Span, float]) -> list[Span]:
    """Choose found entities that share no word, the most probable first."""
    spans = list(scores)
    starts, ends = (np.array([getattr(span, end) for span in spans], dtype=np.int64) for end in ("start", "end"))
    same = np.zeros(len(spans), dtype=np.int64)
    kept = decode_flat(EntityTable(same, same, starts, ends), np.array(list(scores.values()), dtype=np.float32))
    return [spans[index] for index in kept]


def _sentences(doc: Doc) -> Iterable[Span]:
    """Cut a document into sentences, if it says where they begin."""
    return doc.sents if doc.has_annotation("SENT_START") else [doc[:]] if len(doc) else []


def _words(sentence: Span) -> list[Token]:
    """List the tokens of a sentence that are words: spaCy makes tokens of repeated spaces and of line breaks too."""
    return [token for token in sentence if not token.is_space]


@Language.factory(  # type: ignore[untyped-decorator, unused-ignore]
    "span_marker",
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type", "span._.score"],
    default_config={
        "batch_size": 4,
        "device": None,
        "overwrite_entities": False,
        "spans_key": None,
        "decoding": None,
        "threshold": None,
        "top_k": None,
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_span_marker(
    nlp: Language,
    name: str,
    model: str,
    batch_size: int,
    device: str | None,
    overwrite_entities: bool,
    spans_key: str | None,
    decoding: str | None,
    threshold: float | dict[str, float] | None,
    top_k: int | None,
) -> SpacySpanMarkerWrapper:
    """Make the component from a pipeline's configuration.

    Args:
        nlp: The pipeline.
        name: Name of the component in it.
        model: Folder or name of the model.
        batch_size: Number of sentences in a batch.
        device: Where to run the model.
        overwrite_entities: Whether to drop the entities that documents have already.
        spans_key: Name of a span group to put entities into.
        decoding: "flat", "nested" or "all".
        threshold: Least probability of an entity, or one by entity type.
        top_k: Most entities of a sentence.

    Returns:
        The component.
    """
    return SpacySpanMarkerWrapper(
        model,
        batch_size=batch_size,
        device=device,
        overwrite_entities=overwrite_entities,
        spans_key=spans_key,
        decoding=decoding,
        threshold=threshold,
        top_k=top_k,
    )
