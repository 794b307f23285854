"""Rules: what may come next. Each changes, in place, what is known of the next token of N hypotheses."""

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.batch import CLS, END, MASK, PAD, SEP, START, UNK
from heedful.errors import BadInput
from heedful.generate.settings import Search

NEVER = (PAD, UNK, START, CLS, SEP, MASK)


@dataclass(frozen=True)
class Past:
    """What is written so far: <start> and tokens, with <pad> on the left of shorter ones; how many tokens."""

    ids_NT: Tensor
    length_N: Tensor

    def rows(self, rows: slice) -> "Past":
        return Past(self.ids_NT[rows], self.length_N[rows])


def next_logprobs(logits_NV: Tensor, past: Past, search: Search) -> Tensor:
    """The log-probability of each next token as the model has it, -inf where a rule forbids it."""
    value_NV = logits_NV.float()
    if search.repetition_penalty != 1:
        value_NV = penalise(value_NV.clone(), past.ids_NT, search.repetition_penalty)
    return forbid(value_NV.log_softmax(-1), past, search)


def penalise(value_NV: Tensor, ids_NT: Tensor, penalty: float) -> Tensor:
    """Makes tokens that were written before less likely: their logits shrink, or grow if negative."""
    seen_NT = ids_NT.where(ids_NT != PAD, START)  # padding must not tell who the neighbours are
    value_NT = value_NV.gather(1, seen_NT)
    value_NT = torch.where(value_NT < 0, value_NT * penalty, value_NT / penalty)
    return value_NV.scatter_(1, seen_NT, value_NT)


def forbid(value_NV: Tensor, past: Past, search: Search) -> Tensor:
    """-inf for all that may not come next. Of the control tokens, only <end> ever may."""
    for never in NEVER:
        if never < value_NV.shape[1]:
            value_NV[:, never] = -torch.inf
    if search.min_length:
        hold_end(value_NV, past.length_N, search.min_length)
    if search.no_repeat:
        forbid_repeats(value_NV, past.ids_NT, search.no_repeat)
    return value_NV


def hold_end(value_NV: Tensor, length_N: Tensor, least: int) -> None:
    """No <end> before there are `least` tokens."""
    value_NV[:, END].masked_fill_(length_N < least, -torch.inf)


def forbid_repeats(value_NV: Tensor, ids_NT: Tensor, n: int) -> None:
    """No token that would complete n tokens which are there already."""
    if ids_NT.shape[1] < n:
        return
    gram_NSn = ids_NT.unfold(1, n, 1)
    begun_N1n = ids_NT[:, None, ids_NT.shape[1] - n + 1 :]
    row_M, start_M = (gram_NSn[:, :, :-1] == begun_N1n).all(-1).nonzero(as_tuple=True)
    value_NV[row_M, gram_NSn[row_M, start_M, -1]] = -torch.inf


def refuse_nan(logprob_NK: Tensor) -> None:
    if logprob_NK.isnan().any():
        raise BadInput("the model's probabilities are not numbers (NaN): it is broken, or its training was")
