"""The model's configuration: labels, lengths and the encoder's own configuration."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datasets import ClassLabel
from transformers import CONFIG_MAPPING, PreTrainedConfig

from span_marker.class_weights import ClassWeights, require_class_weights, weights_of
from span_marker.decoding_modes import FLAT, require_mode
from span_marker.schemes import OUTSIDE, LabelScheme, Scheme
from span_marker.word_splitters import require_word_splitter

_LEAST = {
    "model_max_length": 3,
    "marker_max_length": 1,
    "entity_max_length": 1,
    "max_prev_context": 0,
    "max_next_context": 0,
}
_RANGES = {
    "span_filter_threshold": (0, 1),
    "span_filter_recall": (0, 1),
    "span_filter_vote": (0, 1),
    "span_filter_loss_weight": (0, math.inf),
    "span_filter_positive_weight": (0, math.inf),
    "entity_weight": (0, math.inf),
    "focal_gamma": (0, math.inf),
    "label_smoothing": (0, 1),
    "negatives_per_word": (0, math.inf),
    "head_rate": (0, math.inf),
    "score_temperature": (0, math.inf),
}
"""Bounds of settings, themselves out of range, but for those that may be zero."""
_MAY_BE_ZERO = ("span_filter_vote", "focal_gamma", "label_smoothing")
_MAY_BE_NONE = (
    "model_max_length",
    "max_prev_context",
    "max_next_context",
    "span_filter_threshold",
    "negatives_per_word",
)
SPAN_SETTINGS = (*_LEAST, "span_filter", *_RANGES, "class_weights", "decoding", "word_splitter", "split_unspaced")
"""Settings of the model itself rather than of its encoder."""
RECIPE = {
    "span_filter": True,
    "span_filter_vote": 0.5,
    "entity_weight": 5.0,
    "negatives_per_word": 0.33,
    "head_rate": 5.0,
}
"""How new models are trained and read where nothing else is asked for; a checkpoint keeps its own way."""
SPLITTING = {"split_unspaced": True}
"""How new models split texts where nothing else is asked for; a checkpoint keeps its own way."""
LOSS_SETTINGS = ("class_weights", "focal_gamma", "label_smoothing")
"""How both losses are computed where not as a plain cross entropy."""
LABEL_SETTINGS = ("id2label", "label2id", "num_labels", "tags", "id2reduced_id")
"""What follows from the labels, and cannot be set without them."""
IMPLEMENTATIONS = (
    "attn_implementation",
    "_attn_implementation",
    "experts_implementation",
    "_experts_implementation",
)
"""Settings by which a file could make transformers fetch and run a kernel; the package sets what it needs itself."""
_NOT_THE_ENCODERS = ("_name_or_path", "name_or_path", "dtype", "torch_dtype", *IMPLEMENTATIONS)
"""Settings that are not followed: the weights in the folder count, and the type they are loaded in."""
_NOT_ALONE = (*LABEL_SETTINGS, *IMPLEMENTATIONS, "encoder", "model_type")
"""Attributes of configurations that are no settings to be changed one by one."""


class SpanMarkerConfig(PreTrainedConfig):  # type: ignore[misc]
    """Configuration of a [`SpanMarkerModel`].

    ``id2label`` and ``label2id`` hold the entity types ("O", "LOC", ...); the tags of the data set ("B-LOC", "I-LOC",
    ...) are kept in ``encoder["id2label"]``, and ``id2reduced_id`` maps the latter's ids to the former's.

    Args:
        encoder_config: The encoder's configuration, as an object or as a dictionary.
        model_max_length: Most tokens of text per sentence, special tokens included. ``None``: what the encoder holds.
        marker_max_length: Most marker pairs that a training sample of full text length carries.
        entity_max_length: Longest entity, in words.
        max_prev_context: Most sentences of left context in document-level mode. ``None``: no limit.
        max_next_context: Most sentences of right context in document-level mode. ``None``: no limit.
        span_filter: Whether the model has a span filter, which lets prediction run the few candidate spans that may be
            entities and skip the others.
        span_filter_threshold: Probability below which the filter drops a span. ``None``: not calibrated, all are run.
        span_filter_recall: Share of the entities found with all spans that calibration wants the filter to keep.
        span_filter_loss_weight: Weight of the filter's loss beside that of the classifier.
        span_filter_positive_weight: Weight of an entity in the filter's loss relative to another span.
        span_filter_vote: Weight of what the filter says of a span's label beside what its markers say, at least 0 and
            below 1: log-probabilities are averaged. 0: the filter only tells which spans are run.
        entity_weight: Weight of an entity in the loss of the classifier relative to another span.
        class_weights: Weights of entity types in both losses, such as ``{"PER": 2.0}``, times that of entities; types
            that are not named have 1. "balanced": the rarer in the training set, the more; the Trainer puts numbers in
            its place. ``None``: all types weigh the same.
        focal_gamma: Exponent of focal loss in both losses: a span whose label has the probability p counts
            (1 - p) ** gamma. 0: cross entropy.
        label_smoothing: Share of each label that both losses spread over all labels. The training argument
            ``label_smoothing_factor``, where it is set, goes before it.
        negatives_per_word: Number of candidate spans without an entity, for each word, that markers are trained on:
            those that the span filter takes for entities most, which are those that markers see in prediction.
            ``None``: all.
        head_rate: Learning rate of the classifiers as a multiple of the encoder's, which is the Trainer's.
        score_temperature: What the log-odds of entities' scores are divided by, 1 for the model's own probabilities.
            The Trainer fits it, so that scores tell how often entities are right.
        decoding: How entities are chosen where nothing else is asked for: "flat", "nested" or "all" (see [`Decoding`]).
        word_splitter: What splits texts into words: "punctuation", "whitespace", or the segmenter "jieba", "fugashi" or
            "pythainlp". ``None``: the encoder's tokenizer.
        split_unspaced: Whether each character of a script without spaces (Chinese, Japanese, Thai, Lao, Khmer, Myanmar)
            is a word where the encoder's tokenizer splits texts. New models have it, those of span-marker 1.x do not.
        **kwargs: Further attributes, among them those that a saved configuration holds.

    Raises:
        ValueError: A length is not a positive integer, a context limit is negative, or a setting of the span filter is
            out of range, the decoding or the word splitter is unknown, or class weights are no weights.
    """

    model_type = "span-marker"
    is_composition = True

    def __init__(
        self,
        encoder_config: PreTrainedConfig | Mapping[str, Any] | None = None,
        model_max_length: int | None = None,
        marker_max_length: int = 128,
        entity_max_length: int = 8,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        span_filter: bool = False,
        span_filter_threshold: float | None = None,
        span_filter_recall: float = 0.99,
        span_filter_loss_weight: float = 1.0,
        span_filter_positive_weight: float = 5.0,
        span_filter_vote: float = 0.0,
        entity_weight: float = 1.0,
        class_weights: ClassWeights = None,
        focal_gamma: float = 0.0,
        label_smoothing: float = 0.0,
        negatives_per_word: float | None = None,
        head_rate: float = 1.0,
        score_temperature: float = 1.0,
        decoding: str = FLAT,
        word_splitter: str | None = None,
        split_unspaced: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(encoder_config, PreTrainedConfig):
            encoder_config = encoder_config.to_dict()
        self.encoder: dict[str, Any] = dict(kwargs.pop("encoder", None) or encoder_config or {})
        self.model_max_length = model_max_length
        self.marker_max_length = marker_max_length
        self.entity_max_length = entity_max_length
        self.max_prev_context = max_prev_context
        self.max_next_context = max_next_context
        self.span_filter = span_filter
        self.span_filter_threshold = span_filter_threshold
        self.span_filter_recall = span_filter_recall
        self.span_filter_loss_weight = span_filter_loss_weight
        self.span_filter_positive_weight = span_filter_positive_weight
        self.span_filter_vote = span_filter_vote
        self.entity_weight = entity_weight
        self.class_weights = class_weights
        self.focal_gamma = focal_gamma
        self.label_smoothing = label_smoothing
        self.negatives_per_word = negatives_per_word
        self.head_rate = head_rate
        self.score_temperature = score_temperature
        self.decoding = decoding
        self.word_splitter = word_splitter
        self.split_unspaced = split_unspaced
        self.trained_with_document_context: bool = kwargs.pop("trained_with_document_context", False)
        self.span_marker_version: str | None = kwargs.pop("span_marker_version", None)
        self.vocab_size: int | None = kwargs.pop("vocab_size", self.encoder.get("vocab_size"))
        self.scheme: str | None = kwargs.pop("scheme", None)
        reduced = kwargs.pop("id2reduced_id", None)
        self.id2reduced_id = None if reduced is None else {int(key): int(value) for key, value in reduced.items()}
        super().__init__(**{name: value for name, value in kwargs.items() if name not in IMPLEMENTATIONS})
        self._check()

    @property
    def head_std(self) -> float:
        """Standard deviation of the classifiers' fresh weights."""
        return float(self.get("initializer_range", default=0.02))

    @property
    def head_dropout(self) -> float:
        """Dropout rate before the classifiers."""
        return float(self.get(("hidden_dropout_prob", "dropout", "embedding_dropout"), default=0.1))

    @property
    def allows_context(self) -> bool:
        """Whether a sentence may be read with its neighbours: no limits of zero sentences on both sides."""
        return self.max_prev_context != 0 or self.max_next_context != 0

    @property
    def filters_spans(self) -> bool:
        """Whether prediction runs only the spans that a calibrated filter keeps."""
        return self.span_filter and self.span_filter_threshold is not None

    @property
    def trains_on_hardest(self) -> bool:
        """Whether markers are trained on entities and the spans that the span filter takes for entities most."""
        return self.span_filter and self.negatives_per_word is not None

    @property
    def training_settings(self) -> dict[str, Any]:
        """How the model is trained where that is not as span-marker 1.x does."""
        usual, names = type(self)(), (*RECIPE, *LOSS_SETTINGS)
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}

    def label_weights(self, entity_weight: float) -> list[float]:
        """List the weight of each label in a loss.

        Args:
            entity_weight: Weight of an entity relative to another span.

        Returns:
            1 for "no entity". Shape: ``[labels]``.

        Raises:
            ValueError: A class weight is given for what is no entity type, or the Trainer has not balanced them yet.
        """
        weights = weights_of(self.class_weights, self.labels, self.outside_id)
        return [weight if index == self.outside_id else entity_weight * weight for index, weight in enumerate(weights)]

    @property
    def least_filter_score(self) -> float:
        """Log-odds below which the filter drops a span; minus infinity, so that it drops none, if not calibrated."""
        threshold = self.span_filter_threshold
        return -math.inf if threshold is None else math.log(threshold / (1 - threshold))

    @property
    def tags(self) -> list[str]:
        """The data set's tags in the order of their ids: "O", "B-LOC", "I-LOC", ..."""
        names = self.encoder.get("id2label") or self.id2label
        return [name for _, name in sorted((int(key), name) for key, name in names.items())]

    @property
    def labels(self) -> list[str]:
        """The labels a span can get, in the order of their ids: "O" and the entity types."""
        return [self.id2label[index] for index in range(len(self.id2label))]

    @property
    def label_scheme(self) -> LabelScheme:
        """How the tags encode entities."""
        return LabelScheme.from_labels(self.tags, self.scheme)

    @property
    def outside_id(self) -> int:
        """Id of the label "O"."""
        return int(self.label2id.get(OUTSIDE, 0))

    @property
    def has_labels(self) -> bool:
        """Whether there is any entity type; a model started without labels gets them from the Trainer."""
        return len(self.id2label) > 1 and OUTSIDE in self.label2id

    @property
    def encoder_config(self) -> PreTrainedConfig:
        """The encoder's configuration as an object of its own class.

        Raises:
            ValueError: The configuration names no model type, or one that transformers does not know.
        """
        settings = dict(self.encoder)
        model_type = settings.pop("model_type", None)
        if model_type not in CONFIG_MAPPING:
            raise ValueError(
                f"The configuration's encoder has model_type {model_type!r}, which the installed transformers does not "
                "know. Upgrade transformers, or load the encoder yourself and pass it: "
                "SpanMarkerModel(config, encoder=encoder)."
            )
        return CONFIG_MAPPING[model_type].from_dict(
            {name: value for name, value in settings.items() if name not in _NOT_THE_ENCODERS}
        )

    def set_labels(self, tags: Iterable[str] | ClassLabel | None, scheme: Scheme | str | None = None) -> None:
        """Set the data set's tags, and from them the labels that a span can get.

        Args:
            tags: The tags in the order of their ids, such as ``["O", "B-LOC", "I-LOC"]``, or plain entity types; or
                the ``ClassLabel`` feature that names them. ``None``: not known yet.
            scheme: The tagging scheme. ``None``: detected from the tags.

        Raises:
            TypeError: The tags are no list.
            ValueError: The tags hold no "O", repeat themselves or do not fit the scheme.
        """
        tags, labels, reduced = ((OUTSIDE,), (OUTSIDE,), None) if tags is None else _reduce(tags, scheme)
        self.scheme = None if scheme is None else Scheme(scheme).value
        self.encoder["id2label"] = dict(enumerate(tags))
        self.encoder["label2id"] = {tag: index for index, tag in enumerate(tags)}
        self.id2label = dict(enumerate(labels))
        self.label2id = {label: index for index, label in enumerate(labels)}
        self.id2reduced_id = reduced

    def override(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Change settings of the model or of its encoder.

        Args:
            settings: The new values by name.

        Returns:
            Those of the settings that neither has.

        Raises:
            ValueError: A value is out of range.
        """
        unknown = {}
        for name, value in settings.items():
            is_encoders = name in self.encoder and name not in _NOT_ALONE
            if is_encoders:
                self.encoder[name] = value
            if is_setting(self, name):
                setattr(self, name, value)
            elif not is_encoders:
                unknown[name] = value
        self._check()
        return unknown

    def are_labels_schemed(self) -> bool:
        """Tell whether the tags follow a scheme such as IOB2, rather than naming entity types directly."""
        return self.label_scheme.scheme is not Scheme.NONE

    def get_scheme_tags(self) -> set[str]:
        """Return the prefixes that the tags use, "O" among them: ``{"B", "I", "O"}`` for IOB2."""
        return {tag[:1] for tag in self.tags}

    def group_label_ids_by_tag(self) -> dict[str, set[int]]:
        """Group the ids of the tags by their prefix."""
        groups: dict[str, set[int]] = {}
        for index, tag in enumerate(self.tags):
            groups.setdefault(tag[:1], set()).add(index)
        return groups

    def get(self, options: str | Iterable[str], default: Any = None) -> Any:
        """Return the first of several settings that the encoder's configuration holds.

        Args:
            options: Name of a setting, or several names in order of preference.
            default: What to return when none is set.
        """
        names = [options] if isinstance(options, str) else options
        return next((self.encoder[name] for name in names if self.encoder.get(name) is not None), default)

    def to_dict(self) -> dict[str, Any]:
        """Serialise, leaving out the settings that have no value of their own here."""
        settings: dict[str, Any] = super().to_dict()
        return {key: value for key, value in settings.items() if key != "scheme" or value is not None}

    def _check_choices(self) -> None:
        """Refuse names of ways that there are not, and weights that are none."""
        require_mode(self.decoding)
        require_class_weights(self.class_weights)
        if self.word_splitter is not None:
            require_word_splitter(self.word_splitter)
        if isinstance(self.class_weights, Mapping):
            self.class_weights = dict(self.class_weights)

    def _check(self) -> None:
        self._check_choices()
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, but it is {value!r}.")
        for name in ("span_filter", "split_unspaced"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, but it is {getattr(self, name)!r}.")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            may_be_low = name in _MAY_BE_ZERO
            if not is_number or not (low < value < high or (may_be_low and value == low)):
                bounds = f"at least {low}" if may_be_low else f"above {low}"
                bounds += "" if high == math.inf else f" and below {high}"
                raise ValueError(f"{name} must be a number {bounds}, but it is {value!r}.")


def is_setting(config: PreTrainedConfig, name: str) -> bool:
    """Tell whether a configuration has a setting, rather than a method or what follows from other settings.

    Args:
        config: A configuration of any kind.
        name: Name of the setting.

    Returns:
        Whether it can be changed.
    """
    if name in _NOT_ALONE:
        return False
    is_set = getattr(getattr(type(config), name, None), "fset", None) is not None
    return is_set or name in vars(config) or name in config.attribute_map


def _reduce(
    tags: Iterable[str] | ClassLabel, scheme: Scheme | str | None
) -> tuple[Sequence[str], Sequence[str], dict[int, int] | None]:
    """Find the labels of spans, and for schemed tags the label id of each tag."""
    found = LabelScheme.from_labels(tags, scheme)
    return found.tags, found.labels, None if found.scheme is Scheme.NONE else dict(enumerate(found.reduced_ids))
