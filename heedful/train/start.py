"""Start: from a recipe, or from a run that was cut off, to a trained run."""

import dataclasses
import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heedful.config import Config
from heedful.data.examples import Examples, encode
from heedful.data.readers import Record, read
from heedful.data.tokenizer import Tokenizer, learn
from heedful.errors import BadInput
from heedful.run import Run, build, checkpoints, is_empty, with_vocabularies
from heedful.tasks.next_token import NextToken
from heedful.train.loop import Trainer
from heedful.train.machine import keep_memory, seed_all, use_cores
from heedful.train.report import Reporter


def train(config: Config, folder: Path) -> int:
    """A new run in an empty folder. Gives the exit status."""
    if not is_empty(folder):
        raise BadInput(f"{folder} is not empty: choose another --run, or go on with --resume {folder}")
    train_records, dev_records = records_of(config)
    tokenizers = learn_tokenizers(train_records, config)
    config = with_vocabularies(config, tokenizers)
    run = Run(folder)
    prepare_machine(config)
    data = examples_of((train_records, dev_records), tokenizers, config)
    trainer = Trainer(run, config, build(config), NextToken(config.train.smoothing), data)
    run.create(config, tokenizers)
    return keep_going(trainer)


def resume(folder: Path) -> int:
    """Goes on from the newest readable checkpoint."""
    run = Run(folder)
    config = run.config()
    prepare_machine(config)
    data = examples_of(records_of(config), run.tokenizers(config), config)
    trainer = Trainer(run, config, build(config), NextToken(config.train.smoothing), data)
    Reporter.note(f"resuming {folder} at step {take_newest(trainer, run)}")
    return keep_going(trainer)


def take_newest(trainer: Trainer, run: Run) -> int:
    """The newest checkpoint; where it cannot be read, says so and takes the one before."""
    for path in reversed(checkpoints(run)):
        try:
            trainer.resume(path)
            return trainer.progress.step
        except BadInput as error:
            Reporter.note(f"{error}; trying the checkpoint before")
    raise BadInput(f"{run.folder} has no checkpoint that can be read")


def prepare_machine(config: Config) -> None:
    keep_memory()
    use_cores(config.train.threads)
    seed_all(config.train.seed)


def records_of(config: Config) -> tuple[list[Record], list[Record]]:
    d = config.data
    return read(d.train, d.folder, d.pattern), read(d.dev, d.folder, d.pattern)


def learn_tokenizers(records: list[Record], config: Config) -> tuple[Tokenizer, Tokenizer]:
    """One shared tokenizer, or one for each side if the target's kind is given."""
    d = config.data
    sources, targets = [r.source for r in records], [r.target for r in records]
    if not d.target_tokenizer:
        both = learn(sources + targets, d.tokenizer, d.vocabulary)
        return both, both
    return learn(sources, d.tokenizer, d.vocabulary), learn(targets, d.target_tokenizer, d.target_vocabulary)


def examples_of(
    records: tuple[list[Record], list[Record]], tokenizers: tuple[Tokenizer, Tokenizer], config: Config
) -> tuple[Examples, Examples]:
    parts = []
    for name, part in zip(("train", "dev"), records, strict=True):
        examples, left_out = encode(part, tokenizers, config.model.length)
        if left_out:
            Reporter.note(f"{name}: left out {left_out:,} examples longer than {config.model.length} tokens")
        if not len(examples):
            raise BadInput(f"{name}: no example fits model.length {config.model.length}")
        parts.append(examples)
    longest = int(parts[0].lengths.sum(1).max())
    if longest > config.train.batch_tokens:
        needs = f"the longest example needs {longest}"
        raise BadInput(f"train.batch_tokens {config.train.batch_tokens}: too small; {needs}")
    return parts[0], parts[1]


@contextmanager
def locked(run: Run) -> Iterator[None]:
    """Only one process trains in a folder; the system frees the lock of one that died."""
    with open(run.folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(f"{run.folder} is being trained by another process") from error
        yield


class Interrupt:
    """Notes SIGINT and SIGTERM, so that the step can finish; a second one stops at once."""

    def __init__(self):
        self.number = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.note)

    def note(self, number: int, _) -> None:
        self.number = number
        signal.signal(number, signal.SIG_DFL)


def keep_going(trainer: Trainer) -> int:
    """Trains to the end, or to an interrupt: then saves and gives 128 + its number."""
    interrupt = Interrupt()
    with locked(trainer.run), Reporter(trainer) as reporter:
        for report in trainer.fit():
            reporter.step(report)
            round_off(trainer, reporter)
            if interrupt.number:
                trainer.save()
                reporter.note(f"interrupted at step {trainer.progress.step}; saved: go on with --resume")
                return 128 + interrupt.number
            if 0 < trainer.config.train.patience <= trainer.progress.stale:
                reporter.note(f"no better dev loss in {trainer.progress.stale} evaluations: stopping early")
                break
        finish(trainer, reporter)
    return 0


def round_off(trainer: Trainer, reporter: Reporter) -> None:
    """What is due after a step: evaluation, saving."""
    step, c = trainer.progress.step, trainer.config.train
    if c.eval_every and step % c.eval_every == 0:
        evaluate(trainer, reporter)
    if c.save_every and step % c.save_every == 0:
        trainer.save()


def evaluate(trainer: Trainer, reporter: Reporter) -> None:
    started = time.perf_counter()
    loss = trainer.evaluate()
    better = trainer.judge(loss)
    seconds = trainer.progress.seconds + time.perf_counter() - started
    trainer.progress = dataclasses.replace(trainer.progress, seconds=seconds)
    reporter.evaluated(loss, better)


def finish(trainer: Trainer, reporter: Reporter) -> None:
    c = trainer.config.train
    if not c.eval_every or trainer.progress.step % c.eval_every:
        evaluate(trainer, reporter)
    trainer.save()
    reporter.done()
