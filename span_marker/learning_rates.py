"""Learning rates that differ between parts of a model."""

from collections.abc import Iterable

import torch
from torch import nn


def scale_learning_rate(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], factor: float) -> None:
    """Let some of an optimizer's parameters learn at a multiple of their learning rate.

    Args:
        optimizer: The optimizer, before its first step. One that sets the learning rates itself is left as it is.
        parameters: The parameters; those that the optimizer does not know are ignored.
        factor: By what to multiply.
    """
    chosen = {id(parameter) for parameter in parameters}
    for group in list(optimizer.param_groups):
        others = [parameter for parameter in group["params"] if id(parameter) not in chosen]
        own = [parameter for parameter in group["params"] if id(parameter) in chosen]
        if not own or group.get("lr") is None:
            continue
        if others:
            group["params"] = others
            optimizer.add_param_group(group | {"params": own, "lr": group["lr"] * factor})
        else:
            group["lr"] *= factor
