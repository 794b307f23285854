"""Block and Stack against torch's encoder and decoder, and what their masks, caches and order promise."""

import itertools

import pytest
import torch
from torch import nn

from heedful.nn import Attention, Block, Embed, Residual, Sinusoid, Stack, causal, exists, positions, window
from heedful.nn.block import FeedForward, StackShape
from tests.nn.reference import SAME, assert_same_gradients, stir, torch_stack

KINDS = list(itertools.product(["pre", "post"], ["relu", "gelu"]))
SEEN = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], dtype=torch.bool)


def shape(norm: str = "pre", activation: str = "relu", dropout: float = 0.0) -> StackShape:
    return StackShape(dim=8, heads=2, layers=2, ff=12, dropout=dropout, norm=norm, activation=activation)


def weighted_sum(y, keep):
    """A loss that asks for something else of every number, and nothing of padding."""
    return (y * torch.linspace(-1, 1, y.numel()).view_as(y))[keep].sum()


@pytest.mark.parametrize("norm, activation", KINDS)
def test_encoder_is_torch_transformer_encoder(norm, activation):
    ours = stir(Stack(shape(norm, activation), exists))
    theirs = torch_stack(ours, shape(norm, activation))
    x = torch.randn(2, 6, 8, requires_grad=True)
    copy = x.detach().clone().requires_grad_()
    y, _ = ours(x, positions(SEEN))
    z = theirs(copy, src_key_padding_mask=~SEEN)
    torch.testing.assert_close(y[SEEN], z[SEEN], **SAME)
    weighted_sum(y, SEEN).backward()
    weighted_sum(z, SEEN).backward()
    torch.testing.assert_close(x.grad, copy.grad, **SAME)
    assert_same_gradients(theirs, ours)


@pytest.mark.parametrize("norm, activation", KINDS)
def test_decoder_is_torch_transformer_decoder(norm, activation):
    """Four target tokens over a padded memory of six."""
    ours = stir(Stack(shape(norm, activation), causal, crosses=True))
    theirs = torch_stack(ours, shape(norm, activation))
    inputs = [torch.randn(2, n, 8, requires_grad=True) for n in (4, 6)]
    copies = [x.detach().clone().requires_grad_() for x in inputs]
    memory = ours.remember(inputs[1], positions(SEEN))
    y, _ = ours(inputs[0], torch.arange(4).repeat(2, 1), memory=memory)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    z = theirs(*copies, tgt_mask=future, memory_key_padding_mask=~SEEN)
    torch.testing.assert_close(y, z, **SAME)
    for out in (y, z):
        weighted_sum(out, torch.ones(2, 4, dtype=torch.bool)).backward()
    for x, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(x.grad, copy.grad, **SAME)
    assert_same_gradients(theirs, ours)


@pytest.mark.parametrize("N", [1, 2, 9])
def test_a_set_of_vectors_becomes_one_of_the_same_size(N):
    """N x D in, N x D out, whatever N: so layers can stand on each other."""
    x, pos = torch.randn(2, N, 8), torch.arange(N).repeat(2, 1)
    y, _ = Stack(shape(), exists)(x, pos)
    again, _ = Stack(shape(), exists)(y, pos)
    assert y.shape == again.shape == x.shape


def test_six_layers_of_eight_heads_are_the_original():
    """As large as torch's, which has a norm more after each of the two stacks."""
    original = StackShape(dim=512, heads=8, layers=6, ff=2048, norm="post")
    with torch.device("meta"):
        theirs = nn.Transformer(batch_first=True)
        ours = nn.ModuleList([Stack(original, exists), Stack(original, causal, crosses=True)])
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert sizes == [44_138_496, 44_138_496 + 4 * 512]
    assert [[block.self_attention.heads for block in stack.blocks] for stack in ours] == [[8] * 6] * 2


def test_residual_is_pre_norm_or_post_norm():
    x, y = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    pre, post = (stir(Residual(8, 0.0, norm)) for norm in ("pre", "post"))
    torch.testing.assert_close(pre.enter(x), pre.norm(x))
    torch.testing.assert_close(pre.leave(x, y), x + y)
    torch.testing.assert_close(post.enter(x), x)
    torch.testing.assert_close(post.leave(x, y), post.norm(x + y))


def test_an_unknown_norm_is_refused_and_not_taken_for_another():
    with pytest.raises(ValueError, match="pre, post, not Pre"):
        Residual(8, 0.0, "Pre")


