"""The loop: batches -> loss -> gradients -> step; with evaluation, saving, and going on exactly."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful import disk
from heedful.config import Config, TrainConfig, seconds_in
from heedful.data.examples import Examples, Place, Size, Stream
from heedful.errors import BadInput
from heedful.run import Run
from heedful.train import checkpoint, optimizers
from heedful.train.engine import engine, silence, whole, wholes
from heedful.train.machine import return_memory
from heedful.train.schedule import factor
from heedful.train.team import ALONE, Share, Team

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
        self,
        run: Run,
        config: Config,
        model: nn.Module,
        task: Any,
        data: tuple[Examples, Examples],
        team: Team = ALONE,
    ):
        self.run, self.config, self.task, self.team = run, config, task, team
        self.train, self.dev = data
        c = config.train
        self.model = model.to(team.device)
        self.engine, self.weights = engine(self.model, c, team.size)
        self.optimizers = optimizers.make(self.weights.masters, c)
        self.stream = Stream(self.train, c.batch_tokens, c.seed)
        self.progress = Progress()
        self.budget = seconds_in(c.budget)
        self.steps = total_steps(c, len(self.stream.batches_in(0)))
        self.bad_steps = 0
        self.began = time.perf_counter()

    def done(self) -> float:
        """The part of the training behind us, 0 to 1."""
        parts = [self.progress.step / self.steps] if self.steps else []
        return max([*parts, self.progress.seconds / self.budget] if self.budget else parts)

    def fit(self) -> Iterator[Report]:
        """Trains to the end, a report per step; the caller decides when to evaluate and save."""
        self.model.train()
        self.began = time.perf_counter() - self.progress.seconds
        while self.done() < 1:
            batches, place = self.stream.take(self.progress.place, self.config.train.accumulate)
            report = self.step(batches)
            p = self.progress
            tokens = p.tokens + report.tokens
            self.progress = replace(p, step=p.step + 1, place=place, seconds=self.clock(), tokens=tokens)
            if self.progress.step % TIDY_EVERY == 0:
                return_memory()
            yield report

    def clock(self) -> float:
        """The seconds that all of the training has taken, over all resumes, as the first process has them."""
        return self.team.first(time.perf_counter() - self.began)

    def step(self, batches: list[np.ndarray]) -> Report:
        """One step of the optimizer over a logical batch of several micro-batches, given as rows."""
        c, step = self.config.train, self.progress.step
        size = sum((self.train.size(rows) for rows in batches), Size())
        loss = torch.zeros((), device=self.team.device)
        shares = self.team.deal(batches)
        for number, share in enumerate(shares, 1):
            seed_step(c.seed, step, share.part)
            loss += self.learn(share, size.labels, number == len(shares))
        loss = self.team.total(loss)
        rate = factor(c.schedule, step + 1, c.warmup, self.done())
        norm = self.move(rate) if loss.isfinite() else loss
        self.check(loss, norm)
        for master in self.weights.masters.values():
            master.grad = None
        return Report(float(loss), float(norm), size.tokens, size.labels, rate)

    def learn(self, share: Share, labels: int, last: bool) -> Tensor:
        """A pass there and back; the last one of a step brings in what the other processes have learnt."""
        with nullcontext() if last else silence(self.engine):
            loss = self.loss_of(self.task, self.train, share) / labels
            loss.backward()
        if last and self.team.size > 1:
            self.weights.let_go()
        else:
            self.weights.gather()
        return loss.detach()

    def loss_of(self, task: Any, examples: Examples, share: Share) -> Tensor:
        loss = self.engine(task, examples.batch(share.rows).to(self.team.device))
        return loss if share.weight == 1 else loss * share.weight

    def move(self, rate: float) -> Tensor:
        """Clips and steps, unless the gradient is not finite. Gives the gradient's norm."""
        masters = list(self.weights.masters.values())
        clip = self.config.train.clip
        norm = whole(torch.nn.utils.clip_grad_norm_(masters, clip if clip else float("inf")))
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
                total += float(self.loss_of(plain, self.dev, self.team.cut(rows)))
                labels += self.dev.size(rows).labels
        self.model.train()
        return float(self.team.total(torch.tensor(total, dtype=torch.float64))) / labels

    def judge(self, loss: float) -> bool:
        """Notes a dev loss; True if it is the best yet, whose weights the run then keeps."""
        better = loss < self.progress.best
        stale = 0 if better else self.progress.stale + 1
        self.progress = replace(self.progress, best=loss if better else self.progress.best, stale=stale)
        if better:
            facts = {"step": self.progress.step, "dev_loss": loss}
            tensors = wholes(self.weights.best)
            if self.team.leads:
                self.run.save_weights(self.config, tensors, facts)
        return better

    def save(self) -> None:
        """A checkpoint from which `resume` goes on bit for bit."""
        facts = asdict(self.progress) | checkpoint.identity(self.config, self.train.fingerprint())
        tensors = checkpoint.tensors_of(self.weights, self.optimizers)
        if self.team.leads:
            checkpoint.save(self.run, tensors, facts, self.config.train.keep)

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
