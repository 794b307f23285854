"""Report: what a person sees while a training goes on, and what log.jsonl keeps of it."""

import math
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from heedful.train.loop import Report, Trainer

EVERY = 50  # steps between lines in the log
PATIENCE = 15.0  # seconds between lines where there is no terminal


class Reporter:
    """A live line on a terminal, plain lines elsewhere; both on standard error."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self.console = Console(stderr=True)
        self.columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self.live = Progress(*self.columns, console=self.console, disable=not self.console.is_terminal)
        self.loss, self.labels, self.skipped, self.dev = 0.0, 0, 0, math.nan
        self.rate, self.marked, self.skipped_ever = 0.0, (0.0, 0), 0
        self.said = 0.0

    def __enter__(self) -> "Reporter":
        self.live.start()
        self.bar = self.live.add_task("starting", total=1.0)
        p = self.trainer.progress
        self.marked = (p.seconds, p.tokens)
        return self

    def __exit__(self, *_) -> None:
        self.live.stop()

    @staticmethod
    def note(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

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
        loss = round(self.loss / self.labels, 5) if self.labels else None
        norm = round(report.norm, 4) if math.isfinite(report.norm) else None
        self.trainer.run.log(
            {"step": p.step, "epoch": p.place.epoch, "loss": loss, "norm": norm}
            | {"lr": self.trainer.config.train.lr * report.factor, "tokens": p.tokens}
            | {"seconds": round(p.seconds, 2), "tokens_per_second": round(self.rate)}
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
        self.trainer.run.log({"step": p.step, "dev_loss": round(loss, 5), "best": better})
        if self.live.disable:
            self.note(f"step {p.step:,}: dev loss {loss:.4f}{' (best)' if better else ''}")

    def done(self) -> None:
        p = self.trainer.progress
        minutes = p.seconds / 60
        self.note(f"trained {p.step:,} steps in {minutes:.1f} min; best dev loss {p.best:.4f}")
