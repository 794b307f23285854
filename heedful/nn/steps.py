"""Attention as the lectures build it, one idea at a time; read from top to bottom.

The last step, v1.5, is what every model here is made of: `heedful.nn.attention.Attention`. It is not
written twice: with one head it is `SingleHead` and an output projection, and a test holds it to that.

As on the slides there are no biases; a batch of sequences may stand where they have one sequence.
"""

import torch
from torch import Tensor, nn


def dot_attention(x_BTD: Tensor) -> Tensor:
    """v0, nothing learned: Y = Softmax[X X^T] X.

    Each output is a mean of all inputs, weighted by how alike they are; each row of weights sums to 1.
    """
    weight_BTS = (x_BTD @ x_BTD.mT).softmax(-1)
    return weight_BTS @ x_BTD


def learned_attention(x_BTD: Tensor, u_DD: Tensor) -> Tensor:
    """Back to learning: Y = Softmax[X U U^T X^T] X U.

    One matrix does it all, so "how important is m to n" before the softmax is the same as n to m.
    """
    return dot_attention(x_BTD @ u_DD)


def attention(q_BTK: Tensor, k_BSK: Tensor, v_BSK: Tensor) -> Tensor:
    """Attention(Q, K, V) = Softmax[Q K^T] V: a question, what it is matched with, and what is given back."""
    return (q_BTK @ k_BSK.mT).softmax(-1) @ v_BSK


def scaled_attention(q_BTK: Tensor, k_BSK: Tensor, v_BSK: Tensor) -> Tensor:
    """Attention(Q, K, V) = Softmax[Q K^T / sqrt(K)] V.

    A sum of K products has a variance of K. Undivided, it would drive the softmax to where one weight
    is 1, and the gradient 0.
    """
    return attention(q_BTK / q_BTK.shape[-1] ** 0.5, k_BSK, v_BSK)


def mask_attention(q_BTK: Tensor, k_BTK: Tensor, v_BTK: Tensor) -> Tensor:
    """Softmax[mask(Q K^T / sqrt(K))] V, where the mask puts -inf on all that is still to come.

    -inf plus anything is -inf, and exp(-inf) is 0: the decoder cannot cheat.
    """
    score_BTS = q_BTK @ k_BTK.mT / q_BTK.shape[-1] ** 0.5
    future_TS = torch.full(score_BTS.shape[-2:], -torch.inf).triu(1)
    return (score_BTS + future_TS).softmax(-1) @ v_BTK


class QueryKeyValue(nn.Module):
    """The fundamental trinity: Q = X W^(q), K = X W^(k), V = X W^(v), each its own learned matrix."""

    def __init__(self, dim: int):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return attention(self.query(x_BTD), self.key(x_BTD), self.value(x_BTD))


class SingleHead(QueryKeyValue):
    """The trinity, scaled. It asks about `x` and looks into `source`: another sequence, or x itself.

    Cross-attention is nothing more than that; the length of x, which asks, is the length of the output.
    """

    def forward(self, x_BTD: Tensor, source_BSD: Tensor | None = None) -> Tensor:
        source_BSD = x_BTD if source_BSD is None else source_BSD
        return scaled_attention(self.query(x_BTD), self.key(source_BSD), self.value(source_BSD))


class WideHeads(nn.Module):
    """MHA v1: H single heads side by side, each of full width; Y = Concat[H_1, ..., H_H] W^(o).

    Costs H times one head. v1.5 splits the width among the heads instead, so that they cost the same
    as one: see `heedful.nn.attention.Attention`.
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = nn.ModuleList(SingleHead(dim) for _ in range(heads))
        self.out = nn.Linear(heads * dim, dim, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.out(torch.cat([head(x_BTD) for head in self.heads], dim=-1))
