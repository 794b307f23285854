"""Head: what vectors become. Here: logits over a vocabulary, and their loss without the logits."""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHUNK = 2**22  # logits held at once, so that they stay in the larger caches
RARE = 1e-30  # a label's probability below which its logarithm is taken another way


class Head(nn.Module):
    """Logits over the vocabulary; its weight may be the embedding's own table (tied)."""

    def __init__(self, table_VD: nn.Parameter):
        super().__init__()
        self.weight = table_VD
        self.bias = nn.Parameter(torch.zeros(table_VD.shape[0]))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.linear(x_BTD, self.weight, self.bias)


def vocabulary_loss(
    x_ND: Tensor, head: Head, labels_N: Tensor, smoothing: float = 0.0, agreement: float = 0.0
) -> Tensor:
    """Summed cross-entropy of head(x) against labels, as `cross_entropy(reduction="sum")` gives it.

    With an agreement, x holds two passes over the same labels, one after the other, and the loss is
    the sum of both and of agreement/2 times their symmetric divergence (R-Drop, Liang et al. 2021).
    """
    wanted = len(labels_N) * (2 if agreement else 1)
    if len(x_ND) != wanted:
        raise ValueError(f"{len(x_ND)} vectors, but labels for {wanted}")
    return VocabularyLoss.apply(x_ND, head.weight, head.bias, labels_N, (smoothing, agreement))


class VocabularyLoss(torch.autograd.Function):
    """Goes over the tokens in chunks and finds the gradient at once, so the N x V logits never exist.

    With smoothing e the target is 1-e on the label plus e/V everywhere. That uniform part needs no
    pass over the logits: their sum over V is x @ sum(W), and its gradient is the same for every row.
    """

    @staticmethod
    def forward(ctx, x_ND, weight_VD, bias_V, labels_N, settings):
        smoothing, agreement = settings
        d_x = torch.empty_like(x_ND)
        d_weight = torch.zeros(weight_VD.shape, device=x_ND.device)
        d_bias = torch.zeros(bias_V.shape, device=x_ND.device)
        total = torch.zeros((), device=x_ND.device)
        passes = 2 if agreement else 1
        rows = max(1, CHUNK // (passes * len(bias_V)))
        scratch = Scratch(x_ND[: passes * rows], len(bias_V), both=bool(agreement))
        d_x_PND = d_x.view(passes, -1, d_x.shape[1])
        for start in range(0, len(labels_N), rows):
            part = slice(start, start + rows)
            x = x_ND.view(d_x_PND.shape)[:, part].flatten(0, 1)
            labels = labels_N[part].repeat(passes)
            loss, d_logits = chunk_loss(x, weight_VD, bias_V, labels, (1 - smoothing, agreement), scratch)
            total += loss
            d_x_PND[:, part] = (d_logits @ weight_VD).view(passes, -1, d_x.shape[1])
            d_weight += d_logits.T @ x
            d_bias += (d_logits.new_ones(1, len(x)) @ d_logits)[0]  # their sum, twice as fast
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
    """Room for one chunk's logits, used again for every chunk. Probabilities take their place, unless both
    are needed: half the room is half the way to memory."""

    def __init__(self, x_ND: Tensor, V: int, both: bool):
        self.logits_NV = x_ND.new_empty(len(x_ND), V)
        self.p_NV = torch.empty_like(self.logits_NV) if both else self.logits_NV


def chunk_loss(x_ND, weight_VD, bias_V, labels_N, settings, scratch: Scratch):
    """Sum of logsumexp - sharp * logits[label], and its gradient for the logits."""
    N, (sharp, agreement) = len(x_ND), settings
    logits_NV = torch.addmm(bias_V, x_ND, weight_VD.T, out=scratch.logits_NV[:N])
    # Flat places: a scatter along the last side would copy all of a bfloat16 tensor on a CPU, twice.
    place_N = labels_N + torch.arange(N, device=labels_N.device) * logits_NV.shape[1]
    own_N = logits_NV.view(-1)[place_N].float()
    p_NV = torch.softmax(logits_NV, -1, out=scratch.p_NV[:N])
    flat = p_NV.view(-1)
    p_N = flat[place_N].float()
    # Where the label is all but sure, 1 - p would be rounding alone: it is summed from all the others.
    flat[place_N] = 0.0
    others_N = p_NV.sum(-1).float()
    lse_N = own_N - torch.where(p_N > 0.5, torch.log1p(-others_N), p_N.log())
    rare_N = p_N < RARE
    if rare_N.any():
        lse_N[rare_N] = nn.functional.linear(x_ND[rare_N], weight_VD, bias_V).float().logsumexp(-1)
    loss = (lse_N - sharp * own_N).sum()
    d_N = torch.where(p_N > 0.5, 1 - sharp - others_N, p_N - sharp)
    if agreement:
        flat[place_N] = p_N.to(p_NV.dtype)
        gap_N = signed((own_N - lse_N).chunk(2))
        kl_N = agree_(logits_NV, lse_N, p_NV, agreement / 2)
        loss = loss + agreement / 2 * kl_N.sum()
        d_N += agreement / 2 * (p_N * (gap_N - kl_N) + signed(p_N.chunk(2)))
    flat[place_N] = d_N.to(p_NV.dtype)
    return loss, p_NV


def signed(halves: tuple[Tensor, ...]) -> Tensor:
    """How far each half is from the other."""
    gap = halves[0] - halves[1]
    return torch.cat([gap, -gap])


def agree_(logits_NV: Tensor, lse_N: Tensor, p_NV: Tensor, weight: float) -> Tensor:
    """Gives KL(a|b) for each row a of the first half, and KL(b|a) for each of the second. Adds to p, in
    place, the gradient of weight * their sum: weight * (p_a * (log p_a - log p_b - KL(a|b)) + p_a - p_b).

    In the dtype of p throughout: on a CPU the passes over these numbers are the cost.
    """
    (a, b), (p_a, p_b), (lse_a, lse_b) = (each.chunk(2) for each in (logits_NV, p_NV, lse_N[:, None]))
    gap = torch.sub(a, b).sub_((lse_a - lse_b).to(a.dtype))
    more_a, more_b = p_a * gap, p_b * gap
    kl_a, kl_b = more_a.sum(-1, keepdim=True), -more_b.sum(-1, keepdim=True)
    more_a.sub_(p_b)
    more_b.add_(p_a)
    p_a.mul_(1 + weight - weight * kl_a).add_(more_a, alpha=weight)
    p_b.mul_(1 + weight - weight * kl_b).sub_(more_b, alpha=weight)
    return torch.cat([kl_a, kl_b])[:, 0].float()
