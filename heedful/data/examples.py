"""Examples: encoded pairs, and the stream of batches over them, epoch after epoch."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from heedful.data.batch import Batch, collate, epoch_order
from heedful.data.readers import Record
from heedful.data.segment import Segmenter
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput

AT_ONCE = 10_000  # records: as lists, ids take ten times the memory


@dataclass(frozen=True)
class Size:
    """Of batches: tokens of source and target, padding included, and labels to be predicted."""

    tokens: int = 0
    labels: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.tokens + other.tokens, self.labels + other.labels)


def size_of(batch: Batch) -> Size:
    return Size(batch.source_BS.numel() + batch.target_BT.numel(), batch.tokens)


@dataclass(frozen=True)
class Examples:
    """Every source and target one after another in `ids`; `lengths` is (N, 2)."""

    ids: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> np.ndarray:
        return self.lengths.cumsum().reshape(-1, 2)

    def pair(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        middle, end = self.ends[row]
        start = middle - self.lengths[row, 0]
        return self.ids[start:middle], self.ids[middle:end]

    def batch(self, rows: np.ndarray) -> Batch:
        return collate([self.pair(row) for row in rows])

    def size(self, rows: np.ndarray) -> "Size":
        """That of their batch, which need not be made for it."""
        lengths = self.lengths[rows]
        return Size(int(lengths.max(0).sum()) * len(rows), int(lengths[:, 1].sum()) - len(rows))

    @cached_property
    def hash(self) -> str:
        total = hashlib.sha256(self.lengths.tobytes())
        total.update(self.ids.tobytes())
        return total.hexdigest()[:16]

    def fingerprint(self) -> str:
        """Changes when the data or its tokenization does."""
        return self.hash


def flatten(pairs: list[tuple[list[int], list[int]]]) -> Examples:
    ids = np.fromiter(chain.from_iterable(chain.from_iterable(pairs)), dtype=np.int32)
    lengths = np.array([(len(s), len(t)) for s, t in pairs], dtype=np.int64).reshape(-1, 2)
    return Examples(ids, lengths)


def encode(
    records: list[Record], tokenizers: tuple[Tokenizer, Tokenizer], longest: int
) -> tuple[Examples, int]:
    """Examples, and how many were left out because a side is longer than `longest` tokens."""
    source, target = tokenizers
    parts = [flatten([])]
    for start in range(0, len(records), AT_ONCE):
        some = records[start : start + AT_ONCE]
        sources, targets = [r.source for r in some], [r.target for r in some]
        pairs = zip(source.encode_all(sources), target.encode_all(targets), strict=True)
        parts.append(flatten([p for p in pairs if max(len(p[0]), len(p[1])) <= longest]))
    examples = joined(parts)
    return examples, len(records) - len(examples)


def segmented(
    records: list[Record], tokenizers: tuple[Tokenizer, Tokenizer], ways: int, longest: int
) -> Examples:
    """The same records, each cut into pieces in so many other ways."""
    source, target = (Segmenter(tokenizer, ways) for tokenizer in tokenizers)
    parts = [flatten([])]
    for start in range(0, len(records), AT_ONCE):
        some = [
            zip(source.encode(r.source), target.encode(r.target), strict=True)
            for r in records[start : start + AT_ONCE]
        ]
        parts.append(flatten([pair for pairs in some for pair in pairs if max(map(len, pair)) <= longest]))
    return joined(parts)


def joined(parts: Sequence[Examples]) -> Examples:
    ids = np.concatenate([part.ids for part in parts])
    return Examples(ids, np.concatenate([part.lengths for part in parts]))


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

    def check(self, place: Place, path: Path) -> None:
        """`path`, where a place was read, is named if there is no such place in the data."""
        if place.epoch < 0 or place.batch not in range(len(self.batches_in(place.epoch))):
            raise BadInput(f"{path}: stands at epoch {place.epoch}, batch {place.batch}, where no data is")

    def take(self, place: Place, count: int) -> tuple[list[np.ndarray], Place]:
        """The rows of the next `count` batches, and the place after them."""
        taken = []
        for _ in range(count):
            order = self.batches_in(place.epoch)
            taken.append(order[place.batch])
            last = place.batch + 1 == len(order)
            place = Place(place.epoch + 1, 0) if last else Place(place.epoch, place.batch + 1)
        return taken, place
