"""Compact: weights rounded to eight bits a number, to be small on disk. They are float32 again when loaded.

Each row of a matrix keeps a scale of its own, so that the largest number in it is 127.
"""

import torch
from torch import Tensor

BYTES, SCALE = ".int8", ".scale"
SMALL = 256  # numbers below which rounding saves nothing worth having


def compact(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    out = {}
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.numel() < SMALL:
            out[name] = tensor.float()
            continue
        scale_N1 = tensor.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        out[name + BYTES] = (tensor / scale_N1).round().to(torch.int8)
        out[name + SCALE] = scale_N1.float()
    return out


def expand(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Any weights as float32, whichever of them were made compact."""
    out = {}
    for name, tensor in tensors.items():
        if name.endswith(BYTES):
            bare = name.removesuffix(BYTES)
            out[bare] = tensor.float() * tensors.get(bare + SCALE, torch.ones(1))
        elif not name.endswith(SCALE):
            out[name] = tensor.float()
    return out
