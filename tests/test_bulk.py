"""`heedful translate` at length: what is forced, what is scored, and what is there after an interruption."""

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
from itertools import repeat

import pytest

import heedful
from heedful import again, bulk, cli, progress
from heedful.errors import BadInput
from heedful.generate import Search
from tests.test_cli import RUN, run, say  # noqa: F401

FAST = ("--beam", 1, "--max-length", 5)
TWO = ("--beam", "2", "--nbest", "2")
JSON = ("--json", "--attention")
LINES = b"one\ntwo\n\nthree\nfour\n"


@pytest.fixture
def words(run):  # noqa: F811
    return ("translate", "--model", run, *FAST)


def test_a_prefix_begins_every_translation(say, words):  # noqa: F811
    _, out, _ = say(*words, "--prefix", "un", stdin=b"one\ntwo\n")
    assert [line.startswith("un") for line in out.splitlines()] == [True, True]


def test_the_same_seed_draws_the_same_and_another_another(say, words):  # noqa: F811
    drawn = [
        say(*words, "--temperature", 2, "--seed", seed, "--max-length", 12, stdin=b"one\none\n")[1]
        for seed in (1, 1, 7)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0].splitlines())) == 2


def test_rules_reach_the_search(say, words):  # noqa: F811
    more = ("--min-length", 9, "--max-length", 9, "--no-repeat", 1, "--repetition-penalty", 1.2)
    (one,) = json.loads(say(*words, *more, "--json", stdin=b"one\n")[1])["translations"]
    assert len(one["tokens"]) == len(set(one["tokens"])) == 9


def test_sampling_and_streams_need_no_word_on_the_beam(run, say):  # noqa: F811
    for more in (["--temperature", 1], ["--stream"]):
        assert say("translate", "one", "--model", run, "--max-length", 4, *more)[0] == 0


def test_a_stream_says_what_is_said_at_once(say, run):  # noqa: F811
    words = ("translate", "one two", "--model", run, "--beam", 1)
    assert say(*words, "--stream") == say(*words)


LONG = "one two. " * 30  # 30 sentences that the model does not read at once


@pytest.mark.parametrize("pieces", [["a", "\n", "", "\r\n", "b\n\nc"], ["\n\na\n", "\nb"], ["a b"]])
def test_a_stream_has_no_line_end_inside_either(pieces):
    assert "".join(bulk.unbroken(pieces)) == bulk.one_line("".join(pieces))


@pytest.mark.parametrize("more", [(), ("--temperature", 1, "--seed", 4)])
def test_a_stream_goes_sentence_by_sentence_too(say, run, more):  # noqa: F811
    words = ("translate", LONG, "--model", run, "--beam", 1, "--max-length", 4, *more)
    assert say(*words, "--stream") == say(*words)


@pytest.mark.parametrize("text", ["one", "é", LONG, ""])
def test_attention_is_that_of_the_very_tokens(say, run, text):  # noqa: F811
    """Which may be bytes that are no character: to read their text again would be something else."""
    told = json.loads(say("translate", "--model", run, *FAST, *JSON, stdin=f"{text}\n".encode())[1])
    (one,) = told["translations"]
    cross = [view for view in told["attention"] if view["kind"] == "cross"]
    assert [view["sentence"] for view in cross] == list(range({"": 0, LONG: 30}.get(text, 1)))
    written = [piece for view in cross for piece in view["queries"]]
    assert [piece for piece in written if piece != "<end>"] == one["tokens"]
    assert one.keys() == {"text", "score", "tokens", "logprobs"}


@pytest.mark.parametrize("text", ["one", "Où est-ce ? 🙂"])
def test_pieces_are_whole_characters(run, text):  # noqa: F811
    translator = heedful.load(run)
    search = Search(temperature=3.0, seed=2, max_length=30)
    pieces = list(translator.write(text, search, prefix="é"))
    assert len(pieces) > 2 and "".join(pieces) == translator.translate([text], search, prefix="é")[0][0].text


