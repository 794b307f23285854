"""Precision: the type of number with which a model generates.

In float32 a sentence has the very same translation alone as among others. bfloat16 keeps three digits
instead of seven, and products take a fraction of the time on processors that have it.
"""

import torch
from torch import nn

from heedful.errors import BadInput, nearest

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def in_precision(model: nn.Module, precision: str) -> nn.Module:
    """The model, its weights in this type from now on."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise BadInput(f"precision {precision!r}: should be {known}{nearest(precision, PRECISIONS)}")
    return model.to(PRECISIONS[precision])
