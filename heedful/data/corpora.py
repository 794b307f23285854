"""Corpora that come with the package, split so that no English sentence is in two parts."""

import hashlib
import lzma
from collections.abc import Iterator
from importlib import resources

from heedful.errors import BadInput, nearest

BUNDLED = {"tatoeba": "tatoeba.en-fr.tsv.xz"}
PARTS = ("train", "dev", "test")
HELD_OUT = 15  # of 1,000 sentences, each for dev and for test


def home(sentence: str) -> str:
    """The part a sentence belongs to: a function of its letters alone, so that 'Hi.' and 'hi!' go together."""
    letters = "".join(c for c in sentence.casefold() if c.isalnum())
    draw = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:8], "big") % 1000
    return "dev" if draw < HELD_OUT else "test" if draw < 2 * HELD_OUT else "train"


def part(name: str) -> Iterator[tuple[str, str]]:
    """`tatoeba:train`, `tatoeba:dev` or `tatoeba:test`, as (English, French)."""
    corpus, _, wanted = name.partition(":")
    if wanted not in PARTS:
        raise BadInput(f"{corpus} has no part {wanted!r}{nearest(wanted, PARTS)}")
    packed = resources.files("heedful") / "corpora" / BUNDLED[corpus]
    with packed.open("rb") as raw, lzma.open(raw, "rt", encoding="utf-8") as file:
        for line in file:
            english, french, _ = line.split("\t", 2)
            if home(english) == wanted:
                yield english, french
