"""Position: how order enters. Here the kinds that are added to the embedding."""

import math

import torch
from torch import Tensor, nn


def sinusoid(length: int, dim: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos of the same."""
    pos_T1 = torch.arange(length)[:, None].float()
    rate = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    table_TD = torch.zeros(length, dim)
    table_TD[:, 0::2] = torch.sin(pos_T1 * rate)
    table_TD[:, 1::2] = torch.cos(pos_T1 * rate)[:, : dim // 2]
    return table_TD


class Sinusoid(nn.Module):
    """Fixed waves; saves parameters, and a step of n is the same rotation everywhere."""

    table_TD: Tensor

    def __init__(self, length: int, dim: int):
        super().__init__()
        self.register_buffer("table_TD", sinusoid(length, dim), persistent=False)

    def forward(self, pos_BT: Tensor) -> Tensor:
        return self.table_TD[pos_BT.clamp(min=0)]


class Learned(nn.Module):
    """One trained vector per position."""

    def __init__(self, length: int, dim: int):
        super().__init__()
        self.table_TD = nn.Parameter(torch.randn(length, dim) * 0.02)

    def forward(self, pos_BT: Tensor) -> Tensor:
        return nn.functional.embedding(pos_BT.clamp(min=0), self.table_TD)


KINDS = {"sinusoid": Sinusoid, "learned": Learned}
