"""The command, as somebody types it: answers, and one clear line with status 2 for bad input."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from heedful import cli

RUN = Path(__file__).parent / "old_runs" / "v1" / "run"


@pytest.fixture
def run(tmp_path):
    return shutil.copytree(RUN, tmp_path / "run")


class Pipe(io.TextIOWrapper):
    def __init__(self, raw: bytes):
        super().__init__(io.BytesIO(raw), encoding="utf-8")


@pytest.fixture
def say(monkeypatch, capsys):
    """Runs the command; gives its status, its output and what it said beside it."""

    def run_it(*words, stdin: bytes = b""):
        monkeypatch.setattr(sys, "stdin", Pipe(stdin))
        status = cli.main([str(word) for word in words])
        seen = capsys.readouterr()
        return status, seen.out, seen.err

    return run_it


def test_translates_an_argument(say, run):
    status, out, err = say("translate", "Hello there.", "--model", run)
    assert (status, err) == (0, "") and out.endswith("\n") and out.count("\n") == 1


def test_a_text_may_begin_with_a_dash(say, run):
    status, out, err = say("translate", "--model", run, "--", "-ing")
    assert (status, err) == (0, "") and out == say("translate", "--model", run, stdin=b"-ing\n")[1]


def test_keeps_the_order_of_lines_and_the_blank_ones(say, run):
    alone = [say("translate", text, "--model", run)[1] for text in ("one", "two")]
    status, out, _ = say("translate", "--model", run, stdin=b"one\n\ntwo\n")
    assert status == 0 and out == f"{alone[0]}\n{alone[1]}"


def test_a_file_is_as_good_as_a_pipe(say, run, tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    piped = say("translate", "-", "--model", run, stdin=b"one\ntwo\n")
    assert say("translate", "--file", tmp_path / "in.txt", "--model", run) == piped


def test_json_tells_score_tokens_and_attention(say, run):
    status, out, _ = say("translate", "one two", "--model", run, "--nbest", 2, "--json", "--attention")
    told = json.loads(out)
    best, second = told["translations"]
    assert status == 0 and told["source"] == "one two" and best["score"] >= second["score"]
    assert len(best["logprobs"]) in (len(best["tokens"]), len(best["tokens"]) + 1)
    assert {view["kind"] for view in told["attention"]} == {"encoder", "decoder", "cross"}
    for view in told["attention"]:
        heads = view["weights"]
        assert all(len(head) == len(view["queries"]) for head in heads)
        assert all(abs(sum(row) - 1) < 0.01 for head in heads for row in head)


def test_nbest_lines_carry_number_and_score(say, run):
    out = say("translate", "--model", run, "--nbest", 2, "--beam", 3, stdin=b"one\ntwo\n")[1]
    numbers = [line.split(" ||| ")[0] for line in out.splitlines()]
    assert numbers == ["0", "0", "1", "1"]


@pytest.mark.parametrize("text", ["日本語", "🙂🙂", "\u202f…", "<end>", "a\tb"])
def test_any_text_has_an_answer(say, run, text):
    assert say("translate", text, "--model", run)[0] == 0


BAD = [
    (["translate", ""], b"", "the text is empty"),
    (["translate", "   "], b"", "the text is empty"),
    (["translate"], b"", "standard input is empty"),
    (["translate"], b"ok\n\xff\n", "standard input:2: not UTF-8"),
    (["translate"], b"a" * 100_000 + b"\n", "a sentence of"),
    (["translate"], b"a" * 1_000_000 + b"\n", "standard input:1: a line of"),
    (["translate", "a", "--file", "b"], b"", "not both"),
    (["translate", "--file", "no-such-file"], b"", "no-such-file"),
    (["translate", "a", "--beam", "0"], b"", "beam 0"),
    (["translate", "a", "--beam", "2", "--nbest", "3"], b"", "nbest 3"),
    (["translate", "a", "--max-length", "0"], b"", "max_length 0"),
    (["translate", "a", "--attention"], b"", "--json"),
    (["translate", "a", "--modle", "x"], b"", "'--modle' (did you mean '--model'?); see heedful translate"),
    (["translate", "--", "-a", "--beam"], b"", "unexpected argument '--beam'; see heedful translate --help"),
    (["translate", "a", "b"], b"", "unexpected argument 'b'; see heedful translate --help"),
    (["translate", "a", "--beam", "x"], b"", "--beam: invalid int value: 'x'; see heedful translate --help"),
    (["translate", "a", "--precision", "x"], b"", "--precision: invalid choice: 'x'"),
    (["translat", "a"], b"", "invalid choice: 'translat'"),
    (["translate", "\udcff"], b"", "not text: '\\udcff'"),
    (["translate", "a", "--prefix", "\udcff"], b"", "not text"),
    (["translate", "a", "--target", "\udcff"], b"", "not text"),
    (["look", "a", "--out", "x.bmp"], b"", ".svg"),
    (["look", "a", "--layer", "99"], b"", "99"),
    (["look", "a", "--head", "99"], b"", "99"),
    (["look", ""], b"", "nothing to look at"),
    (["look", "a", "--target", "b" * 300], b"", "the translation has 302 tokens; at most 100"),
    (["look", "one two. " * 30], b"", "nothing to look at: give one sentence"),
    (["translate", "a", "--min-length", "200"], b"", "min_length 200: the model writes at most 99 tokens"),
]


@pytest.mark.parametrize("words, stdin, said", BAD)
def test_bad_input_is_one_clear_line(say, run, words, stdin, said):
    status, out, err = say(*words, "--model", run, stdin=stdin)
    assert status == 2 and err.count("\n") == 1 and said in err and "Traceback" not in err
    assert out.count("\n") <= 1  # at most the lines before the bad one


@pytest.mark.parametrize("name", ["config.toml", "tokenizer.json", "model.safetensors"])
def test_a_run_with_a_file_missing_names_it(say, run, name):
    (run / name).unlink()
    status, _, err = say("translate", "a", "--model", run)
    assert status == 2 and name in err and err.count("\n") == 1


def test_looks_in_the_terminal_and_into_files(say, run, tmp_path):
    status, out, _ = say("look", "one two", "--target", "three four", "--model", run)
    assert status == 0 and "<end>" in out
    for name in ("x.svg", "x.html"):
        pictures = []
        for text in ("one", "two"):
            assert say("look", text, "--target", "two", "--model", run, "--out", tmp_path / name)[0] == 0
            pictures.append((tmp_path / name).read_text(encoding="utf-8"))
            assert len(pictures[-1]) > 500
        assert pictures[0] != pictures[1]  # another sentence, another picture


def test_evaluates_and_keeps_what_it_found(say, run, tmp_path):
    pairs = "one\tun\none\tune\ntwo\tdeux\nthree\ttrois\n"
    (tmp_path / "test.tsv").write_text(pairs)
    status, out, _ = say("evaluate", run, "--data", tmp_path / "test.tsv", "--json", "--beam", 1)
    told = json.loads(out)
    assert status == 0 and told["sentences"] == 3
    assert {"bleu", "chrf", "ter", "bleu_signature"} <= told["one_reference"].keys()
    assert "all_references" in told and told["errors"]["exact_match"] >= 0
    assert (
        "difference"
        in json.loads(say("evaluate", run, "--data", tmp_path / "test.tsv", "--json", "--against", RUN)[1])[
            "against"
        ]
    )


def test_info_tells_what_the_run_is(say, run):
    status, out, _ = say("info", run)
    assert status == 0 and "parameters" in out
    assert json.loads(say("info", run, "--json")[1])["parameters"] > 0


def test_help_needs_no_torch():
    import subprocess

    code = "import sys\nfrom heedful import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_long_text_goes_sentence_by_sentence(run):
    import heedful

    translator = heedful.load(run)
    sentence = "one two."
    longest = translator.config.model.length
    count = longest // 4
    text = " ".join([sentence] * count)
    assert len(translator.split(text)) == count
    joined = translator.translate([text])[0][0].text
    assert joined == " ".join([translator.translate([sentence])[0][0].text] * count)
