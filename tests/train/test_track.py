"""TensorBoard sees what the log has."""

import sys
import types
from typing import ClassVar

import pytest

from heedful.errors import BadInput
from heedful.train import start
from tests.train.tiny import command, config_in, trained, training


class Writer:
    """Stands in for tensorboardX, which is optional."""

    made: ClassVar[list] = []

    def __init__(self, folder, purge_step=None):
        self.folder, self.purge_step, self.scalars, self.closed = folder, purge_step, [], False
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed = True


@pytest.fixture
def writers(monkeypatch):
    monkeypatch.setattr(Writer, "made", [])
    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer))
    return Writer.made


def numbers(run):
    """All that the log tells in numbers, as (name, value, step)."""
    return [
        (name, value, event["step"])
        for event in run.events()
        for name, value in event.items()
        if name != "step" and type(value) in (int, float)
    ]


def test_it_mirrors_the_log(data, tmp_path, writers):
    made = trained(data, tmp_path / "run", "--train.track", "tensorboard", "--train.steps", "6")
    (writer,) = writers
    assert writer.scalars == numbers(made.run) and writer.closed and writer.purge_step is None
    assert {"loss", "dev_loss", "lr", "tokens_per_second"} <= {name for name, _, _ in writer.scalars}
    assert writer.folder == str(tmp_path / "run" / "tensorboard")


def test_after_a_resume_what_will_come_again_is_forgotten(data, tmp_path, writers):
    made = trained(data, tmp_path / "run", "--train.track", "tensorboard", "--train.steps", "6")
    made.run.config_file.write_text(made.run.config_file.read_text().replace("steps = 6", "steps = 8"))
    assert start.resume(made.run.folder) == 0
    assert [writer.purge_step for writer in writers] == [None, 7]
    assert [mirrored for writer in writers for mirrored in writer.scalars] == numbers(made.run)


def test_without_the_package_one_line_says_so_before_any_work(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    said = "--track tensorboard needs tensorboardX: pip install heedful[track]"
    with pytest.raises(BadInput, match="needs tensorboardX"):
        start.train(config_in(data, "--train.track", "tensorboard"), tmp_path / "run")
    assert command(*training(data, tmp_path / "run", "--track", "tensorboard")) == 2
    assert capsys.readouterr().err == f"heedful: {said}\n" and not (tmp_path / "run").exists()


def test_other_trackers_are_refused(data):
    with pytest.raises(BadInput, match=r"train\.track 'wandb' is not one of tensorboard"):
        config_in(data, "--train.track", "wandb")
