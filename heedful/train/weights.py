"""Weights: float32 masters beside a model that computes in bfloat16, and their moving average."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from heedful.errors import BadInput
from heedful.run import weights_of

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Weights:
    """The optimizer moves `masters`; `publish` rounds them into the model. In float32 both are one."""

    def __init__(self, model: nn.Module, precision: str, decay: float):
        if precision not in PRECISIONS:
            raise BadInput(f"train.precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.separate = PRECISIONS[precision] != torch.float32
        self.masters = {name: w.detach().clone() for name, w in weights_of(model).items()}
        model.to(PRECISIONS[precision])
        self.own = weights_of(model)
        if not self.separate:
            self.masters = self.own
        self.decay = decay
        self.average = {name: w.detach().clone() for name, w in self.masters.items()} if decay else {}

    def gather(self) -> None:
        """Adds the model's gradients to the masters', in float32."""
        if not self.separate:
            return
        for name, own in self.own.items():
            master = self.masters[name]
            if own.grad is not None and master.grad is None:
                master.grad = own.grad.float()
            elif own.grad is not None:
                master.grad.add_(own.grad)
            own.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        if self.separate:
            torch._foreach_copy_(list(self.own.values()), list(self.masters.values()))

    @torch.no_grad()
    def remember(self, step: int) -> None:
        """Moves the average towards the masters; early steps, which know little, fade faster."""
        if self.average:
            share = 1 - min(self.decay, (step + 1) / (step + 10))
            torch._foreach_lerp_(list(self.average.values()), list(self.masters.values()), share)

    @property
    def best(self) -> dict[str, Tensor]:
        """What inference should use."""
        return self.average or self.masters

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model computes with the average inside."""
        if not self.average:
            yield
            return
        kept = {name: w.detach().clone() for name, w in self.own.items()}
        with torch.no_grad():
            for name, w in self.own.items():
                w.copy_(self.average[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, w in self.own.items():
                    w.copy_(kept[name])
