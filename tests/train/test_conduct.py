"""Conduct: interrupts, locks, full disks, losses that are no numbers, files that changed."""

import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from heedful import disk
from heedful.errors import BadInput
from heedful.run import Run
from heedful.train import start
from heedful.train.checkpoint import checkpoints
from tests import processes
from tests.train.tiny import command, config_in, trained, trainer, training

LONG = ("--train.steps", "100000")


@pytest.fixture
def said(tmp_path_factory):
    return tmp_path_factory.mktemp("said") / "said.txt"


def wait_for(path, pattern, seconds=60):
    end = time.monotonic() + seconds
    while not [*path.glob(pattern)]:
        assert time.monotonic() < end, f"no {pattern} in {path}"
        time.sleep(0.02)


def refused(act, said):
    with pytest.raises(BadInput) as caught:
        act()
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def short(data, tmp_path_factory):
    """A finished run with checkpoints at steps 5 and 6; copy it before you change it."""
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("short") / "run"
    trained(data, run, "--train.steps", "6")
    return run


@pytest.fixture
def cut(short, tmp_path):
    """The same, cut off after step 5 of 8."""
    run = Run(shutil.copytree(short, tmp_path / "cut"))
    checkpoints(run)[-1].unlink()
    set_in(run, "steps = 6", "steps = 8")
    return run


def set_in(run, old, new):
    assert run.config_file.read_text().count(old) == 1
    run.config_file.write_text(run.config_file.read_text().replace(old, new))


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_step_saves_and_says_so(data, tmp_path, said, number):
    process = processes.start(command, *training(data, tmp_path / "run", *LONG), said=said)
    wait_for(tmp_path / "run", "checkpoints/*5.safetensors")
    os.kill(process.pid, number)
    assert processes.finish(process) == 128 + number
    newest = checkpoints(Run(tmp_path / "run"))[-1]
    _, facts = disk.load_tensors(newest)
    assert f"interrupted at step {facts['step']}; saved: go on with --resume" in said.read_text()
    assert "Traceback" not in said.read_text()
    assert [event["step"] for event in Run(tmp_path / "run").events() if "loss" in event][-1] == facts["step"]


def test_a_second_interrupt_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with start.Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_before_the_first_step_is_no_traceback(data, tmp_path, monkeypatch):
    def interrupted(config):
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "records_of", interrupted)
    assert command(*training(data, tmp_path / "run")) == 130
    assert not (tmp_path / "run").exists()


# One process at a time


def test_a_run_in_use_is_refused_and_a_lock_left_by_a_crash_is_not(data, tmp_path, said):
    run = tmp_path / "run"
    process = processes.start(command, *training(data, run, *LONG))
    wait_for(run, "checkpoints/*.safetensors")
    refused(lambda: start.resume(run), f"{run} is being trained by another process")
    process.kill()
    processes.finish(process)
    assert (run / ".lock").exists()
    set_in(Run(run), "steps = 100000", "steps = 1")
    assert start.resume(run) == 0


def test_a_folder_with_something_in_it_is_not_touched(data, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    refused(lambda: start.train(config_in(data), tmp_path), "is not empty: choose another --run")
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_run_killed_before_it_began_can_begin(data, tmp_path):
    for name in (".lock", "tokenizer.json", ".config.toml.part", "data.json"):
        (tmp_path / name).write_text("half")
    assert start.train(config_in(data, "--train.steps", "1"), tmp_path) == 0
    assert not (tmp_path / ".config.toml.part").exists()


def test_a_trained_run_is_said_to_be_trained(short, capsys):
    before = {path.name: path.read_bytes() for path in short.glob("[!.]*.*")}
    assert start.resume(short) == 0
    assert "is trained already: 6 steps" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in short.glob("[!.]*.*")} == before


def test_a_trained_run_goes_on_if_it_is_given_more(short, tmp_path):
    run = Run(shutil.copytree(short, tmp_path / "more"))
    assert command("train", "--resume", run.folder, "--train.steps", "8", "--train.lr", "1e-4") == 0
    assert (run.config().train.steps, run.config().train.lr) == (8, 1e-4)
    assert [event["step"] for event in run.events() if "dev_loss" in event][-1] == 8


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--data.vocabulary", "99"), "data.vocabulary is 8000 in "),
        (("--train.seed", "7"), "was made with train.seed = 1, but the config says 7"),
        (("--model.layers", "2"), "was made with model.layers = 1, but the config says 2"),
        (("--train.stpes", "9"), "unknown key 'train.stpes' (did you mean 'train.steps'?)"),
        (("--train.steps", "0"), "nothing says when to stop"),
        (("--run", "other"), "leave out --run"),
    ],
)
def test_going_on_under_what_cannot_be_is_refused_and_changes_nothing(cut, capsys, more, told):
    before = cut.config_file.read_text()
    assert command("train", "--resume", cut.folder, *more) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1
    assert cut.config_file.read_text() == before


