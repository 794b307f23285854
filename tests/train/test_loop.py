"""The loop: what a step computes, when a training ends, what it keeps."""

import math
import os
import time

import numpy as np
import pytest
import torch

from heedful import disk
from heedful.errors import BadInput
from heedful.nn import attention, dropout, embed
from heedful.run import load_model
from heedful.tasks import next_token
from heedful.train import loop, start
from heedful.train.checkpoint import checkpoints
from heedful.train.loop import Trainer
from heedful.train.schedule import SCHEDULES, factor
from tests.train.tiny import config_in, trained, trainer

STILL = ("--model.dropout", "0", "--train.precision", "float32")


def gradients(made, batches, monkeypatch):
    """Those that one step over the batches would follow."""
    seen = {}

    def look(rate):
        seen.update({name: w.grad.clone() for name, w in made.weights.masters.items()})
        return torch.ones(())

    monkeypatch.setattr(made, "move", look)
    report = made.step(batches)
    return report, seen


def test_four_micro_batches_are_one_batch(data, tmp_path, monkeypatch):
    """Of unequal lengths and sizes: the loss is divided by the tokens of them all."""
    made = trainer(data, tmp_path / "run", *STILL)
    rows = made.train.lengths[:40].sum(1).argsort()
    parts = [rows[:20], rows[20:30], rows[30:38], rows[38:]]
    tokens = [made.train.batch(part).tokens for part in parts]
    assert len(set(tokens)) == 4
    one, whole = gradients(made, [rows], monkeypatch)
    four, summed = gradients(made, parts, monkeypatch)
    assert four.loss == pytest.approx(one.loss, rel=1e-5) and four.labels == one.labels == sum(tokens)
    for name, grad in whole.items():
        torch.testing.assert_close(summed[name], grad, rtol=1e-4, atol=1e-6, msg=name)


def test_the_loss_is_the_mean_over_target_tokens(data, tmp_path):
    made = trainer(data, tmp_path / "run", *STILL, "--train.smoothing", "0")
    rows = np.arange(9)
    batch = made.train.batch(rows)
    logits = made.model(batch).logits
    expected = torch.nn.functional.cross_entropy(logits.mT, batch.labels_BT, ignore_index=0)
    assert made.step([rows]).loss == pytest.approx(expected.item(), rel=1e-5)


def test_evaluation_changes_nothing(data, tmp_path):
    made = trainer(data, tmp_path / "run")
    for _ in zip(made.fit(), range(3), strict=False):
        pass
    before = disk.digest(made.weights.own, "")
    assert made.evaluate() == made.evaluate() > 0
    assert disk.digest(made.weights.own, "") == before and made.model.training


def test_a_dev_loss_that_is_no_number_is_never_the_best(data, tmp_path):
    made = trainer(data, tmp_path / "run")
    assert [made.judge(loss) for loss in (3.0, float("nan"), 5.0, 2.0)] == [True, False, False, True]
    assert (made.progress.best, made.progress.stale) == (2.0, 0)


def test_saving_and_evaluating_count_as_time(data, tmp_path, monkeypatch):
    saving = Trainer.save
    monkeypatch.setattr(Trainer, "save", lambda self: (time.sleep(0.3), saving(self)))
    made = trained(data, tmp_path / "run", "--train.steps", "3", "--train.save_every", "1")
    assert made.progress.seconds > 0.6  # the last save comes after the last look at the clock


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data.dev=[]", "--data.hold_out", "0.001"), "data.hold_out 0.001 takes none of 80 examples"),
        (("--data.dev", "train.tsv", "--data.unseen", "true"), "dev asks for every source in it"),
    ],
)
def test_a_part_without_examples_is_named(data, tmp_path, words, said):
    with pytest.raises(BadInput, match=said):
        start.train(config_in(data, *words), tmp_path / "run")


def test_it_learns_and_bfloat16_learns_the_same(data, tmp_path):
    curves = []
    for precision in ("float32", "bfloat16"):
        words = ("--train.precision", precision, "--train.lr", "1e-2")
        made = trained(data, tmp_path / precision, *words)
        curves.append([event["dev_loss"] for event in made.run.events() if "dev_loss" in event])
        assert made.progress.best == pytest.approx(min(curves[-1]), abs=1e-4)
        assert curves[-1][-1] < 0.85 * curves[-1][0]
    assert curves[1] == pytest.approx(curves[0], rel=0.01)


def go_plainly(monkeypatch):
    """Every fast path gives way to what torch has for it."""

    def plain_loss(x_ND, head, labels_N, smoothing, _):
        logits_NV = torch.nn.functional.linear(x_ND, head.weight, head.bias)
        return torch.nn.functional.cross_entropy(
            logits_NV, labels_N, reduction="sum", label_smoothing=smoothing
        )

    def plain_attention(q, k, v, *, keep_BTS, rate):
        keep = keep_BTS[:, None]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=rate)

    monkeypatch.setattr(next_token, "vocabulary_loss", plain_loss)
    monkeypatch.setattr(attention, "attend", plain_attention)
    monkeypatch.setattr(embed.Lookup, "apply", lambda table, ids: torch.nn.functional.embedding(ids, table))
    monkeypatch.setattr(dropout, "drop", torch.nn.functional.dropout)
    monkeypatch.setattr(dropout.Dropout, "add", lambda self, x, y: x + self(y))


