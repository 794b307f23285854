"""What the README and the docs show is run here: every command, every piece of Python, page by page.

The blocks of a page run in their order, in one folder that is the page's own and holds the files of
STAND_INS, which the docs speak of as the reader's. By its first word a block is:

    bash      commands, run as they are
    console   commands after `$ `, and what they print (`...` stands for anything)
    python    run in one namespace for the page
    toml      written to the file that its first line names (`# mine.toml`), if it names one
    text, json, svg, html   shown, not run

A bash or console block marked `no-run: why` is not run. `heedful train` is made tiny (see TINY), `heedful
evaluate` short, `make` only says what it would do, and all else is what a reader gets. A plain `heedful`
command runs in this process, which has torch already; one in a pipe is a process of its own.
"""

import doctest
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import pytest
import torch

from heedful import cli, config
from heedful.models import CONFIGS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
KINDS = ("bash", "console", "python", "toml", "text", "json", "svg", "html")
MOST_NOT_RUN = 6
SECONDS = 300
PAIRS = 120
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TINY = """
    --model.dim 16 --model.heads 2 --model.layers 1 --model.ff 16 --data.vocabulary 300
    --data.target_vocabulary 300 --train.steps 2 --train.epochs 0 --train.batch_tokens 2048 --train.threads 1
"""
SHORT = "--max-length 8"  # what is trained so little does not know when to end
SHIMS = {
    "heedful": f'exec "{sys.executable}" -m heedful "$@"',
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
    "make": f'exec "{shutil.which("make")}" --dry-run -C "{ROOT}" "$@"',
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    kind: str
    marks: str
    text: str

    @property
    def runs(self) -> bool:
        return not self.marks.startswith("no-run")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(name: str) -> Iterator[Block]:
    text = (ROOT / name).read_text(encoding="utf-8")
    for found in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        kind, _, marks = found[1].strip().partition(" ")
        yield Block(name, text.count("\n", 0, found.start()) + 1, kind, marks, found[2])


def all_blocks() -> list[Block]:
    return [block for name in NAMES for block in blocks_of(name)]


def pairs() -> list[tuple[str, str]]:
    with lzma.open(ROOT / "heedful/corpora/tatoeba.en-fr.tsv.xz", "rt", encoding="utf-8") as file:
        lines = [line.split("\t") for line in islice(file, 40_000, 40_000 + 10 * PAIRS, 10)]
    return [(english, french) for english, french, _ in lines]


def stand_ins() -> dict[str, list[str]]:
    """The reader's files, and small ones under the names of the data sets that recipes ask for."""
    english, french = (list(side) for side in zip(*pairs(), strict=True))
    files = {"mine.en": english, "mine.fr": french, "shorter.fr": french[:-1]}
    files["mine.tsv"] = [f"{e}\t{f}" for e, f in zip(english, french, strict=True)]
    files["questions.txt"] = ["Where is the bathroom?", "What time is it?"]
    for part in ("train", "val", "test_2016_flickr"):
        files |= {
            f"multi30k/{part}.en": english,
            f"multi30k/{part}.fr": french,
            f"multi30k/{part}.de": french,
        }
    sounds = [f"{a}{b}  {a.upper()} {b.upper()}" for a in "bdfklmnp" for b in "aeiou"]
    files |= {"cmudict/train": sounds, "cmudict/dev": sounds[::2]}
    commands = [
        f"IN: {verb} {n} OUT: I_{verb.upper()}" for verb in ("jump", "run", "walk") for n in range(40)
    ]
    return files | {"scan/train_simple.txt": commands, "scan/test_simple.txt": commands}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader of the page would stand, with the commands that a reader has."""
    for name, lines in stand_ins().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    bin = tmp_path / ".bin"
    bin.mkdir()
    for name, script in SHIMS.items():
        (bin / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (bin / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so little work is slower on several
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)


def run_line(line: str, capture: pytest.CaptureFixture) -> tuple[int, str]:
    """A command's exit status, and all that it prints."""
    capture.readouterr()
    status = heedful(line) if re.fullmatch(r"heedful [^|<>;&$]+", line) else shell(line)
    return status, "".join(capture.readouterr())


def heedful(line: str) -> int:
    words = shlex.split(line, comments=True)[1:]
    small = {"train": TINY if "--resume" not in words else "", "evaluate": SHORT}
    words[2:2] = small.get(words[0], "").split()  # before the page's own, which win
    try:
        return cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)


def shell(line: str) -> int:
    tiny = " ".join(TINY.split())
    line = re.sub(r"-m heedful train (?!--resume)\S+", lambda found: f"{found[0]} {tiny}", line)
    words = ["bash", "-euo", "pipefail", "-c", line]
    return subprocess.run(words, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False).returncode


