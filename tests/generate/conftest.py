import pytest
import torch


@pytest.fixture(autouse=True)
def same_every_time():
    """One seed per test; one thread, since starting threads costs more than products this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
