import pytest
import torch
from torch import nn

from span_marker.dropout import CheapDropout, cheap_dropout, use_cheap_dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    torch.manual_seed(0)
    dropped = cheap_dropout(torch.ones(501, 401), rate)
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(1 - rate, abs=0.004)
    assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - rate)), rtol=1e-3)
    # neither rows nor columns nor neighbours are dropped together
    for dim in (0, 1):
        assert kept.float().mean(dim).std() < 0.04
    assert (kept[:, 1:] & kept[:, :-1]).float().mean().item() == pytest.approx((1 - rate) ** 2, abs=0.01)


def test_same_seed_same_mask():
    states = torch.randn(7, 5)
    torch.manual_seed(3)
    first = cheap_dropout(states, 0.3)
    torch.manual_seed(3)
    assert torch.equal(cheap_dropout(states, 0.3), first)


def test_gradient_is_that_of_the_kept_elements():
    states = torch.randn(50, dtype=torch.float64, requires_grad=True)
    dropped = cheap_dropout(states, 0.4)
    dropped.sum().backward()
    assert torch.equal(states.grad * states, dropped)


@pytest.mark.parametrize("rate", [0.0, 1.0, 1e-9])
def test_rates_at_the_border(rate):
    states = torch.ones(40)
    assert torch.equal(cheap_dropout(states, rate), states if rate < 0.5 else torch.zeros(40))


def test_nothing_is_dropped_outside_training():
    states = torch.randn(6)
    layer = CheapDropout(0.5).eval()
    assert torch.equal(layer(states), states)
    assert (layer.train()(torch.ones(1000)) == 0).any()


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_shape_and_type_stay(shape, dtype):
    dropped = cheap_dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert (dropped.shape, dropped.dtype) == (shape, dtype)


def test_layers_of_a_module_are_replaced_in_place():
    inner = nn.Dropout(0.25)
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(inner), nn.Dropout1d(0.5))
    use_cheap_dropout(module)
    assert module[1][0] is inner
    assert type(inner) is CheapDropout
    assert inner.p == 0.25
    assert type(module[2]) is nn.Dropout1d
