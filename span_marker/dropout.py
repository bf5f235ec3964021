"""Dropout that is cheap on a CPU.

PyTorch draws a floating point number for each element on a CPU, one after the other, which takes a tenth of a training
step. Sixteen random bits an element do: the rate is met to 1 / 65,536, and kept elements are scaled by exactly the rate
that is used. Other devices, where drawing is parallel, keep PyTorch's own.
"""

import torch
from torch import Tensor, nn

_LEVELS = 2**16


class CheapDropout(nn.Dropout):
    """`torch.nn.Dropout` by way of [`cheap_dropout`]."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements in training.

        Args:
            input: Any shape.

        Returns:
            The same shape.
        """
        return cheap_dropout(input, self.p, training=self.training)


def cheap_dropout(states: Tensor, rate: float, *, training: bool = True) -> Tensor:
    """Set random elements to zero and scale the others, so that the expected sum stays.

    Args:
        states: Any shape.
        rate: Share of elements to drop.
        training: Whether to drop at all.

    Returns:
        The same shape.
    """
    level = round(rate * _LEVELS)
    if not training or states.device.type != "cpu" or not 0 < level < _LEVELS:
        return nn.functional.dropout(states, rate, training)
    numbers = torch.empty(-(-states.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = numbers[: states.numel()].view(states.shape) >= level - _LEVELS // 2
    return states * torch.where(kept, _LEVELS / (_LEVELS - level), 0.0).to(states.dtype)


def use_cheap_dropout(module: nn.Module) -> None:
    """Let all dropout layers of a module work by way of [`cheap_dropout`].

    Args:
        module: The module; its layers stay the same objects.
    """
    for layer in module.modules():
        if type(layer) is nn.Dropout:
            layer.__class__ = CheapDropout
