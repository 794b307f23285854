"""The translator that comes along: small, whole, and able to do what the README shows."""

import pytest

import heedful
from heedful import card
from heedful.data import corpora
from heedful.data.readers import Record
from heedful.data.rename import WORD, rename
from heedful.generate import Search
from heedful.run import shipped

KNOWN = {word for pair in corpora.part("tatoeba:train") for text in pair for word in WORD.findall(text)}


def test_it_is_as_small_as_promised():
    known = card.facts(shipped())
    assert known["parameters"] <= 12e6
    assert known["bytes"] <= 16e6


def test_its_card_tells_what_it_scored_and_what_it_cost():
    text = (shipped().folder / "card.md").read_text(encoding="utf-8")
    assert text.rstrip("\n") == card.text(shipped())
    for word in ("Scores on test", "bleu signature", "seed 1", "hours", "CO2e", "tatoeba:test"):
        assert word in text


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("My name is Eric.", ("Mon nom est Eric.", "Je m'appelle Eric.", "Je me nomme Eric.")),
        ("Where is the bathroom?", "Où sont les toilettes ?"),
        ("I ate breakfast already.", "J'ai déjà pris"),
    ],
)
def test_it_translates_the_lectures_sentences(english, french):
    best = heedful.load().translate([english], Search(beam=5))[0][0]
    assert best.text.startswith(french)


def test_it_copies_names_that_it_never_met():
    """Most of them: 200 sentences of dev, each with a made-up name."""
    records = [Record(*pair) for pair in corpora.part("tatoeba:dev")]
    made = [new for old, new in zip(records, rename(records, 1.0), strict=True) if new != old][:200]
    names = [({*WORD.findall(r.source)} & {*WORD.findall(r.target)}) - KNOWN for r in made]
    found = heedful.load().translate([r.source for r in made], Search(beam=1))
    copied = [names <= {*WORD.findall(best[0].text)} for names, best in zip(names, found, strict=True)]
    assert len(made) == 200 and sum(copied) > 160
