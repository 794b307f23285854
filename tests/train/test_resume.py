"""Killed at any instant, a training goes on bit for bit."""

import os
import random
import signal
import sys
import time

import pytest

from heedful import disk
from heedful.run import Run
from heedful.train.checkpoint import checkpoints
from tests.processes import finish, start, status_of
from tests.train.tiny import command, training

# What two equal trainings do not share: time, energy, and how fast the machine was when they began.
TIMES = ("seconds", "tokens_per_second", "joules", "machine")


def end_of(folder):
    """All that a run ends with, but for the time that it took."""
    run = Run(folder)
    tensors, facts = disk.load_tensors(checkpoints(run)[-1])
    best, _ = disk.load_tensors(run.weights)
    log = [{k: v for k, v in event.items() if k not in TIMES} for event in run.events()]
    return {
        "digest": disk.digest(tensors, ""),
        "names": sorted(tensors),
        "facts": {k: v for k, v in facts.items() if k not in TIMES},
        "best": disk.digest(best, ""),
        "log": log,
    }


def killed_at_event(number, *words):
    """A training that kills itself at its n-th touch of the run's files: opening, renaming, deleting."""
    touched = 0

    def watch(event, args):
        nonlocal touched
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and "the-run" in str(args):
            touched += 1
            if touched == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return command(*words)


def again(run, words):
    """What a user would do: go on, or begin anew if the run had not begun."""
    return ("train", "--resume", run) if (run / "config.toml").is_file() else words


SETTINGS = {
    "adam": ("--train.optimizer", "adam"),
    "adamw": ("--train.optimizer", "adamw", "--train.weight_decay", "0.1", "--train.schedule", "cosine"),
    "last": ("--train.average", "0", "--train.average_last", "3"),
    "muon": ("--train.optimizer", "muon", "--train.weight_decay", "0.1", "--train.schedule", "linear"),
}


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    """The end of a whole training, once for each optimizer: in bfloat16, with dropout, two
    micro-batches a step, and a moving average. And the seconds that it took."""
    known = {}
    status_of(command, "info")  # the server of processes starts with the first of them, and takes seconds

    def run(optimizer):
        if optimizer not in known:
            folder, began = tmp_path_factory.mktemp(optimizer) / "the-run", time.monotonic()
            assert status_of(command, *training(data, folder, *SETTINGS[optimizer])) == 0
            known[optimizer] = end_of(folder), time.monotonic() - began
        return known[optimizer]

    return run


@pytest.mark.parametrize(("optimizer", "event"), [("adam", 7), ("adamw", 31), ("muon", 58), ("last", 77)])
def test_killed_and_resumed_is_uninterrupted(data, tmp_path, uninterrupted, optimizer, event):
    run = tmp_path / "the-run"
    words = training(data, run, *SETTINGS[optimizer])
    assert status_of(killed_at_event, event, *words) == -signal.SIGKILL
    assert status_of(command, *again(run, words)) == 0
    assert end_of(run) == uninterrupted(optimizer)[0]
    assert not [name for name in os.listdir(run / "checkpoints") if name.startswith(".")]


def test_the_end_has_everything(uninterrupted):
    """Else the comparison above would prove little."""
    end, _ = uninterrupted("muon")
    assert {name.split(".")[0] for name in end["names"]} == {"weight", "average", "optimizer"}
    assert any(name.endswith("momentum_buffer") for name in end["names"])
    assert any(name.endswith("exp_avg") for name in end["names"])
    assert end["facts"]["step"] == 24 and end["facts"]["place"]["epoch"] >= 2
    recent = {name.split(".")[1] for name in uninterrupted("last")[0]["names"] if name.startswith("recent")}
    assert recent == {"0", "1", "2"}
    steps = [event["step"] for event in end["log"] if "loss" in event]
    assert steps == [1, 5, 10, 15, 20, 24] and steps == sorted(set(steps))


@pytest.mark.parametrize("seed", range(20))
def test_killed_again_and_again(data, tmp_path, uninterrupted, seed):
    """Killed from outside at random instants, one to four times in the same run."""
    draw = random.Random(seed)
    optimizer = draw.choice([*SETTINGS])
    end, seconds = uninterrupted(optimizer)
    run, kills = tmp_path / "the-run", 0
    words = training(data, run, *SETTINGS[optimizer])
    process = start(command, *words)
    while True:
        time.sleep(draw.uniform(0.1, 0.9) * seconds / (1 if kills else 2))
        process.kill()
        if finish(process) == 0:
            break
        kills += 1
        process = start(command, *again(run, words))
        if kills == 4:
            assert finish(process) == 0
            break
    assert kills, "it had ended before it could be killed"
    assert end_of(run) == end
