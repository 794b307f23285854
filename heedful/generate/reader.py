"""Reader: a model, and what it has read so far for a batch of sentences. A value: reading gives a new one.

A generator is anything with
    encode(source_BS) -> memory                                    memory.select(rows)
    decode(ids_NT, memory, state | None) -> (logits_NTV, state)    state.select(rows)
    longest                                                         if it has a last position
where <pad> in ids is read as if it were not there. If its state can also `fan`, `follow` and `stay` (see
`heedful.nn.State`), the hypotheses of a sentence share their memory and their past; if not, each has a copy.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from heedful.data.batch import PAD, START
from heedful.generate.job import Job

PIECE = 2048  # positions of forced prefixes whose logits are held at once
STAY = 0.75  # the part of a batch that may go on before the rest is left behind


class Generator(Protocol):
    def encode(self, source_BS: Tensor) -> Any: ...

    def decode(self, ids_BT: Tensor, memory: Any, state: Any | None) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class Reader:
    """`width` hypotheses stand side by side for each sentence."""

    model: Generator
    memory: Any
    state: Any = None  # None: nothing has been read
    width: int = 1

    @property
    def shares(self) -> bool:
        return hasattr(self.state, "fan")

    def read(self, ids_NT: Tensor) -> tuple[Tensor, "Reader"]:
        logits_NTV, state = self.model.decode(ids_NT, self.memory, self.state)
        return logits_NTV, replace(self, state=state)

    def fan(self, sentences: int, width: int) -> "Reader":
        """Each sentence gets `width` hypotheses that go on from the same past."""
        if width == 1:
            return self
        if self.shares:
            return replace(self, state=self.state.fan(width), width=width)
        rows_N = torch.arange(sentences).repeat_interleave(width)
        return replace(self, memory=self.memory.select(rows_N), state=self.state.select(rows_N), width=width)

    def follow(self, parent_BW: Tensor) -> "Reader":
        """Hypothesis w of a sentence goes on from what was its hypothesis parent[w]."""
        if self.width == 1:
            return self
        if self.shares:
            return replace(self, state=self.state.follow(parent_BW))
        first_B1 = torch.arange(len(parent_BW), device=parent_BW.device)[:, None] * self.width
        return replace(self, state=self.state.select((first_B1 + parent_BW).flatten()))

    def stay(self, sentences: Tensor) -> "Reader":
        """Only these sentences, with all their hypotheses."""
        if self.shares:
            state = self.state.select(sentences) if self.width == 1 else self.state.stay(sentences)
            return replace(self, memory=self.memory.select(sentences), state=state)
        rows_N = spread(sentences, self.width)
        return replace(self, memory=self.memory.select(rows_N), state=self.state.select(rows_N))


def spread(sentences: Tensor, width: int) -> Tensor:
    """The rows of all hypotheses of these sentences."""
    return (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()


def worth_keeping(open_B: Tensor) -> Tensor | None:
    """The sentences that go on, once so many are done that leaving them behind repays the move; or None."""
    going_on = int(open_B.sum())
    return open_B.nonzero()[:, 0] if going_on <= STAY * len(open_B) else None


@dataclass(frozen=True)
class Start:
    """Sources, <start> and prefixes have been read. logprob_BT is of each token of the job's first_BT."""

    reader: Reader
    logits_BV: Tensor
    logprob_BT: Tensor

    def prefix_logprobs(self, job: Job) -> list[list[float]]:
        rows = self.logprob_BT[:, 1:].tolist()
        return [row[len(row) - len(prefix) :] for row, prefix in zip(rows, job.prefixes, strict=True)]


@torch.inference_mode()
def begin(model: Generator, job: Job) -> Start:
    """Reads in pieces, so that the logits of long prefixes are never there all at once."""
    reader, logits_BTV = Reader(model, model.encode(job.source)), None
    B, T = job.first_BT.shape
    logprob_BT = torch.zeros(B, T, device=job.first_BT.device)
    size = max(1, PIECE // B)
    for start in range(0, T, size):
        logits_BTV, reader = reader.read(job.first_BT[:, start : start + size])
        after_BT = job.first_BT[:, start + 1 : start + 1 + size]
        if after_BT.shape[1]:
            logprob_BT[:, start + 1 : start + 1 + size] = chosen_logprobs(logits_BTV, after_BT)
    assert logits_BTV is not None  # <start> has been read at least
    certain_BT = (job.first_BT == PAD) | (job.first_BT == START)
    return Start(reader, logits_BTV[:, -1], logprob_BT.masked_fill(certain_BT, 0))


def chosen_logprobs(logits_BTV: Tensor, ids_BT: Tensor) -> Tensor:
    """The log-probability of ids_BT, each after what was read up to its place."""
    logits_BTV = logits_BTV[:, : ids_BT.shape[1]].float()
    return logits_BTV.gather(2, ids_BT[:, :, None])[:, :, 0] - logits_BTV.logsumexp(-1)
