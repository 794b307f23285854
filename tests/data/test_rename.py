"""Rename: made-up names, the same on both sides, and nothing else changed."""

import re

from heedful.data import corpora
from heedful.data.readers import Record
from heedful.data.rename import made_up, rename

PAIRS = [
    Record("Tom is here.", "Tom est ici."),
    Record("Is this for Tom's dog?", "Est-ce pour le chien de Tom ?"),
    Record("Impossible.", "Impossible."),
    Record("That is impossible.", "C'est impossible."),
    Record("My dog is old.", "Mon chien est vieux."),
]


def test_a_name_becomes_the_same_other_one_on_both_sides():
    first, second, *others = rename(PAIRS, 1.0)
    name = re.fullmatch(r"(\w+) is here\.", first.source)[1]
    assert first.target == f"{name} est ici." and name != "Tom"
    assert second.source.removeprefix("Is this for ").removesuffix("'s dog?") in second.target
    assert others == PAIRS[2:]  # a word that is also written small is no name


def test_no_more_than_asked_for_and_always_the_same():
    records = [Record(f"Tom has {n}.", f"Tom a {n}.") for n in range(1000)]
    assert rename(records, 0.0) == records
    once = rename(records, 0.3)
    assert 230 < sum(a != b for a, b in zip(records, once, strict=True)) < 370
    assert once == rename(records, 0.3)
    assert len({record.source.split()[0] for record in once}) > 200


def test_no_vowel_comes_after_a_word_that_would_lose_its_own():
    assert all(made_up(number, vowel_first=False)[0] not in "AEIOUY" for number in range(0, 10**6, 997))
    assert any(made_up(number, vowel_first=True)[0] in "AEIOUY" for number in range(100))


def test_names_of_the_bundled_corpus_are_found():
    records = [Record(*pair) for pair in corpora.part("tatoeba:dev")]
    changed = [(a, b) for a, b in zip(records, rename(records, 1.0), strict=True) if a != b]
    assert 150 < len(changed) < 600
    assert sum("Tom" in was.source for was, _ in changed) > 0.8 * len(changed)
