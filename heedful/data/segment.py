"""Segment: other ways to cut words into pieces than the tokenizer's own, so that a model meets the parts of
a rare word elsewhere too (BPE-dropout: Provilkov, Emelianenko and Voita 2020)."""

import json
import random
from functools import cache
from itertools import pairwise

from tokenizers import models

from heedful.data.batch import END, START
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput

RATE = 0.1  # of the merges that are left out
LONGEST = 64  # characters: what is longer is no word, and would take minutes


class Segmenter:
    """Cuts texts anew each time; a word is cut in `ways` ways, drawn once and then chosen among."""

    def __init__(self, tokenizer: Tokenizer, ways: int, rate: float = RATE):
        self.inner, self.ways, self.rate = tokenizer.inner, ways, rate
        if not isinstance(self.inner.model, models.BPE):
            raise BadInput(f"data.segmentations {ways}: only the bpe tokenizer cuts words")
        model = json.loads(self.inner.to_str())["model"]
        self.ids: dict[str, int] = model["vocab"]
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        self.random = random.Random(0)
        self.cuts_of = cache(self.cuts)

    def cuts(self, word: str) -> list[list[int]]:
        if len(word) > LONGEST:
            return [[token.id for token in self.inner.model.tokenize(word)]]
        return [self.cut(word) for _ in range(self.ways)]

    def cut(self, word: str) -> list[int]:
        """The best merge that is not left out, again and again."""
        parts = list(word)
        while True:
            merges = [(self.ranks[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in self.ranks]
            kept = [merge for merge in merges if self.random.random() >= self.rate]
            if not kept:
                return [self.ids[part] for part in parts]
            _, at = min(kept)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

    def words(self, text: str) -> list[str]:
        text = self.inner.normalizer.normalize_str(text)
        return [word for word, _ in self.inner.pre_tokenizer.pre_tokenize_str(text)]

    def encode(self, text: str) -> list[list[int]]:
        """The text in as many ways."""
        words = [self.cuts_of(word) for word in self.words(text)]
        drawn = ((self.random.choice(cuts) for cuts in words) for _ in range(self.ways))
        return [[START, *(i for cut in way for i in cut), END] for way in drawn]
