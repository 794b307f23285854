import pytest
import torch

from tests.train.tiny import write_data


@pytest.fixture(autouse=True)
def one_thread():
    """Starting threads costs more than products this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with tiny data and its recipe; nobody changes it."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture
def own_data(tmp_path):
    """The same, for a test that changes it."""
    write_data(tmp_path)
    return tmp_path
