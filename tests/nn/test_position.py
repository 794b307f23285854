"""Positions: the formula of the slide, and what is said of it there."""

import math

import pytest
import torch

from heedful.nn import Learned, Sinusoid
from heedful.nn.position import sinusoid


@pytest.mark.parametrize("dim", [2, 7, 16])
def test_sinusoid_is_the_formula(dim):
    table = sinusoid(50, dim)
    assert table.shape == (50, dim)
    for pos in (0, 1, 7, 49):
        for column in range(dim):
            i = column // 2
            wave = math.cos if column % 2 else math.sin
            assert table[pos, column].item() == pytest.approx(wave(pos / 10000 ** (2 * i / dim)), abs=1e-5)


def test_sinusoid_stays_true_far_away():
    pos = torch.arange(4096, dtype=torch.float64)[:, None]
    exact = torch.sin(pos / 10000 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64))
    torch.testing.assert_close(sinusoid(4096, 64)[:, 0::2].double(), exact, rtol=0, atol=1e-3)


def test_sinusoid_is_bounded_and_gives_consistent_distances():
    """A step of n is one and the same rotation wherever it starts: products depend on the distance alone."""
    table = sinusoid(60, 32)
    assert table.abs().max() <= 1
    products = table @ table.T
    for step in (0, 1, 5):
        line = products.diagonal(step)
        torch.testing.assert_close(line, line[0].expand_as(line), rtol=1e-4, atol=1e-4)


def test_sinusoid_saves_parameters_and_its_table_is_in_no_checkpoint():
    module = Sinusoid(10, 8)
    assert list(module.parameters()) == [] and module.state_dict() == {}
    assert module(torch.tensor([[3, 0]])).equal(sinusoid(10, 8)[[3, 0]][None])


@pytest.mark.parametrize("kind", [Sinusoid, Learned])
def test_absent_tokens_have_a_vector_all_the_same(kind):
    """Which one does not matter, since none looks at it; but -1 must not be an error."""
    out = kind(10, 8)(torch.tensor([[-1, 0, 9]]))
    assert out.shape == (1, 3, 8) and out.isfinite().all()


def test_learned_is_one_vector_per_position():
    module = Learned(10, 8)
    out = module(torch.tensor([[0, 2, 2]]))
    assert out.equal(module.table_TD[[0, 2, 2]][None])
    out.sum().backward()
    assert module.table_TD.grad.sum(1).tolist() == [8, 0, 16, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", [Sinusoid, Learned])
def test_beyond_the_table_is_an_error_and_not_another_position(kind):
    with pytest.raises(IndexError):
        kind(10, 8)(torch.tensor([[10]]))
