"""How a span marker model comes into being: started from an encoder, or loaded from what was saved."""

import os
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeVar, cast

import torch
from datasets import ClassLabel
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from span_marker.attention import POSITION_OFFSET
from span_marker.configuration import (
    IMPLEMENTATIONS,
    LABEL_SETTINGS,
    RECIPE,
    SPAN_SETTINGS,
    SPLITTING,
    SpanMarkerConfig,
    is_setting,
)
from span_marker.encoders import EncoderRunner, check_encoder
from span_marker.hub import fetch
from span_marker.loading import find_model, name_settings, naming, suggesting
from span_marker.model_card import SpanMarkerModelCardData, load_card_data
from span_marker.schemes import LabelScheme, Scheme, read_tags
from span_marker.span_filter import SpanFilter, make_span_filter
from span_marker.tokenizer import SpanMarkerTokenizer

logger = logging.get_logger(__name__)
Self = TypeVar("Self", bound="LoadableModel")

_HUB_SETTINGS = (
    "cache_dir",
    "force_download",
    "local_files_only",
    "token",
    "revision",
    "subfolder",
    "trust_remote_code",
)
_LOADER_SETTINGS = (*_HUB_SETTINGS, "dtype", "torch_dtype")
_OWN_ARGUMENTS = ("labels", "config", "model_card_data", "scheme", "ignore_mismatched_sizes")
_REFUSED = dict.fromkeys(LABEL_SETTINGS, "Pass the tags of the data set in the order of their ids as `labels=`.")
_REFUSED |= dict.fromkeys(IMPLEMENTATIONS, "What markers need is chosen for each encoder; leave it out.")
_REFUSED |= {"output_loading_info": "The model alone is returned, and missing weights are an error; leave it out."}
"""Arguments of transformers' models that have no meaning here, and what to do instead."""
_POSITION_TABLES = ("position_embeddings", "wpe")
_DEFAULT_LENGTH = 512