def test_a_given_translation_has_the_score_with_which_it_was_found(say, words, run, tmp_path):  # noqa: F811
    told = [json.loads(line) for line in say(*words, "--json", stdin=b"one\ntwo\n")[1].splitlines()]
    found = [one["translations"][0] for one in told]
    ended = [i for i, one in enumerate(found) if len(one["logprobs"]) > len(one["tokens"])]
    (tmp_path / "targets").write_text("".join(one["text"] + "\n" for one in found))
    _, out, _ = say(*words, "--targets", tmp_path / "targets", stdin=b"one\ntwo\n")
    scores = [float(line) for line in out.splitlines()]
    assert len(scores) == 2 and all(score < 0 for score in scores)
    assert [scores[i] for i in ended] == pytest.approx([found[i]["score"] for i in ended], abs=1e-3)
    _, alone, _ = say("translate", "one", "--target", found[0]["text"], "--model", run)
    assert float(alone) == pytest.approx(scores[0], abs=1e-3)


def test_a_score_has_the_bounds_of_a_search(run):  # noqa: F811
    with pytest.raises(BadInput, match=r"length_penalty 1000\.0"):
        heedful.load(run).score([("one", "un")], length_penalty=1000.0)


def plain(text: str) -> str:
    """Without the digits that a sentence's neighbours may round."""
    return re.sub(r"(\.\d{3})\d+", r"\1", text)


@pytest.mark.parametrize("more", [(), ("--json",), ("--beam", 2, "--nbest", 2), ("--temperature", 1)])
def test_goes_on_where_it_stopped(say, words, tmp_path, more):  # noqa: F811
    """Cut anywhere, in the midst of a line or of a character."""
    whole = say(*words, *more, stdin=LINES)[1].encode()
    out = tmp_path / "out"
    for cut in sorted({0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1, len(whole)}):
        out.write_bytes(whole[:cut])
        status, said, _ = say(*words, *more, "--continue", out, stdin=LINES)
        assert (status, said) == (0, "") and plain(out.read_text()) == plain(whole.decode())


def test_scores_go_on_too(say, words, tmp_path):  # noqa: F811
    (tmp_path / "targets").write_bytes(LINES)
    more = ("--targets", tmp_path / "targets")
    whole = say(*words, *more, stdin=LINES)[1]
    (tmp_path / "out").write_text("".join(whole.splitlines(keepends=True)[:2]))
    say(*words, *more, "--continue", tmp_path / "out", stdin=LINES)
    assert (tmp_path / "out").read_text() == whole


def test_continue_begins_what_is_not_there(say, words, tmp_path):  # noqa: F811
    assert say(*words, "--continue", tmp_path / "out", stdin=b"one\n")[0] == 0
    assert (tmp_path / "out").read_text().count("\n") == 1


FILES = {
    "short": b"a\n",
    "long": b"a\nb\nc\n",
    "many": b"a\nb\nc\nd\n and a part",
    "told": b'{"source": "a", "translations": []}\n and a part',
    "broken": b'{"source": a}\n and a part',
    "bytes": b"\xff\n and a part",
    "scored": b"-1.2345\n and a part",
    "ranked": b"0 ||| a ||| -1.2345\n and a part",
    "gap": b"0 ||| a ||| -1.2345\n0 ||| b ||| -1.2345\n2 ||| b ||| -1.2345\n and a part",
    "three": b"0 ||| a ||| -1.2345\n" * 3 + b" and a part",
}
BAD = [
    (["--prefix", ""], "the prefix is empty"),
    (["--prefix", "  "], "the prefix is empty"),
    (["--prefix", "a", "--targets", "x"], "--prefix is for translations"),
    (["--prefix", "a b c d e f g h i"], "leave no room under max_length 5"),
    (["--target", "x"], "--target goes with a TEXT"),
    (["--targets", "none"], "no file 'none'"),
    (["--stream"], "--stream goes with a TEXT"),
    (["--target", "x", "--nbest", "2", "--beam", "2"], "--nbest is for translations that are to be found"),
    (["--targets", "long", "--temperature", "1"], "--temperature is for translations that are to be found"),
    (["--targets", "none"], "no file 'none' here"),
    (["--targets", "."], ". is a folder, not a file"),
    (["--file", "lon"], "no file 'lon' here (did you mean 'long'?)\n"),
    (["--continue", "many"], "many: answers more than the 2 lines that there are: another input's?"),
    (["--continue", "many", "--json"], "many:1: was not written with --json"),
    (["--continue", "many", "--targets", "short"], "many:1: was not written with --targets"),
    (["--continue", "many", *TWO], "many:1: was not written with --nbest"),
    (["--continue", "told"], "told:1: was written with --json"),
    (["--continue", "scored"], "scored:1: was written with --targets"),
    (["--continue", "ranked"], "ranked:1: was written with --nbest"),
    (["--continue", "gap", *TWO], "gap:3: answers text 2, which does not follow text 0"),
    (["--continue", "three", *TWO], "three:3: has more than 2 translations of a text"),
    (["--continue", "told", "--json"], "told:1: answers another text than line 1 of what comes in"),
    (["--continue", "broken", "--json"], "broken:1: not JSON, or damaged"),
    (["--continue", "bytes"], "bytes:1: not UTF-8"),
    (["--continue", "no/folder"], "no/folder: cannot be written"),
    (["--continue", "."], ".: is not a plain file"),
    (["--continue", "/dev/full"], "/dev/full: is not a plain file"),
    (["--temperature", "-1"], "temperature -1.0"),
    (["--top-k", "3"], "top_k 3: has no effect without a temperature"),
    (["--temperature", "1", "--beam", "4"], "sampling needs beam 1, not 4"),
    (["--min-length", "9"], "min_length 9: is above max_length 5"),
    (["--no-repeat", "-1"], "no_repeat -1"),
    (["--seed", "-1"], "seed -1"),
]


