"""Bulk: what `heedful translate` does with one text or a million lines: lines in, lines out, in order."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO

from heedful import again
from heedful.data import readers
from heedful.data.readers import find, read_lines
from heedful.errors import BadInput
from heedful.generate import Search
from heedful.look import View
from heedful.progress import Progress
from heedful.translator import Translation, Translator

TOLD = ("text", "score", "tokens", "logprobs")  # of a translation, with --json


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
        return some(read_lines(path_of(args.file)), str(args.file))
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
    return readers.lines_of(sys.stdin.buffer, Path("standard input"))


def path_of(name: Path) -> Path:
    """A file, its .xz or .gz, or the pipe that a shell gives for a command: <(...)."""
    return name if name.exists() and not name.is_file() and not name.is_dir() else find(str(name))


def targets_of(args: argparse.Namespace) -> Iterator[str] | None:
    """The translations that are given, if any are."""
    if args.target is not None and args.text in (None, "-"):
        raise BadInput("--target goes with a TEXT; for lines there is --targets FILE")
    if args.target is not None:
        return iter([args.target])
    return read_lines(path_of(args.targets)) if args.targets else None


def read_by(args: argparse.Namespace) -> Iterator[Path | int]:
    """The files that are read; standard input by its number, if it has one."""
    yield from (path_of(path) for path in (args.file, args.targets) if path)
    if not args.file and args.text in (None, "-"):
        with suppress(OSError):
            yield sys.stdin.fileno()


def kind_of(args: argparse.Namespace) -> str:
    """What an output line is."""
    if args.json:
        return again.JSON
    if args.target is not None or args.targets:
        return again.SCORES
    return again.NBEST if args.nbest > 1 else again.PLAIN


def check(args: argparse.Namespace) -> None:
    """Options that are fine alone, but not together."""
    given = args.target is not None or args.targets is not None
    if args.attention and not args.json:
        raise BadInput("--attention goes with --json; to see it, use heedful look")
    if args.attention and given:
        raise BadInput("--attention is of heedful's own translation; for a given one, use heedful look")
    if args.target is not None and args.targets:
        raise BadInput("give a --target or --targets, not both")
    finding = {"prefix": args.prefix is not None, "nbest": args.nbest > 1, "temperature": args.temperature}
    for name in (name for name, used in finding.items() if used and given):
        raise BadInput(f"--{name} is for translations that are to be found; these are given")
    if args.prefix is not None and not args.prefix.strip():
        raise BadInput("the prefix is empty")
    if args.stream and (given or args.json or args.file or args.out or args.text in (None, "-")):
        raise BadInput("--stream goes with a TEXT, and with no --file, --json, --target or --continue")


# ---- what comes out


def run(translator: Translator, args: argparse.Namespace, search: Search) -> int:
    texts, targets = texts_of(args), targets_of(args)
    if args.stream:
        return speak(translator.write(args.text, search, args.prefix or ""))
    if args.out:
        again.refuse_same(args.out, read_by(args))
    with output(args.out) as out:
        done = pass_over(args, out, texts, targets) if args.out else 0
        kept: list[str] = []  # the texts that are on their way
        progress = Progress(done, bool(args.out) or not sys.stdout.isatty())
        passing = keeping(texts, kept)
        if targets:
            found = judged(translator, passing, targets, search, done)
        else:
            window = {"window": 1} if sys.stdin.isatty() and not args.file else {}
            found = translator.stream(passing, search, prefix=args.prefix or "", first=done, **window)
        for number, translations in enumerate(found, done):
            for line in lines_of(translator, args, number, kept.pop(0), translations):
                out.write(line + "\n")
            if not kept:
                out.flush()
            progress.step()
    progress.end()
    return 0


def pass_over(
    args: argparse.Namespace, out: IO[str], texts: Iterator[str], targets: Iterator[str] | None
) -> int:
    """How many texts the file that is to be continued answers already. Takes these, and from the file what
    stands there of the next one, once all has been found to be in order."""
    done, end = again.answered(args.out, kind_of(args), args.nbest, texts)
    if targets and sum(1 for _ in islice(targets, done)) < done:
        raise BadInput(f"{args.out}: answers {done:,} lines, of which {args.targets} has fewer: another's?")
    out.truncate(end)
    return done


def output(path: Path | None) -> AbstractContextManager[IO[str]]:
    return again.appended(path) if path else nullcontext(sys.stdout)


def keeping(texts: Iterable[str], kept: list[str]) -> Iterator[str]:
    for text in texts:
        kept.append(text)
        yield text


def judged(
    translator: Translator, texts: Iterator[str], targets: Iterator[str], search: Search, first: int
) -> Iterator[list[Translation]]:
    for one in translator.judge(together(texts, targets, first), search.length_penalty, first):
        yield [one]


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
        told = {"source": text, "translations": [{key: vars(one)[key] for key in TOLD} for one in found]}
        if args.attention:
            told["attention"] = attention(translator.attention(text, found[0]))
        yield json.dumps(told, ensure_ascii=False)
    elif args.target is not None or args.targets:
        yield f"{found[0].score:.4f}"
    elif args.nbest == 1:
        yield one_line(found[0].text)
    else:
        yield from (f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}" for one in found)


def one_line(text: str) -> str:
    """Output has a line for each input line, whatever the model writes."""
    return " ".join(re.split(r"[\r\n]+", text))


def unbroken(pieces: Iterable[str]) -> Iterator[str]:
    """one_line, of a text that comes piece by piece."""
    broke = False
    for piece in pieces:
        yield one_line(piece.lstrip("\r\n") if broke else piece)
        broke = piece.endswith(("\r", "\n")) if piece else broke


def attention(sentences: list[list[View]]) -> list[dict]:
    return [
        {"sentence": n, "kind": v.kind, "layer": v.layer, "queries": v.queries, "keys": v.keys}
        | {"weights": [[[round(w, 4) for w in row] for row in head] for head in v.weight_HTS.tolist()]}
        for n, views in enumerate(sentences)
        for v in views
    ]


def speak(pieces: Iterable[str]) -> int:
    for piece in unbroken(pieces):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
