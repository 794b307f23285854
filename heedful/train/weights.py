"""Weights: float32 masters beside a model that computes in bfloat16, and their averages."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from heedful.errors import BadInput
from heedful.run import weights_of

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Weights:
    """The optimizer moves `masters`; `publish` rounds them into the model. In float32 both are one."""

    def __init__(self, model: nn.Module, precision: str, decay: float, last: int = 0):
        if precision not in PRECISIONS:
            raise BadInput(f"train.precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.separate = PRECISIONS[precision] != torch.float32
        self.masters = self.own = weights_of(model)
        if self.separate:
            self.masters = {name: w.detach().clone() for name, w in self.own.items()}
            self.own = weights_of(model.to(PRECISIONS[precision]))
        self.decay = decay
        self.average = {name: w.detach().clone() for name, w in self.masters.items()} if decay else {}
        self.last = last
        self.recent: list[dict[str, Tensor]] = []  # the weights at the last evaluations, oldest first

    def gather(self) -> None:
        """Adds the model's gradients to the masters', in float32."""
        if not self.separate:
            return
        for name, own in self.own.items():
            master, more = self.masters[name], own.grad
            if more is not None:
                master.grad = more.float() if master.grad is None else master.grad.add_(more)
        self.let_go()

    def let_go(self) -> None:
        """Forgets the model's gradients where the masters have them."""
        if self.separate:
            for own in self.own.values():
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

    def look_back(self) -> None:
        """Before an evaluation: these weights join the last few, and the oldest leave them."""
        if self.last:
            now = {name: w.detach().clone() for name, w in self.masters.items()}
            self.recent = [*self.recent, now][-self.last :]

    @property
    def best(self) -> dict[str, Tensor]:
        """What inference should use."""
        if self.recent:
            return {name: mean([weights[name] for weights in self.recent]) for name in self.masters}
        return self.average or self.masters

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model computes with the average inside."""
        best = self.best
        if best is self.masters:
            yield
            return
        kept = {name: w.detach().clone() for name, w in self.own.items()}
        with torch.no_grad():
            for name, w in self.own.items():
                w.copy_(best[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, w in self.own.items():
                    w.copy_(kept[name])


@torch.no_grad()
def mean(weights: list[Tensor]) -> Tensor:
    total = weights[0].clone()
    for more in weights[1:]:
        total += more
    return total / len(weights)
