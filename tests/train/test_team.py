"""A team: several processes train as one does. They are started here as torchrun starts them; and by
torchrun itself where the question is what it does."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from heedful import disk
from heedful.commands import team_of
from heedful.errors import BadInput
from heedful.run import Run
from heedful.train import machine
from heedful.train.checkpoint import checkpoints
from heedful.train.engine import Judged, replicate
from heedful.train.team import Team
from heedful.train.weights import Weights
from tests import processes
from tests.train.tiny import command, trained, training

FEW = ("--train.steps", "8", "--train.precision", "float32")
SOME = ("--train.steps", "80", "--train.save_every", "20", "--train.precision", "float32")
LONG = ("--train.steps", "100000")


def as_member(place, *words):
    """The command, in a process with torchrun's variables."""
    os.environ.update(place)
    return command(*words)


def start_team(size, *words, said=os.devnull, restarts=0):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    place |= {"LOCAL_WORLD_SIZE": str(size), "TORCHELASTIC_RESTART_COUNT": str(restarts)}
    ranks = [place | {"RANK": str(n), "LOCAL_RANK": str(n)} for n in range(size)]
    return [processes.start(as_member, each, *words, said=said) for each in ranks]


def team(size, *words, said=os.devnull, restarts=0):
    """The exit statuses of `size` processes that train together."""
    return [processes.finish(process) for process in start_team(size, *words, said=said, restarts=restarts)]


def curve(run):
    """All losses and norms of the log, with their steps."""
    keys = ("step", "epoch", "loss", "dev_loss", "norm", "lr", "tokens")
    told = [event for event in Run(run).events() if "loss" in event or "dev_loss" in event]
    return [[event[key] for key in keys if key in event] for event in told]


def assert_same(run, expected, rel=1e-4):
    """The same log; and the same weights in the end, to float tolerance."""
    assert len(curve(run)) == len(curve(expected)) > 2
    for ours, theirs in zip(curve(run), curve(expected), strict=True):
        assert ours == pytest.approx(theirs, rel=rel)
    (got, facts), (want, others) = (disk.load_tensors(checkpoints(Run(r))[-1]) for r in (run, expected))
    assert facts["step"] == others["step"] and facts["place"] == others["place"]
    assert got.keys() == want.keys()
    for name in got:
        if "key_value.bias" in name:  # a key's bias has no gradient but noise
            continue
        torch.testing.assert_close(got[name], want[name], rtol=0.02, atol=rel, msg=name)


def set_in(run, old, new):
    text = Run(run).config_file.read_text()
    assert text.count(old) == 1
    Run(run).config_file.write_text(text.replace(old, new))


def wait_for(folder, pattern, seconds=100):
    end = time.monotonic() + seconds
    while not [*folder.glob(pattern)]:
        assert time.monotonic() < end, f"no {pattern} in {folder}"
        time.sleep(0.02)


@pytest.fixture
def said(tmp_path):
    return tmp_path / "said.txt"


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """A run of one process, with dropout and two micro-batches a step."""
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("alone") / "run"
    trained(data, run, *FEW)
    return run


# The share of each


@pytest.mark.parametrize(("size", "count"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 6), (5, 2)])
def test_every_row_is_dealt_once_and_all_make_as_many_passes(size, count):
    batches = [np.arange(100 * n, 100 * n + 3 + n) for n in range(count)]
    shares = [Team(rank, size).deal(batches) for rank in range(size)]
    assert len({len(one) for one in shares}) == 1
    real = [share for one in shares for share in one if share.weight]
    assert sorted(np.concatenate([share.rows for share in real])) == sorted(np.concatenate(batches))
    assert len({share.part for share in real}) == len(real)
    assert all(len(share.rows) for one in shares for share in one)


def test_a_micro_batch_that_is_not_cut_has_the_dropout_that_it_has_alone():
    batches = [np.arange(5), np.arange(7), np.arange(2), np.arange(9)]
    for rank in range(2):
        for share in Team(rank, 2).deal(batches):
            assert share.rows is batches[share.part]


def test_the_place_of_a_process_is_what_torchrun_says():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    assert team_of(dict(zip(names, "58142", strict=True))) == Team(5, 8, 1, 4, restarts=2)
    assert team_of({}) == team_of({"RANK": "3"}) == Team()
    with pytest.raises(BadInput, match="RANK=x: torchrun sets it to a number"):
        team_of({"RANK": "x", "WORLD_SIZE": "2"})


