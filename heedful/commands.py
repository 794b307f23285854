"""What each command does. Results go to standard output, all else to standard error."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from heedful import bulk, config
from heedful.data.readers import Record
from heedful.data.sources import read
from heedful.errors import BadInput, nearest
from heedful.look import check_suffix, draw, heat_map, pick, show
from heedful.run import Run, shipped
from heedful.train.team import Team
from heedful.translator import load

DOC = '"""'


def train(args: argparse.Namespace, settings: list[str]) -> int:
    from heedful.train import start

    team = team_of(os.environ)
    if args.budget is not None:
        settings = [*settings, "--train.budget", args.budget]
    if args.track:
        settings = [*settings, "--train.track", args.track]
    if args.resume:
        if args.recipe or args.run:
            new = f"the recipe {args.recipe!r}" if args.recipe else "--run"
            raise BadInput(f"--resume goes on with a run that has its recipe and its folder: leave out {new}")
        return told(args.resume, team, start.resume(args.resume, team, settings))
    if not args.recipe:
        raise BadInput(f"which recipe? shipped: {', '.join(config.shipped())}")
    chosen = config.load_recipe(args.recipe, settings)
    folder = args.run or Path("runs") / Path(args.recipe).stem
    return told(folder, team, start.train(chosen, folder, team))


def told(folder: Path, team: Team, status: int) -> int:
    """The status, once the run has its card."""
    from heedful import card

    if team.leads and status == 0:
        card.write(Run(folder))
    return status


def team_of(environment: Mapping[str, str]) -> Team:
    """The process's place among those that torchrun has started, which says it so."""
    if "WORLD_SIZE" not in environment:
        return Team()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    given = {name: environment.get(name, "0") for name in names}
    for name, value in given.items():
        if not value.isdecimal():
            raise BadInput(f"{name}={value}: torchrun sets it to a number")
    rank, size, here, local, restarts = map(int, given.values())
    return Team(rank, max(size, 1), here, max(local, 1), restarts)


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
    from heedful.measure import report, text

    if args.worst < 0:
        raise BadInput(f"--worst {args.worst}: should be 0 or more")
    search, moses = bulk.search_of(args), text.moses_tokens(args.moses) if args.moses is not None else None
    translator = load(args.run, args.precision)
    against = load(args.against, args.precision) if args.against else None
    own = translator.config
    records = read(tuple(args.data), None, own.data.pattern) if args.data else own_records(own, args.part)
    keeps = args.run and not args.data
    if keeps:
        translator.run.scores()  # if they are damaged, that is known before the work is done
    result = report.evaluate(translator, records, search, moses, against, args.worst or report.MOST)
    print(json.dumps(result, ensure_ascii=False) if args.json else report.table(result, args.worst))
    if keeps:
        report.keep(translator.run, args.part, result)
    return 0


def own_records(own: config.Config, part: str) -> list[Record]:
    """The dev or test data of a run; dev may owe something to train."""
    from heedful.train.start import records_of

    data = own.data
    names = data.dev if part == "dev" else data.test
    if part == "dev" and (data.unseen if names else data.hold_out):
        return records_of(own)[1]
    if not names:
        other = ", or --part dev" if part == "test" else ""
        raise BadInput(f"the run has no {part} data of its own: give --data FILE{other}")
    return read(names, data.folder or None, data.pattern)


def info(args: argparse.Namespace, _) -> int:
    from heedful import card

    run = Run(args.run) if args.run else shipped()
    if args.plot:
        print(f"wrote {card.plot(run)}", file=sys.stderr)
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
