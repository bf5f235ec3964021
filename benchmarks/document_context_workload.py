"""What `document_context.py` measures: one text that runs under either package, for both have the same interface.

It is executed by `peer.run_script`, never imported; it therefore imports nothing of this folder.
"""

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, concatenate_datasets, load_from_disk
from datasets.utils.logging import disable_progress_bar

from span_marker import Trainer

PART = 20_000
"""Sentences that are made at a time, to bound memory."""


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Make a synthetic corpus on disk, preprocessed but for its context, and time what adds the context.

    Args:
        payload: ``documents``, ``sentences`` per document, ``model_max_length``, ``entity_max_length`` and ``check``,
            the number of documents at the start whose result is compared.

    Returns:
        ``seconds``, the number of sentences as ``count``, and the ``digest`` of the first documents' columns.
    """
    disable_progress_bar()
    size = payload["sentences"]
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), payload)
        begin = time.perf_counter()
        result = Trainer.add_context(corpus, payload["model_max_length"], show_progress_bar=False)
        seconds = time.perf_counter() - begin
        first = result.select(range(payload["check"] * size))
        columns = {name: list(first[name]) for name in ("input_ids", "start_position_ids", "end_position_ids")}
        digest = hashlib.sha256(repr(columns).encode()).hexdigest()
        count = len(result)
        del corpus, result, first
    return {"seconds": seconds, "count": count, "digest": digest}


def make_corpus(folder: Path, payload: dict[str, Any]) -> Dataset:
    """Make sentences of 4 to 40 words, each of one token, in documents of equal length.

    Args:
        folder: Where to keep it.
        payload: As `run` gets it.

    Returns:
        The corpus; its first rows are the same for any number of documents.
    """
    size, longest = payload["sentences"], payload["entity_max_length"]
    total = payload["documents"] * size
    parts = []
    for part in range(0, total, PART):
        random = np.random.default_rng(part)
        words = random.integers(4, 41, PART)[: total - part]
        rows = np.arange(part, part + len(words))
        spans = [candidates(int(count), longest) for count in words]
        ids = [np.concatenate([[101], random.integers(1000, 30_000, 41)[:count], [102]]) for count in words]
        table = pa.table(
            {
                "input_ids": pa.array(ids),
                "num_spans": [len(starts) for starts, _ in spans],
                "start_position_ids": pa.array([starts for starts, _ in spans]),
                "end_position_ids": pa.array([ends for _, ends in spans]),
                "document_id": rows // size,
                "sentence_id": rows % size,
            }
        )
        Dataset(table).save_to_disk(folder / str(part))
        parts.append(load_from_disk(folder / str(part)))
    return concatenate_datasets(parts)


def candidates(words: int, longest: int) -> tuple[Any, Any]:
    """List the first and the last token of each candidate span of a sentence.

    Args:
        words: Number of words, each of one token.
        longest: Longest span, in words.

    Returns:
        First tokens and last tokens. Shape: ``[spans]`` each.
    """
    starts = np.arange(words)[:, None]
    ends = starts + np.arange(longest)
    inside = ends < words
    return np.broadcast_to(starts, ends.shape)[inside] + 1, ends[inside] + 1
