"""Sources: the names in a recipe -> Records, whether files of the user's or a bundled corpus."""

import hashlib
from collections.abc import Iterator

from heedful import disk
from heedful.data import corpora
from heedful.data.readers import Record, clean, find, read_aligned, read_columns, read_pattern
from heedful.errors import BadInput


def read(names: tuple[str, ...], folder: str | None = None, pattern: str = "") -> list[Record]:
    """One name is a TSV (or a part of a bundled corpus, `tatoeba:dev`); two are aligned files.

    Records blank on either side are left out: there is nothing to learn from them.
    """
    records = [r for r in records_in(names, folder, pattern) if r.source and r.target]
    if not records:
        raise BadInput(f"{', '.join(names)}: no examples in it")
    return records


def records_in(names: tuple[str, ...], folder: str | None, pattern: str) -> Iterator[Record]:
    if len(names) == 1 and corpora.is_bundled(names[0]):
        return (Record(clean(source), clean(target)) for source, target in corpora.part(names[0]))
    if len(names) == 1:
        path = find(names[0], folder)
        return read_pattern(path, pattern) if pattern else read_columns(path)
    if len(names) == 2:
        return read_aligned(find(names[0], folder), find(names[1], folder))
    raise BadInput(f"data is one file or two aligned files, not {len(names)}: {', '.join(names)}")


def hashes(names: tuple[str, ...], folder: str = "") -> dict[str, str]:
    """What each file holds now, by its name in the recipe."""
    return {name: hash_of(name, folder) for name in names}


def hash_of(name: str, folder: str) -> str:
    if corpora.is_bundled(name):
        return hashlib.sha256(corpora.file_of(name).read_bytes()).hexdigest()
    return disk.digest_of_file(find(name, folder))
