"""The likeliest ways on: which hypothesis, with which next token.

On a CPU the logits of many hypotheses are more than its caches hold, and to rank 10,000 of them for the
best ten costs more than to compute them. So: a few rows at a time, their normaliser and the maximum of
each block of tokens. The k best ways lie in the k blocks of highest maximum; only these are ranked.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.batch import CONTROL, END
from heedful.generate.rules import Past, next_logprobs, refuse_nan
from heedful.generate.settings import Search

BLOCK = 64
CHUNK = 2**17  # logits worked on at once by each thread
WIDE = 1024  # the vocabulary from which blocks pay


@dataclass(frozen=True)
class Ways:
    """For each sentence, the likeliest first: the hypothesis (of W) and its next token; the log-probability
    of this token, and the sum of all up to it."""

    parent_BC: Tensor
    token_BC: Tensor
    logprob_BC: Tensor
    total_BC: Tensor

    def pick(self, at_BW: Tensor) -> "Ways":
        return Ways(*(tensor.gather(1, at_BW) for tensor in vars(self).values()))


def likeliest(logits_NV: Tensor, past: Past, total_BW: Tensor, k: int, search: Search) -> Ways:
    """The k likeliest ways on for each sentence, out of W x V."""
    wide = logits_NV.shape[1] >= max(WIDE, BLOCK * k)
    looks_back = search.no_repeat or search.repetition_penalty != 1
    if logits_NV.device.type != "cpu" or not wide or looks_back:
        return by_ranking_all(logits_NV, past, total_BW, k, search)
    return by_blocks(logits_NV, past.length_N < search.min_length, total_BW, k)


def by_ranking_all(logits_NV: Tensor, past: Past, total_BW: Tensor, k: int, search: Search) -> Ways:
    """What is meant, plainly."""
    logprob_BC = next_logprobs(logits_NV, past, search).view(len(total_BW), -1)
    V = logits_NV.shape[1]
    total_BC, at_BC = (logprob_BC + total_BW.repeat_interleave(V, dim=1)).topk(min(k, logprob_BC.shape[1]))
    refuse_nan(total_BC)
    return Ways(at_BC // V, at_BC % V, logprob_BC.gather(1, at_BC), total_BC)


def by_blocks(logits_NV: Tensor, early_N: Tensor, total_BW: Tensor, k: int) -> Ways:
    """The same, if nothing is forbidden but control tokens, and <end> where it is too `early` for it."""
    B, W = total_BW.shape
    norm_N, high_NM = survey(logits_NV)
    token_G = torch.arange(BLOCK)
    high_NM[:, 0] = without_control(logits_NV[:, :BLOCK], token_G, early_N[:, None]).amax(1)
    shift_BW = total_BW - norm_N.view(B, W)
    M = high_NM.shape[1]
    block_Bk = (high_NM.view(B, W, M) + shift_BW[:, :, None]).flatten(1).topk(k, sorted=False).indices
    row_Bk, block_Bk = block_Bk // M + torch.arange(B)[:, None] * W, block_Bk % M
    value_BkG, token_BkG = unfolded(logits_NV, row_Bk, block_Bk)
    value_BkG = without_control(value_BkG, token_BkG, early_N[row_Bk][:, :, None])
    at_Bk = (value_BkG + shift_BW.view(-1)[row_Bk][:, :, None]).flatten(1).topk(k).indices
    row_Bk = row_Bk.gather(1, at_Bk // BLOCK)
    logprob_Bk = value_BkG.flatten(1).gather(1, at_Bk) - norm_N[row_Bk]
    refuse_nan(logprob_Bk)
    total_Bk = total_BW.view(-1)[row_Bk] + logprob_Bk
    return Ways(row_Bk % W, token_BkG.flatten(1).gather(1, at_Bk), logprob_Bk, total_Bk)


def survey(logits_NV: Tensor) -> tuple[Tensor, Tensor]:
    """log sum exp of each row, and the maximum of each of its blocks."""
    N, V = logits_NV.shape
    whole, left = divmod(V, BLOCK)
    norm_N, high_NM = torch.empty(N), torch.empty(N, whole + bool(left))
    size = max(1, CHUNK * torch.get_num_threads() // V)
    scratch_NV = torch.empty(min(size, N), V)
    for start in range(0, N, size):
        logits, norm, high = (x[start : start + size] for x in (logits_NV, norm_N, high_NM))
        value_NV = scratch_NV[: len(logits)].copy_(logits)
        high[:, :whole] = value_NV[:, : V - left].unflatten(1, (whole, BLOCK)).amax(2)
        if left:
            high[:, whole] = value_NV[:, V - left :].amax(1)
        norm.copy_(log_sum_exp_(value_NV, high.amax(1)))
    return norm_N, high_NM


def log_sum_exp_(value_NV: Tensor, top_N: Tensor) -> Tensor:
    """Uses up the values. Told by the likeliest token's probability: softmax is quicker than exp."""
    return top_N - torch.softmax(value_NV, -1, out=value_NV).amax(1).log_()


def unfolded(logits_NV: Tensor, row_Bk: Tensor, block_Bk: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of these blocks, and their tokens. A last block that is not full shows again some
    tokens of the one before, at -inf."""
    first_Bk = (block_Bk * BLOCK).clamp(max=logits_NV.shape[1] - BLOCK)
    value_BkG = logits_NV.unfold(1, BLOCK, 1)[row_Bk, first_Bk].float()
    token_BkG = first_Bk[:, :, None] + torch.arange(BLOCK)
    return value_BkG.masked_fill(token_BkG < block_Bk[:, :, None] * BLOCK, -torch.inf), token_BkG


def without_control(value: Tensor, token: Tensor, early: Tensor) -> Tensor:
    """-inf for control tokens; not for <end>, unless it is too early."""
    return value.float().masked_fill((token < len(CONTROL)) & ((token != END) | early), -torch.inf)
