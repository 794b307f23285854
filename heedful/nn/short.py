"""Attention over few keys on a CPU: the equation of `attend_plainly`, with its gradient by hand.

With a dozen keys the products cost nothing; what costs is all that surrounds them. So: one float32
copy of q, k and v instead of several casts, sums in place, and rows as wide as whole vector
registers, since the softmax over a row of 14 takes ten times as long as that over a row of 16.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from heedful.nn.dropout import keep_scaled

LANES = 16  # float32 numbers in the widest vector register


def attend_short(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, keep_BTS: Tensor, rate: float = 0.0):
    """The weighted sum of values; a query that may look at no key gets zeros."""
    keep_BTS = pad(keep_BTS, (0, -keep_BTS.shape[2] % LANES))
    bias_BTS = torch.zeros(keep_BTS.shape).masked_fill_(~keep_BTS, torch.finfo(torch.float32).min / 2)
    sees_BT = keep_BTS.any(-1)
    blind_BT = None if sees_BT.all() else ~sees_BT
    return ShortAttention.apply(q_BHTK, k_BHSK, v_BHSK, bias_BTS, blind_BT, rate)


def widened(x_BHSK: Tensor, S: int) -> Tensor:
    """A float32 copy with S rows: its own, then zeros."""
    B, H, own, K = x_BHSK.shape
    out_BHSK = torch.empty(B, H, S, K)
    out_BHSK[:, :, :own] = x_BHSK
    out_BHSK[:, :, own:] = 0
    return out_BHSK


def as_heads_of(x_BHTK: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """The first rows in `dtype`, laid out so that joining the heads needs no copy."""
    B, H, _, K = x_BHTK.shape
    out_BTHK = torch.empty(B, length, H, K, dtype=dtype)
    return out_BTHK.transpose(1, 2).copy_(x_BHTK[:, :, :length])


class ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q_BHTK, k_BHSK, v_BHSK, bias_BTS, blind_BT, rate):
        ctx.like = q_BHTK.dtype, q_BHTK.shape[2], k_BHSK.shape[2]
        ctx.scale = q_BHTK.shape[-1] ** -0.5
        q_BHTK = widened(q_BHTK, q_BHTK.shape[2]).mul_(ctx.scale)
        k_BHSK, v_BHSK = (widened(x, bias_BTS.shape[2]) for x in (k_BHSK, v_BHSK))
        score_BHTS = (q_BHTK @ k_BHSK.transpose(-1, -2)).add_(bias_BTS[:, None])
        weight_BHTS = score_BHTS.softmax(-1)
        if blind_BT is not None:
            weight_BHTS.masked_fill_(blind_BT[:, None, :, None], 0.0)
        drop_BHTS = keep_scaled(weight_BHTS, rate) if rate else None
        used_BHTS = weight_BHTS if drop_BHTS is None else weight_BHTS * drop_BHTS
        ctx.save_for_backward(q_BHTK, k_BHSK, v_BHSK, weight_BHTS, drop_BHTS)
        return as_heads_of(used_BHTS @ v_BHSK, q_BHTK.shape[2], ctx.like[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out_BHTK):
        q_BHTK, k_BHSK, v_BHSK, weight_BHTS, drop_BHTS = ctx.saved_tensors
        dtype, T, S = ctx.like
        d_out_BHTK = widened(d_out_BHTK, T)
        d_weight_BHTS = d_out_BHTK @ v_BHSK.transpose(-1, -2)
        used_BHTS = weight_BHTS
        if drop_BHTS is not None:
            used_BHTS, d_weight_BHTS = weight_BHTS * drop_BHTS, d_weight_BHTS.mul_(drop_BHTS)
        # d score = weight * (d weight - sum over keys of weight * d weight)
        d_score_BHTS = torch._softmax_backward_data(d_weight_BHTS, weight_BHTS, -1, torch.float32)
        d_q_BHTK = (d_score_BHTS @ k_BHSK).mul_(ctx.scale)
        d_k_BHSK = d_score_BHTS.transpose(-1, -2) @ q_BHTK
        d_v_BHSK = used_BHTS.transpose(-1, -2) @ d_out_BHTK
        grads = (as_heads_of(d_q_BHTK, T, dtype), as_heads_of(d_k_BHSK, S, dtype))
        return *grads, as_heads_of(d_v_BHSK, S, dtype), None, None, None
