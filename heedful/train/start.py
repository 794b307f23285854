"""Start: from a recipe, or from a run that was cut off, to a trained run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from heedful import disk
from heedful.config import Config, to_toml
from heedful.data.examples import Examples, encode, joined, segmented
from heedful.data.readers import Record
from heedful.data.rename import rename
from heedful.data.sources import hashes, read
from heedful.data.split import hold_out, unseen
from heedful.data.tokenizer import Tokenizer, learn
from heedful.errors import BadInput, Damaged
from heedful.run import Run, build, can_begin, weights_of, with_vocabularies
from heedful.tasks.next_token import NextToken
from heedful.train import track
from heedful.train.checkpoint import checkpoints, folder_of
from heedful.train.conduct import Interrupt, locked
from heedful.train.loop import Trainer
from heedful.train.machine import keep_kernels, keep_memory, seed_all, use_cores
from heedful.train.report import Reporter
from heedful.train.team import ALONE, Team


def train(config: Config, folder: Path, team: Team = ALONE) -> int:
    """A new run in an empty folder. Gives the exit status."""
    with team.joined():
        if team.most(team.restarts) and team.first(is_of(folder, config)):
            return go_on(folder, team)
        if team.leads:
            check_free(folder)
        check_complete(config)
        run = Run(folder)
        trainer, tokenizers = new_trainer(run, config, team)
        if team.leads:
            run.make()
        with locked(run, team):
            if team.leads:
                check_free(folder)
                run.create(trainer.config, tokenizers, hashes_of(config))
            return keep_going(trainer)


def is_of(folder: Path, config: Config) -> bool:
    """Whether the folder has the run that this very recipe began: then a team that torchrun has started
    again goes on with it."""
    run = Run(folder)
    if not run.config_file.is_file():
        return False
    saved = run.config()
    of, own = saved.model.vocabulary, saved.model.target_vocabulary
    model = dataclasses.replace(config.model, vocabulary=of, target_vocabulary=own)
    return saved == dataclasses.replace(config, model=model)


def resume(folder: Path, team: Team = ALONE, settings: Sequence[str] = ()) -> int:
    """Goes on from the newest readable checkpoint, or from the start if there was none yet; under other
    settings, if some are given: from then on they are the run's."""
    with team.joined():
        return go_on(folder, team, settings)


def go_on(folder: Path, team: Team, settings: Sequence[str] = ()) -> int:
    run = Run(folder)
    config = changed(run, settings)
    with locked(run, team):
        if team.leads:
            for place in (run.folder, folder_of(run)):
                disk.tidy(place)
        run.check_data(hashes_of(config))
        trainer = trainer_of(run, config, run.tokenizers(config), records_of(config), team)
        step = take_newest(trainer, run)
        team.check_same(step, "checkpoints")
        if team.leads:
            run.forget_after(step)
            if settings:
                disk.write_text(run.config_file, to_toml(config))
        if is_over(trainer):
            more = "for more, give --budget, --train.epochs or --train.steps"
            team.note(f"{folder} is trained already: {step:,} steps; {more}")
            return 0
        again = ", for the processes were started again" if team.most(team.restarts) else ""
        team.note(f"resuming {folder} at step {step}{again}")
        return keep_going(trainer)


def changed(run: Run, settings: Sequence[str]) -> Config:
    """The run's config with other settings. What its weights have learnt to mean, the checkpoint knows."""
    config, own = run.config(settings), run.config()
    for key, was in vars(own.data).items():
        if key != "folder" and getattr(config.data, key) != was:
            raise BadInput(f"data.{key} is {was!r} in {run.folder}, and cannot change while it is trained")
    check_complete(config)
    return config


def check_free(folder: Path) -> None:
    if not can_begin(folder):
        on = f", or go on with --resume {folder}" if Run(folder).config_file.is_file() else ""
        raise BadInput(f"{folder} is not empty: choose another --run{on}")


def check_complete(config: Config) -> None:
    """What a recipe may leave open, but a training may not."""
    d, t = config.data, config.train
    if not d.train:
        raise BadInput("no data to train on: set --data.train")
    if not d.dev and not d.hold_out:
        raise BadInput("no data to judge by: set --data.dev, or --data.hold_out 0.05 to take it from train")
    if not (t.steps or t.epochs or t.budget):
        raise BadInput("nothing says when to stop: set --train.steps, --train.epochs or --train.budget")
    track.check(t.track)


def new_trainer(run: Run, config: Config, team: Team = ALONE) -> tuple[Trainer, tuple[Tokenizer, Tokenizer]]:
    """A trainer that has done nothing yet. The records are gone when this is done: only ids stay."""
    records = records_of(config)
    tokenizers = learn_tokenizers(records[0], config)
    config = with_vocabularies(config, tokenizers)
    return trainer_of(run, config, tokenizers, records, team), tokenizers


def trainer_of(
    run: Run, config: Config, tokenizers, records: tuple[list[Record], list[Record]], team: Team
) -> Trainer:
    prepare_machine(config, team)
    data, model = examples_of(records, tokenizers, config, team), build(config)
    if team.size > 1:
        check_alike(team, config, model, data)
    return Trainer(run, config, model, NextToken(config.train.smoothing, config.train.agreement), data, team)


