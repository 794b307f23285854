"""The command in a shell that closes its streams, fills its disk or speaks another encoding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heedful import cli, commands
from tests.test_cli import RUN

WORDS = f"{sys.executable} -m heedful translate one --model {RUN} --beam 1 --max-length 12"


def shell(line: str, **environment: str) -> tuple[int, bytes, str]:
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, env=os.environ | environment, timeout=120
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("words", [WORDS, f"{sys.executable} -m heedful info {RUN}"])
def test_a_full_disk_is_one_line(words):
    assert shell(f"{words} > /dev/full") == (2, b"", "heedful: standard output: No space left on device\n")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 800020000 bytes")])
def test_too_little_memory_is_one_line(monkeypatch, capsys, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(commands, "info", fail)
    assert cli.main(["info"]) == 2
    assert capsys.readouterr().err.startswith("heedful: there is not enough memory for this")


def test_a_fault_of_the_program_s_own_is_not_hidden(monkeypatch):
    monkeypatch.setattr(commands, "info", lambda *_: [][0])
    with pytest.raises(IndexError):
        cli.main(["info"])


def test_output_that_is_closed_is_one_line():
    assert shell(f"{WORDS} >&-") == (2, b"", "heedful: standard output: Bad file descriptor\n")


def test_a_closed_input_is_an_empty_one():
    status, out, err = shell(f"{WORDS.replace(' one ', ' - ')} <&-")
    assert (status, out, err) == (2, b"", "heedful: standard input is empty\n")


def test_what_should_go_to_a_closed_standard_error_does_not_go_elsewhere():
    assert shell(f"{WORDS} --beam 0 2>&-") == (2, b"", "")


def test_text_is_utf_8_in_any_locale():
    plain = shell(f"{WORDS} --prefix 'é…'")[1]
    assert plain.startswith("é…".encode())
    assert shell(f"{WORDS} --prefix 'é…'", PYTHONIOENCODING="latin-1", LC_ALL="C.UTF-8")[:2] == (0, plain)
