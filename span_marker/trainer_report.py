"""The Trainer's report of where its model goes wrong."""

from datasets import Dataset

from span_marker.evaluation_report import EvaluationReport, KnownEntities
from span_marker.evaluation_report.report import MAX_SENTENCES
from span_marker.formats import arrow_column
from span_marker.label_columns import TOKENS
from span_marker.label_normalizer import LabelNormalizer
from span_marker.preprocessing import is_preprocessed
from span_marker.trainer_data import choose_dataset
from span_marker.trainer_evaluation import EvaluatedSentences
from span_marker.trainer_saving import SavingTrainer


class ReportingTrainer(SavingTrainer):
    """A Trainer that reports where its model goes wrong."""

    column: str

    @property
    def label_normalizer(self) -> LabelNormalizer:
        """What reads the tags of the data sets."""
        raise NotImplementedError

    def evaluation_report(
        self,
        eval_dataset: Dataset | str | None = None,
        *,
        evaluated: EvaluatedSentences | None = None,
        max_sentences: int = MAX_SENTENCES,
    ) -> EvaluationReport:
        """Report where the model goes wrong on a data set.

        Nothing is logged, and the model card is not told.

        Args:
            eval_dataset: The data set, or the name of one of those that the Trainer has. ``None``: the Trainer's.
            evaluated: What an evaluation of the same data set found, as ``compute_metrics`` gets it. ``None``: the data
                set is evaluated.
            max_sentences: Most sentences with errors that are listed.

        Returns:
            The report. It tells entities that were seen in training from others if the Trainer has a training set.

        Raises:
            TypeError: The data set is none that is supported.
            ValueError: There is no data set, it is malformed, or what was found belongs to another.
        """
        _, dataset = choose_dataset(eval_dataset, self.eval_dataset)
        if evaluated is None:
            loader = self.get_eval_dataloader(dataset)
            evaluated, _ = self._find_entities(loader, "Evaluation report", None, "report")
        if evaluated.num_sentences != len(dataset) or len(evaluated.num_words) != len(dataset):
            raise ValueError(
                f"The evaluation is one of {evaluated.num_sentences} sentences, {len(evaluated.num_words)} of them "
                f"with tags, but the data set has {len(dataset)}. Give the evaluation of this data set."
            )
        return EvaluationReport.from_tables(
            arrow_column(dataset, TOKENS),
            evaluated.gold,
            evaluated.predicted,
            evaluated.labels,
            scores=evaluated.scores,
            known=self._known_entities(),
            max_sentences=max_sentences,
        )

    def _known_entities(self) -> KnownEntities | None:
        """Collect the entities of the training set; ``None`` without one, or without its words."""
        dataset = self.train_dataset
        if not isinstance(dataset, Dataset) or is_preprocessed(dataset):
            return None
        return KnownEntities.from_dataset(dataset, self.label_normalizer, self.column)
