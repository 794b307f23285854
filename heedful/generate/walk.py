"""Walk: one token at a time, the most likely or a drawn one, and no way back."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.batch import END
from heedful.generate.best import likeliest
from heedful.generate.job import Job
from heedful.generate.reader import Generator, Start, begin, spread, worth_keeping
from heedful.generate.rules import Past, next_logprobs, refuse_nan
from heedful.generate.sample import draw, numbers
from heedful.generate.settings import Hypothesis, Search

Step = list[tuple[int, int, float]]  # (row, token, log-probability) of each row that is still open


@dataclass(frozen=True)
class Rows:
    """Targets that are being written: which row of the job, <start> and what stands there so far."""

    row_N: Tensor
    ids_NT: Tensor
    length_N: Tensor
    limit_N: Tensor
    open_N: Tensor

    @classmethod
    def of(cls, job: Job, width: int) -> "Rows":
        parts = (job.first_BT, job.length_B, job.limit_B)
        ids_NT, length_N, limit_N = (part.repeat_interleave(width, dim=0) for part in parts)
        row_N = torch.arange(len(ids_NT), device=ids_NT.device)
        return cls(row_N, ids_NT, length_N, limit_N, torch.ones_like(row_N, dtype=torch.bool))

    def write(self, token_N: Tensor, logprob_N: Tensor) -> "Rows":
        """A row where the rules allow no token (-inf), or that ends, or is full, is open no more."""
        length_N, ids_NT = self.length_N + 1, torch.cat([self.ids_NT, token_N[:, None]], dim=1)
        open_N = self.open_N & (logprob_N > -torch.inf) & (token_N != END) & (length_N < self.limit_N)
        return Rows(self.row_N, ids_NT, length_N, self.limit_N, open_N)

    def select(self, rows: Tensor) -> "Rows":
        return Rows(*(tensor[rows] for tensor in vars(self).values()))

    def step(self, token_N: Tensor, logprob_N: Tensor) -> Step:
        """What is written where."""
        on_N = self.open_N & (logprob_N > -torch.inf)
        columns = (column[on_N].tolist() for column in (self.row_N, token_N, logprob_N))
        return list(zip(*columns, strict=True))


@torch.inference_mode()
def write_all(model: Generator, job: Job, search: Search) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence: the greedy one, or samples in the order of their drawing."""
    start, width = begin(model, job), search.hypotheses
    ids = [list(prefix) for prefix in job.prefixes for _ in range(width)]
    logprobs = [list(row) for row in start.prefix_logprobs(job) for _ in range(width)]
    finished = [False] * len(ids)
    for step in walk(start, job, search):
        for row, token, logprob in step:
            logprobs[row].append(logprob)
            if token == END:
                finished[row] = True
            else:
                ids[row].append(token)
    found = [
        Hypothesis.of(*parts, search.length_penalty) for parts in zip(ids, logprobs, finished, strict=True)
    ]
    return [found[i : i + width] for i in range(0, len(found), width)]


@torch.inference_mode()
def walk(start: Start, job: Job, search: Search) -> Iterator[Step]:
    """Writes a token in each row, gives these, and goes on with the rows that are still open."""
    width, longest = search.hypotheses, int(job.limit_B.max())
    rows, reader = Rows.of(job, width), start.reader.fan(len(job.prefixes), width)
    logits_NV = start.logits_BV.repeat_interleave(width, dim=0)
    number_NT = numbers(job.seeds, width, longest) if search.samples else None
    for t in range(longest):
        number_N = None if number_NT is None else number_NT[rows.row_N, t]
        token_N, logprob_N = choose(logits_NV, Past(rows.ids_NT, rows.length_N), search, number_N)
        yield rows.step(token_N, logprob_N)
        rows = rows.write(token_N, logprob_N)
        staying = worth_keeping(rows.open_N.view(-1, width).any(1))
        if staying is not None:
            if not len(staying):
                return
            reader, rows = reader.stay(staying), rows.select(spread(staying, width))
        logits_NTV, reader = reader.read(rows.ids_NT[:, -1:])
        logits_NV = logits_NTV[:, -1]


def choose(logits_NV: Tensor, past: Past, search: Search, number_N: Tensor | None) -> tuple[Tensor, Tensor]:
    """A token for each row, and its log-probability."""
    if number_N is None:
        zero_N1 = torch.zeros(len(logits_NV), 1, device=logits_NV.device)
        way = likeliest(logits_NV, past, zero_N1, 1, search)
        return way.token_BC[:, 0], way.logprob_BC[:, 0]
    logprob_NV = next_logprobs(logits_NV, past, search)
    token_N = draw(logprob_NV, search, number_N)
    logprob_N = logprob_NV.gather(1, token_N[:, None])[:, 0]
    refuse_nan(logprob_N)
    return token_N, logprob_N
