"""The evaluation loop of the Trainer: whole sentences in, their entities out."""

from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput, TrainOutput, denumpify_detensorize
from transformers.utils import logging

from span_marker.decoding import choose_decoding, decode
from span_marker.decoding_modes import Decoding
from span_marker.entity_errors import EntityErrors
from span_marker.learning_rates import scale_learning_rate
from span_marker.overriding import overridden
from span_marker.preprocessing import BLANK_WORDS
from span_marker.span_columns import outrule_blank_ends
from span_marker.spans import span_index
from span_marker.trainer_data import (
    ALL_WORDS,
    ENTITIES,
    KEPT_WORDS,
    ROW,
    FixedOrder,
    LengthGroups,
    choose_dataset,
    sequence_lengths,
)
from span_marker.trainer_evaluation import (
    EvaluatedSentences,
    add_user_metrics,
    flatten_metrics,
    pack_entities,
    pack_scores,
)
from span_marker.trainer_scoring import score_spans
from span_marker.windows import classify_in_windows, window_size

logger = logging.get_logger(__name__)


class EvaluatingTrainer(transformers.Trainer):  # type: ignore[misc]
    """transformers' Trainer with an evaluation that decodes entities in every step and keeps nothing else."""

    decoding: Decoding | str | None = None
    _preprocess_logits: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Names of the evaluations that the model card got from here, and those of each step of a training by name.
        self._recorded: set[str] = set()
        self._step_evaluations: dict[int, dict[str, dict[str, Any]]] = {}
        # What the last evaluation found beyond the metrics that it returned.
        self._type_metrics: dict[str, Any] = {}
        self._errors: EntityErrors | None = None
        super().__init__(*args, **kwargs)
        self.label_smoother = None  # the model smooths labels, because it has more than one loss

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train the model.

        Args:
            resume_from_checkpoint: Folder of the checkpoint to go on from; ``True`` for the last in the output folder.
            trial: The trial of a hyperparameter search.
            ignore_keys_for_eval: Ignored.

        Returns:
            The number of steps, the training loss and further metrics.

        Raises:
            ValueError: There is no training set, it is malformed or has no entity, or there is no such checkpoint.
        """
        # The card tells how good the model is now, not how good it was before or on its way.
        for name in self._recorded if self.model is not None else ():
            self.model.model_card_data.evaluations.pop(name, None)
        self._recorded.clear()
        self._step_evaluations.clear()
        try:
            output: TrainOutput = super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
        finally:
            self.is_in_train = False
        is_other = self.eval_dataset is not None and self.hp_search_backend is None and self._calibrate()
        best = self.state.best_global_step if self.args.load_best_model_at_end else None
        for name, evaluation in self._step_evaluations.get(best or self.state.global_step, {}).items():
            self._record(name, self._evaluate_again(evaluation) if is_other else evaluation)
        card = self.model.model_card_data
        card.set_training_curve(self.state.log_history)
        card.set_emissions(self.callback_handler.callbacks)
        return output

    def _calibrate(self) -> bool:
        """Choose on the evaluation set what is chosen when a model has been trained; tell whether that changes it."""
        return False

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Make the optimizer that the arguments ask for, with the learning rate of the classifiers as the model has it.

        Args:
            model: The model, perhaps wrapped. ``None``: the Trainer's.

        Returns:
            The optimizer; one that was given is left as it is.
        """
        is_given = self.optimizer is not None
        optimizer: torch.optim.Optimizer = super().create_optimizer(*([] if model is None else [model]))
        rate = self.model.config.head_rate
        if not is_given and rate != 1.0:
            heads = [head for head in (self.model.classifier, self.model.span_filter) if head is not None]
            scale_learning_rate(optimizer, [weight for head in heads for weight in head.parameters()], rate)
        return optimizer

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compute the loss of a batch, with the labels smoothed as the arguments say.

        Args:
            model: The model, perhaps wrapped.
            inputs: A batch of the collator.
            *args: As transformers has them.
            **kwargs: As transformers has them.

        Returns:
            The loss, or with ``return_outputs`` the loss and the model's output.
        """
        if self.args.label_smoothing_factor:
            inputs = {**inputs, "label_smoothing": self.args.label_smoothing_factor}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def evaluate(
        self,
        eval_dataset: Dataset | dict[str, Dataset] | str | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, Any]:
        """Find the entities of all sentences, and score them.

        Gold entities that the model cannot predict, because they are too long, count as missed.

        Args:
            eval_dataset: The data set, several by name, or the name of one. ``None``: the Trainer's.
            ignore_keys: Ignored.
            metric_key_prefix: What the metrics' names begin with.

        Returns:
            ``eval_loss``, ``eval_overall_precision``, ``eval_overall_recall``, ``eval_overall_f1``,
            ``eval_overall_accuracy`` (unless entities overlap), the same of ``eval_macro_``, ``eval_f1`` (short for
            ``eval_overall_f1``), the metrics of ``compute_metrics``, and, outside of training, a dictionary
            ``eval_<type>`` for each type. With several data sets their names follow the prefix: ``eval_<name>_f1``.

        Raises:
            ValueError: There is no data set, it is malformed, or ``compute_metrics`` uses the name of another metric.
        """
        metrics: dict[str, Any] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        source = self.eval_dataset if eval_dataset is None else eval_dataset
        if not isinstance(source, dict):
            self._record_last(metrics, metric_key_prefix, choose_dataset(source, self.eval_dataset)[1])
        return metrics

    def predict(
        self, test_dataset: Dataset, ignore_keys: list[str] | None = None, metric_key_prefix: str = "test"
    ) -> PredictionOutput:
        """Find the entities of all sentences, and score them if there are tags.

        Args:
            test_dataset: The data set. Without the column of the tags, entities are found but not scored.
            ignore_keys: Ignored.
            metric_key_prefix: What the metrics' names begin with.

        Returns:
            ``predictions``: for each sentence, in the order of the data set, its entities as dictionaries of
            ``label``, ``start``, ``end`` (words, end exclusive) and ``score``; ``label_ids``: the gold entities in the
            same form, ``None`` without tags; ``metrics``: as `evaluate` gives them.

        Raises:
            ValueError: The data set is malformed.
        """
        output: PredictionOutput = super().predict(test_dataset, ignore_keys, metric_key_prefix)
        if output.label_ids is not None:
            self._record_last(output.metrics, metric_key_prefix, test_dataset)
        return output

    def log_metrics(self, split: str, metrics: dict[str, Any]) -> None:
        """Print metrics, those of each type too.

        Args:
            split: What was evaluated: "train", "eval" or "test".
            metrics: As `train`, `evaluate` and `predict` give them.
        """
        super().log_metrics(split, flatten_metrics(metrics))

    def _record_last(self, metrics: dict[str, Any], prefix: str, dataset: Dataset) -> None:
        """Remember the last evaluation for the model card; one within a training only if it turns out to be its end."""
        name = "evaluation" if prefix == "eval" else prefix.removeprefix("eval_")
        types = {f"{prefix}_{label}": scores for label, scores in self._type_metrics.items()}
        evaluation = {"metrics": types | metrics, "errors": self._errors, "dataset": dataset}
        if self.is_in_train:
            self._step_evaluations.setdefault(self.state.global_step, {})[name] = evaluation
        else:
            self._record(name, evaluation)

    def _record(self, name: str, evaluation: dict[str, Any]) -> None:
        """Tell the model card of an evaluation."""
        self._recorded.add(name)
        self.model.model_card_data.set_evaluation(dataset_name=name, **evaluation)

    def _evaluate_again(self, evaluation: dict[str, Any]) -> dict[str, Any]:
        """Score a data set once more, with what was calibrated since, for the model card alone."""
        loader = self.get_eval_dataloader(evaluation["dataset"])
        evaluated = self._find_entities(loader, "Evaluation", None, "eval")[0]
        metrics = {f"eval_{name}": value for name, value in self._score(evaluated, "eval").items()}
        return evaluation | {"metrics": metrics, "errors": self._errors}

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate the batches of `get_eval_dataloader` or `get_test_dataloader`.

        Args:
            dataloader: The batches.
            description: What to call the run in the log.
            prediction_loss_only: Ignored; ``args`` decide.
            ignore_keys: Ignored.
            metric_key_prefix: What the metrics' names begin with.

        Returns:
            Entities, gold entities and metrics.
        """
        evaluated, output = self._find_entities(dataloader, description, ignore_keys, metric_key_prefix)
        if output.label_ids is None:
            return output._replace(predictions=evaluated.predictions)
        metrics = self._score(evaluated, metric_key_prefix)
        named = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        return output._replace(
            predictions=evaluated.predictions, label_ids=evaluated.references, metrics=named | output.metrics
        )

    def _find_entities(
        self, dataloader: DataLoader[Any], description: str, ignore_keys: list[str] | None, prefix: str
    ) -> tuple[EvaluatedSentences, EvalLoopOutput]:
        """Run the evaluation loop, whose output has ``label_ids`` if there are tags."""
        # Only entities are kept, so that there is no need to score batch by batch, and joining them after each step
        # would copy all that came before.
        with (
            overridden(self, _preprocess_logits=self.preprocess_logits_for_metrics),
            overridden(self, compute_metrics=None, preprocess_logits_for_metrics=None),
            overridden(self.args, eval_do_concat_batches=False, batch_eval_metrics=False),
        ):
            output = super().evaluation_loop(dataloader, description, False, ignore_keys, prefix)
        predicted, gold = output.predictions or [], output.label_ids
        if not predicted and ENTITIES in getattr(dataloader.dataset, "column_names", ()):
            gold = []  # of no sentence, which scores 0.0
        evaluated = EvaluatedSentences.gather(predicted, gold, self.model.config.labels)
        return evaluated, output._replace(label_ids=gold)

    def _score(self, evaluated: EvaluatedSentences, prefix: str) -> dict[str, Any]:
        """Compute all metrics of an evaluation, named without the prefix."""
        if self.args.prediction_loss_only:
            self._type_metrics, self._errors = {}, None
            return {"loss": evaluated.loss}
        metrics = evaluated.metrics(per_type=True)
        self._type_metrics = {name: value for name, value in metrics.items() if isinstance(value, dict)}
        self._errors = evaluated.errors
        if self.is_in_train or self.hp_search_backend is not None:
            # Loggers of training steps and objectives of searches want numbers only.
            metrics = {name: value for name, value in metrics.items() if name not in self._type_metrics}
        if self.compute_metrics is not None:
            last = {"compute_result": True} if self.args.batch_eval_metrics else {}
            metrics = add_user_metrics(metrics, self.compute_metrics(evaluated, **last), prefix)
        numbers: dict[str, Any] = denumpify_detensorize(metrics)
        return numbers

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, tuple[Tensor, ...], tuple[Tensor, ...] | None]:
        """Find the entities of a batch of whole sentences, so that no logits outlive the step.

        Args:
            model: The model, perhaps wrapped.
            inputs: A batch of [`EvaluationCollator`].
            prediction_loss_only: Ignored.
            ignore_keys: Ignored.

        Returns:
            ``None``, because the loss is averaged over spans and not over batches; what was predicted; and what is
            gold, ``None`` without tags: both as [`EvaluatedSentences.gather`] takes them.
        """
        inputs = self._prepare_inputs(inputs)
        rows, kept_words, gold = inputs[ROW], inputs[KEPT_WORDS].cpu().numpy(), inputs.get(ENTITIES)
        config = self.model.config
        score = partial(score_spans, model, config, self._preprocess_logits)
        with torch.no_grad(), self.compute_loss_context_manager():
            scored = classify_in_windows(score, inputs, window_size(self.processing_class), config.outside_id)
        losses = scored[2].sum(dim=1)
        best, probabilities, filter_scores = (scored[part].cpu().numpy() for part in (0, 1, 3))
        blank = [row[:count] for row, count in zip(inputs[BLANK_WORDS].cpu().numpy(), kept_words, strict=True)]
        outrule_blank_ends(best, blank, config.entity_max_length, config.outside_id)
        longest, outside = config.entity_max_length, config.outside_id
        entities, scores = decode(
            best,
            probabilities,
            kept_words,
            longest,
            outside,
            choose_decoding(self.decoding, None, None, config),
            config.labels,
            config.score_temperature,
        )
        spans = span_index(entities.starts, entities.ends, kept_words[entities.rows], config.entity_max_length)
        both = np.stack([scores, filter_scores[entities.rows, spans]], axis=-1)
        packed = (pack_entities(entities, len(rows)), pack_scores(entities, both, len(rows)))
        predicted = (rows, *(torch.from_numpy(array).to(rows.device) for array in packed))
        if gold is None:
            return None, predicted, None
        return None, predicted, (gold, inputs[ALL_WORDS], losses, inputs["num_spans"])

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int] | None:
        """Choose the order of the training rows; the lengths that they are grouped by count their markers."""
        if train_dataset is not None and getattr(self.args, "train_sampling_strategy", None) == "group_by_length":
            size = self._train_batch_size * self.args.gradient_accumulation_steps
            seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
            return LengthGroups(sequence_lengths(train_dataset), size, seed)
        sampler: Sampler[int] | None = super()._get_train_sampler(train_dataset)
        return sampler

    def _get_eval_sampler(self, eval_dataset: Dataset) -> Sampler[int]:
        """Order sentences by length, the longest first, so that batches hold little padding."""
        return FixedOrder(np.argsort(-sequence_lengths(eval_dataset), kind="stable"))
