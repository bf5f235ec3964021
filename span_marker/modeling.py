"""The span marker model: an encoder over text and levitated markers, and a classifier over marker pairs."""

import os
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from datasets import ClassLabel, Dataset
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import can_return_tuple, logging

from span_marker._version import __version__
from span_marker.attention import POSITION_OFFSET, MarkerLayout, TextMemory
from span_marker.configuration import IMPLEMENTATIONS, LABEL_SETTINGS, SpanMarkerConfig, is_setting
from span_marker.data_collator import IGNORED_LABEL
from span_marker.dropout import use_cheap_dropout
from span_marker.encoders import check_encoder, choose_runner
from span_marker.filter_fitting import FilterReport, fit_span_filter
from span_marker.inference import Predictions, predict
from span_marker.loading import name_settings, naming, require_model
from span_marker.model_card import SpanMarkerModelCardData, generate_model_card
from span_marker.output import SpanMarkerOutput
from span_marker.schemes import LabelScheme, Scheme, read_tags
from span_marker.span_filter import SpanFilter, filter_loss
from span_marker.tokenizer import SpanMarkerTokenizer

logger = logging.get_logger(__name__)
Self = TypeVar("Self", bound="SpanMarkerModel")

_SPAN_SETTINGS = (
    "model_max_length",
    "marker_max_length",
    "entity_max_length",
    "max_prev_context",
    "max_next_context",
    "span_filter",
    "span_filter_threshold",
    "span_filter_recall",
    "span_filter_loss_weight",
    "span_filter_positive_weight",
)
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
_REFUSED = dict.fromkeys(LABEL_SETTINGS, "Pass the tags of the data set in the order of their ids as `labels=`.")
_REFUSED |= dict.fromkeys(IMPLEMENTATIONS, "What markers need is chosen for each encoder; leave it out.")
_REFUSED |= {"output_loading_info": "The model alone is returned, and missing weights are an error; leave it out."}
"""Arguments of transformers' models that have no meaning here, and what to do instead."""
_POSITION_TABLES = ("position_embeddings", "wpe")
_DEFAULT_LENGTH = 512


@dataclass(frozen=True)
class TextReading:
    """Texts that have been encoded once, for any number of spans to be read in them.

    Attributes:
        input_ids: Text with special tokens. Shape: ``[batch, text]``.
        attention_mask: True for text, false for padding. Shape: ``[batch, text]``.
        states: Final states. Shape: ``[batch, text, hidden]``.
        memory: What markers attend to in each layer.
    """

    input_ids: Tensor
    attention_mask: Tensor
    states: Tensor
    memory: TextMemory


