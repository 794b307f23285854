"""Meter: what a training's cost is told by: the machine, its operations, and its counters of energy."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from heedful.config import Config
from heedful.data.examples import Examples, size_of
from heedful.run import build, weights_of
from heedful.train.weights import PRECISIONS

POWERCAP = Path("/sys/class/powercap")  # where Linux shows the processor's own counters (RAPL)
ROWS = 2  # of the batch on which operations are counted: what a token costs is the same on two as on all


def operations(step: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in a call, counted and not estimated."""
    aten = torch.ops.aten
    in_place = {aten.addmm_: addmm, aten.baddbmm_: addmm}  # the counter knows only those that make tensors
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        step()
    return counter.get_total_flops()


def addmm(_, left: torch.Size, right: torch.Size, *args: Any, **kwargs: Any) -> int:
    """Of a product of matrices, or of two stacks of them, from their shapes."""
    return 2 * left.numel() * right[-1]


def flops_per_token(config: Config, task: Any, examples: Examples, rows: Any) -> float:
    """There and back, padding included; on a model of its own, so that nothing of the training's is
    touched: not its gradients, not its random numbers, and no other process need take part."""
    with torch.random.fork_rng(devices=[]):
        model, batch = build(config).train(), examples.batch(rows[:ROWS])
        weights = [*weights_of(model).values()]

        def pass_there_and_back() -> None:
            torch.autograd.grad(task.loss(model, batch), weights, allow_unused=True)

        return operations(pass_there_and_back) / size_of(batch).tokens


def peak(dtype: torch.dtype, device: str = "cpu", size: int = 1024, seconds: float = 0.2) -> float:
    """Operations per second of plain matrix products: the most that this device could do now."""
    left, right = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(left)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until or best == float("inf"):
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def machine(config: Config, device: str, processes: int) -> dict[str, Any]:
    """Who computes, and how: what makes a training's figures comparable, or not."""
    name = torch.cuda.get_device_name() if device != "cpu" else processor()
    cores = {"threads": torch.get_num_threads(), "processes": processes}
    kind = {"torch": torch.__version__, "precision": config.train.precision}
    return {"device": device, "name": name} | cores | kind


def with_speed(told: dict[str, Any]) -> dict[str, Any]:
    dtype = PRECISIONS[told["precision"]]
    return told | {"peak": peak(dtype, told["device"]) * told["processes"]}


def processor() -> str:
    """Its name, as Linux or the platform tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


class Counter:
    """A counter of energy that starts again from 0 when it is full. RAPL counts microjoules."""

    def __init__(self, read: Callable[[], int], full: int = 0, per_joule: float = 1e6):
        self.read, self.full, self.per_joule = read, full, per_joule
        self.last, self.total = read(), 0

    def joules(self) -> float:
        """Since this was made. To be asked before the counter has gone all the way round."""
        now = self.read()
        step = now - self.last
        self.total += step if step >= 0 else step + self.full
        self.last = now
        return self.total / self.per_joule


def counters(device: str, processes: int = 1, folder: Path = POWERCAP) -> list[Counter]:
    """Those of all packages and their memory, and of the GPU of each process if they have one; none if one
    is missing, since half a measurement is none."""
    try:
        zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if is_counted(zone)]
        found = [of_zone(zone) for zone in zones]
        gpus = range(processes) if device != "cpu" and found else ()
        return [*found, *(of_gpu(number) for number in gpus)]
    except (OSError, ValueError, ImportError):
        return []


def is_counted(zone: Path) -> bool:
    """A package, which holds its cores; or the memory beside it."""
    name = (zone / "name").read_text(encoding="ascii").strip()
    return name.startswith("package") or name == "dram"


def of_zone(zone: Path) -> Counter:
    full = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
    return Counter(lambda: int((zone / "energy_uj").read_text(encoding="ascii")), full)


def of_gpu(number: int) -> Counter:
    """NVML counts millijoules. Not run: there was no GPU."""
    import pynvml  # pyright: ignore[reportMissingImports]

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    return Counter(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), per_joule=1e3)


class Meter:
    """The joules of a training, over all its resumes: or None, if ever they could not be measured."""

    def __init__(self, counters: list[Counter], before: float | None):
        self.counters, self.before = counters, before

    def joules(self) -> float | None:
        if self.before is None or not self.counters:
            return None
        return round(self.before + sum(counter.joules() for counter in self.counters), 1)
