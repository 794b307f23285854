"""Team: the processes that train one model together, and what they tell each other. torchrun starts them."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from heedful.errors import BadInput


@dataclass(frozen=True)
class Share:
    """What one process does of a micro-batch. `part` is its number in the step."""

    part: int
    rows: np.ndarray
    weight: float = 1.0  # 0 where there are fewer rows than processes: all must take part in a pass


@dataclass(frozen=True)
class Team:
    """One process of several. Alone, it needs no process group and talks to nobody."""

    rank: int = 0
    size: int = 1
    here: int = 0  # its number among those on this machine, which share the cores and have a GPU each
    local: int = 1  # how many these are
    restarts: int = 0  # how often torchrun has started the team again

    @property
    def leads(self) -> bool:
        """Only the first process writes and speaks."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.here) if torch.cuda.is_available() else torch.device("cpu")

    def note(self, text: str) -> None:
        if self.leads:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """The team exists inside; it parts only when all have come to the end."""
        if self.size == 1:
            yield
            return
        try:
            self.join()
            yield
            dist.barrier()
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and not re.search(r"gloo|Connection", str(error)):
                raise
            raise BadInput(f"process {self.rank} of {self.size}: another process has stopped") from error
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()

    def join(self) -> None:
        backend = "gloo"
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            backend = "cpu:gloo,cuda:nccl"
        try:
            store, _, _ = next(dist.rendezvous("env://", self.rank, self.size))
            # What the processes of before a restart have left in torchrun's store must not be read. Of
            # several machines each counts its own restarts: see docs/machines.md.
            store = dist.PrefixStore(str(self.restarts if self.size == self.local else 0), store)
            dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size)
        except ValueError as error:  # what torchrun would have set is not there
            raise BadInput(f"process {self.rank} of {self.size}: cannot join the others: {error}") from error

    def deal(self, batches: list[np.ndarray]) -> list[Share]:
        """This process's share of a step: whole micro-batches where all processes get as many,
        otherwise some rows of each, so that any number of processes can do any step."""
        if len(batches) % self.size:
            return [self.cut(rows, part) for part, rows in enumerate(batches)]
        return [Share(part, batches[part]) for part in range(self.rank, len(batches), self.size)]

    def cut(self, rows: np.ndarray, part: int = 0) -> Share:
        """Every so many rows, for neighbours are of like length."""
        own, number = rows[self.rank :: self.size], part * self.size + self.rank
        return Share(number, own) if len(own) else Share(number, rows[:1], weight=0.0)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def most(self, number: int) -> int:
        """The largest that any process has."""
        if self.size == 1:
            return number
        told = torch.tensor(number)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return int(told)

    def first(self, number: float) -> float:
        """The first process's: its clock, and what it sees in the folder, decide for all."""
        if self.size == 1:
            return number
        told = torch.tensor(number, dtype=torch.float64)
        dist.broadcast(told, src=0)
        return float(told)

    def check_same(self, number: int, what: str) -> None:
        """Else the processes would train on different things, and nobody would notice."""
        if self.most(number) != -self.most(-number):
            raise BadInput(f"the processes have different {what}; each must see the same files")


ALONE = Team()
