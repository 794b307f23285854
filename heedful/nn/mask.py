"""Mask: who may look at whom, as a function of absolute positions.

A token that is not there (padding) has position -1. Because the rule sees positions and never
tensor shapes, a cache, left padding or a sliding window need no rule of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

ABSENT = -1


@dataclass(frozen=True)
class Mask:
    """A rule on (query positions, key positions); True = may look. Join rules with `&`."""

    rule: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, q_pos_BT: Tensor, k_pos_BS: Tensor) -> Tensor:
        """Gives keep_BTS; its T is 1 where the rule does not care about the query."""
        return self.rule(q_pos_BT[:, :, None], k_pos_BS[:, None, :])

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(lambda q, k: self.rule(q, k) & other.rule(q, k))


exists = Mask(lambda q, k: k >= 0)
causal = Mask(lambda q, k: (k >= 0) & (k <= q))


def window(size: int) -> Mask:
    """Only the `size` nearest tokens on either side, itself included."""
    return Mask(lambda q, k: (k >= 0) & ((q - k).abs() < size))


def positions(keep_BT: Tensor) -> Tensor:
    """0, 1, 2, ... over the tokens that are there, ABSENT elsewhere, whichever side is padded."""
    pos_BT = keep_BT.cumsum(1, dtype=torch.int64) - 1
    return pos_BT.masked_fill(~keep_BT, ABSENT)
