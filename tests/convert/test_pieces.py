"""SentencePiece files: read without the library, and the same pieces as with it."""

import lzma
from itertools import islice
from pathlib import Path

import pytest

from heedful.convert.pieces import Pieces
from heedful.data.batch import CONTROL, END, START, UNK
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from tests.convert.marian import SOURCE_PIECES, field, spm

CORPUS = Path(__file__).parents[2] / "heedful/corpora/tatoeba.en-fr.tsv.xz"
ODD = [
    "",
    " ",
    "  two  spaces ",
    "<end> of it",
    "a<pad>b",
    "</s> <s> <unk>",
    "\u00a0no break\u202fhere",
    "ﬁne ½ ＡＢＣ",
    "日本語 текст",
    "a\u200bb \u2581c",
    "e\u0301te\u0301",
    "tab\tand xyz<foo>xyz",
]


def load(path: Path, data: bytes) -> Pieces:
    path.write_bytes(data)
    return Pieces.load(path)


def pieces_of(tokenizer: Tokenizer, text: str) -> list[str]:
    ids = tokenizer.inner.encode(text, add_special_tokens=False).ids
    return [tokenizer.inner.id_to_token(i) for i in ids]


@pytest.fixture
def pieces(tmp_path):
    return load(tmp_path / "a.spm", spm(SOURCE_PIECES))


@pytest.fixture
def tokenizer(pieces):
    return pieces.tokenizer([*CONTROL, *SOURCE_PIECES, "▁chat"])


def test_what_is_in_the_file(tmp_path):
    rules = field(2, b"") + field(3, 0) + field(4, 0)
    found = load(tmp_path / "a.spm", spm({"a": -1.5, "▁b": -2.0}, field(99, b"more"), rules))
    assert found == Pieces({"a": -1.5, "▁b": -2.0}, b"", prefix=False, single_spaces=False)


def test_the_likeliest_pieces(tokenizer):
    assert pieces_of(tokenizer, "the cats") == ["▁the", "▁cat", "s"]
    assert pieces_of(tokenizer, "  a   cat ") == ["▁", "a", "▁cat"]


def test_what_no_piece_has_is_unknown(tokenizer):
    assert tokenizer.encode("zzz cat")[2:] == [UNK, tokenizer.inner.token_to_id("▁cat"), END]


def test_a_piece_of_the_other_side_is_decoded_but_never_read(tokenizer):
    chat = len(tokenizer) - 1
    assert chat not in tokenizer.encode("chat") and chat not in tokenizer.encode(" chat")
    assert tokenizer.decode([START, chat, chat, END]) == "chat chat"


@pytest.mark.parametrize("token", CONTROL)
def test_no_text_becomes_a_control_token(tokenizer, token):
    ids = tokenizer.encode(f"{token} cat {token}")[1:-1]
    assert not {i for i in ids if i < len(CONTROL)} - {UNK}


def test_what_is_never_cut_comes_whole(tmp_path):
    pieces = load(tmp_path / "a.spm", spm({"x": -1.0, "c": -3.0, "a": -3.0, "t": -3.0}, whole=("cat",)))
    assert pieces_of(pieces.tokenizer([*CONTROL, *pieces.scores]), "catcat") == ["<unk>", "cat", "cat"]


def test_a_tokenizer_comes_back_from_its_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert [again.encode(text) for text in ODD] == [tokenizer.encode(text) for text in ODD]


@pytest.mark.parametrize(
    "trainer", [field(3, 2), field(3, 4), field(35, 1)], ids=["bpe", "characters", "bytes"]
)
def test_other_kinds_are_refused(tmp_path, trainer):
    with pytest.raises(BadInput, match=r"a\.spm: .* only unigram"):
        load(tmp_path / "a.spm", spm(SOURCE_PIECES, trainer))


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"hello, world", bytes(range(256)), spm({"a": -1.0}, rules=field(2, b"x"))]
)
def test_what_is_no_such_file_is_named(tmp_path, data):
    with pytest.raises(BadInput, match=r"a\.spm: not a SentencePiece model"):
        load(tmp_path / "a.spm", data)


def test_a_file_cut_anywhere_is_an_error_or_less(tmp_path):
    whole = spm(SOURCE_PIECES)
    for end in range(len(whole)):
        try:
            found = load(tmp_path / "a.spm", whole[:end])
        except BadInput as error:
            assert "a.spm" in str(error)
        else:  # cut between two pieces, which the format does not tell
            assert found.scores.items() <= SOURCE_PIECES.items()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"none\.spm: No such file"):
        Pieces.load(tmp_path / "none.spm")


VARIANTS = {
    "usual": {},
    "lowercase": {"normalization_rule_name": "nmt_nfkc_cf"},
    "as it is": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
    },
    "across spaces": {"split_by_whitespace": False},
    "never cut": {"user_defined_symbols": ["<foo>", "xyz"]},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_as_the_library(tmp_path, name):
    library = pytest.importorskip("sentencepiece")
    with lzma.open(CORPUS, "rt", encoding="utf-8") as file:
        lines = [line.split("\t") for line in islice(file, 3000)]
    (tmp_path / "text").write_text("\n".join(line[0] for line in lines) + "\n", encoding="utf-8")
    usual = {"model_type": "unigram", "vocab_size": 400, "minloglevel": 2}
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "a"), **usual | VARIANTS[name]
    )
    theirs = library.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    pieces = Pieces.load(tmp_path / "a.model")
    ours = pieces.tokenizer([*CONTROL, *pieces.scores])
    for text in [*(text for line in lines[:500] for text in line[:2]), *ODD]:
        expected = [
            piece if piece in pieces.scores else "<unk>" for piece in theirs.encode(text, out_type=str)
        ]
        assert pieces_of(ours, text) == expected, text
        if "<unk>" not in expected and text.strip():
            assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
