"""The command: what can be said. Torch is imported only once there is work to do (see commands.py)."""

import argparse
import io
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

from heedful import __version__
from heedful.errors import BadInput, nearest


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the words of a command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="heedful", description="The Transformer, whole and real.")
    top.add_argument("--version", action="version", version=f"heedful {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in ADD:
        add(commands)
    for command in commands.choices.values():
        command.set_defaults(options=[o for action in command._actions for o in action.option_strings])
    return top


def add_train(commands) -> None:
    train = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train RECIPE (a shipped name or a TOML file). Any of its settings can be given here: "
        "--model.layers 6 --train.steps 300 --data.folder DIR",
    )
    train.add_argument("recipe", nargs="?", metavar="RECIPE")
    names = ("--run", "--run-folder")  # torchrun takes the first for one of its own, shortened
    train.add_argument(*names, type=Path, metavar="DIR", help="folder for the run (default: runs/RECIPE)")
    train.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was cut off")
    train.add_argument("--budget", metavar="TIME", help="train for this long: 90s, 10m, 2h")
    train.add_argument("--track", choices=("tensorboard",), help="mirror log.jsonl in the run's tensorboard/")
    train.set_defaults(act="train", takes_settings=True)


def add_search(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--beam", type=int, metavar="N", help="hypotheses kept; 1 is greedy (5; to sample, 1)")
    add("--length-penalty", type=float, default=1.0, metavar="A", help="score / length^A (1)")
    add("--max-length", type=int, default=256, metavar="N", help="longest answer, in tokens (256)")
    add("--min-length", type=int, default=0, metavar="N", help="shortest answer, in tokens (0)")
    add("--no-repeat", type=int, default=0, metavar="N", help="no N tokens in a row twice (0: they may)")
    add("--repetition-penalty", type=float, default=1.0, metavar="R", help="above 1: less of the same (1)")
    choices = ("float32", "bfloat16")
    add("--precision", choices=choices, default="float32", help="bfloat16: faster, rounded (float32)")


def add_sampling(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--temperature", type=float, default=0.0, metavar="T", help="above 0: draw tokens by chance")
    add("--top-k", type=int, default=0, metavar="K", help="of the K likeliest")
    add("--top-p", type=float, default=1.0, metavar="P", help="of the fewest that together have P")
    add("--min-p", type=float, default=0.0, metavar="P", help="of those at least P times the best's")
    add("--seed", type=int, default=0, metavar="N", help="the same seed, the same answer (0)")


def add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", type=Path, metavar="RUN", help="a trained run (default: the shipped one)")


def add_evaluate(commands) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="score a run on its test data",
        description="Translate the test data of RUN (or of --data FILE [FILE]) and score the result.",
    )
    evaluate.add_argument("run", type=Path, nargs="?", metavar="RUN")
    evaluate.add_argument("--data", nargs="+", default=[], metavar="FILE", help="a TSV, or two aligned files")
    evaluate.add_argument("--part", choices=("dev", "test"), default="test", help="of the run's own data")
    evaluate.add_argument("--against", type=Path, metavar="RUN", help="paired bootstrap against another run")
    evaluate.add_argument("--moses", metavar="LANG", help="also lowercased BLEU over Moses tokens")
    evaluate.add_argument("--worst", type=int, default=0, metavar="N", help="show the N worst sentences")
    evaluate.add_argument("--json", action="store_true")
    add_search(evaluate)
    evaluate.set_defaults(act="evaluate")


def add_translate(commands) -> None:
    translate = commands.add_parser(
        "translate",
        help="translate a text, a file or standard input",
        description="Translate TEXT, or the lines of --file or standard input, in their order.",
    )
    translate.add_argument("text", nargs="?", metavar="TEXT", help="- or nothing: standard input")
    translate.add_argument("--file", type=Path, help="translate the lines of a file (may be .xz or .gz)")
    translate.add_argument("--nbest", type=int, default=1, metavar="N", help="the N best of the beam")
    translate.add_argument("--prefix", metavar="TEXT", help="how every translation begins")
    translate.add_argument("--target", metavar="TEXT", help="score this translation of TEXT instead")
    translate.add_argument("--targets", type=Path, metavar="FILE", help="score these, line by line, instead")
    translate.add_argument("--stream", action="store_true", help="write TEXT's translation as it comes")
    out = "append to FILE what it has not yet; after an interruption it goes on there"
    translate.add_argument("--continue", type=Path, metavar="FILE", dest="out", help=out)
    translate.add_argument("--json", action="store_true", help="one JSON object per line")
    translate.add_argument("--attention", action="store_true", help="with --json: also who looked at whom")
    add_model(translate)
    add_search(translate)
    add_sampling(translate)
    translate.set_defaults(act="translate")


def add_look(commands) -> None:
    look = commands.add_parser(
        "look",
        help="see who looks at whom",
        description="Draw the attention with which TEXT is translated: in the terminal, or to a file.",
    )
    look.add_argument("text", metavar="TEXT")
    look.add_argument("--target", default="", metavar="TEXT", help="a translation to read (default: its own)")
    look.add_argument("--out", type=Path, metavar="FILE", help=".png, .svg or .html (all layers and heads)")
    look.add_argument("--kind", choices=("encoder", "decoder", "cross"), help="(default: cross)")
    look.add_argument("--layer", type=int, metavar="N", help="counted from 0 (default: the last)")
    look.add_argument("--head", type=int, metavar="N", help="counted from 0 (default: the mean of all)")
    look.add_argument("--digits", action="store_true", help="write the weights into the cells")
    add_model(look)
    look.set_defaults(act="look")


def add_info(commands) -> None:
    info = commands.add_parser("info", help="what a run is, how it was trained, what it scored, what it cost")
    info.add_argument("run", type=Path, nargs="?", metavar="RUN", help="(default: the shipped one)")
    info.add_argument("--json", action="store_true")
    info.add_argument("--plot", action="store_true", help="draw the losses into the run: curve.svg")
    info.set_defaults(act="info")


def add_export(commands) -> None:
    export = commands.add_parser(
        "export",
        help="a run for another program",
        description="Write RUN into the new folder DST: for CTranslate2, for Hugging Face transformers (as "
        "MarianMTModel, or PegasusForConditionalGeneration where the norm comes first), or as a run in int8.",
    )
    export.add_argument("run", type=Path, metavar="RUN")
    export.add_argument("folder", type=Path, metavar="DST")
    export.add_argument("--to", choices=("ctranslate2", "huggingface", "int8"), required=True)
    types = ("float32", "bfloat16", "int8", "int8_float32")
    export.add_argument("--quantization", choices=types, default="", help="of ctranslate2 (float32)")
    export.set_defaults(act="export")


def add_import(commands) -> None:
    bring = commands.add_parser(
        "import",
        help="a run from a Hugging Face folder",
        description="Make the new run RUN of the folder SRC: a Marian model (OPUS-MT), or what was exported.",
    )
    bring.add_argument("source", type=Path, metavar="SRC")
    bring.add_argument("run", type=Path, metavar="RUN")
    bring.set_defaults(act="bring")


def add_bench(commands) -> None:
    bench = commands.add_parser(
        "bench",
        help="measure heedful against its peers",
        description="Run bench/NAME.py of a source checkout with all that follows; or tell which there are.",
    )
    bench.add_argument("name", nargs="?", metavar="NAME")
    bench.set_defaults(act="bench", takes_settings=True)


ADD = (
    add_train,
    add_evaluate,
    add_translate,
    add_look,
    add_info,
    add_export,
    add_import,
    add_bench,
)


def main(words: list[str] | None = None) -> int:
    open_streams()
    try:
        words, settings = apart(sys.argv[1:] if words is None else words)
        args, rest = parser().parse_known_args(words)
        status = act(args, rest + settings)
        sys.stdout.flush()
        return status
    except BadInput as error:
        return refused(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        silence()
        return 141
    except OSError as error:  # a full disk, most likely
        silence()
        return refused(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search("allocate|out of memory", str(error)):
            raise
        return refused(
            "there is not enough memory for this: smaller beams, batches or models need less", True
        )


def apart(words: list[str]) -> tuple[list[str], list[str]]:
    """The words of a training, and its settings: `--section.key` and all that follows up to the next option.
    Left to argparse, the value of one could be taken for the recipe."""
    lists: tuple[list[str], list[str]] = ([], [])
    setting = False
    for word in words:
        if word.startswith("--"):
            setting = words[0] == "train" and "." in word.partition("=")[0]
        lists[setting].append(word)
    return lists


def act(args: argparse.Namespace, settings: list[str]) -> int:
    if settings and not getattr(args, "takes_settings", False):
        misspelt = settings[0].startswith("-") and settings[0] not in args.options  # else it came after --
        near = nearest(settings[0], args.options) if misspelt else ""
        raise BadInput(f"unexpected argument {settings[0]!r}{near}; see heedful {args.command} --help")
    from heedful import commands

    return getattr(commands, args.act)(args, settings)


def refused(why: str, alone: bool = False) -> int:
    """Of many processes on a machine one tells, for all met the same, unless it may be `alone`."""
    if alone or os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"heedful: {why}", file=sys.stderr)
    return 2


def open_streams() -> None:
    """Streams that the shell has closed: nothing comes in, and what is written is an error, or for standard
    error nothing. What goes out is UTF-8 as what comes in is, whatever the locale says."""
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def silence() -> None:
    """What could not be written is not tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    raise SystemExit(main())
