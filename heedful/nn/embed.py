"""Embed: what becomes vectors. Here: token ids, plus where they stand."""

import math

import torch
from torch import Tensor, nn

from heedful.nn.dropout import Dropout


class Lookup(torch.autograd.Function):
    """table[ids], whose gradient is summed in float32 whatever the table's dtype.

    A frequent token gets thousands of small gradients in one batch; a bfloat16 sum would lose most.
    """

    @staticmethod
    def forward(ctx, table_VD: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table = table_VD.shape, table_VD.dtype
        return table_VD[ids]

    @staticmethod
    def backward(ctx, grad: Tensor):
        (ids,) = ctx.saved_tensors
        shape, dtype = ctx.table
        total_VD = torch.zeros(shape, device=grad.device)
        total_VD.index_add_(0, ids.flatten(), grad.reshape(-1, shape[1]).float())
        return total_VD.to(dtype), None


class Embed(nn.Module):
    """dropout(table[ids] * sqrt(dim) + position). `position` is None for a set without order."""

    def __init__(self, vocabulary: int, dim: int, position: nn.Module | None, dropout: float):
        super().__init__()
        self.table_VD = nn.Parameter(torch.randn(vocabulary, dim) * dim**-0.5)
        self.position = position
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(dim)

    def forward(self, ids_BT: Tensor, pos_BT: Tensor) -> Tensor:
        x_BTD = Lookup.apply(self.table_VD, ids_BT) * self.scale
        if self.position is not None:
            x_BTD = x_BTD + self.position(pos_BT)
        return self.dropout(x_BTD)
