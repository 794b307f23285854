"""Sampling: which of the next tokens, as a function of one random number for each row.

Drawing by number keeps a sentence's sample its own: it depends on its seed, and on no neighbour.
"""

import numpy as np
import torch
from torch import Tensor

from heedful.generate.settings import Search


def numbers(seeds: list[int], samples: int, length: int) -> Tensor:
    """A row of numbers in [0, 1) for each sample of each sentence; the same row begins a longer one."""
    rows = [np.random.default_rng((seed, s)).random(length) for seed in seeds for s in range(samples)]
    return torch.from_numpy(np.stack(rows))


def draw(logprob_NV: Tensor, search: Search, number_N: Tensor) -> Tensor:
    """A token for each row: the first at which the probabilities so far exceed the number."""
    logprob_NC, id_NC = candidates(logprob_NV / search.temperature, search)
    logprob_NC = keep_min_p(keep_top_p(logprob_NC, search.top_p), search.min_p)
    sum_NC = logprob_NC.softmax(-1, dtype=torch.float64).cumsum(-1)
    at_N1 = torch.searchsorted(sum_NC, number_N[:, None] * sum_NC[:, -1:], right=True)
    return id_NC.gather(1, at_N1.clamp_(max=id_NC.shape[1] - 1))[:, 0]


def candidates(score_NV: Tensor, search: Search) -> tuple[Tensor, Tensor]:
    """The tokens to draw from and their log-probabilities; likeliest first, if top k or top p asks."""
    N, V = score_NV.shape
    if search.top_k:
        score_NC, id_NC = score_NV.topk(min(search.top_k, V))
        return score_NC.log_softmax(-1), id_NC
    logprob_NV = score_NV.log_softmax(-1)
    if search.top_p == 1:
        return logprob_NV, torch.arange(V, device=logprob_NV.device).expand(N, V)
    few = 64
    while few < V:  # most of the time a few tokens hold top p, and to find them costs less than to sort all
        logprob_NC, id_NC = logprob_NV.topk(few)
        if (logprob_NC.exp().sum(-1) > search.top_p + 1e-4).all():
            return logprob_NC, id_NC
        few *= 8
    return logprob_NV.sort(dim=-1, descending=True, stable=True)


def keep_top_p(logprob_NC: Tensor, p: float) -> Tensor:
    """The fewest tokens whose probabilities reach p."""
    if p == 1:
        return logprob_NC
    share_NC = logprob_NC.exp()
    before_NC = share_NC.cumsum(-1) - share_NC
    before_NC[:, 0] = 0
    return logprob_NC.masked_fill(before_NC >= p, -torch.inf)


def keep_min_p(logprob_NC: Tensor, p: float) -> Tensor:
    """The tokens that are at least p times as likely as the likeliest."""
    if p == 0:
        return logprob_NC
    ratio_NC = (logprob_NC - logprob_NC.amax(-1, keepdim=True)).exp()
    return logprob_NC.masked_fill(ratio_NC < p, -torch.inf)
