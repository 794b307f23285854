"""Memory: kept for the next step, and given back where holes have grown."""

import sys

import pytest
import torch

from heedful.train import machine


def resident() -> float:
    """Megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(machine.libc("malloc_trim") is None, reason="the C library is not glibc")
def test_freed_buffers_stay_until_they_are_given_back():
    assert machine.keep_memory()
    kept = torch.ones(1)
    machine.return_memory()
    before = resident()
    buffers = [torch.ones(2**20) for _ in range(50)]  # 4 MB each, between which small ones stay
    del buffers
    assert resident() > before + 150
    machine.return_memory()
    assert resident() < before + 100 and kept.item() == 1


def test_threads_are_taken_as_given():
    threads = torch.get_num_threads()
    machine.use_cores(0)
    assert torch.get_num_threads() == threads
    machine.use_cores(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(threads)


def test_another_c_library_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not machine.keep_memory()
    machine.return_memory()