class SpanMarkerModel(PreTrainedModel):  # type: ignore[misc]
    """Span classification with levitated markers.

    Each candidate span gets a start and an end marker that share the position of its first and last token, read the
    text and each other, and are classified together (PL-Marker, Ye et al. 2022; SpanMarker, Aarsen 2023).

    Args:
        config: The configuration, with labels.
        encoder: The encoder. ``None``: one with random weights, made from the configuration.
        model_card_data: What the model card says that the model cannot know.

    Raises:
        TypeError: The configuration is that of another model.
        ValueError: The encoder cannot carry markers.
    """

    config_class = SpanMarkerConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True

    def __init__(
        self,
        config: SpanMarkerConfig,
        encoder: PreTrainedModel | None = None,
        model_card_data: SpanMarkerModelCardData | None = None,
    ) -> None:
        super().__init__(_require_config(config))
        self.encoder = encoder if encoder is not None else AutoModel.from_config(config.encoder_config)
        self._runner = choose_runner(self.encoder)
        self.dropout = nn.Dropout(config.get(("hidden_dropout_prob", "dropout", "embedding_dropout"), default=0.1))
        use_cheap_dropout(self)
        hidden_size = self.encoder.config.hidden_size
        self.classifier = nn.Linear(2 * hidden_size, config.num_labels)
        self.span_filter = SpanFilter(hidden_size) if config.span_filter else None
        self.model_card_data = model_card_data or SpanMarkerModelCardData()
        self.tokenizer: SpanMarkerTokenizer | None = None
        if self.device.type != "meta":
            check_encoder(self.encoder, self._runner)
        self.post_init()

    def set_tokenizer(self, tokenizer: SpanMarkerTokenizer) -> None:
        """Give the model the tokenizer that `predict` and `save_pretrained` use.

        Args:
            tokenizer: The tokenizer, which holds the two markers.
        """
        self.tokenizer = tokenizer

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a layer of the classifier or of the span filter; the encoder initialises itself."""
        if module is self.classifier:
            nn.init.normal_(module.weight, std=self.config.get("initializer_range", default=0.02))
            nn.init.zeros_(module.bias)
        if self.span_filter is not None and any(module is layer for layer in self.span_filter.children()):
            self.span_filter.reset(module)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SpanMarkerOutput:
        """Classify candidate spans.

        Args:
            input_ids: Text with special tokens. Shape: ``[batch, text]``.
            attention_mask: True (or 1) for text, false (or 0) for padding. Shape: ``[batch, text]``.
            start_positions: Index of each span's first token in ``input_ids``. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in ``input_ids``. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.
            labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
            num_items_in_batch: Number of labelled spans that the loss is averaged over, where that is more than
                this batch (gradient accumulation). ``None``: this batch's.
            **kwargs: Handed on to the encoder, such as ``output_hidden_states``.

        Returns:
            Logits of each span and, where labels are given, the loss.
        """
        layout = _layout(attention_mask, start_positions, end_positions, num_spans)
        outputs = self._runner(self.encoder, self._with_markers(input_ids, layout), layout, **kwargs)
        text_states, *marker_states = _split(outputs.last_hidden_state, layout)
        logits = self._classify(marker_states)
        scores = None if self.span_filter is None else self.span_filter(text_states, start_positions, end_positions)
        return SpanMarkerOutput(
            loss=None if labels is None else self._loss(logits, scores, labels, num_items_in_batch),
            logits=logits,
            filter_scores=scores,
            hidden_states=outputs.get("hidden_states"),
            attentions=outputs.get("attentions"),
        )

    def read_text(self, input_ids: Tensor, attention_mask: Tensor) -> TextReading:
        """Encode texts, the first half of a forward pass.

        Args:
            input_ids: Text with special tokens. Shape: ``[batch, text]``.
            attention_mask: True (or 1) for text, false (or 0) for padding. Shape: ``[batch, text]``.

        Returns:
            What [`read_spans`] needs.
        """
        none = input_ids.new_zeros(len(input_ids), 0)
        layout = _layout(attention_mask, none, none, none.sum(1))
        memory = TextMemory()
        states = self._runner(self.encoder, input_ids, layout, memory).last_hidden_state
        return TextReading(input_ids, layout.text_mask, states, memory)

    def read_spans(
        self, text: TextReading, start_positions: Tensor, end_positions: Tensor, num_spans: Tensor
    ) -> Tensor:
        """Classify spans of encoded texts, the second half of a forward pass; may be called again with other spans.

        Args:
            text: The texts.
            start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in the text. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.

        Returns:
            Logits, undefined for padding. Shape: ``[batch, spans, labels]``.
        """
        layout = _layout(text.attention_mask, start_positions, end_positions, num_spans)
        input_ids = self._with_markers(text.input_ids, layout)
        states = self._runner(self.encoder, input_ids, layout, text.memory).last_hidden_state
        _, *marker_states = _split(states, layout)
        return self._classify(marker_states)

    def _with_markers(self, input_ids: Tensor, layout: MarkerLayout) -> Tensor:
        """Append markers to texts. Shape: ``[batch, text + 2 * spans]``."""
        markers = (torch.full_like(layout.start_positions, marker) for marker in self._require_tokenizer().marker_ids)
        return torch.cat([input_ids, *markers], dim=1)

    def _classify(self, marker_states: Sequence[Tensor]) -> Tensor:
        """Classify spans by the states of their two markers. Shape: ``[batch, spans, labels]``."""
        logits: Tensor = self.classifier(self.dropout(torch.cat(list(marker_states), dim=-1)))
        return logits

    def _loss(
        self, logits: Tensor, filter_scores: Tensor | None, labels: Tensor, num_items: Tensor | int | None
    ) -> Tensor:
        """Average the loss over the labelled spans: cross entropy, and the span filter's. Shape: ``[]``."""
        total = nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="sum"
        )
        if filter_scores is not None:
            total = total + filter_loss(filter_scores, labels, self.config)
        count = (
            labels.ne(IGNORED_LABEL).sum() if num_items is None else torch.as_tensor(num_items, device=labels.device)
        )
        return total / count.clamp(min=1)  # a batch of empty sentences has no span

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
            model_card_data: What the model card says that the model cannot know.
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
        for name in _REFUSED:
            if kwargs.get(name) not in (None, False):
                raise TypeError(f"SpanMarkerModel.from_pretrained does not take {name!r}. {_REFUSED[name]}")
        if config is not None:
            _require_config(config)
        path = os.fspath(pretrained_model_name_or_path)
        require_model(path, kwargs.get("subfolder") or "")
        # Said outright, because transformers asks at the terminal otherwise. Nothing in a file can switch it on.
        kwargs["trust_remote_code"] = bool(kwargs.get("trust_remote_code"))
        hub = {name: kwargs[name] for name in _HUB_SETTINGS if name in kwargs}
        with naming("configuration", path):
            saved = AutoConfig.from_pretrained(path, **hub)
        is_new = not isinstance(saved, SpanMarkerConfig)
        if is_new:
            model = cls._start(path, saved, config, labels, scheme, *model_args, **kwargs)
        else:
            model = cls._load(path, deepcopy(config) or saved, *model_args, **kwargs)
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
        settings = {name: kwargs.pop(name) for name in _SPAN_SETTINGS if name in kwargs}
        names = [name for name in kwargs if name not in _LOADER_SETTINGS and is_setting(encoder_config, name)]
        given = {name: kwargs[name] for name in names if kwargs[name] != getattr(encoder_config, name)}
        for name in names:
            setattr(encoder_config, name, kwargs.pop(name))
        with naming("weights", path, given):
            encoder = AutoModel.from_pretrained(path, *model_args, config=encoder_config, **kwargs)
        config = deepcopy(config) or SpanMarkerConfig(encoder.config)
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
                f"{config.model_max_length} tokens: longer sentences are cut there."
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
        """Give the model the tags of a data set, and with them a new, untrained classifier.

        Args:
            labels: The tags in the order of their ids ("O", "B-LOC", "I-LOC", ...), or a ``ClassLabel`` feature.
            scheme: The tagging scheme. ``None``: detected.

        Raises:
            TypeError: The tags are no list.
            ValueError: The tags hold no "O", repeat themselves or do not fit the scheme.
        """
        self.config.set_labels(labels, scheme)
        old = self.classifier
        self.classifier = nn.Linear(
            old.in_features, self.config.num_labels, device=old.weight.device, dtype=old.weight.dtype
        )
        self._init_weights(self.classifier)

    @property
    def has_labels(self) -> bool:
        """Whether the model knows any entity type; a model started without labels gets them from the Trainer."""
        return bool(self.config.has_labels)

    def predict(
        self,
        inputs: str | Sequence[str] | Sequence[Sequence[str]] | Dataset,
        batch_size: int = 4,
        show_progress_bar: bool = False,
        *,
        is_split_into_words: bool | None = None,
        span_filter: bool | None = None,
    ) -> Predictions:
        """Find the entities in texts or pre-split sentences.

        Args:
            inputs: One of: a text; a list of texts; a sentence as a list of words; a list of such sentences; a data set
                with a column ``tokens`` of texts or lists of words, and for document-level context ``document_id`` and
                ``sentence_id``. A list of two or more strings without any space in them is one sentence of words.
            batch_size: Number of sentences in a forward pass.
            show_progress_bar: Whether to show progress.
            is_split_into_words: Whether a list of strings is one sentence of words (true) or a list of texts (false).
                ``None``: told by their spaces, as above. For other inputs it can be left out, and must not contradict
                them.
            span_filter: Whether to run only the candidate spans that the model's span filter keeps (true) or all of
                them (false). ``None``: the former if the model has a calibrated one.

        Returns:
            A list of entities for one text or one sentence of words, else one such list for each input, in their order.
            An entity has ``span``, ``label``, ``score`` (its probability) and its place, the end exclusive:
            ``char_start_index`` and ``char_end_index`` in a text, ``word_start_index`` and ``word_end_index`` in a
            sentence of words.

        Raises:
            TypeError: The inputs are none of these, or another argument is of a wrong type.
            ValueError: The batch size is not positive, a data set lacks ``tokens`` or has a transform, the inputs are
                not what ``is_split_into_words`` says, the model has no entity types, or no calibrated span filter where
                one is asked for.
        """
        self._require_tokenizer()
        return predict(
            self,
            inputs,
            batch_size,
            show_progress_bar,
            is_split_into_words=is_split_into_words,
            span_filter=span_filter,
        )

    def fit_span_filter(
        self,
        inputs: Sequence[str] | Sequence[Sequence[str]] | Dataset,
        *,
        epochs: int = 10,
        batch_size: int = 16,
        seed: int = 0,
        is_split_into_words: bool | None = None,
        show_progress_bar: bool = False,
    ) -> FilterReport:
        """Train a new span filter to tell the spans that a model takes for entities, and calibrate its threshold.

        The model runs once over all spans of the sentences, which need no tags; its weights stay as they are. The
        text's final states are kept meanwhile, hidden size times four bytes a token.

        Args:
            inputs: Sentences of the kind that it will be used on, in a form that `predict` takes: some hundreds with
                some hundreds of entities.
            epochs: Passes over the kept states.
            batch_size: Number of sentences in a batch.
            seed: Seed of the filter's weights and of the order of batches.
            is_split_into_words: As in `predict`.
            show_progress_bar: Whether to show progress.

        Returns:
            The threshold, and what the filter does on a fifth of the batches, which it was not trained on.

        Raises:
            ValueError: The sentences fill fewer than two batches, the model finds no entity in them, or the batch size
                is not positive.
            TypeError: The inputs are in none of the forms that `predict` takes.
        """
        self._require_tokenizer()
        return fit_span_filter(
            self,
            inputs,
            epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            is_split_into_words=is_split_into_words,
            show_progress_bar=show_progress_bar,
        )

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Save weights (safetensors), configuration, tokenizer and model card: all that loading needs.

        Args:
            save_directory: The folder, made if it does not exist.
            is_main_process: Whether this process writes.
            *args: Handed on to transformers.
            **kwargs: Handed on to transformers, such as ``push_to_hub`` or ``max_shard_size``.
        """
        folder = Path(save_directory)
        if is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(folder)
            (folder / "README.md").write_text(self.generate_model_card(), encoding="utf-8")
        self.config.span_marker_version = __version__
        super().save_pretrained(folder, is_main_process, *args, **kwargs)

    def generate_model_card(self) -> str:
        """Write the model card.

        Returns:
            Markdown with a YAML head, as the Hub shows it.
        """
        return generate_model_card(self)

    def try_cuda(self: Self, device: int | str | torch.device | None = None) -> Self:
        """Move the model to a GPU where there is one.

        Args:
            device: Which one. ``None``: the default.

        Returns:
            The model itself.
        """
        return self.cuda(device) if torch.cuda.is_available() else self

    def _require_tokenizer(self) -> SpanMarkerTokenizer:
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, which holds its markers. Load it with SpanMarkerModel.from_pretrained, or "
                "give it one: model.set_tokenizer(SpanMarkerTokenizer.from_pretrained(path, config=model.config))."
            )
        return self.tokenizer


def _require_config(config: Any) -> SpanMarkerConfig:
    """Refuse the configuration of another model."""
    if not isinstance(config, SpanMarkerConfig):
        raise TypeError(
            f"The configuration is of type {type(config).__name__}. Expected a SpanMarkerConfig, which holds the "
            "encoder's: SpanMarkerConfig(encoder_config)."
        )
    return config


def _layout(attention_mask: Tensor, starts: Tensor, ends: Tensor, num_spans: Tensor) -> MarkerLayout:
    """Lay texts and spans out."""
    span_mask = torch.arange(starts.shape[1], device=starts.device) < num_spans[:, None]
    return MarkerLayout(attention_mask.bool(), span_mask, starts, ends)


def _split(states: Tensor, layout: MarkerLayout) -> tuple[Tensor, ...]:
    """Split states into those of texts, start markers and end markers. Shape: ``[batch, text or spans, hidden]``."""
    text, spans = layout.text_mask.shape[1], layout.span_mask.shape[1]
    return torch.split(states, [text, spans, spans], dim=1)
