"""Beam search: the W likeliest beginnings of each target go on side by side.

In every step, all ways on of all W hypotheses compete. Those of the best W that end are finished and go
to the finds of their sentence; the best W that do not end live on. A sentence is closed when its finds
are complete and nothing alive could still be better than the worst of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from heedful.data.batch import END
from heedful.generate.best import Ways, likeliest
from heedful.generate.job import Job
from heedful.generate.reader import Generator, Start, begin, worth_keeping
from heedful.generate.rules import Past
from heedful.generate.settings import Hypothesis, Search


@dataclass(frozen=True)
class Live:
    """The hypotheses being written: one for each sentence at first, then W, the likeliest first.

    total_BW is the sum of their log-probabilities, -inf where there is no hypothesis.
    """

    sentence_B: Tensor
    length_B: Tensor
    limit_B: Tensor
    open_B: Tensor
    ids_BWT: Tensor
    logprob_BWT: Tensor
    total_BW: Tensor

    @classmethod
    def of(cls, job: Job, start: Start) -> "Live":
        sentence_B = torch.arange(len(job.prefixes), device=job.limit_B.device)
        open_B = torch.ones_like(sentence_B, dtype=torch.bool)
        ids_B1T, logprob_B1T = job.first_BT[:, None], start.logprob_BT[:, None]
        return cls(sentence_B, job.length_B, job.limit_B, open_B, ids_B1T, logprob_B1T, logprob_B1T.sum(2))

    def select(self, rows: Tensor) -> "Live":
        return Live(*(tensor[rows] for tensor in vars(self).values()))

    def write(self, ways: Ways) -> "Live":
        rows_B1 = torch.arange(len(self.ids_BWT), device=self.ids_BWT.device)[:, None]
        ids_BWT, logprob_BWT = (past[rows_B1, ways.parent_BC] for past in (self.ids_BWT, self.logprob_BWT))
        ids_BWT = torch.cat([ids_BWT, ways.token_BC[:, :, None]], dim=2)
        logprob_BWT = torch.cat([logprob_BWT, ways.logprob_BC[:, :, None]], dim=2)
        fixed = self.sentence_B, self.length_B + 1, self.limit_B, self.open_B
        return Live(*fixed, ids_BWT, logprob_BWT, ways.total_BC)

    def close(self, closing_B: Tensor) -> "Live":
        return Live(*{**vars(self), "open_B": self.open_B & ~closing_B}.values())

    def text(self, row: int, w: int) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities, without <start> and the padding before it."""
        start = self.ids_BWT.shape[2] - int(self.length_B[row])
        return self.ids_BWT[row, w, start:].tolist(), self.logprob_BWT[row, w, start:].tolist()


class Finds:
    """The best hypotheses of each sentence. One that ended comes before any that was cut."""

    def __init__(self, sentences: int, search: Search):
        self.search = search
        self.of: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, ids: list[int], logprobs: list[float], finished: bool) -> None:
        found = self.of[sentence]
        found.append(Hypothesis.of(ids, logprobs, finished, self.search.length_penalty))
        found.sort(key=lambda h: (h.finished, h.score), reverse=True)
        del found[self.search.nbest :]

    def collect(self, live: Live, ways: Ways) -> None:
        """The hypotheses that end now."""
        for row, place in ending(ways, self.search.beam):
            if live.open_B[row]:
                ids, logprobs = live.text(row, int(ways.parent_BC[row, place]))
                logprobs.append(float(ways.logprob_BC[row, place]))
                self.add(int(live.sentence_B[row]), ids, logprobs, True)

    def fill(self, closing_B: Tensor, live: Live, before: Live) -> None:
        """A sentence that is over with too few finds takes what is alive as it stands; if the rules allow
        no token at all, what was alive before."""
        for row in closing_B.nonzero()[:, 0].tolist():
            sentence = int(live.sentence_B[row])
            for last in (live, before):
                if len(self.of[sentence]) < self.search.nbest and (last is live or not self.of[sentence]):
                    for w in (last.total_BW[row] > -torch.inf).nonzero()[:, 0].tolist():
                        self.add(sentence, *last.text(row, w), False)

    def worst(self, sentences: Tensor) -> Tensor:
        """The score to beat: of the last find where there are enough, else nothing."""
        found = (self.of[i] for i in sentences.tolist())
        scores = [f[-1].score if len(f) == self.search.nbest else -torch.inf for f in found]
        return torch.tensor(scores, device=sentences.device)


