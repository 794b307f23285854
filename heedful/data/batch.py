"""Batch: ids side by side; and the order in which batches come, a function of (seed, epoch)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PAD, UNK, START, END, CLS, SEP, MASK = range(7)
CONTROL = ("<pad>", "<unk>", "<start>", "<end>", "<cls>", "<sep>", "<mask>")

Row = Sequence[int] | np.ndarray  # the ids of one text


@dataclass(frozen=True)
class Batch:
    """Source <start> ... <end> and target <start> ... <end>, padded."""

    source_BS: Tensor
    target_BT: Tensor

    @property
    def labels_BT(self) -> Tensor:
        return self.target_BT[:, 1:]

    @property
    def tokens(self) -> int:
        """Target tokens to be predicted: what the loss is divided by."""
        return int((self.labels_BT != PAD).sum())

    def twice(self) -> "Batch":
        """Every row two times: first all, then all again."""
        return Batch(self.source_BS.repeat(2, 1), self.target_BT.repeat(2, 1))

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.source_BS.to(device), self.target_BT.to(device))


def pad(rows: Sequence[Row], side: str = "right") -> Tensor:
    """Rows of ids as one tensor."""
    width = max(len(row) for row in rows)
    out = np.full((len(rows), width), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        start = width - len(row) if side == "left" else 0
        out[i, start : start + len(row)] = row
    return torch.from_numpy(out)


def collate(pairs: Sequence[tuple[Row, Row]]) -> Batch:
    return Batch(pad([source for source, _ in pairs]), pad([target for _, target in pairs]))


def pack(order: np.ndarray, lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Cuts `order` into batches whose size, padding included, stays within the budget.

    `lengths` is (N, sides): source and target, or one of them; a batch takes rows x (the longest of
    each side). A row that is larger than the budget has a batch of its own.
    """
    batches, start = [], 0
    while start < len(order):
        longest = np.maximum.accumulate(lengths[order[start : start + max(budget, 1)]]).sum(1)
        fits = int((longest * np.arange(1, len(longest) + 1) <= budget).sum())
        end = start + (len(longest) if fits == len(longest) else round_count(max(fits, 1)))
        batches.append(order[start:end])
        start = end
    return batches


def round_count(rows: int) -> int:
    """The next lower of few counts, no more than an eighth away: a CPU's matrix products are compiled for
    every new shape, which takes several times as long as to run them."""
    step = 1 << max(0, rows.bit_length() - 4)
    return rows // step * step


def epoch_order(lengths: np.ndarray, budget: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch: rows of like length together, ties and batches shuffled.

    Rows are sorted by target, and within each target length by source, up and down in turn, so that
    neighbours are alike where one target length ends and the next begins.
    Depends on nothing but its arguments, so a position in the data is (seed, epoch, batch).
    """
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(len(lengths))
    source, target = lengths[shuffled].T
    source = source + random.uniform(0, 1, len(lengths))  # not the very same neighbours in every epoch
    key = np.lexsort((np.where(target % 2, source, -source), target))
    batches = pack(shuffled[key], lengths, budget)
    return [batches[i] for i in random.permutation(len(batches))]
