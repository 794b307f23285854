"""`heedful evaluate`: what it scores, what it keeps, and what it says of what it cannot do."""

import errno
import json
import os
import shutil
import sys

import pytest

from heedful import disk
from heedful.translator import Translator
from tests.test_cli import RUN, run, say  # noqa: F401

PAIRS = "one\tun\none\tune\ntwo\tdeux\nthree\ttrois\n"
FAST = ("--beam", 1, "--max-length", 4)


@pytest.fixture
def here(run, tmp_path, monkeypatch):  # noqa: F811
    """Where the paths of the run's config lead somewhere."""
    monkeypatch.chdir(run)
    (run / "mine.tsv").write_text(PAIRS)
    return run


def change(run, before, after):  # noqa: F811
    path = run / "config.toml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


BAD = [
    (["--data", "none.tsv"], "no file 'none.tsv' here (did"),
    (["--data", "data"], "data is a folder, not a file"),
    (["--data", "empty"], "empty: no examples in it"),
    (["--data", "mine.tsv", "empty"], "mine.tsv has 4 lines but empty has 0"),
    (["--data", "mine.tsv", "a", "b"], "one file or two aligned files, not 3"),
    ([], "the run has no test data of its own: give --data FILE, or --part dev"),
    (["--data", "mine.tsv", "--worst", "-1"], "--worst -1: should be 0 or more"),
    (["--data", "mine.tsv", "--moses", "xx"], "--moses xx: no rules for this language"),
    (["--data", "mine.tsv", "--moses", "french"], "--moses french: no rules for this language"),
    (["--data", "mine.tsv", "--moses", ""], "--moses : no rules for this language"),
    (["--data", "mine.tsv", "--against", "none"], "none is not a run"),
    (["--data", "long.tsv"], "text 2: a sentence of 503 tokens; at most 100"),
]


@pytest.mark.parametrize("more, told", BAD)
def test_bad_input_is_one_clear_line(say, here, monkeypatch, more, told):  # noqa: F811
    """Said before anything is translated, but for what is only seen then."""
    (here / "empty").write_text("")
    (here / "long.tsv").write_text("one\tun\n" + "a" * 500 + "\tdeux\n")
    if "long.tsv" not in more:
        monkeypatch.setattr(Translator, "stream", lambda *_: pytest.fail("time was wasted"))
    status, out, err = say("evaluate", here, *more, *FAST)
    assert (status, out) == (2, "") and err.count("\n") == 1 and told in err
    assert not (here / "scores.json").exists()


def test_a_missing_library_is_named_at_once(say, here, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    monkeypatch.setattr(Translator, "stream", lambda *_: pytest.fail("time was wasted"))
    status, _, err = say("evaluate", here, "--data", "mine.tsv", "--moses", "fr")
    assert status == 2 and "pip install heedful[moses]" in err


def test_moses_tokens_are_counted(say, here):  # noqa: F811
    pytest.importorskip("sacremoses")
    told = json.loads(say("evaluate", here, "--data", "mine.tsv", "--moses", "fr", "--json", *FAST)[1])
    assert told["moses_bleu"] >= 0


@pytest.mark.parametrize("most", [0, 1, 30])
def test_as_many_of_the_worst_as_asked_for(say, here, most):  # noqa: F811
    (here / "many.tsv").write_text("".join(f"text {n}\ttexte {n}\n" for n in range(40)))
    out = say("evaluate", here, "--data", "many.tsv", "--worst", most, *FAST)[1]
    assert out.count("\n  source ") == most
    told = json.loads(say("evaluate", here, "--data", "many.tsv", "--worst", most, "--json", *FAST)[1])
    assert len(told["worst"]) == (most or 20)


def test_dev_data_that_was_held_out_is_found_again(say, here):  # noqa: F811
    lines = "".join(f"text {n}\ttexte {n}\n" for n in range(200))
    (here / "all.tsv").write_text(lines)
    change(here, 'train = ["train.tsv"]\ndev = ["dev.tsv"]', 'train = ["all.tsv"]\ndev = []')
    change(here, 'folder = "data"', 'folder = ""')
    change(here, "hold_out = 0.0", "hold_out = 0.1")
    told = json.loads(say("evaluate", here, "--part", "dev", "--json", *FAST)[1])
    assert 5 < told["sentences"] < 40
    assert "dev" in json.loads((here / "scores.json").read_text())


def test_what_unseen_took_out_of_train_are_further_right_answers(say, here):  # noqa: F811
    (here / "train.tsv").write_text("one\tune\nfour\tquatre\n")
    (here / "dev.tsv").write_text("one\tun\ntwo\tdeux\n")
    change(here, 'folder = "data"', 'folder = ""')
    alone = json.loads(say("evaluate", here, "--part", "dev", "--json", *FAST)[1])
    change(here, "unseen = false", "unseen = true")
    told = json.loads(say("evaluate", here, "--part", "dev", "--json", *FAST)[1])
    assert alone["sentences"] == told["sentences"] == 2
    assert "all_references" in told and "all_references" not in alone


def test_what_was_asked_of_the_search_stands_beside_the_scores(say, here):  # noqa: F811
    change(here, "test = []", 'test = ["dev.tsv"]')
    assert say("evaluate", here, "--beam", 2, "--max-length", 4, "--precision", "bfloat16")[0] == 0
    kept = json.loads((here / "scores.json").read_text())["test"]
    assert (kept["beam"], kept["settings"]) == (2, {"max_length": 4, "precision": "bfloat16"})
    assert "beam 2, length penalty 1, max length 4, precision bfloat16" in say("info", here)[1]
    assert say("evaluate", here, "--part", "dev", "--max-length", 256, "--beam", 1)[0] == 0
    kept = json.loads((here / "scores.json").read_text())
    assert kept["dev"]["settings"] == {} and kept.keys() == {"dev", "test"}


@pytest.mark.parametrize("text", ["garbage", "[]", '{"test": 1}', '{"test": {}}', "\xff"])
def test_scores_that_are_damaged_are_named(say, here, text):  # noqa: F811
    (here / "scores.json").write_text(text, encoding="latin-1")
    for words in (["info", here], ["evaluate", here, "--part", "dev", *FAST]):
        status, _, err = say(*words)
        assert status == 2 and err.count("\n") == 1 and "scores.json: damaged" in err


def test_scores_are_told_even_if_they_cannot_be_kept(say, here, monkeypatch):  # noqa: F811
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "sync", full)
    status, out, err = say("evaluate", here, "--part", "dev", *FAST)
    assert status == 2 and "exact match" in out and "scores.json: cannot be written" in err


def test_a_run_is_no_better_than_itself(say, here, tmp_path):  # noqa: F811
    other = shutil.copytree(RUN, tmp_path / "other")
    out = say("evaluate", here, "--data", "mine.tsv", "--against", other, "--json", *FAST)[1]
    assert json.loads(out)["against"] == {"run": str(other), "difference": 0.0, "p": 1.0}
