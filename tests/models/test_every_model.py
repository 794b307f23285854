"""One suite for every model. A model joins by a row in MODELS; what it does not promise it leaves out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful import disk
from heedful.data.batch import END, MASK, PAD, START, Batch, pad
from heedful.models.translation import Translation, TranslationConfig
from heedful.nn import Embed, attention, vocabulary_loss
from heedful.nn.position import sinusoid
from heedful.run import copy_into, weights_of
from heedful.tasks.next_token import NextToken
from tests.nn.reference import SAME, torch_stack

SOURCE_V, TARGET_V = 19, 23


@dataclass(frozen=True)
class Case:
    """A tiny model with its data. `answers` are the vectors that the loss is made of, row by row.

    `generate` has (how to make the memory, ids of the target) for what can be decoded step by step.
    """

    name: str
    build: Callable[[], nn.Module]
    rows: Sequence
    collate: Callable[[Sequence, str], Batch]
    answers: Callable[[nn.Module, Batch], list[Tensor]]
    loss: Callable[[nn.Module, Batch], Tensor]
    golden: tuple[float, ...]
    generate: tuple[Callable, Callable] | None = None
    reference: Callable[[nn.Module, Batch], list[Tensor]] | None = None
    causal: bool = False

    def batch(self, rows: Sequence | None = None, side: str = "right") -> Batch:
        return self.collate(self.rows if rows is None else rows, side)

    def model(self, seed: int = 0) -> nn.Module:
        """Without dropout, until somebody calls train()."""
        torch.manual_seed(seed)
        return self.build().eval()


# ---- translation


def sentence_pairs(count: int, widest: int = 6, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Sources of any words, of 1 word and more; the target is the source reversed."""
    draw = torch.Generator().manual_seed(seed)
    pairs = []
    for i in range(count):
        words = torch.randint(MASK + 1, SOURCE_V, (1 + i % widest,), generator=draw).tolist()
        pairs.append(([START, *words, END], [START, *reversed(words), END]))
    return pairs


def padded_pairs(pairs: Sequence, side: str) -> Batch:
    return Batch(pad([source for source, _ in pairs], side), pad([target for _, target in pairs], side))


def asked(batch: Batch) -> Tensor:
    """Where a real token is followed by a real token."""
    return (batch.target_BT[:, :-1] != PAD) & (batch.labels_BT != PAD)


def by_row(logits: Tensor, batch: Batch) -> list[Tensor]:
    return [row[keep] for row, keep in zip(logits, asked(batch), strict=True)]


def next_token_answers(model: nn.Module, batch: Batch) -> list[Tensor]:
    return by_row(model(batch).logits, batch)


def next_token_loss(model: nn.Module, batch: Batch) -> Tensor:
    outputs, keep = model(batch), asked(batch)
    return vocabulary_loss(outputs.hidden_BTD[keep], outputs.head, batch.labels_BT[keep])


def translation_by_torch(model: Translation, batch: Batch) -> list[Tensor]:
    """The answers of torch.nn's encoder and decoder with the same weights."""
    c = model.config

    def embed(module: Embed, ids: Tensor) -> Tensor:
        waves = sinusoid(ids.shape[1], c.dim)
        rows = waves if c.position == "sinusoid" else module.position.table_TD[: ids.shape[1]]
        return module.table_VD[ids] * c.dim**0.5 + rows

    source, target = batch.source_BS, batch.target_BT[:, :-1]
    future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    encoder, decoder = (torch_stack(s, c.stack(c.layers)) for s in (model.encoder, model.decoder))
    memory = encoder(embed(model.source_embed, source), src_key_padding_mask=source == PAD)
    masks = {"tgt_mask": future, "memory_key_padding_mask": source == PAD}
    hidden = decoder(embed(model.target_embed, target), memory, **masks)
    return by_row(F.linear(hidden, model.target_embed.table_VD, model.head.bias), batch)


