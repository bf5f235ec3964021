"""The span marker model: an encoder over text and levitated markers, and a classifier over marker pairs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from datasets import Dataset, IterableDataset
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel
from transformers.utils import can_return_tuple

from span_marker.attention import MarkerLayout, TextMemory, columns_of, mask_of
from span_marker.configuration import SpanMarkerConfig
from span_marker.data_collator import IGNORED_LABEL
from span_marker.decoding_modes import Decoding
from span_marker.dropout import use_cheap_dropout
from span_marker.encoders import check_encoder, choose_runner, is_checkpointing
from span_marker.filter_fitting import FilterReport, fit_span_filter
from span_marker.inference import Predictions, predict
from span_marker.model_card import SpanMarkerModelCardData
from span_marker.model_loading import require_config
from span_marker.model_saving import SavableModel
from span_marker.output import SpanMarkerOutput
from span_marker.sentence_batches import BatchSize
from span_marker.span_filter import entity_scores, is_kept, make_span_filter, vote
from span_marker.span_loss import filter_loss, marker_loss
from span_marker.span_sampling import hardest_spans
from span_marker.tokenizer import SpanMarkerTokenizer
from span_marker.word_splitters import WordSplitter

Self = TypeVar("Self", bound="SpanMarkerModel")


@dataclass(frozen=True)
class TextReading:
    """Texts that have been encoded once, for any number of spans to be read in them.

    Attributes:
        input_ids: Text with special tokens. Shape: ``[batch, text]``.
        attention_mask: True for text, false for padding. Shape: ``[batch, text]``.
        states: Final states. Shape: ``[batch, text, hidden]``.
        memory: What markers attend to in each layer. ``None``: the text is to be read again.
    """

    input_ids: Tensor
    attention_mask: Tensor
    states: Tensor
    memory: TextMemory | None


@dataclass(frozen=True)
class _Targets:
    """What a batch is trained towards, as ``SpanMarkerModel.forward`` describes it."""

    labels: Tensor
    num_items: Tensor | int | None
    negative_share: Tensor | None
    label_smoothing: float | None


class SpanMarkerModel(SavableModel):
    """Span classification with levitated markers.

    Each candidate span gets a start and an end marker that share the position of its first and last token, read the
    text and each other, and are classified together (PL-Marker, Ye et al. 2022; SpanMarker, Aarsen 2023). A span
    filter, a classifier of spans on the text alone, says which spans are worth markers, and votes.

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
        super().__init__(require_config(config))
        self.encoder = encoder if encoder is not None else AutoModel.from_config(config.encoder_config)
        self._runner = choose_runner(self.encoder)
        self.dropout = nn.Dropout(config.head_dropout)
        use_cheap_dropout(self)
        hidden_size = self.encoder.config.hidden_size
        self.classifier = nn.Linear(2 * hidden_size, config.num_labels)
        self.span_filter = make_span_filter(config, hidden_size) if config.span_filter else None
        self.model_card_data = model_card_data or SpanMarkerModelCardData()
        self.tokenizer: SpanMarkerTokenizer | None = None
        if self.device.type != "meta":
            check_encoder(self.encoder, self._runner)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a layer of the classifier or of the span filter; the encoder initialises itself."""
        if module is self.classifier:
            nn.init.normal_(module.weight, std=self.config.head_std)
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
        negative_share: Tensor | None = None,
        label_smoothing: float | None = None,
        filtered: bool = False,
        **kwargs: Any,
    ) -> SpanMarkerOutput:
        """Classify candidate spans.

        Given labels, a model in training mode whose configuration has ``negatives_per_word`` reads the text first, and
        runs markers for entities and the spans that its span filter takes for entities most; ``logits`` are those of
        the filter then.

        Args:
            input_ids: Text with special tokens. Shape: ``[batch, text]``.
            attention_mask: True (or 1) for text, false (or 0) for padding. Shape: ``[batch, text]``.
            start_positions: Index of each span's first token in ``input_ids``. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in ``input_ids``. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.
            labels: Label id of each span, -100 for padding. Shape: ``[batch, spans]``.
            num_items_in_batch: Number of labelled spans that the loss is averaged over, where that is more than
                this batch (gradient accumulation). ``None``: this batch's.
            negative_share: Share of the spans without an entity that are in the batch, where the others were left out:
                the span filter learns how likely an entity is among all spans. ``None``: all. Shape: ``[batch]``.
            label_smoothing: Share of each label that the loss spreads over all labels. ``None``: as the configuration
                says.
            filtered: Whether to run markers only for the spans that a calibrated span filter keeps, where no labels are
                given; ``logits`` of the others are those of the filter.
            **kwargs: Handed on to the encoder, such as ``output_hidden_states``, where one pass reads texts and
                markers: not in training on the hardest spans, and not with ``filtered``.

        Returns:
            Logits of each span and, where labels are given, the loss.
        """
        targets = None
        if labels is not None:
            targets = _Targets(labels, num_items_in_batch, negative_share, label_smoothing)
            if self.training and self.config.trains_on_hardest:
                return self._train_on_hardest(input_ids, attention_mask, start_positions, end_positions, targets)
        layout = _layout(attention_mask, start_positions, end_positions, num_spans)
        if filtered and targets is None and self.config.filters_spans:
            return self._read_kept(input_ids, layout)
        outputs = self._runner(self.encoder, self._with_markers(input_ids, layout), layout, **kwargs)
        text_states, *marker_states = _split(outputs.last_hidden_state, layout)
        logits, filter_logits = self._classify(marker_states), None
        if self.span_filter is not None:
            filter_logits = self.span_filter(text_states, start_positions, end_positions)
        return SpanMarkerOutput(
            loss=None if targets is None else self._loss(logits, targets.labels, filter_logits, targets),
            logits=self._vote(logits, filter_logits),
            filter_logits=filter_logits,
            hidden_states=outputs.get("hidden_states"),
            attentions=outputs.get("attentions"),
        )

    def _train_on_hardest(
        self, input_ids: Tensor, attention_mask: Tensor, starts: Tensor, ends: Tensor, targets: "_Targets"
    ) -> SpanMarkerOutput:
        """Train the span filter on all spans, and markers on entities and what the filter takes for entities most."""
        assert self.span_filter is not None
        assert self.config.negatives_per_word is not None
        outside, per_word = self.config.outside_id, self.config.negatives_per_word
        text = self.read_text(input_ids, attention_mask)
        filter_logits = self.span_filter(text.states, starts, ends)
        scores = entity_scores(filter_logits.detach(), outside)
        hardest = hardest_spans(scores, targets.labels, starts, per_word, outside)
        columns, is_read, logits = self._read_chosen(text, starts, ends, hardest)
        labels = targets.labels.gather(1, columns).masked_fill(~is_read, IGNORED_LABEL)
        loss = self._loss(logits, labels, filter_logits, targets)
        return SpanMarkerOutput(loss=loss, logits=filter_logits, filter_logits=filter_logits)

    def _read_kept(self, input_ids: Tensor, layout: MarkerLayout) -> SpanMarkerOutput:
        """Run markers for the spans that the span filter keeps; the logits of the others are the filter's."""
        assert self.span_filter is not None
        starts, ends = layout.start_positions, layout.end_positions
        text = self.read_text(input_ids, layout.text_mask)
        filter_logits = self.span_filter(text.states, starts, ends)
        kept = layout.span_mask & is_kept(filter_logits, self.config)
        columns, is_read, of_markers = self._read_chosen(text, starts, ends, kept)
        columns = columns[..., None].expand_as(of_markers)
        of_filter = filter_logits.gather(1, columns)
        voted = torch.where(is_read[..., None], self._vote(of_markers, of_filter).float(), of_filter.float())
        return SpanMarkerOutput(logits=filter_logits.float().scatter(1, columns, voted), filter_logits=filter_logits)

    def _read_chosen(
        self, text: TextReading, starts: Tensor, ends: Tensor, chosen: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run markers for some of the spans of encoded texts.

        Returns:
            The columns of these spans, rows with fewer filled up; which of the columns do not fill up; and the logits
            of the markers. Shapes: ``[batch, most]`` twice, ``[batch, most, labels]``.
        """
        columns, counts = columns_of(chosen)
        logits = self._read_markers(text, starts.gather(1, columns), ends.gather(1, columns), counts)
        return columns, mask_of(counts, columns.shape[1]), logits

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
        # What a checkpointed layer kept would be kept again when gradients make it run again.
        memory = None if self.training and is_checkpointing(self.encoder) else TextMemory()
        states = self._runner(self.encoder, input_ids, layout, memory).last_hidden_state
        return TextReading(input_ids, layout.text_mask, states, memory)

    def read_spans(
        self,
        text: TextReading,
        start_positions: Tensor,
        end_positions: Tensor,
        num_spans: Tensor,
        filter_logits: Tensor | None = None,
    ) -> Tensor:
        """Classify spans of encoded texts, the second half of a forward pass; may be called again with other spans.

        Args:
            text: The texts.
            start_positions: Index of each span's first token in the text. Shape: ``[batch, spans]``.
            end_positions: Index of each span's last token in the text. Shape: ``[batch, spans]``.
            num_spans: Number of spans of each row, the rest is padding. Shape: ``[batch]``.
            filter_logits: What the span filter says of these spans, where that is known. Shape: ``[batch, spans,
                labels]``.

        Returns:
            Logits, undefined for padding. Shape: ``[batch, spans, labels]``.
        """
        logits = self._read_markers(text, start_positions, end_positions, num_spans)
        if filter_logits is None and self.config.span_filter_vote and self.span_filter is not None:
            filter_logits = self.span_filter(text.states, start_positions, end_positions)
        return self._vote(logits, filter_logits)

    def _read_markers(self, text: TextReading, starts: Tensor, ends: Tensor, num_spans: Tensor) -> Tensor:
        """Classify spans of encoded texts by their markers alone. Shape: ``[batch, spans, labels]``."""
        layout = _layout(text.attention_mask, starts, ends, num_spans)
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

    def _vote(self, logits: Tensor, filter_logits: Tensor | None) -> Tensor:
        """Let the span filter have its say in the labels of spans. Shape: ``[batch, spans, labels]``."""
        return logits if filter_logits is None else vote(logits, filter_logits, self.config.span_filter_vote)

    def _loss(self, logits: Tensor, labels: Tensor, filter_logits: Tensor | None, targets: "_Targets") -> Tensor:
        """Average the loss over the labelled spans: that of the markers run, and the span filter's. Shape: ``[]``."""
        config, smoothing = self.config, targets.label_smoothing
        total = marker_loss(logits, labels, config, smoothing)
        if filter_logits is not None:
            if targets.negative_share is not None:
                is_outside = torch.arange(config.num_labels, device=labels.device) == config.outside_id
                filter_logits = filter_logits + targets.negative_share.log()[:, None, None] * is_outside
            total = total + filter_loss(filter_logits, targets.labels, config, smoothing)
        count = targets.num_items
        if count is None:
            count = targets.labels.ne(IGNORED_LABEL).sum()
        return total / torch.as_tensor(count, device=labels.device).clamp(min=1)  # empty sentences have no span

    def predict(
        self,
        inputs: str | Sequence[str] | Sequence[Sequence[str]] | Dataset | Iterator[Any] | IterableDataset,
        batch_size: BatchSize = 4,
        show_progress_bar: bool = False,
        *,
        is_split_into_words: bool | None = None,
        span_filter: bool | None = None,
        decoding: Decoding | str | None = None,
        threshold: float | Mapping[str, float] | None = None,
        top_k: int | None = None,
        return_scores: bool = False,
        word_splitter: WordSplitter | str | None = None,
    ) -> Predictions:
        """Find the entities in texts or pre-split sentences.

        Args:
            inputs: One of: a text; a list of texts; a sentence as a list of words; a list of such sentences; a data set
                with a column ``tokens`` of texts or lists of words, and for document-level context ``document_id`` and
                ``sentence_id``. A list of two or more strings without any space in them is one sentence of words. Or
                an iterator (such as a generator) over texts, over lists of words, or over rows of such columns, or an
                ``IterableDataset``: it is read as results are asked for, a thousand sentences ahead, in bounded memory.
            batch_size: Number of sentences in a forward pass, or "auto": many short ones or few long ones, by a number
                of tokens that suits the device.
            show_progress_bar: Whether to show progress.
            is_split_into_words: Whether a list of strings is one sentence of words (true) or a list of texts (false).
                ``None``: told by their spaces, as above. For other inputs it can be left out, and must not contradict
                them.
            span_filter: Whether to run only the candidate spans that the model's span filter keeps (true) or all of
                them (false). ``None``: the former if the model has a calibrated one.
            decoding: "flat" (entities share no word), "nested" (they may contain each other) or "all" (any span whose
                most probable label is an entity type), or a [`Decoding`] with the next two arguments. ``None``: as the
                model's configuration says.
            threshold: Least probability of an entity, or one by entity type. ``None``: none.
            top_k: Most entities of a sentence, the most probable ones. ``None``: any number.
            return_scores: Whether entities have ``scores``, the probability of each label, "O" among them.
            word_splitter: What splits texts into words: "punctuation", "whitespace", a segmenter that is installed
                ("jieba", "fugashi", "pythainlp"), or a function that gives start and end (exclusive) of each word of
                each of several texts. ``None``: as the model's configuration says, usually the encoder's tokenizer.

        Returns:
            A list of entities for one text or one sentence of words, else one such list for each input, in their order;
            for an iterator, an iterator over these lists.
            An entity has ``span``, ``label``, ``score`` (its probability) and its place, the end exclusive:
            ``char_start_index`` and ``char_end_index`` in a text, ``word_start_index`` and ``word_end_index`` in a
            sentence of words.

        Raises:
            TypeError: The inputs are none of these, or another argument is of a wrong type.
            ValueError: The batch size is not positive, a data set lacks ``tokens`` or has a transform, the inputs are
                not what ``is_split_into_words`` says, a stream goes back to a document, the model has no entity types,
                or no calibrated span filter where one is asked for, the decoding, a threshold or ``top_k`` is out of
                range, or there is a word splitter for lists of words, or its words are none of the text.
            ImportError: The word splitter is not installed.
        """
        self._require_tokenizer()
        return predict(
            self,
            inputs,
            batch_size,
            show_progress_bar,
            is_split_into_words=is_split_into_words,
            span_filter=span_filter,
            decoding=decoding,
            threshold=threshold,
            top_k=top_k,
            return_scores=return_scores,
            word_splitter=word_splitter,
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

        The model runs once over all spans of the sentences, which need no tags; its other weights stay as they are. A
        filter that it has is replaced. The text's final states are kept meanwhile, hidden size times four bytes a
        token.

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
            ValueError: The sentences fill fewer than two batches, the model finds no entity in them, the batch size is
                not positive, or the model's markers were trained along with a filter.
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

    def try_cuda(self: Self, device: int | str | torch.device | None = None) -> Self:
        """Move the model to a GPU where there is one.

        Args:
            device: Which one. ``None``: the default.

        Returns:
            The model itself.
        """
        return self.cuda(device) if torch.cuda.is_available() else self


def _layout(attention_mask: Tensor, starts: Tensor, ends: Tensor, num_spans: Tensor) -> MarkerLayout:
    """Lay texts and spans out."""
    return MarkerLayout(attention_mask.bool(), mask_of(num_spans, starts.shape[1]), starts, ends)


def _split(states: Tensor, layout: MarkerLayout) -> tuple[Tensor, ...]:
    """Split states into those of texts, start markers and end markers. Shape: ``[batch, text or spans, hidden]``."""
    text, spans = layout.text_mask.shape[1], layout.span_mask.shape[1]
    return torch.split(states, [text, spans, spans], dim=1)
