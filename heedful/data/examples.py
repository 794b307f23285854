"""Examples: encoded pairs, and the stream of batches over them, epoch after epoch."""

import hashlib
from dataclasses import dataclass

import numpy as np

from heedful.data.batch import Batch, collate, epoch_order
from heedful.data.readers import Record
from heedful.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Examples:
    """Pairs of ids, and their lengths as an (N, 2) array."""

    pairs: list[tuple[list[int], list[int]]]
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)

    def batch(self, rows: np.ndarray) -> Batch:
        return collate([self.pairs[row] for row in rows])

    def fingerprint(self) -> str:
        """Changes when the data or its tokenization does."""
        total = hashlib.sha256(self.lengths.tobytes())
        for source, target in self.pairs:
            total.update(np.array([*source, *target], dtype=np.int32).tobytes())
        return total.hexdigest()[:16]


def encode(records: list[Record], tokenizers: tuple[Tokenizer, Tokenizer], longest: int) -> tuple[Examples, int]:
    """Examples, and how many were left out because a side is longer than `longest` tokens."""
    source, target = tokenizers
    sources = source.encode_all([r.source for r in records])
    targets = target.encode_all([r.target for r in records])
    pairs = [p for p in zip(sources, targets, strict=True) if max(len(p[0]), len(p[1])) <= longest]
    lengths = np.array([(len(s), len(t)) for s, t in pairs], dtype=np.int64).reshape(-1, 2)
    return Examples(pairs, lengths), len(records) - len(pairs)


@dataclass(frozen=True)
class Place:
    """Where a training stands in its data. With the seed, three integers."""

    epoch: int = 0
    batch: int = 0


class Stream:
    """Batches from any place on; nothing needs to be read through to get there."""

    def __init__(self, examples: Examples, budget: int, seed: int):
        self.examples, self.budget, self.seed = examples, budget, seed
        self.epoch, self.order = -1, []

    def batches_in(self, epoch: int) -> list[np.ndarray]:
        if epoch != self.epoch:
            self.order = epoch_order(self.examples.lengths, self.budget, self.seed, epoch)
            self.epoch = epoch
        return self.order

    def take(self, place: Place, count: int) -> tuple[list[Batch], Place]:
        """The next `count` batches and the place after them."""
        taken = []
        for _ in range(count):
            order = self.batches_in(place.epoch)
            taken.append(self.examples.batch(order[place.batch]))
            last = place.batch + 1 == len(order)
            place = Place(place.epoch + 1, 0) if last else Place(place.epoch, place.batch + 1)
        return taken, place
