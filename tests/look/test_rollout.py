import pytest
import torch

from heedful.look import rollout


def weights(layers, T, causal=False):
    torch.manual_seed(1)
    score = torch.randn(layers, 2, T, T)
    if causal:
        score.masked_fill_(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
    return list(score.softmax(-1))


def test_rows_sum_to_one():
    assert torch.allclose(rollout(weights(4, 6)).sum(-1), torch.ones(6))


def test_one_layer_is_half_attention_half_residual():
    (only,) = weights(1, 5)
    assert torch.allclose(rollout([only]), (only.mean(0) + torch.eye(5)) / 2)


def test_later_layers_look_through_earlier_ones():
    """Token 2 looks at 1 in the last layer, and 1 at 0 in the first: 0 reaches 2."""
    first, last = torch.eye(3), torch.eye(3)
    first[1], last[2] = torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0])
    assert rollout([first[None], last[None]])[2].tolist() == [0.25, 0.25, 0.5]
    assert rollout([last[None], first[None]])[2, 0] == 0


def test_the_past_stays_blind_to_the_future():
    flow_TT = rollout(weights(3, 5, causal=True))
    assert torch.equal(flow_TT, flow_TT.tril())


def test_a_token_that_sees_nothing_keeps_itself():
    assert torch.equal(rollout([torch.zeros(1, 3, 3)] * 2), torch.eye(3))


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(ValueError, match="at least one layer"):
        rollout([])
    with pytest.raises(ValueError, match="self-attention"):
        rollout([torch.ones(1, 3, 4)])
    with pytest.raises(ValueError, match="self-attention"):
        rollout([torch.ones(1, 3, 3), torch.ones(1, 4, 4)])
