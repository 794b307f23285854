"""Torch's own layers with our weights: what the core is held to.

`pairs` says which weight of theirs is which of ours, once: for copying, and for comparing gradients.
"""

from collections.abc import Iterator

import torch
from torch import nn

from heedful.nn import Attention, Block, Stack
from heedful.nn.block import StackShape

SAME = {"rtol": 1e-5, "atol": 1e-5}


def pairs(theirs: nn.Module, ours: nn.Module) -> Iterator[tuple[nn.Parameter, tuple[nn.Parameter, ...]]]:
    """(a weight of theirs, those of ours that it is made of)."""
    if isinstance(ours, Stack):
        for layer, block in zip(theirs.layers, ours.blocks, strict=True):
            yield from pairs(layer, block)
        if theirs.norm is not None:
            yield from pairs(theirs.norm, ours.norm)
    elif isinstance(ours, Block):
        yield from block_pairs(theirs, ours)
    elif isinstance(ours, Attention):
        # They keep one matrix for queries, keys, values; we one for queries, one for keys and values.
        yield theirs.in_proj_weight, (ours.query.weight, ours.key_value.weight)
        yield theirs.in_proj_bias, (ours.query.bias, ours.key_value.bias)
        yield from pairs(theirs.out_proj, ours.out)
    else:
        yield theirs.weight, (ours.weight,)
        yield theirs.bias, (ours.bias,)


def block_pairs(theirs: nn.Module, ours: Block):
    residuals = [ours.self_residual, ours.ff_residual]
    yield from pairs(theirs.self_attn, ours.self_attention)
    if hasattr(ours, "cross_attention"):
        yield from pairs(theirs.multihead_attn, ours.cross_attention)
        residuals.insert(1, ours.cross_residual)
    for i, residual in enumerate(residuals, start=1):
        yield from pairs(getattr(theirs, f"norm{i}"), residual.norm)
    yield from pairs(theirs.linear1, ours.ff.up)
    yield from pairs(theirs.linear2, ours.ff.down)


def copied(theirs: nn.Module, ours: nn.Module) -> nn.Module:
    for their, mine in pairs(theirs, ours):
        their.data = torch.cat([p.data for p in mine])
    return theirs


def assert_same_gradients(theirs: nn.Module, ours: nn.Module):
    compared = 0
    for their, mine in pairs(theirs, ours):
        torch.testing.assert_close(torch.cat([p.grad for p in mine]), their.grad, **SAME)
        compared += their.numel()
    assert compared == sum(p.numel() for p in ours.parameters()), "a weight has no partner"


def torch_attention(ours: Attention) -> nn.MultiheadAttention:
    return copied(nn.MultiheadAttention(ours.out.in_features, ours.heads, batch_first=True), ours)


def torch_stack(ours: Stack, shape: StackShape) -> nn.Module:
    """In training mode, without dropout: out of it, torch would take a shortcut of its own."""
    s, crosses = shape, hasattr(ours.blocks[0], "cross_attention")
    kind = nn.TransformerDecoderLayer if crosses else nn.TransformerEncoderLayer
    pre = s.norm == "pre"
    layer = kind(s.dim, s.heads, s.ff, 0.0, s.activation, batch_first=True, norm_first=pre)
    norm = nn.LayerNorm(s.dim) if pre else None
    if crosses:
        return copied(nn.TransformerDecoder(layer, s.layers, norm), ours)
    return copied(nn.TransformerEncoder(layer, s.layers, norm, enable_nested_tensor=False), ours)


def stir(module: nn.Module) -> nn.Module:
    """Random biases and norms too: at zeros and ones a mistake in them would not show."""
    for p in module.parameters():
        if p.dim() == 1:
            p.data = p.data + 0.3 * torch.randn_like(p)
    return module
