"""Translator: a trained run, ready to use. The verbs of the command, in Python."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from heedful.config import Config
from heedful.data.batch import collate
from heedful.data.readers import clean
from heedful.errors import BadInput
from heedful.generate import Hypothesis, Search, generate, score
from heedful.look import View, views, watch
from heedful.run import Run, load_model, shipped
from heedful.train.machine import keep_memory

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
GREEDY = Search()
WINDOW = 2048  # texts held at once: memory stays constant however long the input is


@dataclass(frozen=True)
class Translation:
    """One translation of a text. The score is the mean log-probability of its tokens (see Search)."""

    text: str
    score: float
    tokens: list[str]
    logprobs: list[float]


class Translator:
    """A model with its tokenizers. Made by `heedful.load`."""

    def __init__(self, run: Run):
        keep_memory()
        self.run = run
        self.config: Config = run.config()
        self.source, self.target = run.tokenizers(self.config)
        self.model = load_model(run, self.config)

    def translate(self, texts: Sequence[str], search: Search = GREEDY) -> list[list[Translation]]:
        """For each text its n best, best first. A text too long for the model goes sentence by sentence."""
        parts = [self.split(text, i) for i, text in enumerate(texts)]
        flat = [ids for part in parts for ids in part]
        found = iter(generate(self.model, flat, self.bounded(search)))
        return [self.join(list(islice(found, len(part))), search) for part in parts]

    def stream(
        self, texts: Iterable[str], search: Search, window: int = WINDOW
    ) -> Iterator[list[Translation]]:
        """The same for any number of texts, in constant memory and in their order."""
        texts = iter(texts)
        while chunk := list(islice(texts, window)):
            yield from self.translate(chunk, search)

    def bounded(self, search: Search) -> Search:
        longest = self.config.model.length - 1
        return search if search.max_length <= longest else Search(**{**vars(search), "max_length": longest})

    def split(self, text: str, number: int = 0) -> list[list[int]]:
        """The ids of a text: one list, or one per sentence if it is longer than the model reads."""
        text = clean(text)
        whole = self.source.encode(text)
        longest = self.config.model.length
        if len(whole) <= longest:
            return [whole] if text else []
        parts = [self.source.encode(sentence) for sentence in SENTENCE_END.split(text) if sentence]
        for part in parts:
            if len(part) > longest:
                raise BadInput(f"text {number + 1}: a sentence of {len(part):,} tokens; at most {longest}")
        return parts

    def join(self, parts: list[list[Hypothesis]], search: Search) -> list[Translation]:
        """Sentences of one text joined: the best with the best, the second with the second, ..."""
        if not parts:
            return [Translation("", 0.0, [], [])]
        return [self.one(list(rank), search) for rank in zip(*parts, strict=False)]

    def one(self, parts: list[Hypothesis], search: Search) -> Translation:
        ids = [i for part in parts for i in part.ids]
        logprobs = [p for part in parts for p in part.logprobs]
        whole = Hypothesis.of(ids, logprobs, True, search.length_penalty)
        text = " ".join(self.target.decode(part.ids) for part in parts)
        return Translation(text, whole.score, self.target.pieces(ids), logprobs)

    def score(self, pairs: Sequence[tuple[str, str]], length_penalty: float = 1.0) -> list[float]:
        """How likely the model finds given translations."""
        sources = [self.source.encode(clean(source)) for source, _ in pairs]
        targets = [self.target.encode(clean(target))[1:-1] for _, target in pairs]
        found = score(self.model, sources, targets, length_penalty=length_penalty)
        return [hypothesis.score for hypothesis in found]

    def look(self, text: str, translation: str = "") -> list[View]:
        """Who looks at whom while the text is translated, or given a translation, read."""
        parts = self.split(text)
        if len(parts) != 1:
            raise BadInput("there is nothing to look at: give one sentence")
        translation = translation or self.translate([text])[0][0].text
        target = self.target.encode(translation)
        with watch(self.model) as weights, torch.inference_mode():
            self.model(collate([(parts[0], target)]))
        pieces = self.target.pieces(target)
        return views(weights, self.source.pieces(parts[0]), read=pieces[:-1], written=pieces[1:])


def load(run: str | Path | None = None) -> Translator:
    """A trained run by its folder; without one, the English to French translator that comes along."""
    return Translator(Run(Path(run)) if run else shipped())