def test_a_recipe_and_a_run_to_go_on_with_are_not_both_taken(short, capsys):
    assert command("train", "pairs", "--resume", short) == 2
    assert "leave out the recipe 'pairs'" in capsys.readouterr().err


def test_a_finished_model_without_checkpoints_is_not_overwritten(cut):
    shutil.rmtree(cut.folder / "checkpoints")
    (cut.folder / "card.md").write_text("trained")
    before = cut.weights.read_bytes()
    refused(lambda: start.resume(cut.folder), "was trained, and has no checkpoint from which it could go on")
    assert cut.weights.read_bytes() == before


def test_a_folder_that_is_no_run(tmp_path):
    refused(
        lambda: start.resume(tmp_path), f"{tmp_path} is not a run: it has no config.toml that can be read"
    )
    assert os.listdir(tmp_path) == []


# Going on


@pytest.mark.parametrize("how", ["its format", "another step's"])
def test_a_newest_checkpoint_that_lies_is_said_and_the_one_before_used(short, tmp_path, capsys, how):
    run = Run(shutil.copytree(short, tmp_path / "run"))
    before, newest = checkpoints(run)
    if how == "its format":
        newest.write_bytes(newest.read_bytes().replace(b'"format":"1"', b'"format":"3"'))
    else:
        shutil.copy(before, newest)
    assert start.resume(run.folder) == 0
    assert f"{newest}: " in (err := capsys.readouterr().err) and "trying the checkpoint before" in err
    assert (run.folder / "checkpoints" / newest.name).is_file()


def test_the_newest_checkpoint_unreadable_is_said_and_the_one_before_used(short, tmp_path, capsys):
    run = Run(shutil.copytree(short, tmp_path / "run"))
    newest = checkpoints(run)[-1]
    newest.write_bytes(newest.read_bytes()[:-9])
    assert start.resume(run.folder) == 0
    told = capsys.readouterr().err
    assert f"{newest}: damaged" in told and "trying the checkpoint before" in told
    assert "resuming" in told and "at step 5" in told
    assert disk.load_tensors(newest)[1]["step"] == 6
    steps = [event["step"] for event in run.events() if "loss" in event]
    assert steps == [1, 5, 6]


def test_no_checkpoint_readable_is_an_error_and_none_at_all_a_beginning(short, tmp_path, capsys):
    run = Run(shutil.copytree(short, tmp_path / "run"))
    for path in checkpoints(run):
        path.write_bytes(b"")
    refused(lambda: start.resume(run.folder), "has no checkpoint that can be read")
    for path in checkpoints(run):
        path.unlink()
    assert start.resume(run.folder) == 0
    assert [event["step"] for event in run.events() if "loss" in event] == [1, 5, 6]


def test_the_log_tells_each_step_once(cut):
    """Lines from after the checkpoint, and one that the kill cut in two, are not true any more."""
    whole = [event for event in cut.events() if event["step"] <= 5]
    with cut.log_file.open("a") as file:
        file.write('{"step": 7, "loss": 9.9}\n{"step": 8, "lo')
    assert start.resume(cut.folder) == 0
    events = [json.loads(line) for line in cut.log_file.read_text().splitlines()]
    assert events[: len(whole)] == whole
    assert [event["step"] for event in events if "loss" in event] == [1, 5, 8]
    assert [event["step"] for event in events if "dev_loss" in event] == [4, 8]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("layers = 1\n", "layers = 2\n", "was made with model.layers = 1, but the config says 2"),
        ("dim = 16", "dim = 32", "was made with model.dim = 16, but the config says 32"),
        ("batch_tokens = 200", "batch_tokens = 300", "was made with train.batch_tokens = 200"),
        ('optimizer = "adam"', 'optimizer = "muon"', "was made with train.optimizer = 'adam'"),
        ("average = 0.9", "average = 0.0", "was made with train.average = 0.9, but the config says 0.0"),
    ],
)
def test_going_on_with_another_architecture_names_what_differs(cut, old, new, said):
    if old == "layers = 1\n":
        cut.config_file.write_text(cut.config_file.read_text().replace("\nlayers = 1", "\nlayers = 2"))
    else:
        set_in(cut, old, new)
    refused(lambda: start.resume(cut.folder), f"000000005.safetensors: {said}")


def test_a_data_file_changed_since_is_named_with_its_hash(own_data, tmp_path):
    run = tmp_path / "run"
    trained(own_data, run, "--train.steps", "2")
    (own_data / "dev.tsv").write_text("the cat\teht tac\n")
    refused(lambda: start.resume(run), f"data file 'dev.tsv' has changed since {run} began: its sha256 was ")


def test_examples_that_changed_though_the_file_did_not(cut, monkeypatch):
    """As when another version reads or cuts the text differently."""
    monkeypatch.setattr(start, "unseen", lambda train, dev: (train[1:], dev))
    set_in(cut, "unseen = false", "unseen = true")
    refused(lambda: start.resume(cut.folder), "the training examples have changed since (it was ")


# The disk


def resume_on_a_full_disk(run):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    return command("train", "--resume", run)


