"""The loss over a vocabulary that never makes the logits, against torch's that does."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from heedful.nn import Head, vocabulary_loss
from heedful.nn import head as module

N, D, V = 13, 8, 37


def example(dtype=torch.float32, count: int = N):
    x = torch.randn(count, D, dtype=dtype, requires_grad=True)
    head = Head(nn.Parameter(torch.randn(V, D))).to(dtype)
    head.bias.data = torch.randn(V).to(dtype)
    return x, head, torch.randint(V, (count,))


def loss_and_gradients(loss, x, head):
    grads = torch.autograd.grad(loss, (x, head.weight, head.bias))
    return loss.detach().float(), *(g.float() for g in grads)


def by_torch(x, head, labels, smoothing, scale=1.0):
    loss = F.cross_entropy(head(x), labels, reduction="sum", label_smoothing=smoothing)
    return loss_and_gradients(scale * loss, x, head)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("rows", [1, 2, 5, 12, 13, 14, 1000])
def test_loss_is_cross_entropy_whatever_the_chunk(monkeypatch, rows, smoothing):
    monkeypatch.setattr(module, "CHUNK", rows * V)
    x, head, labels = example()
    ours = loss_and_gradients(vocabulary_loss(x, head, labels, smoothing), x, head)
    for one, other in zip(ours, by_torch(x, head, labels, smoothing), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_one_row_does_not_fit_into_a_chunk(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1)
    x, head, labels = example()
    expected = F.cross_entropy(head(x), labels, reduction="sum")
    torch.testing.assert_close(vocabulary_loss(x, head, labels), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_is_near_and_its_sums_are_in_float32(monkeypatch, smoothing):
    monkeypatch.setattr(module, "CHUNK", 4 * V)
    x, head, labels = example(torch.bfloat16)
    ours = loss_and_gradients(vocabulary_loss(x, head, labels, smoothing), x, head)
    exact_x = x.detach().float().requires_grad_()
    exact = by_torch(exact_x, head.float(), labels, smoothing)
    torch.testing.assert_close(ours[0], exact[0], rtol=0.01, atol=0.1)
    for one, other in zip(ours[1:], exact[1:], strict=True):
        assert (one - other).norm() < 0.02 * other.norm()


def test_gradient_is_scaled_by_what_comes_after():
    x, head, labels = example()
    ours = loss_and_gradients(vocabulary_loss(x, head, labels, 0.1) / 7, x, head)
    for one, other in zip(ours, by_torch(x, head, labels, 0.1, scale=1 / 7), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_tied_table_gets_the_gradients_of_both_its_uses():
    table, ids, labels = nn.Parameter(torch.randn(V, D)), torch.randint(V, (N,)), torch.randint(V, (N,))
    head = Head(table)
    assert head.weight is table
    (ours,) = torch.autograd.grad(vocabulary_loss(table[ids].tanh(), head, labels), table)
    logits = F.linear(table[ids].tanh(), table, head.bias)
    (theirs,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), table)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_vectors_in_any_layout():
    x, head, labels = example()
    across = x.detach().T.contiguous().T.requires_grad_()
    for one, other in zip(
        loss_and_gradients(vocabulary_loss(across, head, labels, 0.1), across, head),
        loss_and_gradients(vocabulary_loss(x, head, labels, 0.1), x, head),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_large_logits_do_not_overflow():
    x, head, labels = example()
    head.weight.data *= 1000
    loss = vocabulary_loss(x, head, labels)
    assert loss.isfinite()
    torch.testing.assert_close(loss, F.cross_entropy(head(x), labels, reduction="sum"))


def test_no_tokens_no_loss():
    x, head, labels = example(count=0)
    loss, *grads = loss_and_gradients(vocabulary_loss(x, head, labels, 0.1), x, head)
    assert loss == 0 and all((g == 0).all() for g in grads)


def divergent(x, head, labels, smoothing, agreement):
    """R-Drop written out: both passes' cross-entropy, and half their divergence in both directions."""
    logits = head(x)
    loss = F.cross_entropy(logits, labels.repeat(2), reduction="sum", label_smoothing=smoothing)
    a, b = logits.log_softmax(-1).chunk(2)
    both = F.kl_div(a, b, reduction="sum", log_target=True) + F.kl_div(b, a, reduction="sum", log_target=True)
    return loss + agreement / 2 * both


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 3, 5, 1000])
def test_agreement_is_the_divergence_of_two_passes(monkeypatch, rows, smoothing):
    monkeypatch.setattr(module, "CHUNK", 2 * rows * V)
    x, head, _ = example(count=10)
    x.data[5:] = x.data[:5] + 0.5 * torch.randn(5, D)  # the same tokens under another dropout
    labels = torch.randint(V, (5,))
    ours = loss_and_gradients(vocabulary_loss(x, head, labels, smoothing, 0.7), x, head)
    theirs = loss_and_gradients(divergent(x, head, labels, smoothing, 0.7), x, head)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_agreement_in_bfloat16_is_that_of_float32_to_rounding():
    x, head, _ = example(count=10)
    x.data[5:] = x.data[:5] + 0.5 * torch.randn(5, D)
    labels = torch.randint(V, (5,))
    theirs = loss_and_gradients(vocabulary_loss(x, head, labels, 0.1, 5.0), x, head)
    x, head = x.detach().bfloat16().requires_grad_(), head.bfloat16()
    ours = loss_and_gradients(vocabulary_loss(x, head, labels, 0.1, 5.0), x, head)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.float() - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("count, agreement", [(6, 0.0), (26, 0.0), (12, 0.5), (13, 0.5)])
def test_as_many_labels_as_vectors(count, agreement):
    """Fewer, and the rest of the gradient would be anything."""
    x, head, _ = example()
    with pytest.raises(ValueError, match="13 vectors"):
        vocabulary_loss(x, head, torch.zeros(count, dtype=torch.int64), 0.0, agreement)


def test_a_second_derivative_is_refused_and_not_wrong():
    """The gradient is found on the way forward: nothing is left to differentiate it by."""
    x, head, labels = example()
    loss = vocabulary_loss(x, head, labels).square()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.square().sum().backward()


def test_logits_are_the_products_with_the_table():
    """The predicted embedding times the embedding matrix: a score for each word."""
    x, head, _ = example()
    torch.testing.assert_close(head(x), x @ head.weight.T + head.bias)
    assert (Head(nn.Parameter(torch.randn(V, D))).bias == 0).all()


def test_sure_labels_keep_their_small_gradient_in_bfloat16():
    """p is 0.9993 and rounds to 1: its distance from 1 must come from elsewhere."""
    head = Head(torch.nn.Parameter(torch.eye(8, dtype=torch.bfloat16))).bfloat16()
    x = torch.zeros(4, 8, dtype=torch.bfloat16)
    x[:, 3] = 9.25
    x.requires_grad_()
    labels = torch.full((4,), 3)
    vocabulary_loss(x, head, labels).backward()
    exact = x.detach().double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact, labels, reduction="sum")
    loss.backward()
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=0.02, atol=0)
    torch.testing.assert_close(vocabulary_loss(x, head, labels).double(), loss, rtol=0.02, atol=0)
