"""The Trainer: transformers' own, with the data, the evaluation and the model card of span markers."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from datasets import Dataset
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainingArguments
from transformers.utils import logging

from span_marker.arguments import FromSettings, read_arguments
from span_marker.data_collator import SpanMarkerDataCollator
from span_marker.decoding_modes import FLAT, NESTED, Decoding
from span_marker.document_context import DOCUMENT_ID, SENTENCE_ID, has_documents
from span_marker.entity_columns import entity_column, overlooked_tags
from span_marker.label_columns import NER_TAGS, TOKENS
from span_marker.label_normalizer import AutoLabelNormalizer, LabelNormalizer
from span_marker.label_summary import LabelSummary
from span_marker.modeling import SpanMarkerModel
from span_marker.overriding import overridden
from span_marker.preprocessing import add_context, is_preprocessed, preprocess, spread_sample
from span_marker.progress import progress_bars
from span_marker.span_filter import UNCALIBRATED_THRESHOLD
from span_marker.span_loss import fix_class_weights
from span_marker.span_sampling import SamplingCollator
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.trainer_data import (
    EVALUATION_COLUMNS,
    KEPT_WORDS,
    EvaluationCollator,
    PreparedData,
    choose_dataset,
    find_tags,
    prepare,
    require_dataset,
    require_entities,
    sequence_lengths,
)
from span_marker.trainer_evaluation import EvaluatedSentences
from span_marker.trainer_report import ReportingTrainer
from span_marker.types import Columns

logger = logging.get_logger(__name__)
training_logger = logging.get_logger("transformers")
"""Tells of a training what transformers' Trainer tells of it, at the arguments' ``log_level``."""

_LENGTH = "length"
"""Column of training rows: number of tokens that the encoder reads for the row."""
_MODEL_COLUMNS = ("input_ids", "num_spans", "start_position_ids", "end_position_ids", "labels")


class Trainer(FromSettings, ReportingTrainer):
    """Trains and evaluates a [`SpanMarkerModel`] with everything that transformers' Trainer and its arguments offer.

    Data sets hold a sentence a row: its words in ``tokens``, a tag for each in ``ner_tags``, and, for document-level
    context, ``document_id`` and ``sentence_id``. Tags are ids, with or without a ``ClassLabel`` feature, or strings. In
    place of tags, ``spans`` may hold entities that overlap, each with ``start``, ``end`` (words, end exclusive) and
    ``label``. A model without labels takes those of the training set; one that learns overlapping entities, and decoded
    flat before, has ``config.decoding = "nested"`` from then on.

    Sentences are preprocessed when they are needed, and once: long ones are spread over several rows for training, but
    stay whole for evaluation, so that `evaluate` finds exactly what ``model.predict`` finds.

    Args:
        model: The model. Leave it out if ``model_init`` is given.
        args: The training's arguments: ``TrainingArguments``, a dictionary of them, or an OmegaConf ``DictConfig``.
        train_dataset: The sentences to train on.
        eval_dataset: The sentences to evaluate on, or several such sets by name.
        model_init: Makes the model; called anew by every `train`, with the trial of a hyperparameter search if it
            takes an argument.
        compute_metrics: Computes further metrics from [`EvaluatedSentences`]; its names must not be those of built-in
            metrics. Called once an evaluation.
        callbacks: Callbacks in addition to the usual ones.
        optimizers: The optimizer and the learning rate scheduler; ``None`` for those that ``args`` asks for.
        preprocess_logits_for_metrics: Called in each evaluation step with the logits, shape
            ``[batch, spans, labels]``, and the gold label ids or ``None``, shape ``[batch, spans]``; the logits that it
            returns are decoded instead.
        column: The column of the tags, or of spans. A data set without it is read from "spans".
        num_proc: Number of processes that preprocess. ``None``: this one.
        negative_span_ratio: Share of the candidate spans without an entity to train on, drawn anew in each epoch, above
            0 and at most 1. ``None``: all of them. A small share takes a fraction of the time; evaluation and
            prediction look at all spans.
        compute_loss_func: Computes the loss of training in place of the model, from its outputs, the label ids and
            ``num_items_in_batch``, the number of spans in an optimizer step. The outputs have ``logits``, shape
            ``[batch, spans, labels]``, and with a span filter its own, ``filter_logits``; the label ids, shape
            ``[batch, spans]``, are -100 where a span is padding, whose logits are undefined. Markers are run for all
            spans then. ``eval_loss`` stays the cross entropy.
        optimizer_cls_and_kwargs: Class of the optimizer and its arguments, in place of those that ``args`` ask for.
        decoding: How evaluations decode: a mode or a [`Decoding`], as in ``SpanMarkerModel.predict``. ``None``: as the
            model's configuration says.

    Raises:
        TypeError: The model, a data set or an argument is of another type, or an argument unknown.
        ValueError: Labels cannot be found, the given optimizer does not know the classifier that they need, a data set
            has a transform, or ``negative_span_ratio`` is out of range.
    """

    REQUIRED_COLUMNS: ClassVar[tuple[str, ...]] = (TOKENS, NER_TAGS)
    OPTIONAL_COLUMNS: ClassVar[tuple[str, ...]] = (DOCUMENT_ID, SENTENCE_ID)
    data_collator_class: ClassVar[type[SpanMarkerDataCollator]] = SpanMarkerDataCollator

    def __init__(
        self,
        model: SpanMarkerModel | None = None,
        args: TrainingArguments | Mapping[str, Any] | None = None,
        train_dataset: Dataset | None = None,
        eval_dataset: Dataset | dict[str, Dataset] | None = None,
        model_init: Callable[..., SpanMarkerModel] | None = None,
        compute_metrics: Callable[[EvaluatedSentences], dict[str, Any]] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[torch.optim.Optimizer | None, torch.optim.lr_scheduler.LambdaLR | None] = (None, None),
        preprocess_logits_for_metrics: Callable[[Tensor, Tensor | None], Tensor] | None = None,
        *,
        column: str = NER_TAGS,
        num_proc: int | None = None,
        negative_span_ratio: float | None = None,
        compute_loss_func: Callable[..., Tensor] | None = None,
        optimizer_cls_and_kwargs: tuple[type[torch.optim.Optimizer], dict[str, Any]] | None = None,
        decoding: Decoding | str | None = None,
    ) -> None:
        if negative_span_ratio is not None and not 0 < negative_span_ratio <= 1:
            raise ValueError(f"negative_span_ratio must be above 0 and at most 1, but it is {negative_span_ratio!r}.")
        self.column = column
        self.num_proc = num_proc
        self.decoding = Decoding(decoding) if isinstance(decoding, str) else decoding
        self.negative_span_ratio = negative_span_ratio
        self._prepared: WeakKeyDictionary[Dataset, dict[Any, PreparedData]] = WeakKeyDictionary()
        # Set before the parent does, which calls model_init first.
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        for name, dataset in self._datasets().items():
            require_dataset(dataset, name)
        if model is not None:
            _require_span_marker_model(model)
            if optimizers[0] is not None and not model.has_labels:
                raise ValueError(
                    "The model has no labels, so that it will get a new classifier that the given optimizer does not "
                    "know. Give SpanMarkerModel.from_pretrained the labels, or leave the optimizer to the arguments."
                )
        super().__init__(
            model=model,
            args=None if args is None else read_arguments(args),
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            model_init=model_init,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizers=optimizers,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
            compute_loss_func=compute_loss_func,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )
        self._adopt(self.model)

    @property
    def tokenizer(self) -> SpanMarkerTokenizer:
        """The model's tokenizer."""
        tokenizer: SpanMarkerTokenizer = self.model.tokenizer
        return tokenizer

    @property
    def label_normalizer(self) -> LabelNormalizer:
        """What reads the tags of the data sets.

        Raises:
            ValueError: The model has no labels.
        """
        if not self.model.has_labels:
            raise ValueError(
                "The model has no labels. Give SpanMarkerModel.from_pretrained the `labels`, or the Trainer a training "
                "set whose tags have names."
            )
        return AutoLabelNormalizer.from_config(self.model.config)

    # ---- Model ----

    def call_model_init(self, trial: Any = None) -> SpanMarkerModel:
        """Make a new model with ``model_init``, and give it the labels of the data if it has none.

        Args:
            trial: The trial of a hyperparameter search.

        Returns:
            The model.

        Raises:
            TypeError: ``model_init`` returns no span marker model.
        """
        model: SpanMarkerModel = super().call_model_init(trial)
        _require_span_marker_model(model)
        self._adopt(model)
        return model

    def _adopt_labels(self, model: SpanMarkerModel) -> None:
        """Give a model without labels those of the data sets."""
        tags = None if model.has_labels else find_tags(self._datasets(), self.column, model.config.scheme)
        if tags is not None:
            model.set_labels(tags, model.config.scheme)

    def _adopt(self, model: SpanMarkerModel) -> None:
        """Give a new model labels, and let the Trainer's parts that depend on the model follow it."""
        self._adopt_labels(model)
        tokenizer: Any = model.tokenizer
        self.processing_class = tokenizer
        self.data_collator = self.data_collator_class(tokenizer, model.config.marker_max_length)
        if hasattr(self, "callback_handler"):
            self.callback_handler.processing_class = tokenizer

    def _datasets(self) -> dict[str, Any]:
        """Name the data sets that the Trainer has, that of training first."""
        found = {"training": self.train_dataset}
        if isinstance(self.eval_dataset, Mapping):
            found |= {f"evaluation {name!r}": dataset for name, dataset in self.eval_dataset.items()}
        else:
            found["evaluation"] = self.eval_dataset
        return {name: dataset for name, dataset in found.items() if dataset is not None}

    # ---- Data ----

    def preprocess_dataset(
        self,
        dataset: Dataset,
        label_normalizer: LabelNormalizer | None = None,
        tokenizer: SpanMarkerTokenizer | None = None,
        dataset_name: str = "train",
        is_evaluate: bool = False,
    ) -> Dataset:
        """Preprocess sentences into the rows that the model is trained on.

        Args:
            dataset: One row a sentence. Rows that are preprocessed already are returned as they are.
            label_normalizer: Reads the tags. ``None``: the model's.
            tokenizer: The tokenizer. ``None``: the model's.
            dataset_name: What to call the data set in messages.
            is_evaluate: Whether to keep ``num_words``.

        Returns:
            Rows with ``input_ids``, ``num_spans``, ``start_position_ids``, ``end_position_ids`` and ``labels``; with
            ``document_id`` and ``sentence_id`` if the data set has them, and ``num_words``, the number of words of the
            sentence that fit the model, on request. The spans of a long sentence are spread over several rows, unless
            markers are only run for the hardest of them.

        Raises:
            TypeError: The data set is none that is supported.
            ValueError: A column is missing, a row is malformed, or the model has no labels.
        """
        normalizer = label_normalizer or self.label_normalizer
        tokenizer = tokenizer or self.tokenizer
        if not is_preprocessed(require_dataset(dataset, dataset_name)):
            dataset = self._prepare(dataset, dataset_name, normalizer, tokenizer, truncate=True).sentences
        kept = {DOCUMENT_ID, SENTENCE_ID, *_MODEL_COLUMNS, *([KEPT_WORDS] if is_evaluate else [])}
        dataset = dataset.select_columns([name for name in dataset.column_names if name in kept])
        # A loss of the user's gets the logits of all spans, so that markers are run for all.
        for_hardest = self.model.config.trains_on_hardest and self.compute_loss_func is None
        with progress_bars(not self.args.disable_tqdm):
            return preprocess(
                dataset,
                normalizer,
                tokenizer,
                config=self.model.config,
                spread=True,
                for_hardest=for_hardest,
                num_proc=self.num_proc,
            )

    @staticmethod
    def add_context(
        dataset: Dataset,
        model_max_length: int,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        show_progress_bar: bool = True,
    ) -> Dataset:
        """Add document-level context; see [`span_marker.preprocessing.add_context`]."""
        return add_context(dataset, model_max_length, max_prev_context, max_next_context, show_progress_bar)

    @staticmethod
    def spread_sample(batch: Columns, model_max_length: int, marker_max_length: int) -> Columns:
        """Spread spans over several rows; see [`span_marker.preprocessing.spread_sample`]."""
        return spread_sample(batch, model_max_length, marker_max_length)

    def _prepare(
        self,
        dataset: Dataset,
        name: str,
        normalizer: LabelNormalizer | None,
        tokenizer: SpanMarkerTokenizer,
        *,
        truncate: bool,
    ) -> PreparedData:
        """Prepare a data set once for as long as it lives and nothing that matters changes."""
        config = self.model.config
        lengths = (config.marker_max_length, config.entity_max_length, config.max_prev_context, config.max_next_context)
        reader = None if normalizer is None else (type(normalizer), normalizer.scheme)
        key = (self.column, tokenizer.fingerprint, lengths, reader, truncate)
        prepared = self._prepared.setdefault(dataset, {})
        if key not in prepared:
            shown = progress_bars(not self.args.disable_tqdm)
            with self.args.main_process_first(desc=f"preprocessing the {name} set"), shown:
                prepared[key] = prepare(
                    dataset,
                    normalizer,
                    tokenizer,
                    config,
                    column=self.column,
                    name=name,
                    truncate=truncate,
                    num_proc=self.num_proc,
                )
        return prepared[key]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Preprocess the training set, tell what it holds, and batch it.

        Returns:
            The batches.

        Raises:
            ValueError: There is no training set, or it has no row, or no entity that can be learnt.
        """
        if self.train_dataset is None:
            raise ValueError("Training needs sentences: Trainer(..., train_dataset=...).")
        dataset = require_dataset(self.train_dataset, "training")
        if not len(dataset):
            raise ValueError("The training set has no rows. Check how it was loaded, and what it was filtered by.")
        self._adopt_labels(self.model)
        rows = self.preprocess_dataset(dataset, dataset_name="training")
        if fix_class_weights(self.model.config, rows):
            training_logger.info("config.class_weights is %s from now on.", self.model.config.class_weights)
        card = self.model.model_card_data
        card.start_training()
        if not is_preprocessed(dataset):
            prepared = self._prepare(dataset, "training", self.label_normalizer, self.tokenizer, truncate=True)
            require_entities(prepared, "training")
            training_logger.info("The training set:\n%s", prepared.summary)
            card.set_training_data(prepared.tagged, prepared.summary, prepared.coverage)
            self._decode_as_trained(prepared.summary)
        card.set_hyperparameters(
            self.args, negative_span_ratio=self.negative_span_ratio, **self.model.config.training_settings
        )
        # What was calibrated is no longer true.
        self.model.config.span_filter_threshold = UNCALIBRATED_THRESHOLD if self.model.config.span_filter else None
        self.model.config.score_temperature = 1.0
        config = self.model.config
        config.trained_with_document_context = has_documents(dataset.column_names) and config.allows_context
        rows = rows.add_column(_LENGTH, sequence_lengths(rows))
        collate: Any = self.data_collator
        if self.negative_span_ratio is not None:
            collate = SamplingCollator(collate, self.model.config.outside_id, self.negative_span_ratio)
        # Under a name of its own: the arguments' may be that of another column.
        lengths_named = overridden(self.args, length_column_name=_LENGTH)
        with overridden(self, train_dataset=rows, data_collator=collate), lengths_named:
            loader: DataLoader[Any] = super().get_train_dataloader()
        return loader

    def _decode_as_trained(self, summary: LabelSummary | None) -> None:
        """Let a model that learns overlapping entities find them."""
        config = self.model.config
        if summary is not None and summary.num_overlapping and config.decoding == FLAT:
            config.decoding = NESTED
            training_logger.info("Entities of the training set overlap: config.decoding is %r from now on.", NESTED)

    def get_eval_dataloader(self, eval_dataset: str | Dataset | None = None) -> DataLoader[Any]:
        """Preprocess an evaluation set and batch its sentences, similar lengths together.

        Args:
            eval_dataset: The data set, or the name of one of those that the Trainer has. ``None``: the Trainer's.

        Returns:
            The batches.

        Raises:
            TypeError: The data set is none that is supported.
            ValueError: There is no evaluation set, none of this name, or it is malformed.
        """
        name, dataset = choose_dataset(eval_dataset, self.eval_dataset)
        return self._evaluation_loader(dataset, name, self.label_normalizer)

    def get_test_dataloader(self, test_dataset: Dataset) -> DataLoader[Any]:
        """Preprocess a test set, which need not have tags, and batch its sentences, similar lengths together.

        Args:
            test_dataset: The data set.

        Returns:
            The batches.
        """
        normalizer = self.label_normalizer
        columns = require_dataset(test_dataset, "test").column_names
        tagged = entity_column(test_dataset, self.column) in columns
        other = None if tagged else overlooked_tags(test_dataset, self.column, normalizer.scheme.tags)
        if other is not None:
            logger.warning(
                f"The test set has no column {self.column!r}, so that its entities are found but not scored. Its tags "
                f"seem to be in {other!r}: pass dataset.rename_column({other!r}, {self.column!r}), or make the Trainer "
                f"with column={other!r}."
            )
        return self._evaluation_loader(test_dataset, "test", normalizer if tagged else None)

    def _evaluation_loader(self, dataset: Dataset, name: str, normalizer: LabelNormalizer | None) -> DataLoader[Any]:
        """Batch whole sentences. Unlike a training set, all of them."""
        if is_preprocessed(dataset):
            raise ValueError(
                f"The {name} set is preprocessed already, so that its sentences are spread over rows. Evaluation needs "
                "whole sentences: pass the data set as it was, with 'tokens' and tags."
            )
        if self.model.config.trained_with_document_context and not has_documents(dataset.column_names):
            logger.warning_once(
                f"The model was trained with document-level context, but the {name} set lacks '{DOCUMENT_ID}' or "
                f"'{SENTENCE_ID}'. Add both for predictions as good as in training."
            )
        prepared = self._prepare(dataset, name, normalizer, self.tokenizer, truncate=False)
        if prepared.loader is not None:
            return prepared.loader
        with (
            overridden(self, data_collator=EvaluationCollator(self.data_collator)),
            overridden(self.args, dataloader_drop_last=False),
        ):
            loader: DataLoader[Any] = super().get_test_dataloader(prepared.sentences)
        if self.args.dataloader_persistent_workers:
            prepared.loader = loader
        return loader

    def _set_signature_columns_if_needed(self) -> None:
        """Name the columns that batches are made of: the collator's, not the arguments of the model's forward."""
        self._signature_columns = [*_MODEL_COLUMNS, *EVALUATION_COLUMNS, _LENGTH]


def _require_span_marker_model(model: Any) -> None:
    """Refuse a model of another kind."""
    if not isinstance(model, SpanMarkerModel):
        raise TypeError(
            f"The model is of type {type(model).__name__}. Expected what SpanMarkerModel.from_pretrained returns."
        )
    if model.tokenizer is None:
        raise ValueError(
            "The model has no tokenizer. Load it with SpanMarkerModel.from_pretrained, or give it one with "
            "model.set_tokenizer."
        )