def test_a_full_disk_is_one_line_and_the_checkpoint_stays(cut, said):
    before = [path.read_bytes() for path in checkpoints(cut)]
    assert processes.status_of(resume_on_a_full_disk, cut.folder, said=said) == 2
    last = said.read_text().splitlines()[-1]
    assert last.startswith(f"heedful: {cut.folder}/") and "cannot be written: " in last
    assert "Traceback" not in said.read_text()
    assert [path.read_bytes() for path in checkpoints(cut)] == before
    assert start.resume(cut.folder) == 0


def resume_as_a_stranger(run):
    if os.geteuid() == 0:
        os.seteuid(65534)
    return command("train", "--resume", run)


def test_a_read_only_folder_is_one_line(cut, said):
    with TemporaryDirectory() as top:  # not in tmp_path: a stranger may not come so far
        run = Path(shutil.copytree(cut.folder, Path(top) / "run"))
        (run / ".lock").touch(0o444)
        for path in (run / "checkpoints", run, Path(top)):
            path.chmod(0o555)
        assert processes.status_of(resume_as_a_stranger, run, said=said) == 2
        for path in (Path(top), run, run / "checkpoints"):
            path.chmod(0o755)
    assert said.read_text() == f"heedful: {run}/.lock: cannot be written: Permission denied\n"


# Losses that are no numbers


class Bad:
    """A task whose loss is not finite on some of its calls; those of the meter do not count."""

    def __init__(self, made, bad):
        self.task, self.model, self.bad, self.calls = made.task, made.model, bad, 0

    def loss(self, model, batch):
        self.calls += model is self.model
        return self.task.loss(model, batch) * (float("nan") if self.calls in self.bad else 1.0)

    def plain(self):
        return self.task.plain()


def test_a_bad_step_is_skipped_and_counted(data, tmp_path):
    """As if it had not been: the weights are those from before it, and the average of the log too."""
    made = trainer(data, tmp_path / "run", "--train.steps", "4", "--train.accumulate", "1")
    made.task = Bad(made, {2, 3})
    digests = [disk.digest(made.weights.masters, "")]
    for _ in made.fit():
        digests.append(disk.digest(made.weights.masters, ""))
    assert digests[1] == digests[2] == digests[3] and len(set(digests)) == 3
    assert made.progress.step == 4 and made.bad_steps == 0


def test_bad_steps_are_told_in_the_log(data, tmp_path):
    made = trainer(data, tmp_path / "run", "--train.steps", "6", "--train.accumulate", "1")
    made.task = Bad(made, {2, 3, 6})
    assert start.keep_going(made) == 0
    events = [event for event in made.run.events() if "loss" in event]
    assert [event.get("skipped", 0) for event in events] == [0, 2, 1]
    assert events[1]["loss"] < 9 and events[2]["loss"] is None
    assert "NaN" not in made.run.log_file.read_text()


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_five_bad_steps_in_a_row_stop_with_one_line(data, tmp_path, what):
    made = trainer(data, tmp_path / "run", "--train.accumulate", "1")
    if what == "loss":
        made.task = Bad(made, range(8, 99))
    else:
        weight = next(iter(made.weights.own.values()))
        calls = []
        weight.register_hook(
            lambda grad: calls.append(1) or (grad * float("inf") if len(calls) > 7 else grad)
        )
    refused(lambda: start.keep_going(made), "was not finite 5 steps in a row, at step 11")
    (path,) = [path for path in checkpoints(made.run) if path.stem == "000000005"]
    assert disk.load_tensors(path)[1]["step"] == 5
    tensors, _ = disk.load_tensors(made.run.weights)
    assert all(tensor.isfinite().all() for tensor in tensors.values())


# Before anything is written


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--train.batch_tokens", "15"), "train.batch_tokens 15: too small; the longest example needs"),
        (("--train.steps", "0"), "nothing says when to stop"),
        (("--data.train", "gone.tsv"), "no file 'gone.tsv' in folder"),
        (("--data.dev=[]",), "no data to judge by: set --data.dev, or --data.hold_out"),
        (("--data.train=[]",), "no data to train on"),
        (("--data.tokenizer", "bpe", "--data.vocabulary", "9000"), "the data gives no more than"),
    ],
)
def test_what_cannot_be_trained_is_said_before_a_run_is_made(data, tmp_path, words, said):
    refused(lambda: start.train(config_in(data, *words), tmp_path / "run"), said)
    assert not (tmp_path / "run").exists()


def test_no_example_that_fits(own_data, tmp_path):
    (own_data / "train.tsv").write_text("the cat sits\tles chats sont assis\n")
    config = config_in(own_data, "--model.length", "4")
    refused(lambda: start.train(config, tmp_path / "run"), "train: no example fits model.length 4")


def test_heads_that_do_not_divide_the_width_are_status_2(data, tmp_path, capsys):
    words = training(data, tmp_path / "run", "--model.heads", "3", "--model.dim", "128")
    assert command(*words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("heedful: ") and "model.heads 3 does not divide model.dim 128" in said
