"""The loop: batches -> loss -> gradients -> step; with evaluation, saving, and going on exactly."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful import disk
from heedful.config import Config, TrainConfig, seconds_in
from heedful.data.batch import Batch
from heedful.data.examples import Examples, Place, Stream
from heedful.errors import BadInput
from heedful.run import Run
from heedful.train import checkpoint, optimizers
from heedful.train.machine import return_memory
from heedful.train.schedule import factor
from heedful.train.weights import Weights

MOST_BAD_STEPS = 5
TIDY_EVERY = 20  # steps


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    step: int = 0
    place: Place = field(default_factory=Place)
    seconds: float = 0.0
    tokens: int = 0
    best: float = float("inf")
    stale: int = 0  # evaluations since the best


@dataclass(frozen=True)
class Report:
    """What one step did."""

    loss: float
    norm: float
    tokens: int
    labels: int
    factor: float


def seed_step(seed: int, step: int, part: int) -> None:
    """Dropout is a function of (seed, step, micro-batch): there is no random state to save."""
    torch.manual_seed((seed * 1_000_003 + step) * 1_009 + part)


class Trainer:
    """Holds the model, its weights and optimizers, the data and the progress of one run."""

    def __init__(
        self, run: Run, config: Config, model: nn.Module, task: Any, data: tuple[Examples, Examples]
    ):
        self.run, self.config, self.model, self.task = run, config, model, task
        self.train, self.dev = data
        c = config.train
        self.weights = Weights(model, c.precision, c.average)
        self.optimizers = optimizers.make(self.weights.masters, c)
        self.stream = Stream(self.train, c.batch_tokens, c.seed)
        self.progress = Progress()
        self.budget = seconds_in(c.budget)
        self.steps = total_steps(c, len(self.stream.batches_in(0)))
        self.bad_steps = 0

    def done(self) -> float:
        """The part of the training behind us, 0 to 1."""
        parts = [self.progress.step / self.steps] if self.steps else []
        return max([*parts, self.progress.seconds / self.budget] if self.budget else parts)

    def fit(self) -> Iterator[Report]:
        """Trains to the end, a report per step; the caller decides when to evaluate and save."""
        self.model.train()
        while self.done() < 1:
            started = time.perf_counter()
            batches, place = self.stream.take(self.progress.place, self.config.train.accumulate)
            report = self.step(batches)
            p = self.progress
            seconds = p.seconds + time.perf_counter() - started
            tokens = p.tokens + report.tokens
            self.progress = replace(p, step=p.step + 1, place=place, seconds=seconds, tokens=tokens)
            if self.progress.step % TIDY_EVERY == 0:
                return_memory()
            yield report

    def step(self, batches: list[Batch]) -> Report:
        """One step of the optimizer over a logical batch of several micro-batches."""
        c, step = self.config.train, self.progress.step
        labels = sum(batch.tokens for batch in batches)
        loss = torch.zeros(())
        for part, batch in enumerate(batches):
            seed_step(c.seed, step, part)
            share = self.task.loss(self.model, batch) / labels
            share.backward()
            self.weights.gather()
            loss += share.detach()
        rate = factor(c.schedule, step + 1, c.warmup, self.done())
        norm = self.move(rate) if loss.isfinite() else loss
        self.check(loss, norm)
        for master in self.weights.masters.values():
            master.grad = None
        tokens = sum(batch.source_BS.numel() + batch.target_BT.numel() for batch in batches)
        return Report(float(loss), float(norm), tokens, labels, rate)

    def move(self, rate: float) -> Tensor:
        """Clips and steps, unless the gradient is not finite. Gives the gradient's norm."""
        masters = list(self.weights.masters.values())
        clip = self.config.train.clip
        norm = torch.nn.utils.clip_grad_norm_(masters, clip if clip else float("inf"))
        if norm.isfinite():
            optimizers.set_rate(self.optimizers, rate)
            for optimizer in self.optimizers:
                optimizer.step()
            self.weights.publish()
            self.weights.remember(self.progress.step)
        return norm

    def check(self, loss: Tensor, norm: Tensor) -> None:
        self.bad_steps = 0 if loss.isfinite() and norm.isfinite() else self.bad_steps + 1
        if self.bad_steps >= MOST_BAD_STEPS:
            raise BadInput(
                f"the loss or its gradient was not finite {MOST_BAD_STEPS} steps in a row, at step "
                f"{self.progress.step}; a lower --train.lr may help; the last checkpoint is intact"
            )

    @torch.no_grad()
    def evaluate(self) -> float:
        """The dev loss per token, unsmoothed, with the weights that inference will use."""
        self.model.eval()
        plain = self.task.plain()
        total, labels = 0.0, 0
        with self.weights.averaged():
            stream = Stream(self.dev, self.config.train.batch_tokens, 0)
            for rows in stream.batches_in(0):
                batch = self.dev.batch(rows)
                total += float(plain.loss(self.model, batch))
                labels += batch.tokens
        self.model.train()
        return total / labels

    def judge(self, loss: float) -> bool:
        """Notes a dev loss; True if it is the best yet, whose weights the run then keeps."""
        better = loss < self.progress.best
        stale = 0 if better else self.progress.stale + 1
        self.progress = replace(self.progress, best=min(loss, self.progress.best), stale=stale)
        if better:
            facts = {"step": self.progress.step, "dev_loss": loss}
            self.run.save_weights(self.config, self.weights.best, facts)
        return better

    def save(self) -> None:
        """A checkpoint from which `resume` goes on bit for bit."""
        facts = asdict(self.progress) | checkpoint.identity(self.config, self.train.fingerprint())
        checkpoint.save(self.run, self.weights, self.optimizers, facts, self.config.train.keep)

    def resume(self, path: Path) -> None:
        """Takes up all that `save` wrote; refuses what is not of this very training."""
        tensors, facts = disk.load_tensors(path)
        checkpoint.check_identity(self.config, self.train.fingerprint(), facts, path)
        progress = progress_in(facts, path)
        self.stream.check(progress.place, path)
        checkpoint.recall(path, tensors, self.weights, self.optimizers)
        self.progress = progress


def progress_in(facts: dict[str, Any], path: Path) -> Progress:
    try:
        place = Place(int(facts["place"]["epoch"]), int(facts["place"]["batch"]))
        numbers: dict[str, Any] = {f.name: f.default for f in fields(Progress) if f.name != "place"}
        for name, usual in numbers.items():
            numbers[name] = type(usual)(facts[name])
        return Progress(place=place, **numbers)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{path}: does not say where its training stood") from error


def total_steps(config: TrainConfig, batches: int) -> int:
    """0 if only a time budget ends it."""
    by_epochs = max(1, config.epochs * batches // config.accumulate) if config.epochs else 0
    return min([steps for steps in (config.steps, by_epochs) if steps], default=0)