def test_processes_share_the_cores():
    machine.use_cores(0, processes=machine.cores())
    assert torch.get_num_threads() == 1
    machine.use_cores(3, processes=2)
    assert torch.get_num_threads() == 3


# As one


def test_two_processes_give_the_losses_of_one(data, tmp_path, said, alone):
    """With dropout. Nobody but the first writes and speaks, and nobody complains at the end."""
    run = tmp_path / "run"
    assert team(2, *training(data, run, *FEW), said=said) == [0, 0]
    assert_same(run, alone)
    assert {*os.listdir(run)} - {".lock", "card.md"} == {*os.listdir(alone)}
    told = said.read_text()
    assert told.count("step 8: dev loss") == told.count("trained 8 steps") == 1
    assert not re.search("Warning|Error|Traceback", told)


def test_micro_batches_are_cut_where_there_are_too_few(data, tmp_path):
    """In bfloat16: three processes, one micro-batch a step, which may have fewer rows than that."""
    still = ("--train.steps", "8", "--model.dropout", "0", "--train.accumulate", "1")
    words = (*still, "--train.batch_tokens", "60")
    trained(data, tmp_path / "one", *words)
    assert team(3, *training(data, tmp_path / "three", *words)) == [0, 0, 0]
    assert_same(tmp_path / "three", tmp_path / "one", rel=0.01)


def test_sharded_gives_the_losses_of_one_and_another_number_goes_on(data, tmp_path, said, alone):
    run = tmp_path / "run"
    words = training(data, run, *FEW, "--train.parallel", "sharded")
    assert team(2, *words, said=said) == [0, 0]
    assert_same(run, alone)
    assert not re.search("Warning|Error|Traceback", said.read_text())
    checkpoints(Run(run))[-1].unlink()
    assert command("train", "--resume", run) == 0
    assert_same(run, alone)


def test_what_one_began_two_finish(data, tmp_path, said, alone):
    for parallel in ("ddp", "sharded"):
        run = Path(shutil.copytree(alone, tmp_path / parallel))
        checkpoints(Run(run))[-1].unlink()
        set_in(run, 'parallel = "ddp"', f'parallel = "{parallel}"')
        assert team(2, "train", "--resume", run, said=said) == [0, 0]
        assert said.read_text().count(f"resuming {run} at step 5") == 1
        assert_same(run, alone)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("parallel", ["ddp", "sharded"])
def test_every_optimizer_in_a_team(data, tmp_path, optimizer, parallel):
    words = (*FEW, "--train.optimizer", optimizer, "--train.weight_decay", "0.1")
    trained(data, tmp_path / "one", *words)
    run = tmp_path / "two"
    assert team(2, *training(data, run, *words, "--train.parallel", parallel)) == [0, 0]
    assert_same(run, tmp_path / "one", rel=1e-3)
    checkpoints(Run(run))[-1].unlink()
    assert team(2, "train", "--resume", run) == [0, 0]
    assert_same(run, tmp_path / "one", rel=1e-3)


@pytest.mark.slow
def test_sharded_in_bfloat16_gives_the_losses_of_one(data, tmp_path):
    words = ("--train.steps", "24", "--train.lr", "1e-2")
    trained(data, tmp_path / "one", *words)
    assert team(2, *training(data, tmp_path / "two", *words, "--train.parallel", "sharded")) == [0, 0]
    assert_same(tmp_path / "two", tmp_path / "one", rel=0.01)


# Its end


def test_a_budget_ends_all_at_once(data, tmp_path):
    words = ("--train.steps", "0", "--train.budget", "0.5s", "--train.schedule", "linear")
    assert team(2, *training(data, tmp_path / "run", *words)) == [0, 0]


def test_an_interrupt_of_any_stops_all_after_the_same_step(data, tmp_path, said):
    run = tmp_path / "run"
    members = start_team(2, *training(data, run, *LONG), said=said)
    wait_for(run, "checkpoints/*5.safetensors")
    os.kill(members[1].pid, signal.SIGTERM)
    assert [processes.finish(member) for member in members] == [143, 143]
    step = disk.load_tensors(checkpoints(Run(run))[-1])[1]["step"]
    assert said.read_text().count(f"interrupted at step {step}; saved: go on with --resume") == 1


