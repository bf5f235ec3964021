"""spaCy's binary format, `DocBin` (.spacy).

Source: https://spacy.io/api/docbin.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, find_overlap, place, read_ids
from span_marker.readers.writing import all_spans, refuse

GROUP = "sc"
"""The span group with entities that overlap: the one that spaCy's span categorizer learns from."""


def _import_spacy() -> Any:
    try:
        import spacy.tokens  # noqa: PLC0415
        import spacy.vocab  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("spaCy's DocBin needs spaCy. Run `pip install 'span_marker[spacy]'`.") from error
    return spacy


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a DocBin, all of which has to fit into memory.

    The entities are those of the span group "sc", if a document has it, otherwise ``doc.ents``. A document with
    sentence borders gives a row for each sentence.

    Args:
        path: The file.
        options: Not used.

    Yields:
        The sentences; ``line`` is the number of the document, from 1.

    Raises:
        ImportError: spaCy is not installed.
        ValueError: The file is damaged, or an entity goes over the end of its sentence.
    """
    spacy = _import_spacy()
    try:
        docs = spacy.tokens.DocBin().from_disk(path).get_docs(spacy.vocab.Vocab())
    except ValueError as error:
        raise ValueError(f"{path}: no DocBin ({error}). Restore it, or pass the right `format=`.") from error
    for number, doc in enumerate(docs, 1):
        where = place(path, number)
        entities = doc.spans.get(GROUP, doc.ents)
        for part in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            inside = [span for span in entities if part.start <= span.start < part.end]
            for span in inside:
                if span.end > part.end:
                    raise ValueError(f"{where}: {span.text!r} ({span.label_}) goes over the end of its sentence.")
            yield Sentence(
                tokens=[token.text for token in part],
                spans=[(span.start - part.start, span.end - part.start, span.label_) for span in inside],
                file=str(path),
                line=number,
                ids=read_ids(doc.user_data, where),
            )


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a DocBin, a document for each sentence; all of it has to fit into memory.

    Args:
        sentences: The sentences. Entities that overlap become the span group "sc", others ``doc.ents``.
        path: The file.

    Raises:
        ImportError: spaCy is not installed.
        ValueError: A sentence or a word is empty.
    """
    spacy = _import_spacy()
    vocab = spacy.vocab.Vocab()
    docs = spacy.tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
    for sentence in sentences:
        if not sentence.tokens:
            refuse(sentence, "a DocBin cannot hold a sentence without words. Leave it out, or write JSONL instead.")
        if "" in sentence.tokens:
            refuse(sentence, f"a DocBin cannot hold word {sentence.tokens.index('')}, which is empty.")
        doc = spacy.tokens.Doc(vocab, words=sentence.tokens)
        spans = all_spans(sentence)
        entities = [spacy.tokens.Span(doc, start, end, label) for start, end, label in spans]
        if find_overlap(spans):
            doc.spans[GROUP] = entities
        else:
            doc.set_ents(entities)
        doc.user_data = sentence.ids
        docs.add(doc)
    docs.to_disk(path)
