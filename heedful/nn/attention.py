"""Attention: softmax(Q K^T / sqrt(K)) V. One module for self, cross, causal and cached use."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heedful.nn.dropout import Dropout, drop
from heedful.nn.state import LANES, KeysValues

# On a CPU, plain products beat the fused kernel's backward below this many keys.
FUSED_FROM = {torch.float32: 128, torch.bfloat16: 512}
FEW = 16  # nor for so few queries, as in a step of beam search
TILES = torch.cpu._is_amx_tile_supported()  # without them the fused kernel takes bfloat16 apart, slowly


def attend(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, keep_BTS: Tensor, rate: float = 0.0):
    """The weighted sum of values; a query that may look at no key gets zeros."""
    if prefers_fused(q_BHTK, k_BHSK):
        return attend_fused(q_BHTK, k_BHSK, v_BHSK, keep_BTS=keep_BTS, rate=rate)
    if prefers_whole_registers(q_BHTK):
        extra = -k_BHSK.shape[2] % LANES
        k_BHSK, v_BHSK = pad(k_BHSK, (0, 0, 0, extra)), pad(v_BHSK, (0, 0, 0, extra))
        keep_BTS = pad(keep_BTS, (0, extra))
    return attend_plainly(q_BHTK, k_BHSK, v_BHSK, keep_BTS=keep_BTS, rate=rate)[0]


def prefers_whole_registers(q: Tensor) -> bool:
    """In training on a CPU: the softmax over 14 keys, and its gradient, take longer than over 16."""
    return q.requires_grad and q.device.type == "cpu"


def prefers_fused(q: Tensor, k: Tensor) -> bool:
    if q.device.type != "cpu":
        return True
    if TILES and q.shape[2] == 1 and k.dtype == torch.bfloat16:  # greedy search: the keys are read once
        return not q.requires_grad
    return q.shape[2] >= FEW and k.shape[2] >= FUSED_FROM.get(k.dtype, 128)


def attend_fused(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, keep_BTS: Tensor, rate: float):
    """Torch's own kernel: the T x S weights never exist."""
    fused = nn.functional.scaled_dot_product_attention
    out_BHTK = fused(q_BHTK, k_BHSK, v_BHSK, attn_mask=keep_BTS[:, None], dropout_p=rate)
    return out_BHTK * keep_BTS.any(-1)[:, None, :, None]


def attend_plainly(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, keep_BTS: Tensor, rate: float = 0.0):
    """The equation, line by line. Gives (the weighted sum, the weights)."""
    score_BHTS = (q_BHTK * q_BHTK.shape[-1] ** -0.5) @ k_BHSK.transpose(-1, -2)
    # Half the lowest number rather than -inf: a row with no key must not become NaN. In float32 at
    # least: the softmax of a narrower type is less exact, and no faster.
    bias_BTS = torch.zeros_like(keep_BTS, dtype=torch.promote_types(score_BHTS.dtype, torch.float32))
    bias_BTS.masked_fill_(~keep_BTS, torch.finfo(bias_BTS.dtype).min / 2)
    weight_BHTS = (score_BHTS + bias_BTS[:, None]).softmax(-1)
    sees_BT = keep_BTS.any(-1)
    if not sees_BT.all():
        weight_BHTS = weight_BHTS * sees_BT[:, None, :, None]
    used_BHTS = drop(weight_BHTS, rate) if rate else weight_BHTS
    return used_BHTS.to(v_BHSK.dtype) @ v_BHSK, weight_BHTS


class Watch(nn.Module):
    """A place to look at a tensor: does nothing until somebody hooks it."""

    @property
    def watched(self) -> bool:
        return bool(self._forward_hooks)

    def forward(self, x: Tensor) -> Tensor:
        return x


class Attention(nn.Module):
    """Heads that split the width: each works on its own dim/heads part of Q, K and V.

    Self-attention looks into `remember(x)`, cross-attention into `remember(memory)`, and cached
    decoding into what `KeysValues.extend` has gathered: forward is the same for all.
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.0):
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} cannot be split into {heads} heads")
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)
        self.weights = Watch()
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.out.weight):
            nn.init.xavier_uniform_(weight)
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)

    def remember(self, source_BSD: Tensor) -> KeysValues:
        """The keys and values of a source."""
        B, S, _ = source_BSD.shape
        both_B2HSK = self.key_value(source_BSD).view(B, S, 2 * self.heads, -1).transpose(1, 2)
        return KeysValues(*both_B2HSK.chunk(2, dim=1))

    def forward(self, x_BTD: Tensor, source: KeysValues, keep_BTS: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        q_BHTK = self.query(x_BTD).view(B, T, self.heads, -1).transpose(1, 2)
        rate = self.dropout.rate if self.dropout.active else 0.0
        if self.weights.watched:
            k, v = source.k_BHSK, source.v_BHSK
            out_BHTK, weight_BHTS = attend_plainly(q_BHTK, k, v, keep_BTS=keep_BTS, rate=rate)
            self.weights(weight_BHTS)
        else:
            k, v, keep_BTS = source.whole(keep_BTS)
            out_BHTK = attend(q_BHTK, k, v, keep_BTS=keep_BTS, rate=rate)
        return self.out(out_BHTK.transpose(1, 2).reshape(B, T, D))
