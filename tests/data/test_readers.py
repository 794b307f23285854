"""Readers: what is in the file comes out; what is wrong with it is said in one line, with its place."""

import gzip
import lzma

import pytest

from heedful.data import readers
from heedful.data.readers import Record, clean
from heedful.data.sources import hashes, read
from heedful.errors import BadInput


@pytest.fixture
def put(tmp_path):
    """Writes a file and gives a reader of it."""

    def write(name, content):
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(raw)
        return name

    return write


def complaint(folder, *names, pattern=""):
    with pytest.raises(BadInput) as caught:
        read(names, str(folder), pattern)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_tsv_takes_the_first_two_columns(tmp_path, put):
    put("a.tsv", "Hi.\tSalut !\tCC-BY #1\nGo.\tVa !\n")
    assert read(("a.tsv",), str(tmp_path)) == [Record("Hi.", "Salut !"), Record("Go.", "Va !")]


def test_aligned_files_pair_line_by_line(tmp_path, put):
    put("a.en", "one\ntwo\n")
    put("a.fr", "un\ndeux")  # no line end at the end of the file
    assert read(("a.en", "a.fr"), str(tmp_path)) == [Record("one", "un"), Record("two", "deux")]


def test_pattern_reads_other_formats(tmp_path, put):
    put("d", "IN: run twice OUT: RUN RUN\n\nIN: walk OUT: WALK\n")
    pattern = "^IN: (?P<source>.+) OUT: (?P<target>.+)$"
    assert read(("d",), str(tmp_path), pattern) == [Record("run twice", "RUN RUN"), Record("walk", "WALK")]


@pytest.mark.parametrize(("end", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_packed_files_are_found_by_their_plain_name(tmp_path, put, end, pack):
    put(f"a.tsv{end}", pack("été\tsummer\n".encode()))
    assert read(("a.tsv",), str(tmp_path)) == [Record("été", "summer")]
    assert read((f"a.tsv{end}",), str(tmp_path)) == [Record("été", "summer")]


def test_narrow_and_no_break_spaces_become_plain():
    assert clean(" Va\u202f! \u00ab\u00a0oui\u00a0\u00bb\n") == "Va ! « oui »"


def test_windows_line_ends_and_byte_order_mark(tmp_path, put):
    put("a.tsv", b"\xef\xbb\xbfone\tun\r\ntwo\tdeux\r\n")
    assert read(("a.tsv",), str(tmp_path)) == [Record("one", "un"), Record("two", "deux")]


def test_blank_lines_and_blank_sides_are_passed_over(tmp_path, put):
    put("a.tsv", "one\tun\n\n \t \n\tdeux\nthree\t\n")
    assert read(("a.tsv",), str(tmp_path)) == [Record("one", "un")]
    put("a.en", "one\n\nthree\n")
    put("a.fr", "un\ndeux\n\u00a0\n")
    assert read(("a.en", "a.fr"), str(tmp_path)) == [Record("one", "un")]


@pytest.mark.parametrize("content", ["", "\n\n", " \t \n"])
def test_nothing_in_the_file(tmp_path, put, content):
    assert complaint(tmp_path, put("a.tsv", content)) == "a.tsv: no examples in it"


def test_missing_column_is_named(tmp_path, put):
    said = complaint(tmp_path, put("a.tsv", "one\tun\ntwo deux\n"))
    assert said.startswith(f"{tmp_path}/a.tsv:2: 1 column")


def test_line_of_100_000_characters_is_read_and_a_longer_one_named(tmp_path, put):
    put("a.tsv", "x" * 99_998 + "\ty\n")
    assert len(read(("a.tsv",), str(tmp_path))[0].source) == 99_998
    put("wide.tsv", "日" * 99_998 + "\t本\r\n")
    assert len(read(("wide.tsv",), str(tmp_path))[0].source) == 99_998
    put("b.tsv", "one\tun\n" + "x" * 100_001 + "\n")
    assert complaint(tmp_path, "b.tsv") == f"{tmp_path}/b.tsv:2: a line of more than 100,000 characters"


def test_endless_line_is_not_read_whole(tmp_path, put, monkeypatch):
    put("a.tsv.xz", lzma.compress(b"\0" * 50_000_000))
    asked = []
    plain = readers.raw_lines
    monkeypatch.setattr(readers, "raw_lines", lambda file: (asked.append(len(r)) or r for r in plain(file)))
    assert "a line of more than" in complaint(tmp_path, "a.tsv")
    assert max(asked) < 500_000


def test_invalid_utf8_is_named_by_line_and_byte(tmp_path, put):
    said = complaint(tmp_path, put("a.tsv", b"one\tun\nt\xe9\n"))
    assert said == f"{tmp_path}/a.tsv:2: not UTF-8 (byte 2 of the line)"


def test_aligned_files_of_unequal_length(tmp_path, put):
    said = complaint(tmp_path, put("a.en", "one\ntwo\n"), put("a.fr", "un\n"))
    assert said == f"{tmp_path}/a.en has 2 lines but {tmp_path}/a.fr has 1"


def test_broken_archives(tmp_path, put):
    packed = lzma.compress(b"one\tun\n" * 1000)
    assert "a.tsv.xz: cannot be read" in complaint(tmp_path, put("a.tsv.xz", packed[:-20]))
    assert "b.tsv.gz: cannot be read" in complaint(tmp_path, put("b.tsv.gz", b"not packed"))
    damaged = bytearray(gzip.compress(bytes(range(256)) * 50))
    damaged[30:60] = b"x" * 30
    assert "c.tsv.gz: " in complaint(tmp_path, put("c.tsv.gz", bytes(damaged)))


def test_missing_file_names_the_nearest(tmp_path, put):
    put("train.tsv", "a\tb\n")
    assert complaint(tmp_path, "trian.tsv") == (
        f"no file 'trian.tsv' in folder {str(tmp_path)!r} (did you mean 'train.tsv'?)"
    )


def test_more_than_two_files(tmp_path):
    assert "not 3" in complaint(tmp_path, "a", "b", "c")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(?P<source>.+) (?P<target>[x", "is not a regular expression"),
        ("(?P<source>.+)", "has no group (?P<target>...)"),
        ("(?P<source>x) (?P<target>y)", "a:1: does not match the pattern"),
    ],
)
def test_pattern_that_does_not_do(tmp_path, put, pattern, said):
    put("a", "one two\n")
    assert said in complaint(tmp_path, "a", pattern=pattern)


def test_hashes_change_with_the_file(tmp_path, put):
    put("a.tsv", "a\tb\n")
    before = hashes(("a.tsv", "tatoeba:dev"), str(tmp_path))
    put("a.tsv", "a\tc\n")
    after = hashes(("a.tsv", "tatoeba:dev"), str(tmp_path))
    assert before["a.tsv"] != after["a.tsv"] and before["tatoeba:dev"] == after["tatoeba:dev"]
