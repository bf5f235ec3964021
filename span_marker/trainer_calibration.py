"""What the Trainer chooses on held-out sentences when a model has been trained: thresholds and temperatures."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from datasets import Dataset

from span_marker.overriding import overridden
from span_marker.score_calibration import fit_temperature
from span_marker.span_filter import calibrated_threshold
from span_marker.trainer_evaluation import EvaluatedSentences
from span_marker.trainer_loop import EvaluatingTrainer

_LEAST_LIKELY: Final = 1e-5
"""Probability of an entity below which a filter with half of the votes or more is hardly ever outvoted."""
_HeldOut: TypeAlias = Dataset | dict[str, Dataset] | None


class CalibratingTrainer(EvaluatingTrainer):
    """A Trainer that calibrates the span filter and the scores of entities."""

    def calibrate_span_filter(self, dataset: _HeldOut = None) -> float:
        """Choose the span filter's threshold so that it keeps the entities that the model finds without it.

        `train` does so at its end if the Trainer has an evaluation set. Without one the threshold is 0.01.

        Args:
            dataset: Sentences that the model was not trained on, or several sets of them; tags are not used. ``None``:
                the Trainer's evaluation set.

        Returns:
            The threshold, a probability, as stored in the model's configuration.

        Raises:
            ValueError: The model has no span filter, or there is no data set.
        """
        if not self.model.config.span_filter:
            raise ValueError(
                "The model has no span filter. Start it with SpanMarkerModel.from_pretrained(..., span_filter=True), "
                "or give a trained model one with model.fit_span_filter(dataset)."
            )
        return self._choose_threshold(self._find_without_filter(dataset))

    def calibrate_scores(self, dataset: _HeldOut = None) -> float:
        """Fit the temperature of the scores of entities, so that they tell how often such entities are right.

        The same entities are found. `train` does so at its end if the model has a span filter and the Trainer an
        evaluation set.

        Args:
            dataset: Sentences with tags that the model was not trained on, or several sets of them. ``None``: the
                Trainer's evaluation set.

        Returns:
            The temperature, as stored in the model's configuration; 1 where the model finds too few entities to tell.

        Raises:
            ValueError: There is no data set, or it has no tags.
        """
        return self._choose_temperature(self._find(dataset))

    def _calibrate(self) -> bool:
        if not self.model.config.span_filter:
            return False
        found = self._find_without_filter(None)
        self._choose_threshold(found)
        self._choose_temperature(found)
        return True

    def _find_without_filter(self, dataset: _HeldOut) -> list[EvaluatedSentences]:
        """Find the entities that the model finds with all spans, or all but the least likely."""
        config = self.model.config
        with overridden(config, span_filter_threshold=_LEAST_LIKELY if config.span_filter_vote >= 0.5 else None):
            return self._find(dataset)

    def _find(self, dataset: _HeldOut) -> list[EvaluatedSentences]:
        """Find the entities of held-out sentences, with scores that are the model's own."""
        source = self.eval_dataset if dataset is None else dataset
        with overridden(self.model.config, score_temperature=1.0):
            return [
                self._find_entities(self.get_eval_dataloader(sentences), "Calibration", None, "calibration")[0]
                for sentences in (source.values() if isinstance(source, dict) else [source])
            ]

    def _choose_threshold(self, found: Sequence[EvaluatedSentences]) -> float:
        config = self.model.config
        scores = np.concatenate([evaluated.filter_scores for evaluated in found])
        config.span_filter_threshold = calibrated_threshold(scores, config.span_filter_recall)
        return float(config.span_filter_threshold)

    def _choose_temperature(self, found: Sequence[EvaluatedSentences]) -> float:
        scores, right = (
            np.concatenate(columns)
            for columns in zip(*((evaluated.scores, evaluated.is_right) for evaluated in found), strict=True)
        )
        self.model.config.score_temperature = fit_temperature(scores, right)
        return float(self.model.config.score_temperature)
