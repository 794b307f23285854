"""Conduct: one team at a time in a folder, and interrupts that let a step finish."""

import fcntl
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from heedful import disk
from heedful.errors import BadInput
from heedful.run import Run
from heedful.train.team import Team


@contextmanager
def locked(run: Run, team: Team) -> Iterator[None]:
    """Only one team trains in a folder; the system frees the lock of one that died."""
    if not team.leads:
        yield
        return
    path = run.folder / ".lock"
    try:
        file = path.open("w")
    except OSError as error:
        raise disk.unwritable(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput(f"{run.folder} is being trained by another process") from error
        except OSError as error:
            raise BadInput(f"{path}: cannot be locked: {error.strerror}") from error
        yield


class Interrupt:
    """Notes SIGINT and SIGTERM, so that the step can finish; a second one stops at once, unless it is
    `patient`: torchrun may repeat what it was sent, and ends by itself what does not stop."""

    def __init__(self, patient: bool = False):
        self.number, self.patient = 0, patient
        self.before = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self.before = {n: signal.signal(n, self.note) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, _) -> None:
        self.number = number
        for each in self.before if not self.patient else ():
            signal.signal(each, signal.SIG_DFL)