def run_bash(block: Block, capture: pytest.CaptureFixture) -> None:
    for line in block.text.splitlines():
        status, got = run_line(line, capture)
        assert status == 0, f"{block}\n$ {line}\n{got}"


def run_console(block: Block, capture: pytest.CaptureFixture) -> None:
    """Each command prints what the page says; one that the page shows refused exits with 2."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, want = part.partition("\n")
        status, got = run_line(line, capture)
        shown = f"{block}\n$ {line}\n{got}"
        assert status == (2 if want.startswith("heedful: ") else 0), shown
        same = doctest.OutputChecker().check_output(
            want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        assert same, f"{shown}\nwhere the page has\n{want}"


def run_python(block: Block, names: dict) -> None:
    source = "\n" * block.line + block.text  # so that an error names the line of the page
    exec(compile(source, str(ROOT / block.page), "exec"), names)


def write_toml(block: Block) -> None:
    name = re.match(r"# (\S+\.toml)\n", block.text)
    if name:
        Path(name[1]).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_shows_works(name, folder, capfd):
    names: dict = {"__name__": "page"}
    run: dict[str, Callable[[Block], None]] = {
        "bash": lambda block: run_bash(block, capfd),
        "console": lambda block: run_console(block, capfd),
        "python": lambda block: run_python(block, names),
        "toml": write_toml,
    }
    for block in blocks_of(name):
        if block.kind in run and block.runs:
            run[block.kind](block)


def test_every_block_is_of_a_kind():
    assert [str(block) for block in all_blocks() if block.kind not in KINDS] == []


def test_a_command_is_in_a_block_that_runs():
    hidden = r"^\s*(\$ )?(heedful|make|torchrun) \w"
    shown = [block for block in all_blocks() if block.kind not in ("bash", "console")]
    assert [str(block) for block in shown if re.search(hidden, block.text, re.MULTILINE)] == []


def test_what_is_not_run_says_why_and_is_rare():
    left = [block for block in all_blocks() if block.marks]
    assert [str(block) for block in left if not re.match(r"no-run: \w+ \w+", block.marks)] == []
    assert len(left) <= MOST_NOT_RUN


def links(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?://|mailto:)([^)#\s]+)", text) + re.findall(
        r'(?:src|href)="([^":]+)"', text
    )


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    broken = [link for link in links(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert broken == []


def test_every_page_can_be_found():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert [
        p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in index
    ] == []


def everything() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_every_command_is_shown():
    (commands,) = (action.choices for action in cli.parser()._actions if action.dest == "command")
    shown = everything()
    assert [command for command in commands if f"heedful {command} " not in shown] == []


def test_every_option_is_explained():
    (commands,) = (action.choices for action in cli.parser()._actions if action.dest == "command")
    options = {
        o for command in commands.values() for action in command._actions for o in action.option_strings
    }
    shown = everything()
    assert [o for o in sorted(options - {"-h", "--help"}) if not re.search(rf"`[^`\n]*{o}\b", shown)] == []


def test_every_extra_is_explained():
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    shown = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert [extra for extra in extras if f"`{extra}`" not in shown] == []


def settings() -> list[str]:
    sections = {"data": config.DataConfig, "train": config.TrainConfig}
    names = [f"{section}.{field.name}" for section, kind in sections.items() for field in fields(kind)]
    models = [f"model.{field.name}" for kind in CONFIGS.values() for field in fields(kind)]
    return sorted({*names, *models})


def test_every_setting_is_explained():
    shown = everything()
    assert [name for name in settings() if f"`{name}`" not in shown] == []


def test_every_setting_that_is_named_exists():
    named = set(re.findall(r"`(?:--)?((?:data|train|model)\.[a-z_]+)", everything()))
    files = {f"{stem}.{end}" for stem in ("data", "model") for end in ("json", "safetensors", "toml")}
    assert named - {*settings()} - files == set()


def test_every_recipe_is_described():
    shown = everything()
    assert [name for name in config.shipped() if f"`{name}`" not in shown] == []


def test_the_sentences_of_the_demo_that_should_be_unseen_are():
    demo = re.findall(r'translate "([^"]+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    with lzma.open(ROOT / "heedful/corpora/tatoeba.en-fr.tsv.xz", "rt", encoding="utf-8") as file:
        known = {line.split("\t", 1)[0] for line in file}
    assert len(demo) == 5
    assert not known & {*demo[3:]}


def test_a_page_that_lies_is_found(folder, capfd):
    with pytest.raises(AssertionError, match="two"):
        run_console(Block("page.md", 1, "console", "", "$ echo one\ntwo\n"), capfd)
    with pytest.raises(AssertionError, match="false"):
        run_bash(Block("page.md", 1, "bash", "", "false\ntrue\n"), capfd)
    run_console(Block("page.md", 1, "console", "", "$ echo one; echo two\n...two\n"), capfd)
