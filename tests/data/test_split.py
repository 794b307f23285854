"""Split: no source is on both sides, and the order of the file does not matter."""

import pytest

from heedful.data import corpora
from heedful.data.readers import Record
from heedful.data.sources import read
from heedful.data.split import hold_out, unseen
from heedful.errors import BadInput

SIZES = {"train": 169256, "dev": 2567, "test": 2665}


@pytest.fixture(scope="module")
def tatoeba():
    return {name: list(corpora.part(f"tatoeba:{name}")) for name in corpora.PARTS}


def test_bundled_corpus_is_split_whole(tatoeba):
    assert {name: len(pairs) for name, pairs in tatoeba.items()} == SIZES
    assert sum(SIZES.values()) == 174_488


def test_no_english_sentence_is_in_two_parts(tatoeba):
    """Nor in other capitals or with other punctuation."""
    letters = {
        name: {"".join(c for c in english.casefold() if c.isalnum()) for english, _ in pairs}
        for name, pairs in tatoeba.items()
    }
    assert not letters["train"] & letters["dev"]
    assert not letters["train"] & letters["test"]
    assert not letters["dev"] & letters["test"]


def test_bundled_corpus_is_read_clean():
    records = read(("tatoeba:dev",))
    assert not any(c in r.source + r.target for r in records for c in "\u202f\u00a0")
    assert len(records) == SIZES["dev"]


def test_unknown_part_names_the_nearest():
    with pytest.raises(BadInput, match=r"tatoeba has no part 'tets'.*did you mean 'test'"):
        read(("tatoeba:tets",))


def test_hold_out_goes_by_source():
    records = [Record(f"word {n // 2}", f"{n}") for n in range(4000)]  # every source twice
    kept, held = hold_out(records, 0.05)
    assert len(kept) + len(held) == 4000 and 120 < len(held) < 280
    assert not {r.source for r in kept} & {r.source for r in held}
    kept_again, held_again = hold_out(records[::-1], 0.05)
    assert held_again == held[::-1] and kept_again == kept[::-1]
    assert set(held) <= set(hold_out(records, 0.1)[1])


def test_hold_out_of_a_bundled_part_is_not_skewed(tatoeba):
    """The parts of the corpus were drawn by the same text; the second draw must not know of it."""
    records = [Record(*pair) for pair in tatoeba["dev"]]
    assert 0.4 < len(hold_out(records, 0.5)[1]) / len(records) < 0.6


def test_unseen_takes_every_source_of_dev_out_of_train():
    train = [Record("a", "1"), Record("b", "2"), Record("a", "3"), Record("a", "9")]
    kept, dev = unseen(train, [Record("c", "0"), Record("a", "9")])
    assert kept == [Record("b", "2")]
    assert dev == [Record("c", "0"), Record("a", "9"), Record("a", "1"), Record("a", "3")]