def test_when_one_dies_the_others_say_so_and_do_not_wait(data, tmp_path, said):
    run = tmp_path / "run"
    members = start_team(2, *training(data, run, *LONG), said=said)
    wait_for(run, "checkpoints/*5.safetensors")
    members[1].kill()
    assert processes.finish(members[0]) == 2
    assert said.read_text().endswith("heedful: process 0 of 2: another process has stopped\n")


def test_a_group_is_freed_after_its_reducer():
    """In the other order, a process whose fellow has died hangs, about once in ten times."""
    freed = []
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = torch.nn.Linear(2, 2)
        parallel = replicate(Judged(model), Weights(model, "float32", 0))
        for name in ("process_group", "reducer", "logger"):
            weakref.finalize(getattr(parallel, name), freed.append, name)
    finally:
        dist.destroy_process_group()
    assert freed == []
    del parallel
    assert freed == ["logger", "reducer", "process_group"]


def test_what_is_wrong_is_said_once(data, tmp_path, said):
    """Also when torchrun starts the team again: the folder is then not taken for the team's own."""
    trained(data, tmp_path / "run", "--train.steps", "1")
    for restarts in (0, 1):
        words = training(data, tmp_path / "run", "--train.steps", "2")
        assert team(2, *words, said=said, restarts=restarts) == [2, 2]
    (first, second) = said.read_text().splitlines()
    assert first == second and f"{tmp_path / 'run'} is not empty: choose another --run" in first


def test_processes_that_see_other_files_are_told(data, own_data, tmp_path, said):
    (own_data / "train.tsv").write_text("the cat\teht tac\n" * 20)
    at = (data, own_data)
    words = [training(folder, tmp_path / "run", *FEW) for folder in at]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = [place | {"RANK": str(n), "LOCAL_RANK": "0"} for n in range(2)]
    members = [processes.start(as_member, ranks[n], *words[n], said=said) for n in range(2)]
    assert [processes.finish(member) for member in members] == [2, 2]
    assert said.read_text().count("the processes have different settings") == 2
    assert not (tmp_path / "run").exists()


# With torchrun


HERE = ("--standalone", "--nproc-per-node", "2")


@contextmanager
def torchrun(*words, said):
    """torchrun; its end is the end of those that it has started."""
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if "--nnodes" in words else None
    with said.open("a") as file:
        words = (sys.executable, "-m", "torch.distributed.run", *map(str, words))
        process = subprocess.Popen(words, stdout=file, stderr=file, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def members_of(process):
    """The processes that torchrun has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {int(pid) for pid in children if b"heedful" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def under_torchrun(words):
    return ["-m", "heedful", *("--run-folder" if word == "--run" else word for word in words)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes where Linux has them")
def test_torchrun_goes_on_after_a_worker_was_killed(data, tmp_path, said):
    run, again = tmp_path / "run", (*HERE, "--max-restarts", "1")
    with torchrun(*again, *under_torchrun(training(data, run, *SOME)), said=said) as process:
        wait_for(run, "checkpoints/*.safetensors")
        os.kill(members_of(process).pop(), signal.SIGKILL)
        assert process.wait(200) == 0
    went_on(data, run, said)


def went_on(data, run, said):
    told = re.findall(r"resuming .* at step (\d+), for the processes were started again", said.read_text())
    assert len(told) == 1 and 20 <= int(told[0]) < 80
    trained(data, run.parent / "one", *SOME)
    assert_same(run, run.parent / "one", rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_two_machines_go_on_after_a_worker_was_killed(data, tmp_path, said, killed):
    """As far as one machine can show it: two torchruns with a process each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = f"localhost:{free.getsockname()[1]}"
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", place)
    words = (*words, "--max-restarts", "1", *under_torchrun(training(data, tmp_path / "run", *SOME)))
    with torchrun(*words, said=said) as first, torchrun(*words, said=said) as second:
        wait_for(tmp_path / "run", "checkpoints/*.safetensors")
        os.kill(members_of((first, second)[killed]).pop(), signal.SIGKILL)
        assert first.wait(200) == second.wait(200) == 0
    went_on(data, tmp_path / "run", said)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_torchrun_interrupted_saves(data, tmp_path, said, number):
    run = tmp_path / "run"
    with torchrun(*HERE, *under_torchrun(training(data, run, *LONG)), said=said) as process:
        wait_for(run, "checkpoints/*5.safetensors")
        os.kill(process.pid, number)
        assert process.wait(60) != 0
    step = disk.load_tensors(checkpoints(Run(run))[-1])[1]["step"]
    assert said.read_text().count(f"interrupted at step {step}; saved: go on with --resume") == 1
