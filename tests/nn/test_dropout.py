"""Dropout: how many, how they are scaled, and that a seed says it all."""

import pytest
import torch

from heedful.nn import Dropout
from heedful.nn.dropout import keep_scaled


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_rate_is_rounded_to_a_256th_and_the_mean_is_kept(rate):
    rounded = round(rate * 256) / 256
    mask = keep_scaled(torch.empty(1000, 1001), rate)
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rounded)])
    n = mask.numel()
    assert (mask == 0).float().mean().item() == pytest.approx(rounded, abs=4 * (rounded / n) ** 0.5)
    assert mask.mean().item() == pytest.approx(1, abs=4 * (rounded / (1 - rounded) / n) ** 0.5)


def test_a_small_rate_is_not_none():
    assert (keep_scaled(torch.empty(100_000), 0.001) == 0).any()


def test_elements_are_dropped_each_by_itself():
    """Eight share one draw of the generator: they must not share its fate."""
    dropped = (keep_scaled(torch.empty(20_000, 8), 0.5) == 0).float()
    torch.testing.assert_close(dropped.T.corrcoef(), torch.eye(8), rtol=0, atol=0.04)
    torch.testing.assert_close(dropped.mean(0), torch.full((8,), 0.5), rtol=0, atol=0.02)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1003])
def test_any_number_of_elements(size):
    assert keep_scaled(torch.empty(size), 0.5).shape == (size,)


def test_same_seed_same_mask():
    x, module = torch.ones(5, 7), Dropout(0.5)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(module(x))
    assert masks[0].equal(masks[1]) and not masks[0].equal(masks[2])


def test_gradient_passes_where_the_value_did():
    x = torch.ones(100, requires_grad=True)
    y = Dropout(0.25)(x)
    y.sum().backward()
    assert x.grad.equal(y.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sum_is_that_with_the_dropped_and_has_its_gradients(dtype):
    x, y = (torch.randn(30, 7, dtype=dtype, requires_grad=True) for _ in range(2))
    module, results = Dropout(0.3), []
    for way in (module.add, lambda x, y: x + module(y)):
        torch.manual_seed(1)
        out = way(x, y)
        results.append((out, *torch.autograd.grad(out.float().square().sum(), (x, y))))
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {}
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **tolerance)
    assert module.eval().add(x, y).equal(x + y)


def test_nothing_is_dropped_when_not_training_or_at_rate_0():
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x and Dropout(0.0)(x) is x


def test_dtype_and_shape_stay():
    y = Dropout(0.5)(torch.ones(3, 4, 5, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16 and set(y.flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("rate", [-0.1, 0.999, 1.0, 2.0])
def test_a_rate_that_leaves_nothing_is_refused_at_once(rate):
    with pytest.raises(ValueError, match="rate"):
        Dropout(rate)
