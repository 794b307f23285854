"""Readers: files on disk -> Records. Plain, .xz and .gz alike; every fault names file and line."""

import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from heedful.errors import BadInput, nearest

LONGEST_LINE = 100_000  # characters
MOST_BYTES = 4 * LONGEST_LINE + 2  # as UTF-8, with its end; no line is read further: memory stays bounded
OPENERS = {".xz": lzma.open, ".gz": gzip.open}
NARROW_SPACES = str.maketrans("\u202f\u00a0", "  ")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Record:
    """One example: a source text and its target."""

    source: str
    target: str


def clean(text: str) -> str:
    """French typography's narrow and no-break spaces become plain ones; the ends are trimmed."""
    return text.translate(NARROW_SPACES).strip()


def find(name: str, folder: str | None = None) -> Path:
    """The file, or its .xz or .gz, in the folder; a recipe has one, which may be ''."""
    path = Path(folder or "") / name
    for candidate in (path, Path(f"{path}.xz"), Path(f"{path}.gz")):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise BadInput(f"{path} is a folder, not a file")
    where = f"in folder {folder!r}" if folder else "here"
    hint = "; --data.folder says where to look" if folder == "" else ""
    there = [each.name for each in path.parent.glob("*") if each.is_file()]
    raise BadInput(f"no file {name!r} {where}{hint}{nearest(path.name, there)}")


def read_lines(path: Path) -> Iterator[str]:
    try:
        file = OPENERS.get(path.suffix, open)(path, "rb")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    with file:
        yield from lines_of(file, path)


def lines_of(file: IO[bytes], path: Path) -> Iterator[str]:
    """Lines without their ends. Bad bytes, overlong lines and broken archives are named."""
    number = 0
    try:
        for number, raw in enumerate(raw_lines(file), 1):
            line = decode(raw, path, number)
            yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise BadInput(f"{path}: cannot be read after line {number}: {error}") from error


def raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    while raw := file.readline(MOST_BYTES + 1):
        yield raw


def decode(raw: bytes, path: Path, number: int) -> str:
    try:
        line = raw.decode("utf-8").rstrip("\r\n") if len(raw) <= MOST_BYTES else None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line)") from error
    if line is None or len(line) > LONGEST_LINE:
        raise BadInput(f"{path}:{number}: a line of more than {LONGEST_LINE:,} characters")
    return line


def rule_of(pattern: str) -> re.Pattern[str]:
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise BadInput(f"data.pattern {pattern!r} is not a regular expression: {error}") from error
    for group in ("source", "target"):
        if group not in rule.groupindex:
            raise BadInput(f"data.pattern {pattern!r} has no group (?P<{group}>...)")
    return rule


def read_columns(path: Path) -> Iterator[Record]:
    """A TSV's first two columns; rows blank in either are passed over."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        source, tab, rest = line.partition("\t")
        if not tab:
            raise BadInput(f"{path}:{number}: 1 column, where source and target should be parted by a tab")
        yield Record(clean(source), clean(rest.partition("\t")[0]))


def read_pattern(path: Path, pattern: str) -> Iterator[Record]:
    """The groups `source` and `target` of a regular expression on each line that is not blank."""
    rule = rule_of(pattern)
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        found = rule.search(line)
        if not found:
            raise BadInput(f"{path}:{number}: does not match the pattern {pattern!r}")
        yield Record(clean(found["source"] or ""), clean(found["target"] or ""))


def read_aligned(source: Path, target: Path) -> Iterator[Record]:
    """Two files whose lines correspond."""
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if len(sources) != len(targets):
        raise BadInput(f"{source} has {len(sources):,} lines but {target} has {len(targets):,}")
    for left, right in zip(sources, targets, strict=True):
        yield Record(clean(left), clean(right))
