"""Attention against torch's, the fused kernel against the plain equation, and the rule on empty rows."""

import pytest
import torch

from heedful.nn import Attention, KeysValues, attend_plainly, attention, causal, exists, positions
from heedful.nn.attention import attend, attend_fused
from heedful.nn.dropout import keep_scaled
from tests.nn.reference import SAME, assert_same_gradients, stir, torch_attention

WAYS = {
    "plain": lambda *qkv, **mask: attend_plainly(*qkv, **mask)[0],
    "fused": attend_fused,
    "registers": attend,  # in training on a CPU: plain, over rows as wide as whole registers
}
SEEN = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], dtype=torch.bool)  # the second is left-padded


def queries_keys_values(T: int = 5, S: int = 5, dtype=torch.float32):
    return [torch.randn(2, 3, n, 4, dtype=dtype, requires_grad=True) for n in (T, S, S)]


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("source_length", [5, 9])
def test_attention_is_torch_multihead_attention(heads, source_length):
    """Outputs, weights of every head, and gradients of input, source and all parameters."""
    ours = stir(Attention(8, heads))
    theirs = torch_attention(ours)
    inputs = [torch.randn(2, n, 8, requires_grad=True) for n in (5, source_length)]
    copies = [x.detach().clone().requires_grad_() for x in inputs]
    seen = torch.ones(2, source_length, dtype=torch.bool)
    seen[1, -2:] = False
    pos_T, pos_S = torch.arange(5).repeat(2, 1), positions(seen)
    weights = []
    ours.weights.register_forward_hook(lambda _, __, w: weights.append(w))

    y = ours(inputs[0], ours.remember(inputs[1]), exists(pos_T, pos_S))
    z, w = theirs(copies[0], copies[1], copies[1], key_padding_mask=~seen, average_attn_weights=False)
    torch.testing.assert_close(y, z, **SAME)
    torch.testing.assert_close(weights[0], w, **SAME)
    for out in (y, z):
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    for x, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(x.grad, copy.grad, **SAME)
    assert_same_gradients(theirs, ours)


def test_weights_can_be_watched_without_changing_the_output():
    layer, x, pos = Attention(8, 2), torch.randn(2, 5, 8), torch.arange(5).repeat(2, 1)
    unwatched = layer(x, layer.remember(x), causal(pos, pos))
    weights = []
    hook = layer.weights.register_forward_hook(lambda _, __, w: weights.append(w))
    torch.testing.assert_close(layer(x, layer.remember(x), causal(pos, pos)), unwatched, **SAME)
    hook.remove()
    layer(x, layer.remember(x), causal(pos, pos))
    assert len(weights) == 1 and weights[0].shape == (2, 2, 5, 5)
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 2, 5))


@pytest.mark.parametrize("way", WAYS)
def test_masked_attention_fixes_the_cheating_problem(way):
    """The exercise of the lectures, by gradient: output `ind` knows only the first `ind` rows of V, K."""
    q, k, v = queries_keys_values()
    pos = torch.arange(5).repeat(2, 1)
    H = WAYS[way](q, k, v, keep_BTS=causal(pos, pos), rate=0.0)
    for ind in range(5):
        of_k, of_v = torch.autograd.grad(H[:, :, ind].square().sum(), (k, v), retain_graph=True)
        assert (of_k[:, :, ind + 1 :] == 0).all() and (of_v[:, :, ind + 1 :] == 0).all()
        assert (of_v[:, :, : ind + 1] != 0).all(), "what has been said is not known"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_a_query_with_no_key_gets_zeros(way, dtype):
    """Exactly zeros, no NaN, and no gradient passes; the other queries are as ever."""
    q, k, v = queries_keys_values(dtype=dtype)
    pos = positions(SEEN)
    keep = causal(pos, pos)
    out = WAYS[way](q, k, v, keep_BTS=keep, rate=0.0)
    assert not keep[1, :2].any() and (out[1, :, :2] == 0).all()
    assert (out[0] != 0).all() and (out[1, :, 2:] != 0).all()
    out.square().sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert (x.grad[1, :, :2] == 0).all()


@pytest.mark.parametrize("way", WAYS)
def test_no_query_has_a_key(way):
    """A whole sentence of padding, where the mask does not care about the query."""
    q, k, v = queries_keys_values()
    pos = torch.full((2, 5), -1)
    out = WAYS[way](q, k, v, keep_BTS=exists(pos, pos), rate=0.0)
    out.sum().backward()
    assert (out == 0).all() and all((x.grad == 0).all() for x in (q, k, v))


def test_zeros_in_half_precision_too():
    """There the lowest number plus any negative score is -inf, and a row of these would be NaN."""
    q = torch.full((1, 1, 2, 4), 20.0, dtype=torch.float16)
    keep = torch.tensor([[[True, False], [False, False]]])
    out, weights = attend_plainly(q, -q, q, keep_BTS=keep)
    assert (out[0, 0, 1] == 0).all() and weights[0, 0].tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("way", ["fused", "registers"])
