"""Track: a mirror of log.jsonl where other people's programs look. The log itself stays the truth."""

from typing import Any

from heedful.errors import BadInput
from heedful.train.loop import Trainer

FOLDER = "tensorboard"  # in the run


class Tracker:
    """Writes what is logged to TensorBoard, too, if asked to."""

    def __init__(self, kind: str, trainer: Trainer):
        self.writer = None
        if kind == "tensorboard":
            step = trainer.progress.step
            # What an earlier process has written of later steps is to be forgotten.
            purge = step + 1 if step else None
            self.writer = writer_class()(str(trainer.run.folder / FOLDER), purge_step=purge)

    def add(self, event: dict[str, Any]) -> None:
        if self.writer is None:
            return
        for name, value in event.items():
            if name != "step" and type(value) in (int, float):
                self.writer.add_scalar(name, value, event["step"])
        self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        needs = "--track tensorboard needs tensorboardX: pip install heedful[track]"
        raise BadInput(needs) from error
    return SummaryWriter


def check(kind: str) -> None:
    """Ask this before long work, so that a package that is missing does not waste it."""
    if kind:
        writer_class()