def test_layer_norm_is_over_each_token_by_itself():
    """Mean 0 and variance 1 over the width, whatever else is in the batch."""
    x = 5 * torch.randn(2, 3, 64) + 2
    y = Residual(64, 0.0, "pre").enter(x)
    torch.testing.assert_close(y.mean(-1), torch.zeros(2, 3), rtol=0, atol=1e-5)
    torch.testing.assert_close(y.var(-1, unbiased=False), torch.ones(2, 3), rtol=0, atol=1e-4)
    torch.testing.assert_close(Residual(64, 0.0, "pre").enter(x[1:, 2:]), y[1:, 2:])


def test_feed_forward_sees_one_token_at_a_time():
    """max(0, x W1 + b1) W2 + b2."""
    ff, x = stir(FeedForward(8, 12, "relu")), torch.randn(2, 5, 8)
    written_out = (x @ ff.up.weight.T + ff.up.bias).clamp(min=0) @ ff.down.weight.T + ff.down.bias
    torch.testing.assert_close(ff(x), written_out)
    torch.testing.assert_close(ff(x)[:, 2], ff(x[:, 2]))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_causality_by_gradient(norm):
    stack, x = Stack(shape(norm), causal), torch.randn(2, 5, 8, requires_grad=True)
    y, _ = stack(x, torch.arange(5).repeat(2, 1))
    for t in range(5):
        (grad,) = torch.autograd.grad(y[:, t].square().sum(), x, retain_graph=True)
        assert (grad[:, t + 1 :] == 0).all() and (grad[:, : t + 1] != 0).any(-1).all()


def test_without_the_mask_a_decoder_can_cheat():
    """The first attempt of the lectures: a token is predicted from itself."""
    stack, x = Stack(shape(), exists, crosses=True), torch.randn(1, 5, 8, requires_grad=True)
    pos = torch.arange(5)[None]
    y, _ = stack(x, pos, memory=stack.remember(torch.randn(1, 5, 8), pos))
    (grad,) = torch.autograd.grad(y[:, 0].square().sum(), x)
    assert (grad[:, 1:] != 0).any(-1).all()


def test_one_layer_relates_the_first_token_to_the_last():
    """However far apart: the number of steps between two tokens does not grow with the distance."""
    block, x = Block(shape(), crosses=False), torch.randn(1, 100, 8, requires_grad=True)
    pos = torch.arange(100)[None]
    y, _ = block.look_within(x, exists(pos, pos), None)
    (grad,) = torch.autograd.grad(y[:, 99].square().sum(), x)
    assert (grad[:, 0] != 0).any()


def test_window_reaches_one_step_further_with_every_layer():
    """Two layers that look at most 2 back: 4 back in all."""
    stack, x = Stack(shape(), causal & window(3)), torch.randn(1, 8, 8, requires_grad=True)
    y, _ = stack(x, torch.arange(8)[None])
    (grad,) = torch.autograd.grad(y[:, 7].square().sum(), x)
    assert (grad != 0).any(-1)[0].tolist() == [False] * 3 + [True] * 5


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_encoder_without_positions_is_permutation_equivariant(norm):
    """{"I", "am", "happy"} looks the same as {"am", "I", "happy"}: a set, and not a sequence."""
    stack, order = Stack(shape(norm), exists), torch.tensor([3, 0, 4, 1, 2])
    pos, ids = torch.arange(5).repeat(2, 1), torch.randint(10, (2, 5))
    as_set, as_sequence = Embed(10, 8, None, 0.0), Embed(10, 8, Sinusoid(5, 8), 0.0)
    run = lambda embed, ids: stack(embed(ids, pos), pos)[0]  # noqa: E731
    torch.testing.assert_close(run(as_set, ids[:, order]), run(as_set, ids)[:, order], **SAME)
    assert not run(as_sequence, ids[:, order]).allclose(run(as_sequence, ids)[:, order], atol=1e-2)


def test_length_of_the_target_is_the_length_of_the_output():
    stack = Stack(shape(), causal, crosses=True)
    for T, S in [(1, 1), (2, 7), (7, 2)]:
        memory = stack.remember(torch.randn(3, S, 8), torch.arange(S).repeat(3, 1))
        y, _ = stack(torch.randn(3, T, 8), torch.arange(T).repeat(3, 1), memory=memory)
        assert y.shape == (3, T, 8)


