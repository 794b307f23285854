"""The optimizers: what a step does to a weight."""

import pytest
import torch

from heedful.config import TrainConfig
from heedful.train import optimizers


@pytest.mark.parametrize("shape", [(64, 64), (256, 64), (64, 256)])
def test_muon_moves_matrices_as_far_as_adamw_would(shape):
    """Or one rate could not serve both: with a rate 20 times Adam's, translators stopped learning early."""
    torch.manual_seed(0)
    weights = {"inner.weight": torch.nn.Parameter(torch.zeros(shape))}
    config = TrainConfig(lr=1e-3, optimizer="muon")
    moved = []
    for _ in range(5):
        before = weights["inner.weight"].detach().clone()
        weights["inner.weight"].grad = torch.randn(shape)
        for optimizer in optimizers.make({**weights, "norm.bias": torch.zeros(2)}, config):
            optimizer.step()
        moved.append(float((weights["inner.weight"].detach() - before).square().mean().sqrt()))
    assert max(moved) < 0.3 * config.lr and min(moved) > 0.1 * config.lr


def test_tables_of_vectors_are_left_to_adamw():
    weights = {"embed.table_VD": torch.zeros(8, 4), "block.weight": torch.zeros(4, 4)}
    first, second = optimizers.make(weights, TrainConfig(optimizer="muon"))
    assert [tuple(w.shape) for group in first.param_groups for w in group["params"]] == [(4, 4)]
    assert [tuple(w.shape) for group in second.param_groups for w in group["params"]] == [(8, 4)]


def test_adam_is_the_papers():
    """Betas 0.9 and 0.98, epsilon 1e-9: two steps, written out."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(3, 4))
    (adam,) = optimizers.make({"weight": weight}, TrainConfig(lr=0.01, optimizer="adam"))
    expected, first, second = weight.detach().clone(), torch.zeros(3, 4), torch.zeros(3, 4)
    for step in (1, 2):
        weight.grad = torch.randn(3, 4)
        first, second = 0.9 * first + 0.1 * weight.grad, 0.98 * second + 0.02 * weight.grad**2
        scale = (second / (1 - 0.98**step)).sqrt() + 1e-9
        expected -= 0.01 * first / (1 - 0.9**step) / scale
        adam.step()
        torch.testing.assert_close(weight.detach(), expected)