def translation(name: str, golden: tuple[float, ...], **config) -> Case:
    tiny = TranslationConfig(dim=16, heads=2, layers=2, ff=32, vocabulary=SOURCE_V, length=16, **config)
    return Case(
        name=f"translation-{name}",
        build=partial(Translation, tiny),
        rows=sentence_pairs(6),
        collate=padded_pairs,
        answers=next_token_answers,
        loss=next_token_loss,
        golden=golden,
        generate=(lambda m, batch: m.encode(batch.source_BS), lambda batch: batch.target_BT[:, :-1]),
        reference=translation_by_torch,
        causal=True,
    )


# ---- the table

MODELS = [
    translation("pre-sinusoid", (47.4805, 37.1504, 21.8848, 5.2488), norm="pre", position="sinusoid"),
    translation(
        "post-learned",
        (47.1060, 35.9746, 27.5642, 5.2441),
        norm="post",
        position="learned",
        target_vocabulary=TARGET_V,
    ),
]


def those(promise: Callable[[Case], object] = lambda case: True):
    """A test for all models that promise something."""
    cases = [case for case in MODELS if promise(case)]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


# ---- the tests


@those()
def test_every_parameter_learns(case):
    model = case.model()
    for name, grad in gradients(model, case.loss(model, case.batch())).items():
        assert grad.isfinite().all() and grad.any(), name


@those()
def test_dropout_is_for_training_only(case):
    model, batch = case.model(), case.batch()
    assert case.loss(model, batch) == case.loss(model, batch)
    model.train()
    assert case.loss(model, batch) != case.loss(model, batch)


@those(lambda case: case.causal)
def test_causality_by_gradient(case):
    """An answer depends on each token up to its own, and on none after it."""
    model, batch, seen = case.model(), case.batch(case.rows[-1:]), []
    for module in model.modules():
        if isinstance(module, Embed):
            module.register_forward_hook(lambda _, __, out: seen.append(out))
    (answers,), embedded = case.answers(model, batch), seen[-1]  # the decoder's, if there are two
    assert len(answers) == embedded.shape[1] > 3
    for t, answer in enumerate(answers):
        (grad,) = torch.autograd.grad(answer.square().sum(), embedded, retain_graph=True)
        assert (grad[:, t + 1 :] == 0).all()
        assert (grad[:, : t + 1] != 0).any(-1).all()


def chunkings(n: int) -> list[list[int]]:
    """All ways to cut n tokens into pieces, as lists of lengths."""
    if n == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n + 1) for rest in chunkings(n - first)]


@those(lambda case: case.generate)
@pytest.mark.parametrize("side", ["left", "right"])
def test_cached_is_uncached_in_any_chunking(case, side):
    model, batch = case.model(), case.batch(case.rows[2:5], side)
    remember, inputs = case.generate
    memory, ids = remember(model, batch), inputs(batch)
    with torch.no_grad():
        whole, _ = model.decode(ids, memory, None)
        for sizes in chunkings(ids.shape[1]):
            logits, state = [], None
            for chunk in ids.split(sizes, 1):
                out, state = model.decode(chunk, memory, state)
                logits.append(out)
            torch.testing.assert_close(torch.cat(logits, 1)[ids != PAD], whole[ids != PAD], **SAME)


@those(lambda case: case.generate)
def test_decoding_step_by_step_is_what_was_trained(case):
    """The one pass over all next-token tasks gives what N separate passes would."""
    model, batch = case.model(), case.batch(case.rows[-1:])
    remember, inputs = case.generate
    (answers,), memory, ids = case.answers(model, batch), remember(model, batch), inputs(batch)
    for t in range(ids.shape[1]):
        logits, _ = model.decode(ids[:, : t + 1], memory, None)
        torch.testing.assert_close(logits[0, -1], answers[t], **SAME)


@those(lambda case: case.generate)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_of_all_next_token_tasks(case, smoothing):
    """One loss for the batch, against N separate predictions, each from the target so far."""
    model, batch = case.model(), case.batch()
    remember, inputs = case.generate
    memory, ids, total = remember(model, batch), inputs(batch), 0.0
    for t, label in enumerate(batch.labels_BT.unbind(1)):
        logits, _ = model.decode(ids[:, : t + 1], memory, None)
        scores = {"ignore_index": PAD, "reduction": "sum", "label_smoothing": smoothing}
        total += F.cross_entropy(logits[:, -1], label, **scores)
    torch.testing.assert_close(NextToken(smoothing).loss(model, batch), total)