@torch.inference_mode()
def beam_search(model: Generator, job: Job, search: Search) -> list[list[Hypothesis]]:
    start, width = begin(model, job), search.beam
    live, finds = Live.of(job, start), Finds(len(job.prefixes), search)
    reader, logits_NV = start.reader.fan(len(job.prefixes), width), start.logits_BV
    while True:
        ways = best_ways(live, logits_NV, search)
        finds.collect(live, ways)
        onward = going_on(ways, width)
        before, live = live, live.write(onward)
        closing_B = live.open_B & is_over(live, finds.worst(live.sentence_B), search)
        finds.fill(closing_B, live, before)
        live = live.close(closing_B)
        reader = reader.follow(onward.parent_BC)
        staying = worth_keeping(live.open_B)
        if staying is not None:
            if not len(staying):
                return finds.of
            live, reader = live.select(staying), reader.stay(staying)
        logits_NTV, reader = reader.read(live.ids_BWT[:, :, -1].reshape(-1, 1))
        logits_NV = logits_NTV[:, -1]


def best_ways(live: Live, logits_NV: Tensor, search: Search) -> Ways:
    """The 2W likeliest ways on, so that W are left even if all W hypotheses also end."""
    B, W, T = live.ids_BWT.shape
    past = Past(live.ids_BWT.view(B * W, T), live.length_B.repeat_interleave(W))
    return filled(likeliest(logits_NV, past, live.total_BW, 2 * search.beam, search), 2 * search.beam)


def ending(ways: Ways, width: int) -> list[tuple[int, int]]:
    """(row, place) of those among the first `width` that end."""
    ends_BW = (ways.token_BC[:, :width] == END) & (ways.total_BC[:, :width] > -torch.inf)
    return ends_BW.nonzero().tolist()


def going_on(ways: Ways, width: int) -> Ways:
    """The first `width` that do not end."""
    ends_BC = (ways.token_BC == END).to(torch.int8)
    return ways.pick(ends_BC.sort(dim=1, stable=True).indices[:, :width])


def filled(ways: Ways, number: int) -> Ways:
    """A small vocabulary has fewer ways on: the rest are impossible."""
    missing = number - ways.total_BC.shape[1]
    if not missing:
        return ways
    past = (ways.parent_BC, ways.token_BC, ways.logprob_BC)
    parent_BC, token_BC, logprob_BC = (pad(tensor, (0, missing)) for tensor in past)
    return Ways(parent_BC, token_BC, logprob_BC, pad(ways.total_BC, (0, missing), value=-torch.inf))


def is_over(live: Live, worst_B: Tensor, search: Search) -> Tensor:
    """Where nothing alive can become better than the worst find; or nothing is alive; or all are full."""
    best_B = live.total_BW.amax(1)
    return (reachable(best_B, live, search) <= worst_B) | best_B.isneginf() | (live.length_B >= live.limit_B)


def reachable(total_B: Tensor, live: Live, search: Search) -> Tensor:
    """The highest score to which a hypothesis can come. What it adds is at most log 1 = 0, so that is
    its total over the smallest or greatest length at which it can end."""
    lengths = (live.length_B,) if search.early else (live.length_B + 1, live.limit_B)
    scores = [total_B / length_B.float() ** search.length_penalty for length_B in lengths]
    return torch.stack(scores).amax(0)
