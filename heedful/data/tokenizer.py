"""Tokenizer: text -> ids -> the same text. Three kinds: bpe, words, characters."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from heedful.data.batch import CONTROL, END, PAD, START, UNK
from heedful.errors import BadInput, nearest

KINDS = ("bpe", "words", "characters")
BYTES = 256
JOINER = "\u2060"  # takes no room


def bpe() -> tokenizers.Tokenizer:
    """Byte pairs: every byte is a token, so that any text comes back as it was."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    # A word at the start should be the same token as elsewhere: one space before, taken away after.
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def words() -> tokenizers.Tokenizer:
    """Whole words. One that reads like a control token gets a mark, so that it is not taken for it."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token=CONTROL[UNK]))
    marks = [normalizers.Replace(Regex(rf"(?<!\S){token}(?!\S)"), JOINER + token) for token in CONTROL]
    tokenizer.normalizer = normalizers.Sequence(marks)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unmarks = [decoders.Replace(JOINER + token, token) for token in CONTROL]
    spaces = decoders.WordPiece(prefix=" ", cleanup=False)  # one before each word but the first
    tokenizer.decoder = decoders.Sequence([spaces, *unmarks])
    return tokenizer


def characters() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token=CONTROL[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


class Tokenizer:
    """Ids with <start> and <end> around them; 0 to 6 are the control tokens."""

    def __init__(self, inner: tokenizers.Tokenizer):
        self.inner = inner
        # Text that happens to contain "<end>" is text, not a control token.
        inner.encode_special_tokens = True

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        framed = self.inner.post_processor is not None  # the file says by itself what stands around the ids
        try:
            encodings = self.inner.encode_batch_fast(texts, add_special_tokens=framed)
        except TypeError as error:  # bytes that were not UTF-8, as Python carries them along
            bad = next((text for text in texts if not is_text(text)), texts)
            raise BadInput(f"not text: {bad!r}") from error
        return [encoding.ids if framed else [START, *encoding.ids, END] for encoding in encodings]

    def encode(self, text: str) -> list[int]:
        return self.encode_all([text])[0]

    def decode(self, ids: Iterable[int]) -> str:
        return self.inner.decode([i for i in ids if i not in (PAD, START, END)], skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each token as a person would write it; part of a character shows as its byte."""
        shown = readable if isinstance(self.inner.model, models.BPE) else unmarked
        return [CONTROL[i] if i < len(CONTROL) else shown(self.inner.id_to_token(i) or "") for i in ids]

    def save(self, path: Path) -> None:
        path.write_text(self.inner.to_str(pretty=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        try:
            tokenizer = cls(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        except Exception as error:  # the library has no error of its own
            raise BadInput(f"{path}: not a tokenizer: {error}") from error
        if [tokenizer.inner.token_to_id(c) for c in CONTROL] != list(range(len(CONTROL))):
            raise BadInput(f"{path}: not a heedful tokenizer: its first tokens are not {' '.join(CONTROL)}")
        return tokenizer


def is_text(text: str) -> bool:
    try:
        text.encode()
    except (UnicodeEncodeError, AttributeError):
        return False
    return True


def unmarked(token: str) -> str:
    """A word as it was, without the mark that `words` may have put on it."""
    return token.removeprefix(JOINER)


def readable(token: str) -> str:
    """A token of a byte-level vocabulary as text."""
    alphabet = byte_values()
    if any(c not in alphabet for c in token):
        return token
    raw = bytes(alphabet[c] for c in token)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{b:02X}>" for b in raw)


@cache
def byte_values() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for."""
    return {c: b for b, c in enumerate(byte_alphabet())}


def byte_alphabet() -> list[str]:
    """The printable stand-in of each byte 0 to 255 in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(BYTES) if b not in printable]
    return [chr(b) if b in printable else chr(BYTES + others.index(b)) for b in range(BYTES)]


def learn(texts: list[str], kind: str, vocabulary: int, key: str = "data.vocabulary") -> Tokenizer:
    """A tokenizer of `vocabulary` tokens, the control tokens included; words and characters: at most.

    `key` is the setting that an error should name.
    """
    if kind not in KINDS:
        raise BadInput(f"tokenizer {kind!r} is not one of {', '.join(KINDS)}{nearest(kind, KINDS)}")
    least = len(CONTROL) + (BYTES if kind == "bpe" else 1)
    if vocabulary < least:
        raise BadInput(f"{key} {vocabulary}: {kind} needs at least {least}")
    return learn_bpe(texts, vocabulary, key) if kind == "bpe" else learn_units(texts, kind, vocabulary)


def learn_bpe(texts: list[str], vocabulary: int, key: str) -> Tokenizer:
    inner = bpe()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    most = inner.get_vocab_size()
    if most < vocabulary:
        raise BadInput(f"{key} {vocabulary}: the data gives no more than {most} tokens")
    return Tokenizer(inner)


def learn_units(texts: list[str], kind: str, vocabulary: int) -> Tokenizer:
    """The most frequent words or characters, in alphabetical order where as frequent."""
    inner = words() if kind == "words" else characters()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary, special_tokens=list(CONTROL), show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    return Tokenizer(inner)