@those()
@pytest.mark.parametrize("side", ["left", "right"])
def test_left_pad_is_right_pad_is_no_pad(case, side):
    """A row beside longer ones gives what it gives by itself."""
    model = case.model()
    together = case.answers(model, case.batch(side=side))
    for row, answers in zip(case.rows, together, strict=True):
        (alone,) = case.answers(model, case.batch([row]))
        torch.testing.assert_close(answers, alone, **SAME)


@those()
@pytest.mark.parametrize("side", ["left", "right"])
def test_batch_is_the_sum_of_its_rows(case, side):
    """Loss and gradients, so that the size of a batch is a matter of memory alone."""
    model = case.model()
    loss = case.loss(model, case.batch(side=side))
    alone = sum(case.loss(model, case.batch([row])) for row in case.rows)
    torch.testing.assert_close(loss, alone)
    apart = gradients(model, alone)
    for name, grad in gradients(model, loss).items():
        torch.testing.assert_close(grad, apart[name], rtol=1e-4, atol=1e-4, msg=name)


@those(lambda case: case.reference)
def test_parity_with_the_reference(case):
    """Other people's layers with the same weights: the same answers, and the same gradient of the
    parameter that is farthest from them."""
    model, batch = case.model(), case.batch()
    for p in model.parameters():
        p.data += 0.05 * torch.randn_like(p)  # no zeros and ones, in which a mistake could hide
    ours, theirs = (torch.cat(f(model, batch)) for f in (case.answers, case.reference))
    torch.testing.assert_close(ours, theirs, **SAME)
    first, weigh = next(model.parameters()), torch.randn_like(ours)
    mine, other = (torch.autograd.grad((answers * weigh).sum(), first)[0] for answers in (ours, theirs))
    assert mine.any()
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@those()
def test_fused_is_explicit(case, monkeypatch):
    """Torch's own kernel and the equation, with padding: loss and gradients."""
    model, found = case.model(), []
    for fused in (True, False):
        monkeypatch.setattr(attention, "prefers_fused", lambda *_, fused=fused: fused)
        loss = case.loss(model, case.batch())
        found.append(gradients(model, loss) | {"loss": loss.detach()})
    for name, tensor in found[0].items():
        torch.testing.assert_close(tensor, found[1][name], rtol=1e-4, atol=1e-5, msg=name)


@those()
def test_saved_and_loaded_is_the_same(case, tmp_path):
    model, other = case.model(), case.model(seed=1)
    disk.save_tensors(tmp_path / "weights", weights_of(model))
    copy_into(weights_of(other), disk.load_tensors(tmp_path / "weights")[0], tmp_path)
    assert case.loss(other, case.batch()) == case.loss(model, case.batch())


@those()
def test_overfits_two_examples(case):
    model, batch = case.model(), case.batch(case.rows[-2:])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = case.loss(model, batch)
        loss.backward()
        optimizer.step()
    assert loss < 0.2


def losses_of_100_steps(case: Case) -> list[float]:
    """With dropout, over four batches in turn. Anything that changes training changes these figures."""
    model = case.model(seed=1).train()
    batches = [case.batch(case.rows[i::2]) for i in range(2)] + [
        case.batch(case.rows[i::3]) for i in range(2)
    ]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, eps=1e-6)
    losses = []
    for step in range(100):
        optimizer.zero_grad()
        loss = case.loss(model, batches[step % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@those()
def test_golden_losses(case):
    """Of steps 1, 10, 50 and 100. Other processors and thread counts differ in the fifth figure."""
    losses = losses_of_100_steps(case)
    assert [losses[i] for i in (0, 9, 49, 99)] == pytest.approx(case.golden, abs=1e-3)
