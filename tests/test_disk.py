"""Disk: whole or absent; what was saved or one clear error."""

import errno
import json
import os
import resource
from contextlib import contextmanager

import pytest
import torch

from heedful import disk
from heedful.errors import BadInput
from tests.processes import status_of

TENSORS = {
    "a": torch.arange(6.0).view(2, 3),
    "b": torch.tensor(3),
    "c": torch.zeros(0),
    "d": torch.ones(2).bfloat16(),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def complaint(path):
    with pytest.raises(BadInput) as caught:
        disk.load_tensors(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    return str(caught.value)


def test_tensors_and_facts_come_back(path):
    facts = {"step": 3, "loss": 0.1, "list": [1, None, "é"]}
    disk.save_tensors(path, TENSORS, facts)
    tensors, told = disk.load_tensors(path)
    assert told == facts and tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].equal(tensor) and tensors[name].dtype == tensor.dtype


@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_permissions_follow_the_umask(path, umask):
    before = os.umask(umask)
    try:
        disk.write(path, lambda aside: disk.save_tensors(aside, TENSORS))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_digest_knows_names_shapes_types_values_and_facts():
    given = {"a": torch.zeros(2, 2)}
    others = [
        ({"b": torch.zeros(2, 2)}, ""),
        ({"a": torch.zeros(4)}, ""),
        ({"a": torch.zeros(2, 2, dtype=torch.int32)}, ""),
        ({"a": torch.full((2, 2), -0.0)}, ""),
        (given, "{}"),
    ]
    assert len({disk.digest(given, ""), *(disk.digest(*other) for other in others)}) == 6


def test_missing_and_foreign_files(path, tmp_path):
    assert complaint(path) == f"{path}: missing"
    import safetensors.torch

    safetensors.torch.save_file({"a": torch.ones(2)}, path)
    assert "damaged, or not made by heedful" in complaint(path)
    path.write_bytes(b"")
    assert "damaged, or not made by heedful" in complaint(path)
    complaint(tmp_path)  # a folder


def test_another_format_is_named(path, monkeypatch):
    monkeypatch.setattr(disk, "FORMAT", "7")
    disk.save_tensors(path, TENSORS)
    monkeypatch.undo()
    assert complaint(path) == f"{path}: format '7'; this heedful reads format '1'"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(path, bad):
    disk.save_tensors(path, {"a": torch.tensor([1.0, bad])})
    assert complaint(path) == f"{path}: holds numbers that are not finite"


def test_facts_that_are_no_table(path):
    import safetensors.torch

    about = {"format": "1", "sha256": disk.digest({}, "[1]"), "facts": "[1]"}
    safetensors.torch.save_file({}, path, metadata=about)
    assert "damaged" in complaint(path)


def test_write_replaces_at_once(path):
    seen = []
    disk.write_text(path, "old")

    def make(aside):
        aside.write_text("new")
        seen.append(path.read_text())

    disk.write(path, make)
    assert seen == ["old"] and path.read_text() == "new"
    assert os.listdir(path.parent) == [path.name]


def test_write_that_fails_leaves_the_old_file(path):
    disk.write_text(path, "old")

    def make(aside):
        aside.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BadInput, match="cannot be written: No space left on device"):
        disk.write(path, make)
    assert path.read_text() == "old" and os.listdir(path.parent) == [path.name]


def test_write_of_a_folder(tmp_path):
    def make(aside):
        aside.mkdir()
        (aside / "a").write_text("1")

    disk.write(tmp_path / "out", make)
    assert (tmp_path / "out" / "a").read_text() == "1" and os.listdir(tmp_path) == ["out"]


def test_leavings_of_a_killed_process_are_tidied(tmp_path):
    (tmp_path / ".a.safetensors.part").write_text("half")
    (tmp_path / ".b.part").mkdir()
    (tmp_path / "a.part").write_text("a user's")
    disk.tidy(tmp_path)
    disk.tidy(tmp_path / "not there")
    assert os.listdir(tmp_path) == ["a.part"]


def save(path, size, step):
    disk.write(path, lambda aside: disk.save_tensors(aside, {"a": torch.ones(size)}, {"step": step}))


def fill_the_disk(path):
    """No file may grow beyond 5,000 bytes: what a full disk says, without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    for act in (
        lambda: save(path, 2_000, 2),
        lambda: save(path, 2_000_000, 3),
        lambda: disk.append_text(path.with_name("log"), "x" * 9000),
    ):
        try:
            act()
        except BadInput as error:
            print(error)


def test_full_disk_is_one_line_and_the_old_file_stays(path, tmp_path_factory):
    save(path, 9, 1)
    said = tmp_path_factory.mktemp("said") / "said"
    assert status_of(fill_the_disk, path, said=said) == 0
    lines = said.read_text().splitlines()
    assert len(lines) == 3 and all(line.startswith(f"{path}: cannot be written: ") for line in lines[:2])
    assert lines[2].startswith(f"{path.with_name('log')}: cannot be written: ")
    assert disk.load_tensors(path)[1] == {"step": 1}
    assert sorted(os.listdir(path.parent)) == ["log", path.name]


@contextmanager
def powerless():
    """The superuser may write anywhere: be somebody else for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_read_only_folder_is_one_line_and_the_old_file_stays(path, request):
    path.write_text("old")
    path.chmod(0o444)
    path.parent.chmod(0o555)
    request.addfinalizer(lambda: path.parent.chmod(0o755))
    for act in (lambda: disk.write_text(path, "new"), lambda: disk.append_text(path, "new")):
        with (
            powerless(),
            pytest.raises(BadInput, match=r"x\.safetensors: cannot be written: Permission denied"),
        ):
            act()
    assert path.read_text() == "old"


def test_a_huge_header_takes_no_memory(path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in (2**20, 2**27, 2**40, 2**63, 2**64 - 1):
        path.write_bytes(size.to_bytes(8, "little") + b'{"a":' + b" " * 100)
        complaint(path)
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    complaint(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
