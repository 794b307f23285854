"""The translator that comes along: small, whole, and able to do what the README shows."""

import pytest

import heedful
from heedful import card
from heedful.generate import Search
from heedful.run import shipped


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
    [("Where is the bathroom?", "Où sont les toilettes ?"), ("I ate breakfast already.", "J'ai déjà pris")],
)
def test_it_translates_the_lectures_sentences(english, french):
    best = heedful.load().translate([english], Search(beam=5))[0][0]
    assert best.text.startswith(french)
