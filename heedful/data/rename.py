"""Rename: puts made-up names into pairs, so that a model learns to copy a name that it never met."""

import re
from collections.abc import Iterator

from heedful.data.readers import Record
from heedful.data.split import draw

WORD = re.compile(r"[^\W\d_]+")
STARTS = (*"bcdfghjklmnprstvwz", "br", "ch", "cl", "cr", "dr", "fr", "gr", "ph", "pr", "sh", "st", "th", "tr")
VOWELS = (*"aaeeiioouy", "ai", "ea", "ie", "ou")
ENDS = ("", "", *"nrslcmdtk", "ck", "th", "nd", "rt", "ll")
ELIDES = re.compile(r"e\W+$", re.IGNORECASE)  # "de Tom", but "d'Eric"


def rename(records: list[Record], share: float) -> list[Record]:
    """The records, of which `share` of those with the same name on both sides have another name there.

    A name is a word with a capital that nowhere in the data begins with a small letter.
    """
    if not share:
        return records
    small = {word for record in records for word in words(record) if word[0].islower()}
    return [renamed(record, small, share) for record in records]


def words(record: Record) -> Iterator[str]:
    return (found[0] for text in (record.source, record.target) for found in WORD.finditer(text))


def renamed(record: Record, small: set[str], share: float) -> Record:
    both = record.source + "\n" + record.target
    if draw(both, 2) >= share * 2**64:
        return record
    there = set(WORD.findall(record.target))
    for word in WORD.findall(record.source):
        if word in there and word.istitle() and len(word) > 2 and word.lower() not in small:
            at = rf"\b{word}\b"
            before = record.target[: re.search(at, record.target).start()]  # pyright: ignore
            name = made_up(draw(both, 3), vowel_first=not ELIDES.search(before))
            return Record(re.sub(at, name, record.source), re.sub(at, name, record.target))
    return record


def made_up(number: int, vowel_first: bool) -> str:
    """A name of one to three syllables; another number, another name."""

    def pick(choices):
        nonlocal number
        number, index = divmod(number, len(choices))
        return choices[index]

    first = "" if vowel_first and pick(range(3)) == 0 else pick(STARTS)
    middle = "".join(pick(STARTS) + pick(VOWELS) for _ in range(pick((0, 1, 1, 1, 2))))
    return (first + pick(VOWELS) + middle + pick(ENDS[2:] if not middle else ENDS)).capitalize()
