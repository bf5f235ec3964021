"""seqeval as a metric of the library evaluate."""

import warnings
from typing import Any

import datasets
import evaluate
import seqeval.scheme
from seqeval.metrics import accuracy_score, classification_report

from span_marker.evaluation import SCORES, totals

_SEQEVAL_SCORES = ("precision", "recall", "f1-score")
_SEQEVAL_SCHEMES = ("IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU")


class NERMetric(evaluate.Metric):  # type: ignore[misc, unused-ignore]
    """seqeval as an `evaluate.Metric`: what ``evaluate.load("seqeval")`` gives, without the network and the cache.

    ``compute`` takes tags, as lists of strings, and returns the keys of [`span_marker.evaluation.compute_metrics`], 0.0
    for a ratio of nothing. Further arguments of ``compute``: ``suffix=True`` for tags like "PER-B"; ``mode="strict"``
    together with ``scheme`` ("IOB1", "IOB2", "IOE1", "IOE2", "IOBES" or "BILOU") to count well-formed entities only.

    Args:
        config_name: Name that tells apart the metric's files of several runs.
        keep_in_memory: Whether to collect tags in memory. False, as it must be with ``num_process`` over 1, writes
            them to ``cache_dir`` until they are scored.
        **kwargs: Further arguments of `evaluate.Metric`: ``cache_dir``, ``num_process``, ``process_id``, ...
    """

    def __init__(self, config_name: str | None = None, keep_in_memory: bool = True, **kwargs: Any) -> None:
        super().__init__(config_name=config_name, keep_in_memory=keep_in_memory, **kwargs)

    def _build_data_dir(self) -> str:
        """Name the folder for collected tags, and make it only if there will be any."""
        return str(self._data_dir_root if self.keep_in_memory else super()._build_data_dir())

    def _info(self) -> evaluate.MetricInfo:
        tags = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description="Precision, recall and F1 of named entities, by seqeval.",
            citation="Hiroki Nakayama. 2018. seqeval: A Python framework for sequence labeling evaluation.",
            inputs_description="predictions, references: the tags of each sentence, as lists of strings.",
            features=datasets.Features({"predictions": tags, "references": tags}),
            reference_urls=["https://github.com/chakki-works/seqeval"],
        )

    def _compute(
        self,
        predictions: list[list[str]],
        references: list[list[str]],
        suffix: bool = False,
        mode: str | None = None,
        scheme: str | None = None,
    ) -> dict[str, Any]:
        if not any(predictions) and not any(references):
            return totals([0.0] * 3, [0.0] * 3, 0.0)
        with warnings.catch_warnings():
            # Without any entity seqeval takes the mean over no types, which is NaN with this warning; 0.0 here.
            warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
            warnings.filterwarnings("ignore", "invalid value encountered", RuntimeWarning)
            report = classification_report(
                references,
                predictions,
                output_dict=True,
                suffix=suffix,
                mode=mode,
                scheme=_seqeval_scheme(scheme) if mode == "strict" else None,
                zero_division=0,
            )
        rows = {name: [float(row[key]) for key in _SEQEVAL_SCORES] for name, row in report.items()}
        micro, macro = rows.pop("micro avg"), rows.pop("macro avg")
        rows.pop("weighted avg")
        metrics: dict[str, Any] = {
            name: dict(zip(SCORES, row, strict=True)) | {"number": int(report[name]["support"])}
            for name, row in rows.items()
        }
        return metrics | totals(micro, macro if rows else [0.0] * 3, accuracy_score(references, predictions))


def _seqeval_scheme(name: str | None) -> type:
    """Find seqeval's class of a tagging scheme.

    Raises:
        ValueError: seqeval has no scheme of this name.
    """
    # seqeval would guess a missing scheme from the gold tags, and fail where they hold no entity.
    if name not in _SEQEVAL_SCHEMES:
        raise ValueError(f"Strict mode got scheme={name!r}. Give one of {', '.join(_SEQEVAL_SCHEMES)}.")
    scheme: type = getattr(seqeval.scheme, name)
    return scheme
