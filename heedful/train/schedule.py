"""Schedules: the learning rate's factor at a step. `done` is the part of the training behind us, 0 to 1."""

import math

from heedful.errors import BadInput, nearest


def constant(step: int, warmup: int, done: float) -> float:
    return 1.0


def linear(step: int, warmup: int, done: float) -> float:
    return 1.0 - done


def cosine(step: int, warmup: int, done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))


def inverse_root(step: int, warmup: int, done: float) -> float:
    """The paper's: falls with the square root of the step."""
    return math.sqrt(warmup / max(step, warmup)) if warmup else 1 / math.sqrt(step)


def warmup_stable_decay(step: int, warmup: int, done: float) -> float:
    """Full until the last fifth, then down to nothing."""
    return min(1.0, (1.0 - done) / 0.2)


SCHEDULES = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse-root": inverse_root,
    "warmup-stable-decay": warmup_stable_decay,
}


def factor(schedule: str, step: int, warmup: int, done: float) -> float:
    """Rises linearly for `warmup` steps (counted from 1), then follows the schedule."""
    if schedule not in SCHEDULES:
        raise BadInput(f"train.schedule {schedule!r}{nearest(schedule, SCHEDULES)}: {', '.join(SCHEDULES)}")
    rise = min(1.0, step / warmup) if warmup else 1.0
    return rise * SCHEDULES[schedule](step, warmup, min(done, 1.0))
