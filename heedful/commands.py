"""What each command does. Results go to standard output, all else to standard error."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from heedful import config
from heedful.data.readers import decode, find, read_lines
from heedful.data.sources import read
from heedful.errors import BadInput, nearest
from heedful.generate import Search
from heedful.look import check_suffix, draw, heat_map, pick, show
from heedful.run import Run, shipped
from heedful.translator import Translation, load

DOC = '"""'


def train(args: argparse.Namespace, settings: list[str]) -> int:
    from heedful.train import start

    if args.resume:
        return start.resume(args.resume)
    if not args.recipe:
        raise BadInput(f"which recipe? shipped: {', '.join(config.shipped())}")
    if args.budget:
        settings = [*settings, "--train.budget", args.budget]
    chosen = config.load_recipe(args.recipe, settings)
    return start.train(chosen, args.run or Path("runs") / Path(args.recipe).stem)


def search_of(args: argparse.Namespace) -> Search:
    nbest = getattr(args, "nbest", 1)
    return Search(args.beam, nbest, args.length_penalty, max_length=args.max_length)


def translate(args: argparse.Namespace, _) -> int:
    search = search_of(args)
    if args.attention and not args.json:
        raise BadInput("--attention goes with --json; to see it, use heedful look")
    texts = texts_of(args)
    translator = load(args.model)
    window = {"window": 1} if sys.stdin.isatty() and not args.file else {}
    kept: list[str] = []  # the texts that are on their way

    def passing() -> Iterator[str]:
        for text in texts:
            kept.append(text)
            yield text

    for number, found in enumerate(translator.stream(passing(), search, **window)):
        text = kept.pop(0)
        if args.json:
            views = translator.look(text, found[0].text) if args.attention and found[0].text else []
            print(json.dumps(as_json(text, found) | attention_json(views, args), ensure_ascii=False))
        elif args.nbest == 1:
            print(one_line(found[0].text))
        else:
            for one in found:
                print(f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}")
        sys.stdout.flush()
    return 0


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
    for number, raw in enumerate(sys.stdin.buffer, 1):
        yield decode(raw, Path("standard input"), number)


def one_line(text: str) -> str:
    """Output has a line for each input line, whatever the model writes."""
    return " ".join(text.split("\n"))


def as_json(text: str, found: list[Translation]) -> dict:
    return {"source": text, "translations": [vars(one) for one in found]}


def attention_json(views, args: argparse.Namespace) -> dict:
    if not args.attention:
        return {}
    rows = [
        {"kind": v.kind, "layer": v.layer, "queries": v.queries, "keys": v.keys}
        | {"weights": [[[round(w, 4) for w in row] for row in head] for head in v.weight_HTS.tolist()]}
        for v in views
    ]
    return {"attention": rows}


def look(args: argparse.Namespace, _) -> int:
    if args.out:
        check_suffix(args.out)
    found = load(args.model).look(args.text, args.target)
    if args.out:
        draw(found, args.out, args.kind, args.layer, args.head)
        print(f"wrote {args.out}", file=sys.stderr)
    else:
        show(heat_map(pick(found, args.kind, args.layer), args.head), digits=args.digits)
    return 0


def evaluate(args: argparse.Namespace, _) -> int:
    from heedful.measure import report

    translator = load(args.run)
    data = translator.config.data
    own = data.dev if args.part == "dev" else data.test
    records = read(tuple(args.data) or own, "" if args.data else data.folder, data.pattern)
    result = report.evaluate(translator, records, search_of(args), args.moses)
    if args.against:
        result |= report.compare(translator, load(args.against), records, search_of(args))
    if args.run and not args.data:
        report.keep(translator.run, args.part, result)
    print(json.dumps(result, ensure_ascii=False) if args.json else report.table(result, args.worst))
    return 0


def info(args: argparse.Namespace, _) -> int:
    from heedful import card

    run = Run(args.run) if args.run else shipped()
    print(json.dumps(card.facts(run), indent=2) if args.json else card.text(run))
    return 0


def export(args: argparse.Namespace, _) -> int:
    from heedful import convert

    convert.export(Run(args.run), args.folder, args.to, args.quantization)
    print(f"wrote {args.folder}", file=sys.stderr)
    return 0


def bring(args: argparse.Namespace, _) -> int:
    from heedful import convert

    convert.bring(args.source, args.run)
    print(f"wrote {args.run}", file=sys.stderr)
    return 0


def bench(args: argparse.Namespace, settings: list[str]) -> int:
    checkout = Path(__file__).parents[1]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(checkout.glob("bench/*.py"))}
    known = {name: text for name, text in texts.items() if "__main__" in text}
    if not known:
        raise BadInput("bench is not installed with heedful: it needs a source checkout")
    if not args.name:
        for name, text in known.items():
            print(f"{name:12}{text.splitlines()[0].removeprefix(DOC)}")
        return 0
    if args.name not in known:
        raise BadInput(f"no bench {args.name!r}{nearest(args.name, known)}; there are: {', '.join(known)}")
    paths = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    words = [sys.executable, "-m", f"bench.{args.name}", *settings]
    return subprocess.call(words, env=os.environ | {"PYTHONPATH": paths})
