"""What a model card says that the model itself cannot know."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

from huggingface_hub.utils import HFValidationError, validate_repo_id
from transformers import TrainingArguments

from span_marker._version import __version__
from span_marker.label_summary import LabelSummary
from span_marker.model_card.training_set import TrainingSet, describe_training_set

TAGS = ("span-marker", "token-classification", "ner", "named-entity-recognition")
EVALUATION = "evaluation"
"""Name of an evaluation set of which nothing else is known."""
_METRICS = ("precision", "recall", "f1")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{1,8})*|multilingual|code")
_TEXTS = (
    "license",
    "model_name",
    "encoder_name",
    "dataset_name",
    "dataset_revision",
    "task_name",
    "predict_example",
    "pipeline_tag",
    "library_name",
)
_ROWS = ("eval_lines_list", "metric_lines", "widget", "label_example_list", "train_set_metrics_list")
_MAPPINGS = ("hyperparameters", "eval_results_dict", "version")
_LIVE = ("code_carbon_callback", "model")
_FRAMEWORKS = ("transformers", "torch", "datasets", "tokenizers")
_HYPERPARAMETERS = (
    "learning_rate",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_ratio",
    "warmup_steps",
    "optim",
    "optim_args",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "label_smoothing_factor",
    "neftune_noise_alpha",
    "seed",
    "data_seed",
    "full_determinism",
    "bf16",
    "fp16",
    "tf32",
    "gradient_checkpointing",
    "torch_compile",
    "auto_find_batch_size",
    "group_by_length",
    "train_sampling_strategy",
    "dataloader_drop_last",
    "eval_strategy",
    "eval_steps",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
)
"""Arguments that tell how a model was trained; no path, token or name of a machine is among them."""


def _frameworks() -> dict[str, str]:
    """Look up the versions of what trains a model."""
    versions = {"python": platform.python_version(), "span_marker": __version__}
    for name in _FRAMEWORKS:
        try:
            versions[name] = installed_version(name)
        except PackageNotFoundError:  # a build from source may have no metadata
            continue
    return versions


@dataclass
class SpanMarkerModelCardData:
    """What a model card says that the model itself cannot know.

    All of it is optional, and what is not known is left out of the card. The Trainer records the training set, the
    hyperparameters and evaluations; the card prefers hyperparameters, examples and tables that are given here. An empty
    ``label_example_list`` and a ``predict_example`` of your own keep text of the training set out of the card.

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
        metric_lines: Rows of a table to show instead of the metrics of each type.
        widget: Examples for the Hub's widget: ``{"text": ...}``.
        predict_example: A text for the example of how to use the model.
        label_example_list: Rows with a "Label" and its "Examples".
        tokenizer_warning: Whether the encoder's tokenizer does not separate punctuation from words.
        train_set_metrics_list: Rows of a table of the training set's lengths.
        code_carbon_callback: The callback that measured the training's emissions. Not part of copies and pickles.
        pipeline_tag: The Hub's name of the task.
        library_name: The Hub's name of the library.
        version: Versions of the software, by name.
        metrics: Names of the metrics.
        model: The model, for callers that keep it here. Not part of copies and pickles.

    Attributes:
        training_set: What the training set holds.
        evaluations: Metrics of each evaluation set, by its name.
        given: Which dictionaries and tables were given, and not recorded.

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
    tokenizer_warning: bool = False
    train_set_metrics_list: list[dict[str, Any]] | None = None
    code_carbon_callback: Any = field(default=None, repr=False, compare=False)
    pipeline_tag: str = "token-classification"
    library_name: str = "span-marker"
    version: dict[str, str] = field(default_factory=_frameworks)
    metrics: list[str] | None = None
    model: Any = field(default=None, repr=False, compare=False)
    training_set: TrainingSet | None = field(default=None, init=False)
    evaluations: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    given: frozenset[str] = field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        self.given = frozenset(name for name in (*_MAPPINGS, *_ROWS) if getattr(self, name) is not None)
        self._forget_evaluations()

    def __setattr__(self, name: str, value: Any) -> None:
        """Check values where they come in, and copy them, so that no two cards share one."""
        check = _CHECKS.get(name)
        super().__setattr__(name, value if check is None else check(name, value))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the live objects, which a copy of a card must not copy."""
        return self.__dict__ | dict.fromkeys(_LIVE)

    def validate(self) -> None:
        """Check all values again, such as those that were set past the checks.

        Raises:
            ValueError: A language that is no code, or an id that the Hub does not allow.
            TypeError: A value of the wrong type.
        """
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))

    def set_training_data(self, dataset: Any, summary: LabelSummary) -> None:
        """Record what the training set holds. Evaluations of the model as it was before are forgotten.

        Args:
            dataset: The sentences, with the columns "tokens" and "ner_tags" of tag ids. Of anything else, such as a
                stream, only the summary is recorded.
            summary: The counts of its labels.
        """
        self.training_set = describe_training_set(dataset, summary)
        self._forget_evaluations()

    def set_hyperparameters(self, args: TrainingArguments, **own: Any) -> None:
        """Record the training's settings that differ from the defaults, unless others were given.

        Args:
            args: The training's arguments.
            **own: Settings of the Trainer itself; ``None`` is their default.
        """
        if "hyperparameters" not in self.given:
            self.hyperparameters = _changed(args) | {name: value for name, value in own.items() if value is not None}

    def set_evaluation(self, metrics: Mapping[str, Any], dataset_name: str = EVALUATION) -> None:
        """Record an evaluation; a later one on the same set replaces it.

        Args:
            metrics: As ``Trainer.evaluate`` returns them, with any prefix.
            dataset_name: Name of the evaluation set: a split of the data set ("test"), or another data set. "eval",
                the Trainer's usual prefix, is short for "evaluation", which is some part of the data set.
        """
        self.evaluations[EVALUATION if dataset_name == "eval" else dataset_name] = deepcopy(dict(metrics))

    def _forget_evaluations(self) -> None:
        """Go back to the evaluation that was given."""
        self.evaluations = {}
        if self.eval_results_dict is not None:
            self.set_evaluation(self.eval_results_dict)


def _text(name: str, value: Any) -> str | None:
    """Check a text."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}. Expected a string.")
    return value