@pytest.mark.parametrize("more, told", BAD)
def test_bad_input_is_one_clear_line(say, words, tmp_path, monkeypatch, more, told):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text)
    status, out, err = say(*words, *more, stdin=b"one\ntwo\n")
    assert (status, out) == (2, "") and err.count("\n") == 1 and told in err
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES


@pytest.mark.parametrize("way", ["--file", "--targets", "standard input"])
def test_the_input_is_not_taken_for_the_output(words, monkeypatch, capsys, tmp_path, way):
    path = tmp_path / "in"
    path.write_text("one\ntwo")
    more = [] if way == "standard input" else [way, path]
    with path.open() as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert cli.main([*map(str, [*words, *more, "--continue", path])]) == 2
    assert "in: is what should be read" in capsys.readouterr().err
    assert path.read_text() == "one\ntwo"


def test_only_one_process_at_a_time_goes_on(say, words, tmp_path):  # noqa: F811
    with (tmp_path / "out").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        status, _, err = say(*words, "--continue", tmp_path / "out", stdin=LINES)
    assert status == 2 and "out: another process writes to it" in err


def test_a_full_disk_names_the_file(tmp_path):
    told = pytest.raises(BadInput, match="out: cannot be written: No space left")
    with told, again.appended(tmp_path / "out"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_mark_of_byte_order_is_no_text(say, words):  # noqa: F811
    assert say(*words, stdin=b"\xef\xbb\xbfone\n") == say(*words, stdin=b"one\n")


def test_a_shell_may_give_a_pipe_for_a_file(run, tmp_path):  # noqa: F811
    command = f"{sys.executable} -m heedful translate --model {run} --beam 1 --max-length 5"
    pipes = "--file <(printf 'one\\ntwo\\n') --targets <(printf 'un\\ndeux\\n')"
    done = subprocess.run(["bash", "-c", f"{command} {pipes}"], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.count(b"\n") == 2


def test_no_answer_has_a_line_end_inside():
    assert bulk.one_line("a\r\nb\rc\nd") == "a b c d"


def test_a_prefix_with_unknown_characters_is_named(tmp_path):
    from tests.convert.tiny import TEXTS, tiny_run

    translator = heedful.load(tiny_run(tmp_path / "run").folder)
    from heedful.data.tokenizer import learn

    translator.target = learn(TEXTS, "characters", 60)
    with pytest.raises(BadInput, match="prefix '日': has what the model's vocabulary has not"):
        translator.translate(TEXTS[:1], prefix="日")


def test_an_unknown_precision_is_named():
    with pytest.raises(BadInput, match=r"precision 'bfloat': .*did you mean 'bfloat16'"):
        heedful.load(RUN, "bfloat")


def test_bfloat16_finds_nearly_as_likely_translations(run):  # noqa: F811
    exact, rounded = heedful.load(run), heedful.load(run, "bfloat16")
    texts, search = ["one two three", "four", "five six"], Search(beam=3, max_length=10)
    scores = [[found[0].score for found in each.translate(texts, search)] for each in (exact, rounded)]
    assert scores[0] == pytest.approx(scores[1], rel=0.05, abs=0.05)


def test_nothing_is_lost_before_a_bad_line(say, words):  # noqa: F811
    status, out, err = say(*words, stdin=b"one\ntwo\n" + b"a" * 90_000 + b"\nthree\n")
    assert status == 2 and out.count("\n") == 2 and "text 3: a sentence of" in err


@pytest.mark.parametrize(
    "targets, answered, told",
    [
        (b"un\ndeux\n" + b"a" * 300 + b"\nquatre\n", 2, "pair 3: a text of 302 tokens"),
        (b"un\ndeux\n\xff\nquatre\n", 2, "targets:3: not UTF-8"),
        (b"un\ndeux\n", 2, "line 3 has no given translation: both files should have as many lines"),
        (b"un\n" * 5, 4, "line 5 has no text: both files should have as many lines"),
    ],
)
def test_nothing_is_lost_before_a_bad_translation(say, words, tmp_path, targets, answered, told):  # noqa: F811
    (tmp_path / "targets").write_bytes(targets)
    status, out, err = say(*words, "--targets", tmp_path / "targets", stdin=b"one\ntwo\nthree\nfour\n")
    assert (status, out.count("\n"), err.count("\n")) == (2, answered, 1) and told in err


def test_numbers_go_on_over_windows(run):  # noqa: F811
    translator, search = heedful.load(run), Search(max_length=3)
    found = translator.stream(["one"] * 5 + ["a" * 9000], search, window=2)
    seen = []
    with pytest.raises(BadInput, match="text 6: a sentence of"):
        seen.extend(found)
    assert len(seen) == 5


def said(found) -> list[list[str]]:
    return [translations[0].tokens for translations in found]


def test_samples_do_not_depend_on_windows(run):  # noqa: F811
    translator, search = heedful.load(run), Search(temperature=1.5, seed=3, max_length=9)
    texts = ["one", "one", "two", "one", "two"]
    by_window = [said(translator.stream(texts, search, window=n)) for n in (1, 2, 9)]
    assert by_window[0] == by_window[1] == by_window[2]
    assert said(translator.stream(texts[3:], search, first=3)) == by_window[0][3:]


def test_a_hundred_thousand_lines_are_never_held_at_once(monkeypatch, run):  # noqa: F811
    translator, alive, most = heedful.load(run), [0], [0]

    class Text(str):
        def __init__(self, _):
            alive[0] += 1
            most[0] = max(most[0], alive[0])

        def __del__(self):
            alive[0] -= 1

    monkeypatch.setattr(translator, "split", lambda text, number: [])
    texts = (Text("x") for _ in repeat(None, 100_000))
    assert sum(1 for _ in translator.stream(texts, Search())) == 100_000
    assert most[0] <= 2 * 2048


def test_whoever_reads_may_leave(run, tmp_path):  # noqa: F811
    (tmp_path / "in").write_text("one\n" * 5000)
    words = ["translate", "--model", run, "--file", tmp_path / "in", "--beam", "1", "--max-length", "1"]
    command = [sys.executable, "-m", "heedful", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_progress_is_told_now_and_then(monkeypatch, capsys):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    shown = progress.Progress(100, shown=True)
    for _ in range(6):
        shown.step()
    shown.end()
    told = capsys.readouterr()
    assert told.out == "" and told.err == "103 lines, 0.2 a second\n106 lines, 0.2 a second\n"


def test_help_names_every_setting_of_a_search():
    (commands,) = (action.choices for action in cli.parser()._actions if action.dest == "command")
    known = {action.dest for action in commands["translate"]._actions}
    assert set(Search.__dataclass_fields__) - known == {"early", "max_ratio"}
