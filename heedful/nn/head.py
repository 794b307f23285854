"""Head: what vectors become. Here: logits over a vocabulary, and their loss without the logits."""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHUNK = 2**22  # logits held at once: a few megabytes, so that they stay in the cache


class Head(nn.Module):
    """Logits over the vocabulary; its weight may be the embedding's own table (tied)."""

    def __init__(self, table_VD: nn.Parameter):
        super().__init__()
        self.weight = table_VD
        self.bias = nn.Parameter(torch.zeros(table_VD.shape[0]))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.linear(x_BTD, self.weight, self.bias)


def vocabulary_loss(x_ND: Tensor, head: Head, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
    """Summed cross-entropy of head(x) against labels, as `cross_entropy(reduction="sum")` gives it."""
    return VocabularyLoss.apply(x_ND, head.weight, head.bias, labels_N, smoothing)


class VocabularyLoss(torch.autograd.Function):
    """Goes over the tokens in chunks and finds the gradient at once, so the N x V logits never exist.

    With smoothing e the target is 1-e on the label plus e/V everywhere. That uniform part needs no
    pass over the logits: their sum over V is x @ sum(W), and its gradient is the same for every row.
    """

    @staticmethod
    def forward(ctx, x_ND, weight_VD, bias_V, labels_N, smoothing):
        d_x = torch.empty_like(x_ND)
        d_weight = torch.zeros(weight_VD.shape, device=x_ND.device)
        d_bias = torch.zeros(bias_V.shape, device=x_ND.device)
        total = torch.zeros((), device=x_ND.device)
        rows = max(1, CHUNK // len(bias_V))
        scratch = Scratch(x_ND[:rows], len(bias_V))
        chunks = zip(x_ND.split(rows), labels_N.split(rows), d_x.split(rows), strict=True)
        for x, labels, d_x_chunk in chunks:
            loss, d_logits = chunk_loss(x, weight_VD, bias_V, labels, 1 - smoothing, scratch)
            total += loss
            torch.mm(d_logits, weight_VD, out=d_x_chunk)
            d_weight += d_logits.T @ x
            d_bias += d_logits.sum(0, dtype=torch.float32)
        if smoothing:
            share = smoothing / len(bias_V)
            sum_D, sum_x = weight_VD.sum(0, dtype=torch.float32), x_ND.sum(0, dtype=torch.float32)
            total -= share * (sum_x @ sum_D + len(x_ND) * bias_V.sum(dtype=torch.float32))
            d_x -= (share * sum_D).to(d_x.dtype)
            d_weight -= share * sum_x
            d_bias -= share * len(x_ND)
        ctx.save_for_backward(d_x, d_weight, d_bias)
        ctx.dtype = weight_VD.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        d_x, d_weight, d_bias = ctx.saved_tensors
        d_weight, d_bias = (d_weight * grad).to(ctx.dtype), (d_bias * grad).to(ctx.dtype)
        return d_x * grad.to(d_x.dtype), d_weight, d_bias, None, None


class Scratch:
    """Room for one chunk's logits and probabilities, used again for every chunk."""

    def __init__(self, x_ND: Tensor, V: int):
        self.logits_NV = x_ND.new_empty(len(x_ND), V)
        self.p_NV = torch.empty(len(x_ND), V, device=x_ND.device)


def chunk_loss(x_ND, weight_VD, bias_V, labels_N, sharp: float, scratch: Scratch):
    """Sum of logsumexp - sharp * logits[label], and its gradient for the logits."""
    N = len(x_ND)
    logits_NV = torch.addmm(bias_V, x_ND, weight_VD.T, out=scratch.logits_NV[:N])
    own_N = logits_NV.gather(1, labels_N[:, None])[:, 0].float()
    top_N = logits_NV.amax(-1).float()
    p_NV = torch.softmax(logits_NV, -1, dtype=torch.float32, out=scratch.p_NV[:N])
    lse_N = top_N - p_NV.amax(-1).log()
    p_NV[torch.arange(N, device=x_ND.device), labels_N] -= sharp
    return (lse_N - sharp * own_N).sum(), logits_NV.copy_(p_NV)
