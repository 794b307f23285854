"""The steps of the lectures, each against the equation written out in sums."""

import pytest
import torch

from heedful.nn import Attention, exists
from heedful.nn.steps import (
    QueryKeyValue,
    SingleHead,
    WideHeads,
    attention,
    dot_attention,
    learned_attention,
    mask_attention,
    scaled_attention,
)


def test_dot_attention_is_the_sum_of_the_slide():
    """y_n = sum_m a_nm x_m, a_nm = exp(x_n . x_m) / sum_m' exp(x_n . x_m')."""
    x = torch.randn(1, 4, 3)
    for n in range(4):
        likeness = torch.stack([torch.exp(x[0, n] @ x[0, m]) for m in range(4)])
        a = likeness / likeness.sum()
        assert (a >= 0).all() and a.sum().item() == pytest.approx(1)
        torch.testing.assert_close(dot_attention(x)[0, n], sum(a[m] * x[0, m] for m in range(4)))


def test_learned_attention_is_the_equation_with_u():
    x, u = torch.randn(1, 4, 3), torch.randn(3, 3)
    expected = torch.softmax(x @ u @ u.T @ x.mT, -1) @ x @ u
    torch.testing.assert_close(learned_attention(x, u), expected, rtol=1e-4, atol=1e-5)


def test_query_key_value_with_one_matrix_for_all_is_learned_attention():
    x, trinity = torch.randn(2, 4, 3), QueryKeyValue(3)
    u = trinity.query.weight
    trinity.key.weight = trinity.value.weight = u
    torch.testing.assert_close(trinity(x), learned_attention(x, u.T))


def test_query_key_and_value_are_three_matrices():
    x, own = torch.randn(2, 4, 3), QueryKeyValue(3)
    q, k, v = (x @ linear.weight.T for linear in (own.query, own.key, own.value))
    torch.testing.assert_close(own(x), torch.softmax(q @ k.mT, -1) @ v)


def test_scaled_keeps_the_slope_of_the_softmax_when_the_width_is_large():
    """Why it is divided: without it, the softmax is all but a hard choice, and learns nothing."""
    q, k, rows = torch.randn(1, 64, 512), torch.randn(1, 8, 512), torch.eye(8)[None]
    torch.testing.assert_close(scaled_attention(q, k, rows), attention(q * 512**-0.5, k, rows))
    slope = {f: (a := f(q, k, rows)).mul(1 - a).median() for f in (attention, scaled_attention)}
    assert slope[scaled_attention] > 0.05 and slope[attention] < 1e-4


def test_mask_attention_is_the_matrix_of_the_slide():
    """Each row of H holds only the rows of V up to its own, with weights that sum to 1."""
    q, k, v = torch.randn(3, 1, 4, 2)
    H, A = mask_attention(q, k, v), mask_attention(q, k, torch.eye(4)[None])
    assert (A.triu(1) == 0).all()
    torch.testing.assert_close(A.sum(-1), torch.ones(1, 4))
    torch.testing.assert_close(H, A @ v)
    torch.testing.assert_close(H[:, 3], scaled_attention(q, k, v)[:, 3])  # the last may see all


def test_single_head_across_has_the_length_of_the_one_that_asks():
    target, source = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    head = SingleHead(8)
    assert head(target, source).shape == (2, 3, 8)
    torch.testing.assert_close(head(target), head(target, target))


def production(dim: int, heads: int):
    """Attention as a plain function of x, each token seeing all."""
    layer = Attention(dim, heads)
    pos = torch.arange(5).repeat(2, 1)
    return layer, lambda x: layer(x, layer.remember(x), exists(pos, pos))


def test_split_heads_with_one_head_are_the_single_head_and_its_output_projection():
    """v1.5 with one head: the production module is the lectures' equation."""
    single, (layer, run) = SingleHead(8), production(8, heads=1)
    layer.query.weight.data = single.query.weight.data
    layer.key_value.weight.data = torch.cat([single.key.weight.data, single.value.weight.data])
    assert not any(linear.bias.any() for linear in (layer.query, layer.key_value, layer.out))
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(run(x), single(x) @ layer.out.weight.T)


def test_wide_heads_with_one_head_are_split_heads_with_one_head():
    wide, (layer, run) = WideHeads(8, heads=1), production(8, heads=1)
    single = wide.heads[0]
    layer.query.weight.data = single.query.weight.data
    layer.key_value.weight.data = torch.cat([single.key.weight.data, single.value.weight.data])
    layer.out.weight.data = wide.out.weight.data
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(run(x), wide(x))


def test_wide_heads_run_each_head_on_all_of_x_and_project_their_concatenation():
    wide, x = WideHeads(8, heads=3), torch.randn(2, 5, 8)
    concat = torch.cat([head(x) for head in wide.heads], -1)
    assert concat.shape == (2, 5, 24)
    torch.testing.assert_close(wide(x), concat @ wide.out.weight.T)


def test_split_heads_work_on_their_part_of_q_k_v_and_not_of_x():
    """The slide that was corrected: head 0 is made from all of x, and only its q, k, v are narrow."""
    layer, run = production(8, heads=2)
    x = torch.randn(2, 5, 8, requires_grad=True)
    q, (k, v) = layer.query(x), layer.key_value(x).chunk(2, -1)
    heads = [scaled_attention(q[..., h], k[..., h], v[..., h]) for h in (slice(0, 4), slice(4, 8))]
    torch.testing.assert_close(run(x), layer.out(torch.cat(heads, -1)))
    (reach,) = torch.autograd.grad(heads[0].sum(), x)
    assert (reach != 0).all()


def test_split_heads_cost_the_same_however_many_and_wide_heads_do_not():
    size = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    assert size(Attention(16, heads=1)) == size(Attention(16, heads=4))
    assert size(WideHeads(16, heads=4)) == 4 * size(WideHeads(16, heads=1))