def _texts(name: str, values: Any) -> list[str]:
    """Check a list of strings; a single string is a list of one."""
    if isinstance(values, str):
        return [values]
    if values is None:
        return []
    if not isinstance(values, Sequence | set | frozenset) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name} is {values!r}. Expected a string or a list of strings.")
    return sorted(values) if isinstance(values, set | frozenset) else list(values)


def _tags(name: str, tags: Any) -> list[str]:
    """Check tags, and put the usual ones first."""
    return list(dict.fromkeys([*TAGS, *_texts(name, tags)]))


def _metrics(name: str, metrics: Any) -> list[str]:
    """Check names of metrics; the usual ones, if there are none."""
    return _texts(name, _METRICS if metrics is None else metrics)


def _languages(name: str, language: Any) -> str | list[str] | None:
    """Check the codes of languages."""
    codes = _texts(name, language)
    for code in codes:
        if not _LANGUAGE.fullmatch(code):
            raise ValueError(
                f"{name} is {language!r}. Expected an ISO 639 code such as 'en' or 'pt-BR', 'multilingual', or a list "
                f"of codes; {code!r} is none."
            )
    return language if isinstance(language, str) else codes or None


def _hub_id(name: str, value: Any) -> str | None:
    """Check the id of something on the Hub."""
    text = _text(name, value)
    if text is not None:
        try:
            validate_repo_id(text)
        except HFValidationError as error:
            raise ValueError(
                f"{name} is {value!r}. Expected an id on the Hub, 'name' or 'organization/name'. Leave it out for what "
                f"is not on the Hub. ({error})"
            ) from error
    return text


def _mapping(name: str, value: Any) -> dict[str, Any] | None:
    """Check and copy a dictionary."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r}. Expected a dictionary.")
    return None if value is None else deepcopy(dict(value))


def _rows(name: str, rows: Any) -> list[dict[str, Any]] | None:
    """Check and copy the rows of a table."""
    if rows is None:
        return None
    if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"{name} is {rows!r}. Expected a list of dictionaries, one a row.")
    return [deepcopy(dict(row)) for row in rows]


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "language": _languages,
    "tags": _tags,
    "metrics": _metrics,
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(("model_id", "encoder_id", "dataset_id"), _hub_id),
    **dict.fromkeys(_MAPPINGS, _mapping),
    **dict.fromkeys(_ROWS, _rows),
}
"""By attribute, the function that checks a value and returns the one to keep."""


def _changed(args: TrainingArguments) -> dict[str, Any]:
    """Find the settings that differ from their defaults."""
    changed = {}
    defaults = {entry.name: entry.default for entry in fields(args) if entry.default is not MISSING}
    for name in _HYPERPARAMETERS:
        if name not in defaults:  # of another version of transformers
            continue
        value, default = _plain(getattr(args, name)), _plain(defaults[name])
        if value != default and not (value is False and default is None):
            changed[name] = value
    return changed


def _plain(value: Any) -> Any:
    """Write an enumeration's member as its value."""
    return value.value if isinstance(value, Enum) else deepcopy(value)
