"""Progress: how far long work is, on standard error."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """Live on a terminal, else a line now and then; nothing if it is over soon, or if it is not to be
    `shown`, because the answers themselves are on the screen."""

    def __init__(self, done: int = 0, shown: bool = True):
        self.live = sys.stderr.isatty()
        self.pause = 1.0 if self.live else 15.0
        self.shown, self.done, self.before = shown, done, done
        self.started = self.said = time.monotonic()

    def step(self) -> None:
        self.done += 1
        now = time.monotonic()
        if self.shown and now - self.said >= self.pause:
            self.said = now
            self.say(f"{self.done:,} lines, {(self.done - self.before) / (now - self.started):,.1f} a second")

    def say(self, text: str) -> None:
        line, end = (f"\r{text:50}", "") if self.live else (text, "\n")
        print(line, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live and self.said > self.started:
            print(file=sys.stderr)


def told(items: Iterable[Item]) -> Iterator[Item]:
    """The items, and how far they are."""
    progress = Progress()
    for item in items:
        yield item
        progress.step()
    progress.end()
