"""docs/lectures.md says what is there: every row that "works" names a file and a test that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STATES = ("works", "not yet")
PLACES = (
    "heedful/(nn|models|data|tasks|train|generate|measure|look|convert|serve|recipes)/[a-z0-9_-]+[.](py|toml)"
)
HOUSE = re.compile(rf"{PLACES}|heedful/[a-z]+[.]py|bench/[a-z]+[.]py")
TITLES = [
    "Lecture 11: Transformers 1 (Data C182)",
    "Lecture 12: Transformers (Part 2) (Data C182)",
    "Lecture 14: Transformers (Part 4) (Data C182)",
    "Theory - Transformers (Deep Learning - MAI)",
    "Transformers (Interactive Fiction; Lara J. Martin)",
]


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in (ROOT / "docs/lectures.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| ") and not line.startswith("| Idea "):
            found.setdefault(title, []).append(cells(line))
    return found


@cache
def names_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name")}


def missing(file: str, test: str, state: str) -> str:
    """What a row claims and the tree has not."""
    if state == "not yet":
        return "" if test == "-" else f"{test} would be a test of what is not there"
    path, _, name = test.partition("::")
    if not (ROOT / file).is_file():
        return f"no file {file}"
    return "" if name.startswith("test") and name in names_in(ROOT / path) else f"no test {test}"


def test_each_lecture_has_its_table():
    assert list(tables()) == TITLES


@pytest.mark.parametrize("title", TITLES)
def test_what_works_is_there(title):
    wrong = [
        (idea, why) for idea, file, test, state in tables()[title] if (why := missing(file, test, state))
    ]
    assert wrong == []


@pytest.mark.parametrize("title", TITLES)
def test_rows_are_whole_and_their_files_in_the_house(title):
    for idea, file, _, state in tables()[title]:
        assert idea and HOUSE.fullmatch(file) and state in STATES, (idea, file, state)


def test_a_false_claim_is_found():
    own = "tests/test_lectures.py::test_a_false_claim_is_found"
    assert missing("heedful/nn/mask.py", own, "works") == ""
    assert missing("heedful/nn/none.py", own, "works") == "no file heedful/nn/none.py"
    assert missing("heedful/nn/mask.py", own + "s", "works") == f"no test {own}s"
    assert missing("heedful/nn/mask.py", "tests/none.py::test_x", "works") == "no test tests/none.py::test_x"
    assert missing("heedful/models/none.py", "-", "not yet") == ""
