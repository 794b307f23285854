"""Rollout: where information can have come from, through all layers at once.

A residual carries each token past the attention, so that a layer moves (A + I) / 2; layers follow
one another, so that their moves multiply (Abnar and Zuidema, 2020).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def rollout(weights: Sequence[Tensor]) -> Tensor:
    """Self-attention weights (HTT each, first layer first) -> one TT matrix whose rows sum to 1."""
    if not weights:
        raise ValueError("rollout needs the weights of at least one layer")
    T = weights[0].shape[-1]
    stay_TT = torch.eye(T)
    flow_TT = stay_TT
    for weight_HTT in weights:
        if weight_HTT.shape[1:] != (T, T):
            raise ValueError(f"rollout follows self-attention, {T} x {T}: got {tuple(weight_HTT.shape)}")
        move_TT = weight_HTT.mean(0) + stay_TT
        flow_TT = move_TT / move_TT.sum(-1, keepdim=True) @ flow_TT
    return flow_TT
