"""The likeliest ways on: which hypothesis, with which next token.

On a CPU the logits of many hypotheses are more than its caches hold, and ranking 10,000 numbers to find
ten is most of the work. So: a few rows at a time, one pass for their normaliser and one for the maximum
of each block of tokens; the k best ways lie in the k blocks of highest maximum, and only these are ranked.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.generate.rules import Past, forbid, next_logprobs, penalise, refuse_nan
from heedful.generate.settings import Search

BLOCK = 64
CHUNK = 2**18  # logits worked on at once by each thread
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
    if logits_NV.device.type != "cpu" or logits_NV.shape[1] < max(WIDE, BLOCK * k):
        return by_ranking_all(logits_NV, past, total_BW, k, search)
    W, V = total_BW.shape[1], logits_NV.shape[1]
    size = max(1, CHUNK * torch.get_num_threads() // (W * V))
    scratch = torch.full((2, size * W, -(-V // BLOCK) * BLOCK), -torch.inf)
    parts = []
    for start in range(0, len(total_BW), size):
        rows = slice(start * W, (start + size) * W)
        total = total_BW[start : start + size]
        parts.append(by_blocks(logits_NV[rows], past.rows(rows), total, k, search, scratch))
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Ways(*(torch.cat(column) for column in columns))


def by_ranking_all(logits_NV: Tensor, past: Past, total_BW: Tensor, k: int, search: Search) -> Ways:
    """What is meant, plainly."""
    logprob_BC = next_logprobs(logits_NV, past, search).view(len(total_BW), -1)
    V = logits_NV.shape[1]
    total_BC, at_BC = (logprob_BC + total_BW.repeat_interleave(V, dim=1)).topk(min(k, logprob_BC.shape[1]))
    refuse_nan(total_BC)
    return Ways(at_BC // V, at_BC % V, logprob_BC.gather(1, at_BC), total_BC)


def by_blocks(logits_NV, past: Past, total_BW, k: int, search: Search, scratch) -> Ways:
    """The same, from the blocks in which the best must be. Columns that fill the last block are -inf."""
    (B, W), (N, V) = total_BW.shape, logits_NV.shape
    value_NC, power_NC = scratch[0, :N], scratch[1, :N]
    value_NV = value_NC[:, :V].copy_(logits_NV)
    if search.repetition_penalty != 1:
        penalise(value_NV, past.ids_NT, search.repetition_penalty)
    norm_BW = normaliser(value_NC, power_NC).view(B, W)
    forbid(value_NV, past, search)
    blocks_BMG = value_NC.view(B, -1, BLOCK)  # M = W x the blocks of one row
    M = blocks_BMG.shape[1] // W
    shift_BW = total_BW - norm_BW
    high_BM = blocks_BMG.amax(2) + shift_BW.repeat_interleave(M, dim=1)
    block_Bk = high_BM.topk(k, sorted=False).indices
    value_BC = blocks_BMG[torch.arange(B)[:, None], block_Bk].flatten(1)
    shift_BC = shift_BW.gather(1, block_Bk // M).repeat_interleave(BLOCK, dim=1)
    at_Bk = (value_BC + shift_BC).topk(k).indices
    block_Bk = block_Bk.gather(1, at_Bk // BLOCK)
    parent_Bk = block_Bk // M
    logprob_Bk = value_BC.gather(1, at_Bk) - norm_BW.gather(1, parent_Bk)
    refuse_nan(logprob_Bk)
    token_Bk = block_Bk % M * BLOCK + at_Bk % BLOCK
    return Ways(parent_Bk, token_Bk, logprob_Bk, total_BW.gather(1, parent_Bk) + logprob_Bk)


def normaliser(value_NC: Tensor, power_NC: Tensor) -> Tensor:
    """log sum exp of each row. As powers of two: several times faster than those of e."""
    top_N1 = value_NC.amax(1, keepdim=True)
    torch.add(top_N1 * -math.log2(math.e), value_NC, alpha=math.log2(math.e), out=power_NC)
    return torch.exp2(power_NC, out=power_NC).sum(1).log() + top_N1[:, 0]
