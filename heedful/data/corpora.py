"""Corpora that come with the package, split so that no English sentence is in two parts."""

import lzma
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from heedful.data.split import draw
from heedful.errors import BadInput, nearest

BUNDLED = {"tatoeba": "tatoeba.en-fr.tsv.xz"}
PARTS = ("train", "dev", "test")
HELD_OUT = 15  # of 1,000 sentences, each for dev and for test


def home(sentence: str) -> str:
    """The part a sentence belongs to."""
    place = draw(sentence) % 1000
    return "dev" if place < HELD_OUT else "test" if place < 2 * HELD_OUT else "train"


def is_bundled(name: str) -> bool:
    corpus, colon, _ = name.partition(":")
    return bool(colon) and corpus in BUNDLED


def file_of(name: str) -> Traversable:
    return resources.files("heedful") / "corpora" / BUNDLED[name.partition(":")[0]]


def part(name: str) -> Iterator[tuple[str, str]]:
    """`tatoeba:train`, `tatoeba:dev` or `tatoeba:test`, as (English, French)."""
    corpus, _, wanted = name.partition(":")
    if wanted not in PARTS:
        raise BadInput(f"{corpus} has no part {wanted!r}{nearest(wanted, PARTS)}: {', '.join(PARTS)}")
    with file_of(name).open("rb") as packed, lzma.open(packed) as file:
        for line in file:
            english, french, _ = line.decode().split("\t", 2)
            if home(english) == wanted:
                yield english, french
