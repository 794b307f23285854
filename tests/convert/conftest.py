import os

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Starting threads costs more than products this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """What happens when the power fails is tested elsewhere (tests/test_disk.py)."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
