"""What a model card says that the model itself cannot know."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from transformers import TrainingArguments

from span_marker.coverage import CoverageReport
from span_marker.entity_errors import EntityErrors
from span_marker.label_summary import LabelSummary
from span_marker.model_card.checks import CHECKS
from span_marker.model_card.evaluations import Evaluation, record_evaluation
from span_marker.model_card.setup import changed_arguments, environment, frameworks, read_emissions
from span_marker.model_card.sources import DataSource
from span_marker.model_card.training_curve import training_curve
from span_marker.model_card.training_set import TrainingSet, describe_training_set

EVALUATION = "evaluation"
"""Name of an evaluation set of which nothing else is known."""
_LIVE = ("code_carbon_callback", "model")
OF_THE_TRAINING = (
    "model_name",
    "dataset_name",
    "dataset_id",
    "dataset_revision",
    "hyperparameters",
    "eval_results_dict",
    "eval_lines_list",
    "metric_lines",
    "widget",
    "predict_example",
    "label_example_list",
    "train_set_metrics_list",
    "version",
)
"""What may be given and is true of one training only."""


@dataclass
class SpanMarkerModelCardData:
    """What a model card says that the model itself cannot know.

    All of it is optional, and what is not known is left out of the card. The Trainer records the training set and where
    it comes from, the hyperparameters, the course of the training and evaluations; the card prefers what is given here.
    An empty ``label_example_list`` keeps all text of the training set out of the card and the saved folder.

    Args:
        language: Code of the language, such as "en", or several.
        license: Identifier of the license, such as "apache-2.0".
        tags: Tags in addition to the usual ones.
        model_name: Title of the card.
        model_id: Where the model is, or will be, on the Hub: "organization/name".
        encoder_name: What to call the encoder.
        encoder_id: Id of the encoder on the Hub.
        dataset_name: What to call the data set.
        dataset_id: Id of the data set on the Hub.
        dataset_revision: Revision of the data set.
        task_name: What the model does.
        hyperparameters: Names and values of the training's settings.
        eval_results_dict: Metrics as ``Trainer.evaluate`` returns them.
        eval_lines_list: Rows of a table of evaluations during the training.
        metric_lines: Rows of a table to show beside the metrics of each type.
        widget: Examples for the Hub's widget: ``{"text": ...}``.
        predict_example: A text for the example of how to use the model.
        label_example_list: Rows with a "Label" and its "Examples".
        tokenizer_warning: Whether the encoder's tokenizer keeps punctuation and words together. ``None``: looked up.
        train_set_metrics_list: Rows of a table of the training set's lengths.
        code_carbon_callback: The callback that measured the training's emissions. Not part of copies and pickles.
        pipeline_tag: The Hub's name of the task.
        library_name: The Hub's name of the library.
        version: Versions of the software, by name.
        metrics: Names of the metrics.
        model: The model, for callers that keep it here. Not part of copies and pickles.

    Attributes:
        training_set: What the training set holds.
        curve: Rows of a table of losses and scores during the training.
        environment: What the training ran on, by name.
        emissions: The training's emissions, in the Hub's terms.
        encoder_license: Identifier of the encoder's license.
        evaluations: What was found on each evaluation set, by its name.
        keeps_hyperparameters: Whether the hyperparameters were given, and are not recorded.
        loaded: Which of the values were loaded with the model, and end with its next training.

    Raises:
        ValueError: A language that is no code, or an id that the Hub does not allow.
        TypeError: A value of the wrong type.
    """

    language: str | list[str] | None = None
    license: str | None = None
    tags: list[str] | None = None
    model_name: str | None = None
    model_id: str | None = None
    encoder_name: str | None = None
    encoder_id: str | None = None
    dataset_name: str | None = None
    dataset_id: str | None = None
    dataset_revision: str | None = None
    task_name: str = "Named Entity Recognition"
    hyperparameters: dict[str, Any] | None = None
    eval_results_dict: dict[str, Any] | None = None
    eval_lines_list: list[dict[str, Any]] | None = None
    metric_lines: list[dict[str, Any]] | None = None
    widget: list[dict[str, Any]] | None = None
    predict_example: str | None = None
    label_example_list: list[dict[str, Any]] | None = None
    tokenizer_warning: bool | None = None
    train_set_metrics_list: list[dict[str, Any]] | None = None
    code_carbon_callback: Any = field(default=None, repr=False, compare=False)
    pipeline_tag: str = "token-classification"
    library_name: str = "span-marker"
    version: dict[str, str] = field(default_factory=frameworks)
    metrics: list[str] | None = None
    model: Any = field(default=None, repr=False, compare=False)
    training_set: TrainingSet | None = field(default=None, init=False)
    curve: list[dict[str, Any]] = field(default_factory=list, init=False)
    environment: dict[str, str] = field(default_factory=dict, init=False)
    emissions: dict[str, Any] | None = field(default=None, init=False)
    encoder_license: str | None = field(default=None, init=False)
    evaluations: dict[str, Evaluation] = field(default_factory=dict, init=False)
    keeps_hyperparameters: bool = field(default=False, init=False, repr=False)
    loaded: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.keeps_hyperparameters = self.hyperparameters is not None
        self._forget_evaluations()

    def __setattr__(self, name: str, value: Any) -> None:
        """Check values where they come in, and copy them, so that no two cards share one."""
        check = CHECKS.get(name)
        super().__setattr__(name, value if check is None else check(name, value))
        if name in vars(self).get("loaded", ()):
            self.loaded -= {name}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the live objects, which a copy of a card must not copy."""
        return self.__dict__ | dict.fromkeys(_LIVE)

    def validate(self) -> None:
        """Check all values again, such as those that were set past the checks.

        Raises:
            ValueError: A language that is no code, or an id that the Hub does not allow.
            TypeError: A value of the wrong type.
        """
        for name, check in CHECKS.items():
            check(name, getattr(self, name))

    @property
    def source(self) -> DataSource:
        """Where the training set comes from: what is given, completed by what is known of just this data set."""
        found = DataSource() if self.training_set is None else self.training_set.source
        if self.dataset_id and self.dataset_id != found.id:
            found = DataSource(id=self.dataset_id, split=found.split, splits=found.splits)
        name, revision = self.dataset_name or found.name, self.dataset_revision or found.revision
        return replace(found, name=name, revision=revision)

    @property
    def measured_emissions(self) -> dict[str, Any] | None:
        """The training's emissions: those that the callback measured, or those that were recorded."""
        return read_emissions(self.code_carbon_callback) or self.emissions

    @property
    def languages(self) -> list[str]:
        """Codes of the languages: those given, or those of the training set."""
        if isinstance(self.language, str):
            return [self.language]
        return list(self.language or self.source.languages)

    def with_tags(self, tags: str | Sequence[str] | None) -> list[str]:
        """Join the card's tags and further ones.

        Args:
            tags: A tag, or several.

        Returns:
            All of them, each once.
        """
        more = [tags] if isinstance(tags, str) else tags or []
        return list(dict.fromkeys([*(self.tags or []), *more]))

    @property
    def shown_training_set(self) -> TrainingSet | None:
        """The training set, without its text if that is to be kept out."""
        hidden = self.label_example_list is not None and not self.label_example_list
        return self.training_set.without_text() if self.training_set and hidden else self.training_set

    def start_training(self) -> None:
        """Forget what is no longer true once a training starts: all that was recorded, and loaded of an earlier one."""
        self.keeps_hyperparameters = self.keeps_hyperparameters and "hyperparameters" not in self.loaded
        for name in self.loaded:
            setattr(self, name, frameworks() if name == "version" else None)
        if not self.keeps_hyperparameters:
            self.hyperparameters = None
        self.training_set, self.curve, self.environment, self.emissions = None, [], {}, None
        self._forget_evaluations()

    def set_training_data(self, dataset: Any, summary: LabelSummary, coverage: CoverageReport | None = None) -> None:
        """Record what the training set holds. What was recorded of an earlier training is forgotten.

        Args:
            dataset: The sentences, with the columns "tokens" and "ner_tags" of tag ids. Of anything else, such as a
                stream, only the summary is recorded.
            summary: The counts of its labels.
            coverage: Which of its entities the model can predict.
        """
        self.start_training()
        cut_off = 0 if coverage is None else coverage.cut_off
        self.training_set = replace(describe_training_set(dataset, summary), cut_off=cut_off)

    def set_hyperparameters(self, args: TrainingArguments, **own: Any) -> None:
        """Record the training's settings that differ from the defaults, unless others were given.

        Args:
            args: The training's arguments.
            **own: Settings of the Trainer itself; ``None`` is their default.
        """
        if not self.keeps_hyperparameters:
            self.hyperparameters = changed_arguments(args)
            self.hyperparameters |= {name: value for name, value in own.items() if value is not None}
        self.environment = environment(args)

    def set_training_curve(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Record the course of the training.

        Args:
            history: ``trainer.state.log_history``.
        """
        self.curve = training_curve(history)

    def set_emissions(self, callbacks: Iterable[Any]) -> None:
        """Record the training's emissions, if codecarbon measured them.

        Args:
            callbacks: The Trainer's callbacks.
        """
        measured = filter(None, map(read_emissions, callbacks))
        self.emissions = next(measured, self.emissions)

    def set_evaluation(
        self,
        metrics: Mapping[str, Any],
        dataset_name: str = EVALUATION,
        *,
        errors: EntityErrors | None = None,
        dataset: Any = None,
    ) -> None:
        """Record an evaluation; a later one on the same set replaces it.

        Args:
            metrics: As ``Trainer.evaluate`` returns them, with any prefix.
            dataset_name: Name of the evaluation set: a split of the data set ("test"), or another data set. "eval",
                the Trainer's usual prefix, is short for "evaluation", which is some part of the data set.
            errors: What the model confused.
            dataset: The evaluation set.
        """
        name = EVALUATION if dataset_name == "eval" else dataset_name
        self.evaluations[name] = record_evaluation(metrics, errors, dataset)

    def _forget_evaluations(self) -> None:
        """Go back to the evaluation that was given."""
        self.evaluations = {}
        if self.eval_results_dict is not None:
            self.set_evaluation(self.eval_results_dict)
