"""The house: what may import what, how long things are, and what no file may hold."""

import ast
import re
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "heedful"
# Each may import its own and what stands on the same line or above.
ORDER = (
    {"errors"},
    {"nn"},
    {"disk", "compact", "progress"},
    {"again"},
    {"data"},
    {"look"},
    {"models"},
    {"config"},
    {"run"},
    {"tasks"},
    {"generate"},
    {"train"},
    {"translator"},
    {"measure", "card"},
    {"convert"},
    {"serve"},
    {"bulk"},
    {"commands"},
    {"cli"},
    {"__init__", "__main__"},
)
FLOOR = {part: number for number, parts in enumerate(ORDER) for part in parts}
LONGEST_FILE = 300
LONGEST_FUNCTION = 60
USUAL_FUNCTION = 30  # the length that 95 % of the functions keep to
MOST_PARAMETERS = 7


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HOUSE.rglob("*.py"))}


def part_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module that is imported anywhere in a file, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [alias.name for alias in node.names]
            yield from ((f"{module}.{name}", node.lineno) for name in names)


def parts_imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The parts of heedful among them."""
    for name, line in imported(tree):
        words = name.split(".")
        if words[0] == "heedful" and not words[-1].startswith("__"):
            yield words[1], line


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([one for one in named if one.arg not in ("self", "cls")])


def tracked() -> list[Path]:
    """What git has; outside of a checkout there is nothing to ask."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in names.decode().split("\0") if name and (ROOT / name).is_file()]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_part_has_its_place():
    unknown = {part_of(path) for path in trees()} - FLOOR.keys()
    assert not unknown, f"{unknown}: say in ORDER what they stand on"


def test_imports_go_one_way():
    wrong = []
    for path, tree in trees().items():
        own = part_of(path)
        for part, line in parts_imported(tree):
            if FLOOR[part] > FLOOR[own]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {own} -> {part}")
    assert wrong == []


def test_imports_are_absolute():
    relative = [(str(p), line) for p, tree in trees().items() for n, line in imported(tree) if n[0] == "."]
    assert relative == []


def test_nn_imports_nothing_of_heedful_but_itself():
    parts = {
        part for path, tree in trees().items() if part_of(path) == "nn" for part, _ in parts_imported(tree)
    }
    assert parts <= {"nn"}


def test_a_backward_import_would_be_found():
    tree = ast.parse("def f():\n    from heedful.train import loop\n    import heedful.cli\n")
    assert list(parts_imported(tree)) == [("train", 2), ("cli", 3)]
    assert FLOOR["train"] > FLOOR["nn"]


def test_files_are_short():
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in trees()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_functions_are_short():
    lengths = {name: length(node) for name, node in functions()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= USUAL_FUNCTION


def test_functions_take_few_parameters():
    wide = {name: parameters(node) for name, node in functions() if parameters(node) > MOST_PARAMETERS}
    assert wide == {}


def test_nn_takes_no_open_keywords():
    assert [name for name, node in functions() if "heedful/nn/" in name and node.args.kwarg] == []


def test_every_file_says_what_it_is():
    assert [str(path) for path, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_nothing_is_pickled():
    """No pickle on any path: a file from elsewhere must not be able to run code."""
    names = {name for tree in trees().values() for name, _ in imported(tree)}
    assert not [name for name in names if re.match(r"(pickle|shelve|dill|joblib|cloudpickle)\b", name)]
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("load", "save")
        if ast.unparse(node) in ("torch.load", "torch.save", "np.load", "np.save")
    ]
    assert calls == []


def test_nothing_is_fetched():
    """No network call that the user did not ask for."""
    clients = r"(urllib\.request|http\.client|requests|httpx2?|socket|ftplib|huggingface_hub|torch\.hub)\b"
    names = {name for tree in trees().values() for name, _ in imported(tree)}
    assert [name for name in names if re.match(clients, name)] == []


def test_no_path_of_a_machine_is_left():
    machine = re.compile(rb"/(root|work|home)/[a-z]")
    left = [str(path.relative_to(ROOT)) for path in tracked() if machine.search(path.read_bytes())]
    assert left == []


def test_the_wheel_holds_all_of_the_package(tmp_path):
    pytest.importorskip("hatchling")
    build = f"import hatchling.build; hatchling.build.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("heedful/")}
    files = {str(path.relative_to(ROOT)) for path in tracked() if HOUSE in path.parents}
    assert files - packed == set()
    assert {
        "heedful/corpora/tatoeba.about.txt",
        "heedful/look/page.html",
        "heedful/recipes/pairs.toml",
    } <= files


def test_help_does_not_wait_for_torch():
    loaded = python(
        "import sys, contextlib\n"
        "from heedful.cli import main\n"
        "for words in (['--help'], ['train', '--help'], ['--version']):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None): main(words)\n"
        "print(*sys.modules)"
    ).split()
    assert not {"torch", "numpy", "tokenizers", "rich"} & set(loaded)


def test_help_is_fast():
    """0.3 s is what we promise of a free machine; this one may be busy, so the best of three counts."""
    best = min(seconds_of([sys.executable, "-m", "heedful", "--help"]) for _ in range(3))
    assert best < 0.3 + seconds_of([sys.executable, "-c", "pass"])


def seconds_of(words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(words, capture_output=True, check=True)
    return time.perf_counter() - started
