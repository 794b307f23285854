"""Cost: what a training took, in hours, operations, energy and carbon, and in the lectures' own terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

# Of the lectures' table (Strubell, Ganesh and McCallum 2019), in kilograms of CO2 equivalent.
FAMILIAR = {
    "a passenger's flight New York - San Francisco and back": 900.0,
    "a car's lifetime, fuel included": 57_153.0,
}


@dataclass(frozen=True)
class Span:
    """A part of a training that ran on one machine."""

    machine: dict[str, Any]
    seconds: float

    @property
    def core_seconds(self) -> float:
        return self.seconds * self.machine.get("threads", 1) * self.machine.get("processes", 1)

    @property
    def gpu_seconds(self) -> float:
        """Each process has a GPU, or none has."""
        return 0.0 if self.machine.get("device", "cpu") == "cpu" else self.seconds * self.machine["processes"]


def spans(events: Sequence[dict[str, Any]], seconds: float) -> list[Span]:
    """What the log tells of machines: one at the start, and one whenever a resume found another."""
    told = [event for event in events if "machine" in event]
    ends = [*(event.get("seconds", 0.0) for event in told[1:]), seconds]
    begins = [0.0, *ends[:-1]]
    return [Span(e["machine"], end - begin) for e, begin, end in zip(told, begins, ends, strict=False)]


def share_of_peak(flops: float, spans: Sequence[Span]) -> float:
    """Of what the machines could have done in that time, by their speed when they began."""
    return flops / max(sum(span.machine["peak"] * span.seconds for span in spans), 1e-9)


@dataclass(frozen=True)
class Energy:
    """`watts` is what was assumed of each core, 0 if the energy was measured; `gpu_watts` of each GPU, 0 if
    there was none."""

    kwh: float
    grams_per_kwh: float
    watts: float = 0.0
    gpu_watts: float = 0.0

    @property
    def grams(self) -> float:
        return self.kwh * self.grams_per_kwh

    def text(self) -> str:
        gpu = f" and {self.gpu_watts:g} W per GPU" if self.gpu_watts else ""
        how = f"an estimate: {self.watts:g} W per core{gpu}" if self.watts else "measured"
        grams = f"{self.grams:.3g} g CO2e at {self.grams_per_kwh:g} g per kWh"
        return f"{self.kwh:.3g} kWh ({how}), {grams}"

    def facts(self) -> dict[str, Any]:
        told = {"assumed_watts_per_core": self.watts, "assumed_watts_per_gpu": self.gpu_watts}
        assumed = {name: watts for name, watts in told.items() if watts}
        return {"kwh": self.kwh, "grams_co2e": self.grams, "measured": not assumed} | assumed


def measured(joules: float, grams_per_kwh: float) -> Energy:
    return Energy(joules / 3.6e6, grams_per_kwh)


def estimate(spans: Sequence[Span], watts: float, gpu_watts: float, grams_per_kwh: float) -> Energy:
    cores, gpus = sum(span.core_seconds for span in spans), sum(span.gpu_seconds for span in spans)
    kwh = (cores * watts + gpus * gpu_watts) / 3.6e6
    return Energy(kwh, grams_per_kwh, watts, gpu_watts if gpus else 0.0)


def in_familiar_terms(grams: float) -> str:
    """'1/12,345 of a passenger's flight ..., 1/678,901 of a car's lifetime ...'."""
    return "; ".join(portion(grams / 1000 / kilograms, name) for name, kilograms in FAMILIAR.items())


def portion(share: float, name: str) -> str:
    if share <= 0:
        return f"nothing of {name}"
    return f"1/{1 / share:,.0f} of {name}" if share < 1 else f"{share:,.1f} times {name}"


def parameters(model: nn.Module) -> int:
    """Each weight once, a tied one included."""
    return sum(weight.numel() for weight in unique(model))


def unique(model: nn.Module) -> list[Tensor]:
    return list(dict.fromkeys(model.parameters()))