def test_cross_attention_takes_what_the_source_has_and_nothing_of_its_padding():
    stack, source = Stack(shape(), causal, crosses=True), torch.randn(2, 6, 8, requires_grad=True)
    memory = stack.remember(source, positions(SEEN))
    y, _ = stack(torch.randn(2, 3, 8), torch.arange(3).repeat(2, 1), memory=memory)
    (grad,) = torch.autograd.grad(y.square().sum(), source)
    assert (grad != 0).any(-1).equal(SEEN)


def chunkings(n: int):
    """All ways to cut n tokens into pieces, as lists of lengths."""
    if n == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n + 1) for rest in chunkings(n - first)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("crosses", [False, True])
@pytest.mark.parametrize("mask", [causal, causal & window(2)])
def test_cached_is_uncached_in_any_chunking(mask, crosses, grad):
    """With a row that is padded on the left, too: its absent tokens stay absent in the cache."""
    stack, x = stir(Stack(shape(), mask, crosses)), torch.randn(2, 5, 8)
    pos = positions(torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], dtype=torch.bool))
    memory = stack.remember(torch.randn(2, 6, 8), positions(SEEN)) if crosses else None
    whole, last = stack(x, pos, memory=memory)
    for sizes in chunkings(5):
        outs, state = [], None
        for x_chunk, pos_chunk in zip(x.split(sizes, 1), pos.split(sizes, 1), strict=True):
            with torch.set_grad_enabled(grad):
                out, state = stack(x_chunk, pos_chunk, state, memory)
            outs.append(out)
        torch.testing.assert_close(torch.cat(outs, 1)[pos >= 0], whole[pos >= 0], **SAME)
        assert state.pos_BS.equal(last.pos_BS)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("mask", [exists, causal])
def test_left_pad_is_right_pad_is_no_pad(norm, mask):
    """Outputs and gradients of a sentence of 4, alone and beside one of 6."""
    stack, short, long = stir(Stack(shape(norm), mask)), torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    room = torch.full((1, 2, 8), 100.0)
    padded = {"none": short, "right": torch.cat([short, room], 1), "left": torch.cat([room, short], 1)}
    outs, grads = {}, {}
    for side, x in padded.items():
        seen = (x != 100).all(-1)
        batch = x if side == "none" else torch.cat([long, x])
        keep = seen if side == "none" else torch.cat([torch.ones(1, 6, dtype=torch.bool), seen])
        y, _ = stack(batch, positions(keep))
        outs[side] = y[-1:][seen]
        (grads[side],) = torch.autograd.grad(outs[side].square().sum(), stack.blocks[0].ff.up.weight)
    for side in ("left", "right"):
        torch.testing.assert_close(outs[side], outs["none"], **SAME)
        torch.testing.assert_close(grads[side], grads["none"], **SAME)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_long_sequences_take_the_fused_kernel_and_stay_the_same(norm):
    """200 tokens at once (fused) against the same tokens a few at a time (plain: FEW)."""
    stack, x, pos = Stack(shape(norm), causal), torch.randn(1, 200, 8), torch.arange(200)[None]
    whole, _ = stack(x, pos)
    parts, state = [], None
    for start in range(0, 200, 10):
        part, state = stack(x[:, start : start + 10], pos[:, start : start + 10], state)
        parts.append(part)
    torch.testing.assert_close(whole, torch.cat(parts, dim=1), **SAME)


def test_dropout_is_on_the_output_of_each_sublayer():
    """x + dropout(f(x)): at rate 1/2 half of f(x) is missing, and x itself never."""
    residual, x, y = Residual(64, 0.5, "pre"), torch.randn(4, 50, 64), torch.randn(4, 50, 64)
    added = residual.leave(x, y) - x
    dropped = added.abs() < 1e-6
    assert 0.45 < dropped.float().mean() < 0.55
    torch.testing.assert_close(added[~dropped], 2 * y[~dropped], rtol=1e-3, atol=1e-5)


def test_only_a_block_that_crosses_has_cross_attention():
    for kind, counts in ((nn.LayerNorm, [2, 3]), (Attention, [1, 2])):
        blocks = [Block(shape(), crosses=crosses) for crosses in (False, True)]
        assert [sum(isinstance(m, kind) for m in block.modules()) for block in blocks] == counts
    assert isinstance(Stack(shape("post"), exists).norm, nn.Identity)
