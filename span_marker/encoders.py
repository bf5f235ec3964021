"""Ways of running an encoder over text and levitated markers, one class each.

Whichever way an encoder takes, the result is the same: text states do not depend on markers, and the markers of a span
depend on the text and on each other alone. [`check_encoder`] tests this on the encoder itself and refuses one that
breaks it, because it would train without any error and learn the wrong thing.
"""

import inspect
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from span_marker.attention import ATTENTION_NAME, MarkerLayout, TextMemory, additive_mask


class EncoderRunner(Protocol):
    """A way of running an encoder."""

    attention: ClassVar[str]
    """Name of the attention implementation that the encoder is switched to."""

    @staticmethod
    def supports(encoder: PreTrainedModel) -> bool:
        """Tell whether the encoder is built for this way."""

    def __call__(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor,
        layout: MarkerLayout,
        text_memory: TextMemory | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Run the encoder.

        Args:
            encoder: The encoder.
            input_ids: Text and markers, padding included. Shape: ``[batch, text + 2 * spans]``.
            layout: Where text and markers lie.
            text_memory: Filled by a call without spans; calls after that need not read the text again, and leave the
                states of the text undefined. A way that cannot make use of it reads the text each time.
            **kwargs: Handed on to the encoder.

        Returns:
            The encoder's output. Shape of its states: ``[batch, text + 2 * spans, hidden]``.
        """


class SharedAttention:
    """For encoders that use transformers' attention interface: the package's own attention function, the fast way."""

    attention: ClassVar[str] = ATTENTION_NAME

    @staticmethod
    def supports(encoder: PreTrainedModel) -> bool:
        """Tell whether the encoder lets its attention function be replaced."""
        return bool(getattr(encoder, "_supports_attention_backend", False))

    def __call__(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor,
        layout: MarkerLayout,
        text_memory: TextMemory | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Pack the batch into one row without padding, run the encoder on it and lay the batch out again.

        The encoder needs no mask: the layout reaches the attention function as a keyword argument.
        """
        index = layout.packed_index
        if text_memory is not None and len(text_memory):
            text_memory.rewind()
            index = layout.packed_markers
        if not len(index):  # no marker to run, and layers do not take empty input
            return BaseModelOutput(
                input_ids.new_zeros(*input_ids.shape, encoder.config.hidden_size, dtype=encoder.dtype)
            )
        packed_ids, packed_positions = (tensor.flatten()[index][None] for tensor in (input_ids, layout.position_ids))
        arguments = {"attention_mask": None, "marker_layout": layout, "text_memory": text_memory, **kwargs}
        output = call_encoder(encoder, packed_ids, packed_positions, **arguments)

        def unpack(states: Tensor) -> Tensor:
            padded = states.new_zeros(input_ids.numel(), states.shape[-1])
            return padded.index_copy(0, index, states[0]).view(*input_ids.shape, -1)

        return BaseModelOutput(
            last_hidden_state=unpack(output.last_hidden_state),
            hidden_states=output.hidden_states and tuple(map(unpack, output.hidden_states)),
        )


class DebertaV2:
    """For DeBERTa-v2 and v3, whose attention scores distances: these are taken from the position ids."""

    attention: ClassVar[str] = "eager"

    @staticmethod
    def supports(encoder: PreTrainedModel) -> bool:
        """Tell whether the encoder is a DeBERTa-v2."""
        return bool(encoder.config.model_type == "deberta-v2")

    def __call__(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor,
        layout: MarkerLayout,
        text_memory: TextMemory | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Embed all tokens, then run the layers with a pairwise mask and pairwise distances."""
        # Padding is embedded like text: nothing attends to it, so that its content does not matter.
        hidden_states = encoder.embeddings(
            input_ids=input_ids, position_ids=layout.position_ids, mask=torch.ones_like(input_ids)
        )
        wants_states = kwargs.pop("output_hidden_states", False)
        output = encoder.encoder(
            hidden_states,
            layout.visible(),
            output_hidden_states=wants_states,
            relative_pos=self._distances(encoder, layout.position_ids),
        )
        return BaseModelOutput(last_hidden_state=output.last_hidden_state, hidden_states=output.hidden_states)

    @staticmethod
    def _distances(encoder: PreTrainedModel, position_ids: Tensor) -> Tensor | None:
        """Bucket the distances between tokens. Shape: ``[1, batch * heads, tokens, tokens]``, as attention reads it."""
        layers = encoder.encoder
        if not layers.relative_attention:
            return None
        distance = position_ids[:, :, None] - position_ids[:, None, :]
        if layers.position_buckets > 0:
            distance = make_log_bucket_position(distance, layers.position_buckets, layers.max_relative_positions)
        return distance.long().repeat_interleave(encoder.config.num_attention_heads, dim=0)[None]


class DenseMask:
    """For all other encoders: an additive mask over every pair of tokens."""

    attention: ClassVar[str] = "eager"

    @staticmethod
    def supports(encoder: PreTrainedModel) -> bool:
        """Tell whether the encoder takes position ids; whether it heeds the mask, [`check_encoder`] finds out."""
        return "position_ids" in inspect.signature(encoder.forward).parameters

    def __call__(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor,
        layout: MarkerLayout,
        text_memory: TextMemory | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Run the encoder with a four-dimensional mask."""
        mask = additive_mask(layout.visible()[:, None], encoder.dtype)
        return call_encoder(encoder, input_ids, layout.position_ids, attention_mask=mask, **kwargs)


def call_encoder(encoder: PreTrainedModel, input_ids: Tensor, position_ids: Tensor, **kwargs: Any) -> BaseModelOutput:
    """Call an encoder with all tokens of one type: the buffer it would take types from ends at the text's length.

    Args:
        encoder: The encoder.
        input_ids: Shape: ``[batch, tokens]``.
        position_ids: Shape: as ``input_ids``.
        **kwargs: Handed on to the encoder.

    Returns:
        The encoder's output.
    """
    kwargs["return_dict"] = True
    if "token_type_ids" in inspect.signature(encoder.forward).parameters:
        kwargs["token_type_ids"] = torch.zeros_like(input_ids)
    output: BaseModelOutput = encoder(input_ids=input_ids, position_ids=position_ids, **kwargs)
    return output


def is_checkpointing(encoder: PreTrainedModel) -> bool:
    """Tell whether the encoder runs its layers again when gradients are computed.

    Args:
        encoder: The encoder.
    """
    # transformers renames the property.
    name = "is_activation_checkpointing"
    return bool(getattr(encoder, name if hasattr(type(encoder), name) else "is_gradient_checkpointing"))


def choose_runner(encoder: PreTrainedModel) -> EncoderRunner:
    """Choose how to run an encoder, and switch it to the attention implementation of that way.

    Args:
        encoder: The encoder.

    Returns:
        The first of shared attention, DeBERTa-v2 and dense mask that is made for it.

    Raises:
        ValueError: None is.
    """
    if encoder.config.model_type == "deberta":
        raise ValueError(
            _refusal(encoder, "it takes distances from the index in the sequence, unlike DeBERTa-v2 and v3")
        )
    runners: tuple[EncoderRunner, ...] = (SharedAttention(), DebertaV2(), DenseMask())
    for runner in runners:
        if runner.supports(encoder):
            encoder.set_attn_implementation(runner.attention)
            if hasattr(encoder, "set_attention_type"):
                encoder.set_attention_type("original_full")  # BigBird's sparse pattern has no place for markers
            return runner
    raise ValueError(_refusal(encoder, "it takes no position_ids, so that markers cannot be placed at their word"))


def check_encoder(encoder: PreTrainedModel, runner: EncoderRunner) -> None:
    """Test with one tiny forward pass that markers behave: five sequences that differ in one respect each.

    Args:
        encoder: The encoder, with weights.
        runner: The way it is run.

    Raises:
        ValueError: Text sees markers or padding, markers see other spans' markers, ignore their position or heed
            their place in the sequence, or the encoder's own attention is of another kind.
    """
    try:
        states, text_alone = _probe(encoder, runner)
    except Exception as error:
        raise ValueError(_refusal(encoder, f"a forward pass over text and markers fails ({error})")) from error

    text, first_span, second_span = [0, 1, 2, 3, 4], [6, 8], [7, 9]
    base, other_markers, moved, other_padding, swapped = states
    scale = float((base - other_markers)[second_span].abs().max())
    rounding = min(256 * torch.finfo(encoder.dtype).eps, 0.1)

    def same(left: Tensor, right: Tensor, tolerance: float = rounding) -> bool:
        return torch.allclose(left, right, rtol=0, atol=scale * tolerance)

    seen = text + first_span
    complaint = None
    if not same(base[seen], other_markers[seen]):
        complaint = "markers change the text or the markers of another span"
    elif not same(base[seen], other_padding[seen]):
        complaint = "padding changes the text or the markers"
    elif not same(base[first_span + second_span], swapped[second_span + first_span]):
        complaint = "it places markers by their index in the sequence and not by position_ids alone"
    elif same(base[first_span], moved[first_span], 5e-7):  # fresh rotary encoders hardly heed positions
        complaint = "it ignores position_ids, so that markers cannot be placed at their word"
    elif not same(base[text], text_alone):
        complaint = "its own attention is causal, or has terms that markers cannot have"
    if complaint:
        raise ValueError(_refusal(encoder, complaint))


@torch.no_grad()
def _probe(encoder: PreTrainedModel, runner: EncoderRunner) -> tuple[Tensor, Tensor]:
    """Run six text tokens (the last one padding) and two spans, in five variants, and the text as the encoder does.

    Shape: ``[5, 10, hidden]`` and ``[5, hidden]``.
    """
    vocabulary = encoder.get_input_embeddings().num_embeddings
    tokens = torch.arange(10, device=encoder.device) % max(vocabulary - 5, 1) + min(4, vocabulary - 1)
    input_ids = tokens.repeat(5, 1)
    starts, ends = (torch.tensor(spans, device=encoder.device).repeat(5, 1) for spans in ([1, 3], [2, 4]))
    input_ids[1, [7, 9]] = tokens[:2]  # other markers of the second span
    starts[2, 0], ends[2, 0] = 2, 3  # the first span moved
    input_ids[3, 5] = tokens[0]  # other padding
    input_ids[4, 6:] = tokens[[7, 6, 9, 8]]  # the spans in reverse order
    starts[4], ends[4] = starts[4].flip(0), ends[4].flip(0)
    text_mask = torch.arange(6, device=encoder.device).expand(5, 6) < 5
    layout = MarkerLayout(text_mask, torch.ones_like(starts, dtype=torch.bool), starts, ends)

    was_training = encoder.training
    encoder.eval()
    try:
        states: Tensor = runner(encoder, input_ids, layout).last_hidden_state
        encoder.set_attn_implementation("eager")
        text_alone: Tensor = call_encoder(encoder, input_ids[:1, :5], layout.position_ids[:1, :5]).last_hidden_state
    finally:
        encoder.set_attn_implementation(runner.attention)
        encoder.train(was_training)
    return states.float(), text_alone[0].float()


def _refusal(encoder: PreTrainedModel, reason: str) -> str:
    return (
        f"{type(encoder).__name__} cannot be used as an encoder for span markers: {reason}. Use an encoder of another "
        "family, such as BERT, RoBERTa, XLM-RoBERTa, ELECTRA, DeBERTa-v3 or ModernBERT."
    )
