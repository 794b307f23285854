"""Dropout whose random bits are drawn eight bytes at a time.

On a CPU the generator is the cost: one 64-bit draw serves eight elements here, so a rate is
rounded to the nearest 1/256, but not to 0 (and the scale matches the rounded rate exactly).
"""

import torch
from torch import Tensor, nn


def keep_scaled(like: Tensor, rate: float) -> Tensor:
    """A tensor like `like`: 0 with probability `rate`, else 1/(1-rate)."""
    cut = max(1, round(rate * 256))
    draws = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device)
    draws.random_(-(2**63), None)
    byte = draws.view(torch.uint8)[: like.numel()].view(like.shape)
    # Written as numbers at once: bools that become numbers later would take twice as long.
    return torch.ge(byte, cut, out=torch.empty_like(byte, dtype=like.dtype)).mul_(256 / (256 - cut))


def drop(x: Tensor, rate: float) -> Tensor:
    if x.device.type != "cpu":
        return nn.functional.dropout(x, rate)
    return x * keep_scaled(x, rate)


class Dropout(nn.Module):
    def __init__(self, rate: float):
        super().__init__()
        if not 0 <= round(rate * 256) < 256:
            raise ValueError(f"dropout rate {rate} is not from 0 to 255/256")
        self.rate = rate

    @property
    def active(self) -> bool:
        return self.training and self.rate > 0

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.rate) if self.active else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), which is one pass less on a CPU."""
        if not self.active or x.device.type != "cpu":
            return x + self(y)
        return torch.addcmul(x, y, keep_scaled(y, self.rate))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
