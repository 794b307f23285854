"""Report: what a person sees while a training goes on, and what log.jsonl keeps of it."""

import math
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from heedful.train import meter
from heedful.train.loop import Report, Trainer
from heedful.train.track import Tracker

EVERY = 50  # steps between lines in the log
PATIENCE = 15.0  # seconds between lines where there is no terminal


def number(value: float, digits: int) -> float | None:
    """As JSON can tell it."""
    return round(value, digits) if math.isfinite(value) else None


class Reporter:
    """A live line on a terminal, plain lines elsewhere; both on standard error."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self.note, self.leads = trainer.team.note, trainer.team.leads
        self.console = Console(stderr=True)
        self.columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        shown = self.console.is_terminal and self.leads
        self.live = Progress(*self.columns, console=self.console, disable=not shown)
        self.loss, self.labels, self.skipped, self.dev = 0.0, 0, 0, math.nan
        self.rate, self.marked, self.skipped_ever = 0.0, (0.0, 0), 0
        self.said = 0.0
        self.tracker = Tracker(trainer.config.train.track if self.leads else "", trainer)
        self.meter = self.start_meter()

    def start_meter(self) -> meter.Meter:
        """Goes on from the joules that the log has; one process can read the counters of its machine only."""
        team, step = self.trainer.team, self.trainer.progress.step
        told = [event for event in self.trainer.run.events() if "loss" in event or "dev_loss" in event]
        before = told[-1].get("joules") if step and told else 0.0
        alone = team.size == team.local
        found = meter.counters(team.device.type, team.size) if alone and self.leads else []
        return meter.Meter(found, before)

    def __enter__(self) -> "Reporter":
        self.tell_machine()
        self.live.start()
        self.bar = self.live.add_task("starting", total=1.0)
        p = self.trainer.progress
        self.marked = (p.seconds, p.tokens)
        return self

    def __exit__(self, *_) -> None:
        self.live.stop()
        self.tracker.close()

    def log(self, event: dict[str, Any]) -> None:
        if self.leads:
            self.trainer.run.log(event)
            self.tracker.add(event)

    def tell_machine(self) -> None:
        """Once, and again where a resume finds itself on another machine."""
        trainer, team = self.trainer, self.trainer.team
        told = [event for event in trainer.run.events() if "machine" in event]
        here = meter.machine(trainer.config, team.device.type, team.size)
        if not self.leads or (told and told[-1]["machine"].items() >= here.items()):
            return
        rows = trainer.stream.batches_in(0)[0]
        flops = meter.flops_per_token(trainer.config, trainer.task, trainer.train, rows)
        p = trainer.progress
        event = {"step": p.step, "seconds": round(p.seconds, 2), "machine": meter.with_speed(here)}
        self.log(event | {"flops_per_token": flops})

    def cost(self) -> dict[str, float]:
        """The seconds until now, and the joules where they can be measured."""
        joules = self.meter.joules()
        seconds = {"seconds": round(self.trainer.progress.seconds, 2)}
        return seconds if joules is None else seconds | {"joules": joules}

    def step(self, report: Report) -> None:
        if math.isfinite(report.loss) and math.isfinite(report.norm):
            self.loss += report.loss * report.labels
            self.labels += report.labels
        else:
            self.skipped += 1
            self.skipped_ever += 1
        if self.is_due(self.trainer.progress.step):
            self.tell(report)

    def is_due(self, step: int) -> bool:
        """Now and then, and with every checkpoint: a training that goes on from there tells the same."""
        save_every = self.trainer.config.train.save_every
        by_rule = step == 1 or step % EVERY == 0 or (save_every and step % save_every == 0)
        return bool(by_rule) or self.trainer.done() >= 1

    def tell(self, report: Report) -> None:
        """A line of the log, on the steps since the last one."""
        p = self.trainer.progress
        seconds, tokens = self.marked
        self.rate = (p.tokens - tokens) / max(p.seconds - seconds, 1e-9)
        self.marked = (p.seconds, p.tokens)
        loss = number(self.loss / self.labels, 5) if self.labels else None
        self.log(
            {"step": p.step, "epoch": p.place.epoch, "loss": loss, "norm": number(report.norm, 4)}
            | {"lr": self.trainer.config.train.lr * report.factor, "tokens": p.tokens}
            | self.cost()
            | {"tokens_per_second": round(self.rate)}
            | ({"skipped": self.skipped} if self.skipped else {})
        )
        self.loss, self.labels, self.skipped = 0.0, 0, 0
        self.show(math.nan if loss is None else loss)

    def show(self, loss: float) -> None:
        p, done = self.trainer.progress, self.trainer.done()
        dev = "" if math.isnan(self.dev) else f", dev {self.dev:.3f}"
        bad = f", {self.skipped_ever} steps skipped" if self.skipped_ever else ""
        text = f"step {p.step:,}, epoch {p.place.epoch}, loss {loss:.3f}{dev}{bad}, {self.rate:,.0f} tokens/s"
        self.live.update(self.bar, completed=done, description=text)
        if self.live.disable and time.monotonic() - self.said > PATIENCE:
            self.said = time.monotonic()
            left = p.seconds * (1 - done) / done if done else 0
            self.note(f"{text}, {left / 60:.0f} min left")

    def evaluated(self, loss: float, better: bool) -> None:
        self.dev = loss
        p = self.trainer.progress
        self.log({"step": p.step, "dev_loss": number(loss, 5), "best": better} | self.cost())
        if self.live.disable:
            self.note(f"step {p.step:,}: dev loss {loss:.4f}{' (best)' if better else ''}")

    def done(self) -> None:
        p = self.trainer.progress
        minutes = p.seconds / 60
        self.note(f"trained {p.step:,} steps in {minutes:.1f} min; best dev loss {p.best:.4f}")
