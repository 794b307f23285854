"""Readers: files on disk -> Records. Plain, .xz and .gz alike; every fault names file and line."""

import gzip
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heedful.data import corpora
from heedful.errors import BadInput

LONGEST_LINE = 100_000  # characters
OPENERS = {".xz": lzma.open, ".gz": gzip.open}
NARROW_SPACES = str.maketrans("\u202f\u00a0", "  ")


@dataclass(frozen=True)
class Record:
    """One example: a source text and its target."""

    source: str
    target: str


def clean(text: str) -> str:
    """French typography's narrow and no-break spaces become plain ones; the ends are trimmed."""
    return text.translate(NARROW_SPACES).strip()


def find(name: str, folder: str = "") -> Path:
    """The file, or its .xz or .gz, in the folder."""
    path = Path(folder) / name
    for candidate in (path, Path(f"{path}.xz"), Path(f"{path}.gz")):
        if candidate.is_file():
            return candidate
    where = f"in folder {folder!r}" if folder else "here; --data.folder says where to look"
    raise BadInput(f"no file {name!r} {where}")


def read_lines(path: Path) -> Iterator[str]:
    """Lines without their ends. Bad bytes, overlong lines and broken archives are named."""
    opener = OPENERS.get(path.suffix, open)
    number = 0
    try:
        with opener(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                yield decode(raw, path, number)
    except (lzma.LZMAError, EOFError, OSError) as error:
        raise BadInput(f"{path}: cannot be read after line {number}: {error}") from error


def decode(raw: bytes, path: Path, number: int) -> str:
    if len(raw) > 4 * LONGEST_LINE:
        raise BadInput(f"{path}:{number}: line of {len(raw):,} bytes; at most {LONGEST_LINE:,} characters")
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line)") from error


def read_columns(path: Path, pattern: str = "") -> Iterator[Record]:
    """A TSV's first two columns; or, with a pattern, its groups `source` and `target` on each line."""
    rule = re.compile(pattern) if pattern else None
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        found = rule.search(line).groupdict() if rule and rule.search(line) else None
        columns = (found["source"], found["target"]) if found else line.split("\t")
        if rule and not found:
            raise BadInput(f"{path}:{number}: does not match the pattern {pattern!r}")
        if len(columns) < 2:
            raise BadInput(f"{path}:{number}: 1 column, where source and target should be parted by a tab")
        yield Record(clean(columns[0]), clean(columns[1]))


def read_aligned(source: Path, target: Path) -> Iterator[Record]:
    """Two files whose lines correspond; lines blank on either side are passed over."""
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if len(sources) != len(targets):
        raise BadInput(f"{source} has {len(sources):,} lines but {target} has {len(targets):,}")
    for left, right in zip(sources, targets, strict=True):
        if clean(left) and clean(right):
            yield Record(clean(left), clean(right))


def read(names: tuple[str, ...], folder: str = "", pattern: str = "") -> list[Record]:
    """One name is a TSV (or a part of a bundled corpus, `tatoeba:dev`); two are aligned files."""
    if len(names) == 1 and ":" in names[0] and names[0].partition(":")[0] in corpora.BUNDLED:
        records = [Record(clean(source), clean(target)) for source, target in corpora.part(names[0])]
    elif len(names) == 1:
        records = list(read_columns(find(names[0], folder), pattern))
    elif len(names) == 2:
        records = list(read_aligned(*(find(name, folder) for name in names)))
    else:
        raise BadInput(f"data is one file or two aligned files, not {len(names)}: {', '.join(names)}")
    if not records:
        raise BadInput(f"{', '.join(names)}: no examples in it")
    return records
