"""The command. Imports torch only once it is known that there is work to do."""

import argparse
import sys
from pathlib import Path

from heedful import __version__
from heedful.errors import BadInput


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="heedful", description="The Transformer, whole and real.")
    top.add_argument("--version", action="version", version=f"heedful {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_train(commands)
    return top


def add_train(commands) -> None:
    train = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train RECIPE (a shipped name or a TOML file). Any of its settings can be given here: "
        "--model.layers 6 --train.steps 300 --data.folder DIR",
    )
    train.add_argument("recipe", nargs="?", metavar="RECIPE")
    train.add_argument("--run", type=Path, help="folder for the run (default: runs/RECIPE)")
    train.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was cut off")
    train.add_argument("--budget", metavar="TIME", help="train for this long: 90s, 10m, 2h")
    train.set_defaults(act=do_train, takes_settings=True)


def do_train(args: argparse.Namespace, settings: list[str]) -> int:
    from heedful import config
    from heedful.train import start

    if args.resume:
        return start.resume(args.resume)
    if not args.recipe:
        raise BadInput(f"which recipe? shipped: {', '.join(config.shipped())}")
    if args.budget:
        settings = [*settings, "--train.budget", f'"{args.budget}"']
    chosen = config.load_recipe(args.recipe, settings)
    return start.train(chosen, args.run or Path("runs") / Path(args.recipe).stem)


def main(words: list[str] | None = None) -> int:
    args, settings = parser().parse_known_args(words)
    try:
        if settings and not getattr(args, "takes_settings", False):
            raise BadInput(f"unexpected argument {settings[0]!r}; see heedful {args.command} --help")
        return args.act(args, settings)
    except BadInput as error:
        print(f"heedful: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
