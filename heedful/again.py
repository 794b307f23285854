"""Again: where a translation that was cut off goes on, as the file tells that it has written."""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heedful import disk
from heedful.errors import BadInput

PLAIN, JSON, NBEST, SCORES = "", "--json", "--nbest", "--targets"
# What lines of each kind look like. Plain ones may look like anything.
LOOKS = {
    JSON: re.compile(rb'\{"source": .*\n'),
    NBEST: re.compile(rb"\d{1,18} \|\|\| .* \|\|\| -?\d+\.\d{4}\n"),
    SCORES: re.compile(rb"-?\d+\.\d{4}\n"),
}


@contextmanager
def appended(path: Path) -> Iterator[IO[str]]:
    """A file that this process alone may lengthen; an error names it."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: is not a plain file: there is no going on in it")
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
    except BlockingIOError as error:
        raise BadInput(f"{path}: another process writes to it") from error
    except OSError as error:
        raise disk.unwritable(path, error) from error


def refuse_same(path: Path, others: Iterable[Path | int]) -> None:
    """What is read must not be written. A number is that of an open file."""
    if path.exists() and any(os.path.samestat(os.stat(other), path.stat()) for other in others):
        raise BadInput(f"{path}: is what should be read")


def answered(path: Path, kind: str, most: int, texts: Iterator[str]) -> tuple[int, int]:
    """How many texts the file answers whole, and where it ceases to: takes these from `texts`."""
    done = end = 0
    for raw, after in answers(path, kind, most):
        text = next(texts, None)
        if text is None:
            raise BadInput(f"{path}: answers more than the {done:,} lines that there are: another input's?")
        done, end = done + 1, after
        if kind == JSON and source_of(raw, path, done) != text:
            raise BadInput(f"{path}:{done}: answers another text than line {done:,} of what comes in")
    return done, end


def answers(path: Path, kind: str, most: int) -> Iterator[tuple[bytes, int]]:
    """The last line of each whole answer, and where it ends."""
    lines, end = whole_lines(path, kind), 0
    for group in ranked(lines, path, most) if kind == NBEST else ([line] for line in lines):
        end += sum(map(len, group))
        yield group[-1], end


def whole_lines(path: Path, kind: str) -> Iterator[bytes]:
    """Up to a last one that was cut off; each is what a command of this kind would have written."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith(b"\n"):
                return
            check(raw, f"{path}:{number}", kind, number == 1)
            yield raw


def check(raw: bytes, where: str, kind: str, first: bool) -> None:
    if kind and not LOOKS[kind].fullmatch(raw):
        raise BadInput(f"{where}: was not written with {kind}")
    looks = [known for known, look in LOOKS.items() if look.fullmatch(raw)]
    if looks and first and not kind:
        raise BadInput(f"{where}: was written with {looks[0]}")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{where}: not UTF-8, so not written by heedful") from error


def ranked(lines: Iterable[bytes], path: Path, most: int) -> Iterator[list[bytes]]:
    """The lines of each text. Only where the next text begins it is sure that all are there."""
    group, text = [], 0
    for number, raw in enumerate(lines, 1):
        of = int(raw.split(b" ")[0])
        if group and of == text + 1:
            yield group
            group, text = [], of
        elif of != text:
            raise BadInput(f"{path}:{number}: answers text {of}, which does not follow text {text}")
        group.append(raw)
        if len(group) > most:
            raise BadInput(f"{path}:{number}: has more than {most} translations of a text")


def source_of(raw: bytes, path: Path, number: int) -> str:
    try:
        return json.loads(raw)["source"]
    except ValueError as error:
        raise BadInput(f"{path}:{number}: not JSON, or damaged") from error
