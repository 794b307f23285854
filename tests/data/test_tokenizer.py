"""Tokenizer: text -> ids -> the same text, and control tokens that no text can forge."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.batch import CONTROL, END, START, UNK
from heedful.data.tokenizer import Tokenizer, byte_alphabet, learn
from heedful.errors import BadInput

TEXTS = ["the cat sat on the mat", "the dog saw the cat", "le chat était là", "<end> of the <pad>"] * 3
TIES = [f"w{n % 97} x{n % 89} y{n % 83}" for n in range(500)]
CHARACTERS = "".join(sorted({c for text in TEXTS for c in text}))


@pytest.fixture(scope="module")
def bpe():
    return learn(TEXTS, "bpe", 290)


@pytest.fixture(scope="module")
def words():
    return learn(TEXTS, "words", 50)


@pytest.fixture(scope="module")
def characters():
    return learn(TEXTS, "characters", 50)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60) | st.text(alphabet="<end>pad \u2060\u0120", max_size=20))
def test_any_text_comes_back_from_bpe(bpe, text):
    assert bpe.decode(bpe.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet=CHARACTERS, max_size=30))
def test_known_characters_come_back(characters, text):
    assert characters.decode(characters.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(known=st.lists(st.sampled_from(["the", "cat", "sat", "<end>", "<pad>", "était"]), max_size=9))
def test_known_words_come_back(words, known):
    assert words.decode(words.encode(" ".join(known))) == " ".join(known)


@pytest.mark.parametrize("text", [*CONTROL, "a <end> b", "<start><end>", "<pad>"])
def test_text_that_reads_like_a_control_token_is_text(bpe, words, characters, text):
    for tokenizer in (bpe, words, characters):
        ids = tokenizer.encode(text)
        assert ids[0] == START and ids[-1] == END
        assert not {*ids[1:-1]} & ({*range(len(CONTROL))} - {UNK})
    assert bpe.decode(bpe.encode(text)) == text
    assert UNK not in bpe.encode(text)


def test_control_tokens_have_the_same_ids_everywhere(bpe, words, characters):
    for tokenizer in (bpe, words, characters):
        assert tokenizer.pieces(range(7)) == [*CONTROL]


def test_unknown_words_and_characters(words, characters):
    assert words.decode(words.encode("the zebra")) == "the <unk>"
    assert characters.encode("日")[1:-1] == [UNK]


def test_pieces_are_readable(bpe, words, characters):
    assert "".join(bpe.pieces(bpe.encode("the chat")[1:-1])) == " the chat"
    assert bpe.pieces(bpe.encode("日")[1:-1]) == [" ", "<E6>", "<97>", "<A5>"]
    assert words.pieces(words.encode("était <end> zebra")) == ["<start>", "était", "<end>", "<unk>", "<end>"]
    assert characters.pieces(characters.encode("là")) == ["<start>", "l", "à", "<end>"]


def test_byte_alphabet_is_that_of_the_library():
    from tokenizers import pre_tokenizers

    assert sorted(byte_alphabet()) == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_whole_batches_give_what_single_texts_give(bpe):
    assert bpe.encode_all(TEXTS) == [bpe.encode(text) for text in TEXTS]


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_saved_and_loaded_is_the_same(kind, tmp_path):
    tokenizer = learn(TEXTS, kind, 280)
    tokenizer.save(tmp_path / "t.json")
    again = Tokenizer.load(tmp_path / "t.json")
    assert len(again) == len(tokenizer)
    for text in [*TEXTS, "<end> <unk> new"]:
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))


def test_frequent_words_come_first_and_ties_go_by_the_alphabet():
    tokenizer = learn(["b a b", "d c"], "words", 10)
    assert tokenizer.pieces(range(7, len(tokenizer))) == ["b", "a", "c"]


def test_vocabularies_do_not_depend_on_the_process():
    """Many ties, another hash seed and number of threads: the same vocabulary."""
    program = (
        "from heedful.data.tokenizer import learn\n"
        f"texts = {TIES}\n"
        "print([learn(texts, kind, 290).inner.to_str() for kind in ('words', 'characters', 'bpe')])\n"
    )
    here = [learn(TIES, kind, 290).inner.to_str() for kind in ("words", "characters", "bpe")]
    environment = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert done.stdout.decode() == f"{here}\n"


def complaint(kind, vocabulary):
    with pytest.raises(BadInput) as caught:
        learn(TEXTS, kind, vocabulary, "data.target_vocabulary")
    return str(caught.value)


def test_vocabulary_larger_than_the_data_allows():
    said = complaint("bpe", 50_000)
    most = int(said.split()[-2])
    assert said == f"data.target_vocabulary 50000: the data gives no more than {most} tokens"
    assert len(learn(TEXTS, "bpe", most)) == most


def test_for_words_and_characters_the_vocabulary_is_a_limit():
    assert len(learn(TEXTS, "words", 50_000)) == len({w for text in TEXTS for w in text.split()}) + 7
    assert len(learn(TEXTS, "characters", 50_000)) == len(CHARACTERS) + 7


def test_vocabulary_too_small():
    assert complaint("bpe", 200) == "data.target_vocabulary 200: bpe needs at least 263"
    assert complaint("words", 7) == "data.target_vocabulary 7: words needs at least 8"


def test_unknown_kind_names_the_nearest():
    assert "did you mean 'words'" in complaint("word", 100)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"version": "1.0"}', b"[1, 2"])
def test_file_that_is_no_tokenizer(tmp_path, content):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(BadInput, match=r"t\.json: not a tokenizer"):
        Tokenizer.load(tmp_path / "t.json")


def test_tokenizer_of_somebody_else(tmp_path):
    import tokenizers

    foreign = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    foreign.save(str(tmp_path / "t.json"))
    with pytest.raises(BadInput, match="not a heedful tokenizer"):
        Tokenizer.load(tmp_path / "t.json")
    with pytest.raises(BadInput, match=r"gone\.json"):
        Tokenizer.load(tmp_path / "gone.json")
