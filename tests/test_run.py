"""Run: a folder, and what of older versions must still be read."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from heedful.config import Config
from heedful.data.tokenizer import learn
from heedful.errors import BadInput
from heedful.run import Run, can_begin, check_fit, with_vocabularies
from heedful.train import start
from heedful.train.checkpoint import checkpoints
from tests.old_runs.make import outputs

OLD_RUNS = sorted(Path(__file__).with_name("old_runs").glob("v*"))


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run")


@pytest.fixture(scope="module")
def two():
    return learn(["a b c"], "words", 20), learn(["x y"], "words", 20)


def create(run, tokenizers):
    config = with_vocabularies(Config(), tokenizers)
    run.create(config, tokenizers, {"train.tsv": "1" * 64})
    return config


def test_what_is_created_is_read_again(run, two):
    config = create(run, two)
    assert run.config() == config
    assert (config.model.vocabulary, config.model.target_vocabulary) == (10, 9)
    source, target = run.tokenizers(config)
    assert source.encode("a c") == two[0].encode("a c") and target.encode("y") == two[1].encode("y")
    assert sorted(os.listdir(run.folder)) == [
        "config.toml",
        "data.json",
        "tokenizer.json",
        "tokenizer.target.json",
    ]


def test_a_shared_tokenizer_is_one_file(run, two):
    config = create(run, (two[0], two[0]))
    assert config.model.target_vocabulary == 0
    source, target = run.tokenizers(config)
    assert source is target and not (run.folder / "tokenizer.target.json").exists()


def test_the_hash_of_the_tokenizers_knows_both(run, two):
    create(run, two)
    hashes = {run.tokenizers_hash()}
    for name in ("tokenizer.json", "tokenizer.target.json"):
        path = run.folder / name
        path.write_text(path.read_text() + " ")
        hashes.add(run.tokenizers_hash())
    assert len(hashes) == 3


def test_changed_data_is_named(run, two):
    create(run, two)
    run.check_data({"train.tsv": "1" * 64, "new.tsv": "3" * 64})
    with pytest.raises(
        BadInput, match=r"'train\.tsv' has changed since .* was 111111111111\.\.\., now 222222"
    ):
        run.check_data({"train.tsv": "2" * 64})
    run.data_file.write_text("{")
    with pytest.raises(BadInput, match=r"data\.json: damaged"):
        run.check_data({})


def test_log(run):
    run.make()
    assert [*run.events()] == []
    events = [{"step": 1, "loss": 2.5}, {"step": 2, "title": "é"}, {"about": "no step"}, {"step": 3}]
    for event in events:
        run.log(event)
    with run.log_file.open("ab") as file:
        file.write(b'{"step": 4, "lo\xff')
    assert [*run.events()] == events
    run.forget_after(2)
    assert [json.loads(line) for line in run.log_file.read_text().splitlines()] == events[:3]


def test_where_a_run_can_begin(tmp_path):
    assert can_begin(tmp_path) and can_begin(tmp_path / "new")
    (tmp_path / ".lock").touch()
    (tmp_path / ".model.safetensors.part").touch()
    assert can_begin(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert not can_begin(tmp_path) and not can_begin(tmp_path / "notes.txt")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file/run: cannot be made: Not a directory"):
        Run(tmp_path / "file" / "run").make()


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({}, "x: lacks weight 'a'"),
        ({"a": torch.zeros(2, 3), "b": torch.zeros(1)}, "x: has an unknown weight 'b'"),
        ({"a": torch.zeros(3, 2)}, r"x: weight 'a' is \(3, 2\), but the config makes it \(2, 3\)"),
        ({"a": torch.zeros(2, 3, dtype=torch.int64)}, "x: weight 'a' is of type torch.int64"),
    ],
)
def test_weights_that_do_not_fit(saved, said):
    with pytest.raises(BadInput, match=said):
        check_fit({"a": torch.zeros(2, 3)}, saved, Path("x"))


@pytest.fixture(params=OLD_RUNS, ids=lambda path: path.name)
def old(request, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(request.param / "run", tmp_path / "run"))
    return Run(tmp_path / "run"), json.loads((request.param / "expected.json").read_text())


def same(got, expected):
    assert got.keys() == expected.keys()
    for source, losses in expected.items():
        assert got[source] == pytest.approx(losses, abs=2e-3), source


def test_an_old_run_gives_what_it_gave(old):
    run, expected = old
    same(outputs(run), expected)


def test_an_old_run_goes_on(old):
    run, expected = old
    assert start.resume(run.folder) == 0
    assert checkpoints(run)[-1].stem == "000000006"
    same(outputs(run), expected)


def test_old_runs_are_small_and_there():
    assert OLD_RUNS
    for folder in OLD_RUNS:
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 200_000