def test_the_fast_path_learns_what_the_plain_one_learns(data, tmp_path, monkeypatch):
    """In bfloat16, against torch's own attention, dropout and loss in float32: within noise, which here is
    how far another seed of dropout leads."""
    words = ("--train.lr", "1e-2", "--train.steps", "60")
    fast = trained(data, tmp_path / "fast", *words)
    go_plainly(monkeypatch)
    plain = trained(data, tmp_path / "plain", *words, "--train.precision", "float32")
    monkeypatch.setattr(loop, "seed_step", lambda *_: None)
    again = trained(data, tmp_path / "again", *words, "--train.precision", "float32")
    curves = [
        [event["dev_loss"] for event in made.run.events() if "dev_loss" in event]
        for made in (fast, plain, again)
    ]
    assert curves[0][-1] < 0.85 * curves[0][0]
    noise = max(abs(a / b - 1) for a, b in zip(curves[2], curves[1], strict=True))
    assert 0 < noise < 0.1
    assert curves[0] == pytest.approx(curves[1], rel=max(0.03, 2 * noise))


# The end


def test_steps_end_it(data, tmp_path):
    made = trained(data, tmp_path / "run", "--train.steps", "7")
    assert made.progress.step == 7 and made.done() == 1
    assert [path.stem for path in checkpoints(made.run)] == ["000000005", "000000007"]


def test_epochs_end_it(data, tmp_path):
    made = trained(
        data, tmp_path / "run", "--train.steps", "0", "--train.epochs", "2", "--train.accumulate", "1"
    )
    assert made.progress.step == 2 * len(made.stream.batches_in(0))
    assert made.progress.place.epoch == 2
    assert made.progress.tokens >= 2 * made.train.lengths.sum()


def test_the_first_of_steps_and_epochs_ends_it(data, tmp_path):
    made = trainer(data, tmp_path / "run", "--train.steps", "3", "--train.epochs", "50")
    assert made.steps == 3


def test_a_budget_ends_it_and_the_schedule_is_stretched_to_it(data, tmp_path, monkeypatch):
    """By a clock of our own: a second for each look at it."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(ticks)))
    words = (
        "--train.steps",
        "0",
        "--train.budget",
        "20s",
        "--train.schedule",
        "linear",
        "--train.warmup",
        "0",
    )
    made = trainer(data, tmp_path / "run", *words, "--train.eval_every", "0")
    factors = [report.factor for report in made.fit()]
    assert len(factors) == 20 and made.progress.seconds == 20
    assert factors == pytest.approx([1 - n / 20 for n in range(20)])


def test_a_short_budget_is_one_step_evaluated_and_saved(data, tmp_path):
    made = trained(data, tmp_path / "run", "--train.steps", "0", "--train.budget", "0.0001s")
    assert made.progress.step == 1 and len(checkpoints(made.run)) == 1
    assert [event["step"] for event in made.run.events() if "machine" not in event] == [1, 1]


def test_patience_ends_it_and_the_best_is_kept(data, tmp_path, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 2.4, 2.3, 1.0])
    monkeypatch.setattr(loop.Trainer, "evaluate", lambda self: next(losses))
    words = ("--train.eval_every", "1", "--train.patience", "3", "--train.save_every", "0")
    made = trained(data, tmp_path / "run", *words)
    assert made.progress.step == 5 and made.progress.stale == 3 and made.progress.best == 2.0
    assert disk.load_tensors(made.run.weights)[1]["step"] == 2
    assert [path.stem for path in checkpoints(made.run)] == ["000000005"]
    assert start.resume(made.run.folder) == 0  # has nothing to do
    assert next(losses) == 1.0


def test_the_last_few_checkpoints_are_kept(data, tmp_path):
    words = ("--train.steps", "9", "--train.save_every", "1", "--train.keep", "3")
    made = trained(data, tmp_path / "run", *words)
    assert [path.stem for path in checkpoints(made.run)] == ["000000007", "000000008", "000000009"]
    assert sorted(os.listdir(made.run.folder / "checkpoints")) == [p.name for p in checkpoints(made.run)]


def test_checkpoints_of_a_future_that_was_not_are_forgotten(data, tmp_path):
    """As when the newest could not be read: else it would push out the good ones."""
    made = trainer(data, tmp_path / "run", "--train.save_every", "1")
    folder = made.run.folder / "checkpoints"
    folder.mkdir()
    (folder / "000000030.safetensors").write_bytes(b"damaged")
    next(made.fit())
    made.save()
    assert [path.stem for path in checkpoints(made.run)] == ["000000001"]


def test_the_best_weights_are_what_inference_loads(data, tmp_path):
    made = trained(data, tmp_path / "run", *STILL)
    model = load_model(made.run, made.run.config())
    losses = [event["dev_loss"] for event in made.run.events() if event.get("best")]
    with torch.no_grad():
        total = sum(
            float(made.task.plain().loss(model, made.dev.batch([row]))) for row in range(len(made.dev))
        )
    labels = sum(made.dev.batch([row]).tokens for row in range(len(made.dev)))
    assert total / labels == pytest.approx(losses[-1], rel=1e-3)


# Schedules


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_every_schedule_rises_and_stays_between_0_and_1(name):
    factors = [factor(name, step, 10, step / 100) for step in range(1, 101)]
    assert factors[:10] == sorted(factors[:10]) and 0 < factors[0] < 0.2
    assert all(0 <= f <= 1 for f in factors)
    assert max(factors) > 0.85


def test_schedules_at_known_points():
    assert factor("inverse-root", 400, 100, 0.9) == pytest.approx(0.5)
    assert factor("inverse-root", 1, 0, 0.0) == 1
    assert factor("linear", 50, 10, 0.75) == 0.25
    assert factor("cosine", 50, 10, 0.5) == pytest.approx(0.5)
    assert factor("warmup-stable-decay", 50, 10, 0.8) == pytest.approx(1)
    assert factor("warmup-stable-decay", 50, 10, 0.9) == pytest.approx(0.5)
    assert factor("constant", 50, 0, 2.0) == 1
    assert math.isclose(factor("linear", 50, 0, 2.0), 0)
