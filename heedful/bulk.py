"""Bulk: what `heedful translate` does with one text or a million lines: lines in, lines out, in order."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO

from heedful.data.readers import decode, find, raw_lines, read_lines
from heedful.errors import BadInput
from heedful.generate import Search
from heedful.translator import Translation, Translator

PAIRS = 512  # given translations that are judged at once


def search_of(args: argparse.Namespace) -> Search:
    """A beam of 5, unless what was asked for goes one hypothesis at a time."""
    chosen = {key: value for key, value in vars(args).items() if key in Search.__dataclass_fields__}
    alone = chosen.get("temperature") or getattr(args, "stream", False)
    return Search(**{**chosen, "beam": (1 if alone else 5) if args.beam is None else args.beam})


# ---- what goes in


def texts_of(args: argparse.Namespace) -> Iterator[str]:
    """The texts to translate; that there are none is an error."""
    if args.text not in (None, "-") and args.file:
        raise BadInput("give a TEXT or a --file, not both")
    if args.file:
        return some(read_lines(find(str(args.file))), str(args.file))
    if args.text in (None, "-"):
        return some(standard_input(), "standard input")
    if not args.text.strip():
        raise BadInput("the text is empty")
    return iter([args.text])


def some(lines: Iterator[str], name: str) -> Iterator[str]:
    first = next(lines, None)
    if first is None:
        raise BadInput(f"{name} is empty")

    def all_of() -> Iterator[str]:
        yield first
        yield from lines

    return all_of()


def standard_input() -> Iterator[str]:
    for number, raw in enumerate(raw_lines(sys.stdin.buffer), 1):
        yield decode(raw, Path("standard input"), number)


def targets_of(args: argparse.Namespace) -> Iterator[str] | None:
    """The translations that are given, if any are."""
    if args.target is not None and args.text in (None, "-"):
        raise BadInput("--target goes with a TEXT; for lines there is --targets FILE")
    if args.target is not None:
        return iter([args.target])
    return read_lines(find(str(args.targets))) if args.targets else None


def check(args: argparse.Namespace) -> None:
    """Options that are fine alone, but not together."""
    given = args.target is not None or args.targets is not None
    if args.attention and not args.json:
        raise BadInput("--attention goes with --json; to see it, use heedful look")
    if args.attention and given:
        raise BadInput("--attention is of heedful's own translation; for a given one, use heedful look")
    if args.target is not None and args.targets:
        raise BadInput("give a --target or --targets, not both")
    if args.prefix is not None and given:
        raise BadInput("--prefix is for translations that are to be found; these are given")
    if args.prefix is not None and not args.prefix.strip():
        raise BadInput("the prefix is empty")
    if args.stream and (given or args.json or args.file or args.out or args.text in (None, "-")):
        raise BadInput("--stream goes with a TEXT, and with no --file, --json, --target or --continue")


# ---- what comes out


def run(translator: Translator, args: argparse.Namespace, search: Search) -> int:
    texts, targets = texts_of(args), targets_of(args)
    if args.stream:
        return speak(translator.write(args.text, search, args.prefix or ""))
    done = answered(args) if args.out else 0
    skip(texts, done, args.out)
    if targets:
        skip(targets, done, args.out)
    kept: list[str] = []  # the texts that are on their way
    progress = Progress(done, bool(args.out) or not sys.stdout.isatty())
    passing = keeping(texts, kept)
    if targets:
        found = judged(translator, passing, targets, search, done)
    else:
        window = {"window": 1} if sys.stdin.isatty() and not args.file else {}
        found = translator.stream(passing, search, prefix=args.prefix or "", first=done, **window)
    with output(args.out) as out:
        for number, translations in enumerate(found, done):
            for line in lines_of(translator, args, number, kept.pop(0), translations):
                out.write(line + "\n")
            if not kept:
                out.flush()
            progress.step()
    progress.end()
    return 0


def keeping(texts: Iterable[str], kept: list[str]) -> Iterator[str]:
    for text in texts:
        kept.append(text)
        yield text


def judged(
    translator: Translator, texts: Iterator[str], targets: Iterator[str], search: Search, first: int
) -> Iterator[list[Translation]]:
    """Given translations, a few hundred at a time."""
    pairs = together(texts, targets, first)
    while chunk := list(islice(pairs, PAIRS)):
        for one in translator.judge(chunk, search.length_penalty, first):
            yield [one]
        first += len(chunk)


def together(texts: Iterator[str], targets: Iterator[str], first: int) -> Iterator[tuple[str, str]]:
    for number, (text, target) in enumerate(zip_longest(texts, targets), first + 1):
        if text is None or target is None:
            side = "text" if text is None else "given translation"
            raise BadInput(f"line {number:,} has no {side}: both files should have as many lines")
        yield text, target


def lines_of(
    translator: Translator, args: argparse.Namespace, number: int, text: str, found: list[Translation]
) -> Iterator[str]:
    if args.json:
        told = {"source": text, "translations": [vars(one) for one in found]}
        if args.attention:
            told["attention"] = attention(translator, text, found[0].text)
        yield json.dumps(told, ensure_ascii=False)
    elif args.target is not None or args.targets:
        yield f"{found[0].score:.4f}"
    elif args.nbest == 1:
        yield one_line(found[0].text)
    else:
        yield from (f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}" for one in found)


def one_line(text: str) -> str:
    """Output has a line for each input line, whatever the model writes."""
    return " ".join(text.split("\n"))


def attention(translator: Translator, text: str, translation: str) -> list[dict]:
    views = translator.look(text, translation) if translation else []
    return [
        {"kind": v.kind, "layer": v.layer, "queries": v.queries, "keys": v.keys}
        | {"weights": [[[round(w, 4) for w in row] for row in head] for head in v.weight_HTS.tolist()]}
        for v in views
    ]


def speak(pieces: Iterable[str]) -> int:
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def output(path: Path | None) -> AbstractContextManager[IO[str]]:
    if path is None:
        return nullcontext(sys.stdout)
    try:
        return path.open("a", encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error


# ---- where it stopped


def answered(args: argparse.Namespace) -> int:
    """How many texts the file answers whole. What stands there of the next one is cut off."""
    path: Path = args.out
    if not path.exists():
        return 0
    if args.file and path.samefile(find(str(args.file))):
        raise BadInput(f"{path}: is what should be translated")
    grouped = args.nbest > 1 and not args.json
    done, whole, place = 0, 0, 0
    with path.open("rb+") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            check_kind(raw, path, args, grouped)
            if not grouped:
                done, whole = done + 1, place + len(raw)
            elif int(raw.split(b" ||| ")[0]) != done:  # all of the text before
                done, whole = done + 1, place
            place += len(raw)
        file.truncate(whole)
    return done


def check_kind(raw: bytes, path: Path, args: argparse.Namespace, grouped: bool) -> None:
    """That it is what this command would have written."""
    if args.json != raw.startswith(b'{"source": '):
        raise BadInput(f"{path}: was written {'without' if args.json else 'with'} --json")
    if grouped and not (b" ||| " in raw and raw.split(b" ||| ")[0].isdigit()):
        raise BadInput(f"{path}: was not written with --nbest {args.nbest}")


def skip(texts: Iterator[str], number: int, path: Path | None) -> None:
    passed = sum(1 for _ in islice(texts, number))
    if passed < number:
        raise BadInput(f"{path}: answers {number:,} lines, but there are only {passed:,}: another input's?")


class Progress:
    """How far it is, on standard error: live on a terminal, else a line now and then; nothing if it is
    over soon, or if the answers themselves are on the screen."""

    def __init__(self, done: int, shown: bool):
        self.live = sys.stderr.isatty()
        self.pause = 1.0 if self.live else 15.0
        self.shown, self.done, self.before = shown, done, done
        self.started = self.said = time.monotonic()

    def step(self) -> None:
        self.done += 1
        now = time.monotonic()
        if self.shown and now - self.said >= self.pause:
            self.said = now
            self.say(f"{self.done:,} lines, {(self.done - self.before) / (now - self.started):,.1f} a second")

    def say(self, text: str) -> None:
        line, end = (f"\r{text:50}", "") if self.live else (text, "\n")
        print(line, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live and self.said > self.started:
            print(file=sys.stderr)
