"""Translator: a trained run, ready to use. The verbs of the command, in Python."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from heedful.config import Config
from heedful.data.batch import END, START, UNK, collate
from heedful.data.readers import clean
from heedful.errors import BadInput
from heedful.generate import Hypothesis, Search, generate, in_precision, score, stream
from heedful.look import View, views, watch
from heedful.run import Run, load_model, shipped
from heedful.train.machine import keep_memory

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
GREEDY = Search()
WINDOW = 2048  # texts held at once: memory stays constant however long the input is
PAIRS = 512  # given translations that are judged at once
Item = TypeVar("Item")


@dataclass(frozen=True)
class Translation:
    """One translation of a text. The score is the mean log-probability of its tokens (see Search). `ids` are
    those of each sentence that was translated by itself, without <start> and <end>."""

    text: str
    score: float
    tokens: list[str]
    logprobs: list[float]
    ids: tuple[tuple[int, ...], ...]


class Translator:
    """A model with its tokenizers. Made by `heedful.load`."""

    def __init__(self, run: Run, precision: str = "float32"):
        keep_memory()
        self.run = run
        self.config: Config = run.config()
        self.source, self.target = run.tokenizers(self.config)
        self.precision = precision
        self.model: Any = in_precision(load_model(run, self.config), precision)

    def translate(
        self, texts: Sequence[str], search: Search = GREEDY, prefix: str = ""
    ) -> list[list[Translation]]:
        """For each text its n best, best first. A text too long for the model goes sentence by sentence."""
        return list(self.stream(texts, search, window=max(1, len(texts)), prefix=prefix))

    def stream(
        self,
        texts: Iterable[str],
        search: Search,
        window: int = WINDOW,
        prefix: str = "",
        first: int = 0,
    ) -> Iterator[list[Translation]]:
        """The same for any number of texts, in constant memory and in their order.

        `first` is the number of the first text, from which its seed depends. What is wrong with a text
        is told once all before it are translated: nothing is lost.
        """
        begun = self.beginning(prefix) if prefix else []
        for parts in some((self.split(text, n) for n, text in enumerate(texts, first)), window):
            yield from self.found(parts, search, begun, first)
            first += len(parts)

    def found(
        self, parts: list[list[list[int]]], search: Search, begun: list[int], first: int
    ) -> list[list[Translation]]:
        """The translations of texts that are split into sentences; `begun` is how each text begins."""
        flat = [ids for part in parts for ids in part]
        prefixes = [[] if i else begun for part in parts for i in range(len(part))]
        seeds = [
            search.seed + number + i * 2**32
            for number, part in enumerate(parts, first)
            for i in range(len(part))
        ]
        found = iter(generate(self.model, flat, self.bounded(search), prefixes=prefixes, seeds=seeds))
        return [self.join(list(islice(found, len(part))), search) for part in parts]

    def write(self, text: str, search: Search = GREEDY, prefix: str = "") -> Iterator[str]:
        """The translation of a text, piece by piece, as it comes."""
        begun = self.beginning(prefix) if prefix else []
        for i, part in enumerate(self.split(text)):
            if i:
                yield " "
            yield from self.pieces(part, replace(search, seed=search.seed + i * 2**32), [] if i else begun)

    def pieces(self, source: list[int], search: Search, begun: list[int]) -> Iterator[str]:
        ids, said, whole = list(begun), "", ""
        for token in stream(self.model, source, self.bounded(search), prefix=begun):
            ids.append(token.id)
            whole = self.target.decode(ids)
            if not whole.endswith("\ufffd"):  # else a part of a character
                yield whole[len(said) :]
                said = whole
        yield whole[len(said) :]

    def bounded(self, search: Search) -> Search:
        longest = self.config.model.length - 1
        if search.min_length > longest:
            raise BadInput(f"min_length {search.min_length}: the model writes at most {longest} tokens")
        return search if search.max_length <= longest else replace(search, max_length=longest)

    def beginning(self, prefix: str) -> list[int]:
        """The ids with which a translation should begin."""
        if not clean(prefix):
            raise BadInput("the prefix is empty")
        ids = bare(self.target.encode(clean(prefix)))
        if UNK in ids:
            raise BadInput(f"prefix {prefix!r}: has what the model's vocabulary has not")
        return ids

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
                raise BadInput(f"text {number + 1:,}: a sentence of {len(part):,} tokens; at most {longest}")
        return parts

    def join(self, parts: list[list[Hypothesis]], search: Search) -> list[Translation]:
        """Sentences of one text joined: the best with the best, the second with the second, ..."""
        if not parts:
            return [Translation("", 0.0, [], [], ())]
        return [self.one(list(rank), search) for rank in zip(*parts, strict=False)]

    def one(self, parts: list[Hypothesis], search: Search) -> Translation:
        ids = [i for part in parts for i in part.ids]
        logprobs = [p for part in parts for p in part.logprobs]
        whole = Hypothesis.of(ids, logprobs, True, search.length_penalty)
        text = " ".join(self.target.decode(part.ids) for part in parts)
        each = tuple(tuple(part.ids) for part in parts)
        return Translation(text, whole.score, self.target.pieces(ids), logprobs, each)

    def score(self, pairs: Sequence[tuple[str, str]], length_penalty: float = 1.0) -> list[float]:
        """How likely the model finds given translations: their mean log-probability, with the penalty 1."""
        return [one.score for one in self.judge(pairs, length_penalty)]

    def judge(
        self, pairs: Iterable[tuple[str, str]], length_penalty: float = 1.0, first: int = 0
    ) -> Iterator[Translation]:
        """Given translations, as if a search had found them: their scores, and those of their tokens."""
        settings = Search(length_penalty=length_penalty)
        for few in some((self.pair(*pair, n) for n, pair in enumerate(pairs, first)), PAIRS):
            sources, targets = zip(*few, strict=True)
            for hypothesis in score(self.model, sources, targets, length_penalty=length_penalty):
                yield self.one([hypothesis], settings)

    def pair(self, source: str, target: str, number: int) -> tuple[list[int], list[int]]:
        ids = self.source.encode(clean(source)), bare(self.target.encode(clean(target)))
        size, longest = max(len(ids[0]), len(ids[1]) + 1), self.config.model.length
        if size > longest:
            raise BadInput(f"pair {number + 1:,}: a text of {size:,} tokens; at most {longest}")
        return ids

    def look(self, text: str, translation: str = "") -> list[View]:
        """Who looks at whom while the text is translated, or given a translation, read."""
        parts = self.split(text)
        if len(parts) != 1:
            raise BadInput("there is nothing to look at: give one sentence")
        found = bare(self.target.encode(translation)) if translation else self.translate([text])[0][0].ids[0]
        return self.watched(parts[0], found)

    def attention(self, text: str, found: Translation) -> list[list[View]]:
        """The same for a translation that was found, by sentence."""
        return [self.watched(*pair) for pair in zip(self.split(text), found.ids, strict=True)]

    def watched(self, source: list[int], ids: Sequence[int]) -> list[View]:
        """Who looks at whom while `ids` are read after the source."""
        target, longest = [START, *ids, END], self.config.model.length
        if len(target) - 1 > longest:
            raise BadInput(f"the translation has {len(target) - 1} tokens; at most {longest}")
        with watch(self.model) as weights, torch.inference_mode():
            self.model(collate([(source, target)]))
        pieces = self.target.pieces(target)
        return views(weights, self.source.pieces(source), read=pieces[:-1], written=pieces[1:])


def some(items: Iterator[Item], number: int) -> Iterator[list[Item]]:
    """So many at a time. What is wrong with one is told once all before it are gone."""
    bad = None
    while bad is None:
        few: list[Item] = []
        try:
            few.extend(islice(items, number))
        except BadInput as error:
            bad = error
        if not few:
            break
        yield few
    if bad is not None:
        raise bad


def bare(ids: list[int]) -> list[int]:
    """Without <start> and <end>, whichever of them the tokenizer gives."""
    return [i for i in ids if i not in (START, END)]


def load(run: str | Path | None = None, precision: str = "float32") -> Translator:
    """A trained run by its folder; without one, the English to French translator that comes along."""
    return Translator(Run(Path(run)) if run else shipped(), precision)