@pytest.mark.parametrize("mask", [exists, causal])
@pytest.mark.parametrize("T, S", [(5, 5), (2, 5), (1, 5), (5, 16), (5, 200)])
def test_fast_ways_are_the_plain_one_with_its_gradients(way, mask, T, S):
    seen = torch.ones(2, S, dtype=torch.bool)
    seen[1, :2] = False
    pos_S = positions(seen)
    keep = mask(pos_S[:, -T:], pos_S)
    q, k, v = queries_keys_values(T, S)
    outs = [WAYS[name](q, k, v, keep_BTS=keep, rate=0.0) for name in ("plain", way)]
    torch.testing.assert_close(*outs, **SAME)
    weigh = torch.randn_like(outs[0])
    plain, fast = (torch.autograd.grad((out * weigh).sum(), (q, k, v)) for out in outs)
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, **SAME)


@pytest.mark.parametrize("S", [5, 100, 600])
@pytest.mark.parametrize(
    "dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.02)]
)
@pytest.mark.parametrize("training", [True, False])
def test_attend_gives_the_same_whichever_way_it_takes(S, dtype, near, training):
    exact = queries_keys_values(5, S, dtype=torch.float64)
    keep = torch.ones(2, 1, S, dtype=torch.bool)
    expected = attend_plainly(*exact, keep_BTS=keep)[0]
    q, k, v = (x.detach().to(dtype).requires_grad_(training) for x in exact)
    torch.testing.assert_close(attend(q, k, v, keep_BTS=keep).double(), expected, rtol=near, atol=near)


@pytest.mark.parametrize("tiles", [True, False])
def test_a_step_of_greedy_search_is_the_same_with_tiles_and_without(monkeypatch, tiles):
    """A processor with tiles (AMX) takes the fused kernel for one query in bfloat16."""
    monkeypatch.setattr(attention, "TILES", tiles)
    q, k, v = (x.detach().bfloat16() for x in queries_keys_values(1, 40))
    assert attention.prefers_fused(q, k) == tiles
    keep = torch.arange(40)[None, None] < torch.tensor([7, 40])[:, None, None]
    expected = attend_plainly(q.double(), k.double(), v.double(), keep_BTS=keep)[0]
    torch.testing.assert_close(attend(q, k, v, keep_BTS=keep).double(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("way", WAYS)
def test_dropped_weights_keep_the_mean(way):
    q, k, v = torch.randn(3, 1, 2, 6, 4)
    keep = torch.ones(1, 1, 6, dtype=torch.bool)
    whole = WAYS[way](q, k, v, keep_BTS=keep, rate=0.0)
    mean = sum(WAYS[way](q, k, v, keep_BTS=keep, rate=0.25) for _ in range(2000)) / 2000
    torch.testing.assert_close(mean, whole, rtol=0, atol=0.1)


def test_dropped_weights_get_no_gradient():
    """What the numbers on the way back are: those of the very same mask, done by torch."""
    q, k, v = queries_keys_values()
    keep = torch.ones(2, 1, 5, dtype=torch.bool)
    torch.manual_seed(1)  # the mask is drawn for rows as wide as whole registers
    dropped = keep_scaled(torch.empty(2, 3, 5, 16), 0.5)[..., :5]
    expected = (attend_plainly(q, k, v, keep_BTS=keep)[1] * dropped) @ v
    torch.manual_seed(1)
    outs = (expected, attend(q, k, v, keep_BTS=keep, rate=0.5))
    grads = [torch.autograd.grad(out.square().sum(), (q, k, v)) for out in outs]
    for one, other in zip((outs[0], *grads[0]), (outs[1], *grads[1]), strict=True):
        torch.testing.assert_close(one, other, **SAME)


def test_dropout_is_for_training_only():
    layer, x, pos = Attention(8, 2, dropout=0.5), torch.randn(2, 5, 8), torch.zeros(2, 5)
    run = lambda: layer(x, layer.remember(x), exists(pos, pos))  # noqa: E731
    assert not run().equal(run())
    layer.eval()
    assert run().equal(run())


def test_keys_and_values_gathered_bit_by_bit_are_those_of_the_whole():
    layer, x = Attention(8, 2), torch.randn(3, 6, 8)
    whole = layer.remember(x)
    first, rest = layer.remember(x[:, :1]), layer.remember(x[:, 1:])
    joined = first.extend(rest)
    torch.testing.assert_close(joined.k_BHSK, whole.k_BHSK)
    torch.testing.assert_close(joined.v_BHSK, whole.v_BHSK)
    assert first.k_BHSK.shape[2] == 1, "extend gives a new value, and leaves the old"
    rows = torch.tensor([2, 2, 0])
    assert joined.select(rows).k_BHSK.equal(joined.k_BHSK[rows])
    assert isinstance(joined.select(rows), KeysValues)


def test_width_must_split_into_the_heads():
    with pytest.raises(ValueError, match="dim 10 cannot be split into 4 heads"):
        Attention(10, 4)


def test_starts_as_if_query_key_and_value_were_matrices_of_their_own():
    """Xavier bounds depend on the shape: packed, keys and values would start too small."""
    layer = Attention(64, 4)
    bound = (6 / 128) ** 0.5
    for weight in (layer.query.weight, *layer.key_value.weight.chunk(2), layer.out.weight):
        assert 0.95 * bound < weight.abs().max() <= bound
