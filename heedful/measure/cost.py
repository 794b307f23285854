"""Cost: what a training took, in hours, operations, energy and carbon, and in the lectures' own terms."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
WATTS_PER_CORE = 8.0  # assumed where no counter can be read: a server CPU's share, memory included
GRAMS_PER_KWH = 480.0  # the world's mean of electricity in 2023 (Ember, Global Electricity Review)

# The lectures' table (Strubell, Ganesh and McCallum 2019), in kilograms of CO2 equivalent.
FAMILIAR = {
    "a passenger's flight New York - San Francisco and back": 900.0,
    "a human life of one year": 5_000.0,
    "a car's lifetime, fuel included": 57_153.0,
    "a Transformer found by architecture search": 284_019.0,
}


def operations(step: Any) -> int:
    """Floating-point operations of the matrix products in a call, counted and not estimated."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def peak(dtype: torch.dtype, size: int = 1024, seconds: float = 0.3) -> float:
    """Operations per second of plain matrix products: the most that this machine could do now."""
    left, right = torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)
    out = torch.empty(size, size, dtype=dtype)
    torch.mm(left, right, out=out)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def joules() -> float | None:
    """The processor's own energy counter, where it can be read."""
    try:
        return int(RAPL.read_text()) / 1e6
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Energy:
    kwh: float
    measured: bool
    grams_per_kwh: float = GRAMS_PER_KWH

    @property
    def grams(self) -> float:
        return self.kwh * self.grams_per_kwh

    def text(self) -> str:
        how = "measured" if self.measured else f"an estimate: {WATTS_PER_CORE:g} W per core"
        grams = f"{self.grams:.1f} g CO2e at {self.grams_per_kwh:g} g per kWh"
        return f"{self.kwh:.4f} kWh ({how}), {grams}: {in_familiar_terms(self.grams)}"


def estimate(seconds: float, threads: int, grams_per_kwh: float = GRAMS_PER_KWH) -> Energy:
    return Energy(seconds * threads * WATTS_PER_CORE / 3.6e6, False, grams_per_kwh)


def in_familiar_terms(grams: float) -> str:
    """'1/12,345 of a passenger's flight ...': the smallest thing of the lectures' table, or several."""
    name, kilograms = min(FAMILIAR.items(), key=lambda item: item[1])
    share = grams / 1000 / kilograms
    if share <= 0:
        return f"nothing of {name}"
    return f"1/{1 / share:,.0f} of {name}" if share < 1 else f"{share:,.1f} times {name}"


def parameters(model: nn.Module) -> int:
    """Each weight once, a tied one included."""
    return sum(weight.numel() for weight in unique(model))


def unique(model: nn.Module) -> list[Tensor]:
    return list(dict.fromkeys(model.parameters()))
