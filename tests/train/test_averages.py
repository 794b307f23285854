"""Averages of the weights: over all steps, or over the last few evaluations."""

import pytest
import torch

from heedful import disk
from heedful.errors import BadInput
from heedful.run import load_model, weights_of
from heedful.train import start
from heedful.train.checkpoint import checkpoints
from tests.train.tiny import config_in, trained, trainer

LAST = ("--train.average", "0", "--train.average_last", "3")


def test_inference_uses_the_mean_of_the_last_evaluations(data, tmp_path, monkeypatch):
    made = trainer(data, tmp_path / "run", *LAST, "--train.eval_every", "1", "--train.steps", "5")
    monkeypatch.setattr(made, "evaluate", lambda: 9.0 - made.progress.step)  # the newest is the best
    seen, look_back = [], made.weights.look_back

    def note():
        seen.append({name: w.detach().clone() for name, w in made.weights.masters.items()})
        look_back()

    monkeypatch.setattr(made.weights, "look_back", note)
    assert start.keep_going(made) == 0 and len(seen) == 5
    model = load_model(made.run, made.run.config())
    for name, weight in weights_of(model).items():
        mean = torch.stack([weights[name] for weights in seen[2:]]).mean(0)
        torch.testing.assert_close(weight.detach(), mean, msg=name)


def test_the_dev_loss_is_that_of_the_mean(data, tmp_path):
    words = ("--train.precision", "float32", "--train.eval_every", "2", "--train.steps", "6")
    made = trained(data, tmp_path / "run", *LAST, *words)
    losses = [event["dev_loss"] for event in made.run.events() if event.get("best")]
    model, task = load_model(made.run, made.run.config()), made.task.plain()
    with torch.no_grad():
        batches = [made.dev.batch([row]) for row in range(len(made.dev))]
        total = sum(float(task.loss(model, batch)) for batch in batches)
    assert total / sum(batch.tokens for batch in batches) == pytest.approx(losses[-1], rel=1e-4)


def test_before_there_are_as_many_it_is_the_mean_of_those_there_are(data, tmp_path):
    made = trainer(data, tmp_path / "run", *LAST)
    assert made.weights.best is made.weights.masters
    for number in range(1, 6):
        made.weights.look_back()
        assert len(made.weights.recent) == min(number, 3)


def test_two_averages_are_refused(data):
    with pytest.raises(BadInput, match="two averages: choose one"):
        config_in(data, "--train.average", "0.9", "--train.average_last", "3")


@pytest.mark.parametrize("what", ["weight lost", "evaluation lost", "one too many", "odd number"])
def test_a_checkpoint_that_lacks_some_is_refused(data, tmp_path, what):
    made = trained(data, tmp_path / "run", *LAST, "--train.steps", "20")
    path = checkpoints(made.run)[-1]
    tensors, facts = disk.load_tensors(path)
    recent = {name: tensor for name, tensor in tensors.items() if name.startswith("recent.0.")}
    if what == "weight lost":
        tensors.pop(next(iter(recent)))
    elif what == "evaluation lost":
        tensors = {name: tensor for name, tensor in tensors.items() if name not in recent}
    else:
        number = "3" if what == "one too many" else "x"
        tensors |= {name.replace(".0.", f".{number}.", 1): tensor.clone() for name, tensor in recent.items()}
    disk.save_tensors(path, tensors, facts)
    with pytest.raises(BadInput) as caught:
        made.resume(path)
    assert str(caught.value).startswith(f"{path}: ") and len(made.weights.recent) == 3