def check_alike(team: Team, config: Config, model: nn.Module, data: tuple[Examples, Examples]) -> None:
    fingerprints = "".join(part.fingerprint() for part in data)
    told = {"settings": disk.digest({}, to_toml(config)), "data": disk.digest({}, fingerprints)}
    told["first weights"] = disk.digest(weights_of(model), "")
    for what, digest in told.items():
        team.check_same(int(digest[:12], 16), what)


def take_newest(trainer: Trainer, run: Run) -> int:
    """The newest checkpoint; where it is damaged, says so and takes the one before."""
    known = checkpoints(run)
    for path in reversed(known):
        try:
            trainer.resume(path)
            return trainer.progress.step
        except Damaged as error:
            trainer.team.note(f"{error}; trying the checkpoint before")
    if known:
        raise BadInput(f"{run.folder} has no checkpoint that can be read")
    if (run.folder / "card.md").is_file():  # a training that ended: to begin anew would overwrite its model
        raise BadInput(f"{run.folder} was trained, and has no checkpoint from which it could go on")
    return 0


def prepare_machine(config: Config, team: Team) -> None:
    keep_memory()
    keep_kernels()
    use_cores(config.train.threads, team.local)
    seed_all(config.train.seed)


def records_of(config: Config) -> tuple[list[Record], list[Record]]:
    """Those of train and dev."""
    d = config.data
    train = read(d.train, d.folder, d.pattern)
    if d.dev:
        dev = read(d.dev, d.folder, d.pattern)
        train, dev = unseen(train, dev) if d.unseen else (train, dev)
    else:
        train, dev = hold_out(train, d.hold_out)
        if not dev:
            need = "no data to judge by: set a larger one, or --data.dev"
            raise BadInput(f"data.hold_out {d.hold_out:g} takes none of {len(train):,} examples; {need}")
    if not train:
        raise BadInput("no data to train on: dev asks for every source in it")
    return rename(train, d.rename), dev


def hashes_of(config: Config) -> dict[str, str]:
    return hashes((*config.data.train, *config.data.dev), config.data.folder)


def learn_tokenizers(records: list[Record], config: Config) -> tuple[Tokenizer, Tokenizer]:
    """One shared tokenizer, or one for each side if the target's kind is given."""
    d = config.data
    sources, targets = [r.source for r in records], [r.target for r in records]
    if not d.target_tokenizer:
        both = learn(sources + targets, d.tokenizer, d.vocabulary)
        return both, both
    source = learn(sources, d.tokenizer, d.vocabulary)
    return source, learn(targets, d.target_tokenizer, d.target_vocabulary, "data.target_vocabulary")


def examples_of(
    records: tuple[list[Record], list[Record]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    config: Config,
    team: Team,
) -> tuple[Examples, Examples]:
    parts = []
    for name, part in zip(("train", "dev"), records, strict=True):
        examples, left_out = encode(part, tokenizers, config.model.length)
        if left_out:
            team.note(f"{name}: left out {left_out:,} examples longer than {config.model.length} tokens")
        if not len(examples):
            raise BadInput(f"{name}: no example fits model.length {config.model.length}")
        if name == "train" and (more := config.data.segmentations - 1):
            examples = joined([examples, segmented(part, tokenizers, more, config.model.length)])
        parts.append(examples)
    longest = int(parts[0].lengths.sum(1).max())
    if longest > config.train.batch_tokens:
        needs = f"the longest example needs {longest}"
        raise BadInput(f"train.batch_tokens {config.train.batch_tokens}: too small; {needs}")
    return parts[0], parts[1]


def keep_going(trainer: Trainer) -> int:
    """Trains to the end, or to an interrupt: then saves and gives 128 + its number."""
    team = trainer.team
    with Interrupt(patient=team.size > 1) as interrupt, Reporter(trainer) as reporter:
        for report in trainer.fit():
            reporter.step(report)
            saved = round_off(trainer, reporter)
            if is_over(trainer):
                break
            if number := team.most(interrupt.number):
                if not saved:
                    reporter.tell(report)
                    trainer.save()
                reporter.note(f"interrupted at step {trainer.progress.step}; saved: go on with --resume")
                return 128 + number
        reporter.done()
    return 0


def is_over(trainer: Trainer) -> bool:
    return trainer.done() >= 1 or out_of_patience(trainer)


def out_of_patience(trainer: Trainer) -> bool:
    return 0 < trainer.config.train.patience <= trainer.progress.stale


def round_off(trainer: Trainer, reporter: Reporter) -> bool:
    """What is due after a step: evaluation, then saving, so that a checkpoint holds all of its step.
    True if it was saved."""
    step, c = trainer.progress.step, trainer.config.train
    due = bool(c.eval_every) and step % c.eval_every == 0
    if due:
        evaluate(trainer, reporter)
    if out_of_patience(trainer):
        reporter.note(f"no better dev loss in {trainer.progress.stale} evaluations: stopping early")
    last = is_over(trainer)
    if last and not due:
        evaluate(trainer, reporter)
    saves = last or (bool(c.save_every) and step % c.save_every == 0)
    if saves:
        trainer.save()
    return saves


def evaluate(trainer: Trainer, reporter: Reporter) -> None:
    trainer.weights.look_back()
    loss = trainer.evaluate()
    better = trainer.judge(loss)
    trainer.progress = dataclasses.replace(trainer.progress, seconds=trainer.clock())
    reporter.evaluated(loss, better)
