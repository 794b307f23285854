import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Starting threads costs more than products this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