class LoadableModel(PreTrainedModel):  # type: ignore[misc]
    """The part of [`span_marker.SpanMarkerModel`] that gives it weights, labels and a tokenizer.

    Attributes:
        config: The configuration.
        encoder: The encoder.
        classifier: The classifier over marker pairs.
        span_filter: The classifier of spans on the text alone. ``None``: the model has none.
        model_card_data: What the model card says that the model cannot know.
        tokenizer: The tokenizer with the markers, or ``None``.
    """

    config: SpanMarkerConfig
    encoder: PreTrainedModel
    classifier: nn.Linear
    span_filter: SpanFilter | None
    model_card_data: SpanMarkerModelCardData
    tokenizer: SpanMarkerTokenizer | None
    _runner: EncoderRunner

    @classmethod
    def from_pretrained(
        cls: type[Self],
        pretrained_model_name_or_path: str | os.PathLike[str],
        *model_args: Any,
        labels: Iterable[str] | ClassLabel | None = None,
        config: SpanMarkerConfig | None = None,
        model_card_data: SpanMarkerModelCardData | None = None,
        scheme: Scheme | str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load a span marker model, or start a new one from an encoder.

        A new model has a span filter, and its markers are trained on entities and the hardest other spans, unless
        ``span_filter=False`` or a ``config`` says otherwise.

        Args:
            pretrained_model_name_or_path: A folder or a repository on the Hub that holds a span marker model (saved
                by this package or by span-marker 1.x), or any encoder.
            *model_args: Handed on to transformers.
            labels: The tags of the data set in the order of their ids ("O", "B-LOC", "I-LOC", ...), or the
                ``ClassLabel`` feature that names them. A new model without them takes those of the Trainer's data set.
                For a span marker model, tags of other entity types than its own need
                ``ignore_mismatched_sizes=True`` and start a new classifier.
            config: Configuration to use instead of the saved one; it is copied. For a new model its lengths and labels
                are used, and the encoder's own settings.
            model_card_data: What the model card says that the model cannot know. ``None``: what was saved with it.
            scheme: The tagging scheme of the labels. ``None``: detected.
            **kwargs: Settings of [`SpanMarkerConfig`] such as ``entity_max_length``, or of the encoder's configuration
                such as ``hidden_dropout_prob``; everything else is handed on to transformers, such as ``dtype``,
                ``revision`` or ``trust_remote_code``.

        Returns:
            The model in evaluation mode, with its tokenizer.

        Raises:
            ValueError: Labels that do not fit the model or the scheme, a length out of range, an encoder that cannot
                carry markers, one whose code the caller does not trust, or a file that says nonsense.
            TypeError: Labels that are no list, a configuration of another model, or a keyword argument that nothing
                knows or that cannot be followed here.
            OSError: A file is missing or damaged.
        """
        _require_arguments(config, kwargs)
        path = os.fspath(pretrained_model_name_or_path)
        kwargs, commit = _locate(path, kwargs)
        hub = {name: kwargs[name] for name in _HUB_SETTINGS if name in kwargs}
        with naming("configuration", path):
            saved = AutoConfig.from_pretrained(path, **hub)
        is_new = not isinstance(saved, SpanMarkerConfig)
        encoder_settings = vars(saved) if is_new else saved.encoder
        with suggesting([*_OWN_ARGUMENTS, *SPAN_SETTINGS, *_LOADER_SETTINGS, *encoder_settings]):
            if is_new:
                model = cls._start(path, saved, config, labels, scheme, *model_args, **kwargs)
            else:
                model = cls._load(path, deepcopy(config) or saved, *model_args, **kwargs)
        if is_new:
            # span-marker 1.x looks there for the encoder.
            model.config.encoder["_name_or_path"] = path
            # By which the model card tells a repository; newer releases of transformers do not set it.
            model.encoder.config._commit_hash = commit
        else:
            if model_card_data is None:
                model.model_card_data = load_card_data(path, **hub)
            model._change_labels(labels, scheme, may_forget=kwargs.get("ignore_mismatched_sizes", False))
        with naming("tokenizer", path):
            model.set_tokenizer(SpanMarkerTokenizer.from_pretrained(path, config=model.config, **hub))
        model._fit_length()
        if is_new:
            model._add_markers()
        check_encoder(model.encoder, model._runner)
        if model_card_data is not None:
            model.model_card_data = model_card_data
        return model

    @classmethod
    def _start(
        cls: type[Self],
        path: str,
        encoder_config: PreTrainedConfig,
        config: SpanMarkerConfig | None,
        labels: Iterable[str] | ClassLabel | None,
        scheme: Scheme | str | None,
        *model_args: Any,
        **kwargs: Any,
    ) -> Self:
        """Start a new model from an encoder."""
        settings = {name: kwargs.pop(name) for name in SPAN_SETTINGS if name in kwargs}
        names = [name for name in kwargs if name not in _LOADER_SETTINGS and is_setting(encoder_config, name)]
        given = {name: kwargs[name] for name in names if kwargs[name] != getattr(encoder_config, name)}
        for name in names:
            setattr(encoder_config, name, kwargs.pop(name))
        with naming("weights", path, given):
            encoder = AutoModel.from_pretrained(path, *model_args, config=encoder_config, **kwargs)
        if config is None:
            recipe = RECIPE if settings.get("span_filter", True) else {}
            config = SpanMarkerConfig(encoder.config, **(recipe | SPLITTING | settings))
        else:
            config = deepcopy(config)
            config.override(settings)
        if labels is None and config.has_labels:
            labels = config.tags
        config.encoder = encoder.config.to_dict()
        config.set_labels(labels, scheme or config.scheme)
        return cast(Self, cls(config, encoder).to(device=encoder.device, dtype=encoder.dtype).eval())

    @classmethod
    def _load(cls: type[Self], path: str, config: SpanMarkerConfig, *model_args: Any, **kwargs: Any) -> Self:
        """Load a saved model's weights, and all of them."""
        loader = {name: kwargs.pop(name) for name in _LOADER_SETTINGS if name in kwargs}
        # A pooler is not used. A filter that the caller asks for, on top of what was saved, begins untrained.
        may_lack = (".pooler.",) if config.span_filter else (".pooler.", "span_filter.")
        given = {name: value for name, value in kwargs.items() if value != config.encoder.get(name, value)}
        kwargs = config.override(kwargs) | loader | {"output_loading_info": True}
        with naming("weights", path, given):
            model, info = super().from_pretrained(path, *model_args, config=config, **kwargs)
        missing = sorted(name for name in info["missing_keys"] if not any(part in name for part in may_lack))
        if missing:
            raise OSError(
                f"The weights in {path!r} lack {len(missing)} of the model's tensors: {', '.join(missing[:5])}. The "
                f"file does not belong to {name_settings(given)}, or was not written to its end; save or download it "
                "anew."
            )
        if any("span_filter." in name for name in info["missing_keys"]):
            model.config.span_filter_threshold = None
        elif config.negatives_per_word is not None and not (config.span_filter and config.span_filter_vote):
            logger.warning_once(
                "The model's markers were trained on what its span filter takes for entities, and tell other spans "
                "badly. Without the filter and its vote it will find much that is no entity until it is trained again."
            )
        return cast(Self, model)

    def _change_labels(
        self, labels: Iterable[str] | ClassLabel | None, scheme: Scheme | str | None, may_forget: bool
    ) -> None:
        """Take other tags. The classifier stays if they name the same entity types."""
        config = self.config
        labels = None if labels is None else read_tags(labels)
        if scheme is None and (labels is None or labels == config.tags):
            return
        if labels is None and not self.has_labels:
            config.set_labels(None, scheme)
            return
        tags = config.tags if labels is None else labels
        if list(LabelScheme.from_labels(tags, scheme).labels) == config.labels:
            config.set_labels(tags, scheme)
        elif may_forget or not self.has_labels:
            self.set_labels(tags, scheme)
        else:
            raise ValueError(
                f"The model was trained with the tags {config.tags}, but labels={tags} were given. Leave labels "
                "out to use it as it is, or pass ignore_mismatched_sizes=True to start a new classifier for them."
            )

    def _fit_length(self) -> None:
        """Set the text length where none is given, and cap it by what the encoder and its tokenizer take."""
        tables = [
            module.num_embeddings
            for name, module in self.encoder.named_modules()
            if isinstance(module, nn.Embedding) and name.rsplit(".")[-1] in _POSITION_TABLES
        ]
        config, wanted = self.config, self.config.model_max_length
        if tables:
            config.model_max_length = min(wanted or _DEFAULT_LENGTH, min(tables) - POSITION_OFFSET)
        elif wanted is None:
            config.model_max_length = min(config.get("max_position_embeddings", _DEFAULT_LENGTH), _DEFAULT_LENGTH)
        config.model_max_length = self._require_tokenizer().model_max_length
        if wanted and wanted > config.model_max_length:
            logger.warning_once(
                f"model_max_length is {wanted}, but {type(self.encoder).__name__} and its tokenizer take at most "
                f"{config.model_max_length} tokens at once."
            )

    def _add_markers(self) -> None:
        """Make room for the markers in the token embedding, and start them from the mask token.

        The mask token stands for "read the context and tell what is here", which is what a marker does; fresh random
        vectors take several epochs to get there.
        """
        tokenizer = self._require_tokenizer()
        if len(tokenizer) > self.encoder.get_input_embeddings().num_embeddings:
            self.encoder.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=8, mean_resizing=False)
        table = self.encoder.get_input_embeddings()
        mask = tokenizer.mask_token_id
        with torch.no_grad():
            start = table.weight.mean(dim=0) if mask is None else table.weight[mask].clone()
            table.weight[list(tokenizer.marker_ids)] = start
        self.config.vocab_size = self.config.encoder["vocab_size"] = table.num_embeddings

    def set_labels(self, labels: Iterable[str] | ClassLabel, scheme: Scheme | str | None = None) -> None:
        """Give the model the tags of a data set, and with them a new, untrained classifier and span filter.

        Args:
            labels: The tags in the order of their ids ("O", "B-LOC", "I-LOC", ...), or a ``ClassLabel`` feature.
            scheme: The tagging scheme. ``None``: detected.

        Raises:
            TypeError: The tags are no list.
            ValueError: The tags hold no "O", repeat themselves or do not fit the scheme.
        """
        self.config.set_labels(labels, scheme)
        self.model_card_data.start_training()
        old, config = self.classifier, self.config
        self.classifier = nn.Linear(old.in_features, config.num_labels).to(old.weight)
        self._init_weights(self.classifier)
        if self.span_filter is not None:
            span_filter = make_span_filter(config, self.span_filter.first.in_features)
            self.span_filter = span_filter.to(old.weight).train(self.training)
            config.span_filter_threshold = None

    @property
    def has_labels(self) -> bool:
        """Whether the model knows any entity type; a model started without labels gets them from the Trainer."""
        return bool(self.config.has_labels)

    def set_tokenizer(self, tokenizer: SpanMarkerTokenizer) -> None:
        """Give the model the tokenizer that `predict` and `save_pretrained` use.

        Args:
            tokenizer: The tokenizer, which holds the two markers.
        """
        self.tokenizer = tokenizer

    def _require_tokenizer(self) -> SpanMarkerTokenizer:
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, which holds its markers. Load it with SpanMarkerModel.from_pretrained, or "
                "give it one: model.set_tokenizer(SpanMarkerTokenizer.from_pretrained(path, config=model.config))."
            )
        return self.tokenizer


def _locate(path: str, options: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Find a model's files, those of a repository by downloading them.

    Returns:
        The options to load the files with, and the commit that files of a repository come from.
    """
    # Said outright, because transformers asks at the terminal otherwise. Nothing in a file can switch it on.
    options = {**options, "trust_remote_code": bool(options.get("trust_remote_code"))}
    if find_model(path, options.get("subfolder") or "") is not None:
        return options, None
    with naming("files", path):
        options = fetch(path, options)
    return options, options.get("revision")


def _require_arguments(config: Any, kwargs: dict[str, Any]) -> None:
    """Refuse the configuration of another model, and arguments that have no meaning here."""
    for name in _REFUSED:
        if kwargs.get(name) not in (None, False):
            raise TypeError(f"SpanMarkerModel.from_pretrained does not take {name!r}. {_REFUSED[name]}")
    if config is not None:
        require_config(config)


def require_config(config: Any) -> SpanMarkerConfig:
    """Refuse the configuration of another model."""
    if not isinstance(config, SpanMarkerConfig):
        raise TypeError(
            f"The configuration is of type {type(config).__name__}. Expected a SpanMarkerConfig, which holds the "
            "encoder's: SpanMarkerConfig(encoder_config)."
        )
    return config
