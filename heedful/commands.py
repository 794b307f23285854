"""What each command does. Results go to standard output, all else to standard error."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from heedful import bulk, config
from heedful.data.sources import read
from heedful.errors import BadInput, nearest
from heedful.look import check_suffix, draw, heat_map, pick, show
from heedful.run import Run, shipped
from heedful.translator import load

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


def translate(args: argparse.Namespace, _) -> int:
    search = bulk.search_of(args)
    bulk.check(args)
    return bulk.run(load(args.model, args.precision), args, search)


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

    translator = load(args.run, args.precision)
    data, search = translator.config.data, bulk.search_of(args)
    own = data.dev if args.part == "dev" else data.test
    records = read(tuple(args.data) or own, "" if args.data else data.folder, data.pattern)
    result = report.evaluate(translator, records, search, args.moses)
    if args.against:
        result |= report.compare(translator, load(args.against, args.precision), records, search)
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
