"""Job: what is asked for, checked and cut into batches of like length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from heedful.data.batch import CONTROL, END, PAD, START, Row, pack, pad
from heedful.errors import BadInput
from heedful.generate.settings import Search

Source = Sequence[int] | Tensor  # ids as the model was trained with them; or what else it encodes

ROWS = 640  # hypotheses of ordinary length in a batch
ORDINARY = 16  # tokens


@dataclass(frozen=True)
class Wish:
    """One sentence: its source, the target's forced beginning and greatest length, its random seed."""

    source: Source
    prefix: Sequence[int]
    limit: int
    seed: int

    @property
    def lengths(self) -> tuple[int, int]:
        return max(len(self.source), ORDINARY), len(self.prefix)


@dataclass(frozen=True)
class Job:
    """Wishes as one batch. first_BT is <start> and the prefix, padded on the left."""

    source: Tensor
    first_BT: Tensor
    prefixes: list[list[int]]
    limit_B: Tensor
    seeds: list[int]

    @classmethod
    def of(cls, wishes: list[Wish], device: torch.device) -> "Job":
        prefixes = [list(wish.prefix) for wish in wishes]
        first_BT = pad([[START, *prefix] for prefix in prefixes], side="left").to(device)
        limit_B = torch.tensor([wish.limit for wish in wishes], device=device)
        source = stack([wish.source for wish in wishes]).to(device)
        return cls(source, first_BT, prefixes, limit_B, [wish.seed for wish in wishes])

    @property
    def length_B(self) -> Tensor:
        return torch.tensor([len(prefix) for prefix in self.prefixes], device=self.limit_B.device)


def stack(sources: Sequence[Source]) -> Tensor:
    """All are tensors of one shape, or all are ids: the first of them tells."""
    if isinstance(sources[0], Tensor):
        return torch.stack(cast(list[Tensor], sources))
    return pad(cast(Sequence[Row], sources))


def wishes(sources: Sequence[Source], search: Search, prefixes, seeds) -> list[Wish]:
    """Sentence i has seed + i, unless it is given a seed of its own."""
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    seeds = range(search.seed, search.seed + len(sources)) if seeds is None else seeds
    for name, given in (("prefixes", prefixes), ("seeds", seeds)):
        if len(given) != len(sources):
            raise BadInput(f"{name}: {len(given)} for {len(sources)} sources")
    for i, prefix in enumerate(prefixes):
        check_prefix(i, prefix, search)
    lengths = [0 if isinstance(source, Tensor) else sum(i != PAD for i in source) for source in sources]
    limits = [search.limit(length, len(prefix)) for length, prefix in zip(lengths, prefixes, strict=True)]
    return [Wish(*parts) for parts in zip(sources, prefixes, limits, seeds, strict=True)]


def check_prefix(i: int, prefix: Sequence[int], search: Search) -> None:
    for bad in (PAD, START, END):
        if bad in prefix:
            raise BadInput(f"prefix {i}: has {CONTROL[bad]}; a prefix is the bare beginning of a target")
    if len(prefix) >= search.max_length:
        raise BadInput(f"prefix {i}: {len(prefix)} tokens leave no room under max_length {search.max_length}")


def within(model, search: Search) -> Search:
    """Nothing is written beyond a model's last position."""
    longest = int(getattr(model, "longest", search.max_length))
    return search if search.max_length <= longest else replace(search, max_length=longest)


def check_room(model, name: str, texts: Sequence[Source], more: int = 0) -> None:
    """Names what does not fit into a model's positions, `more` tokens of ours included."""
    longest = int(getattr(model, "longest", 0))
    for i, text in enumerate(texts if longest else ()):
        size = 0 if isinstance(text, Tensor) else len(text) + more
        if size > longest and sum(token != PAD for token in text) + more > longest:
            raise BadInput(f"{name} {i}: {size} tokens; the model has positions for {longest}")


def in_batches(todo: list, lengths: list[tuple[int, int]], budget: int, run: Callable[[list], list]) -> list:
    """run(batch) for batches of like lengths (source, target), the longest first. Gives the results in the
    order of `todo`."""
    lengths_N2 = np.array(lengths, dtype=np.int64).reshape(-1, 2)
    order = np.lexsort((-lengths_N2[:, 0], -lengths_N2[:, 1]))
    done = [None] * len(todo)
    for batch in pack(order, lengths_N2, budget):
        for i, result in zip(batch, run([todo[i] for i in batch]), strict=True):
            done[i] = result
    return done


def ready(model) -> torch.device:
    """Checks that the model can generate; gives where its weights are."""
    if not (hasattr(model, "encode") and hasattr(model, "decode")):
        raise BadInput(f"{type(model).__name__} has no decoder: it cannot generate")
    if getattr(model, "training", False):
        raise BadInput("the model is in training mode: call model.eval() before it generates")
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if first is None else first.device
