"""Pieces: a SentencePiece model file, read without its library, as a tokenizer of ours.

The file is a protocol buffer (sentencepiece_model.proto): fields of a number and a value, of which a few
are wanted here.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from heedful.data.batch import CONTROL, END, UNK
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput

SPACE = "\u2581"  # how a space is written in a piece
UNIGRAM = 1
ORDINARY, WHOLE = 1, 4  # the types of pieces that stand for text; the second kind is never cut
VARINT, EIGHT_BYTES, SIZED, FOUR_BYTES = 0, 1, 2, 5


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first, as long as the eighth bit is set; gives (number, its end)."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind in (EIGHT_BYTES, SIZED, FOUR_BYTES):
            size, at = varint(data, at) if kind == SIZED else (8 if kind == EIGHT_BYTES else 4, at)
            value, at = data[at : at + size], at + size
            if len(value) < size:
                raise ValueError("cut off")
        else:
            raise ValueError(f"a field of kind {kind}")
        yield key >> 3, value


@dataclass(frozen=True)
class Pieces:
    """The pieces that stand for text, and what is done to a text before it is cut into them."""

    scores: dict[str, float]
    charsmap: bytes = b""
    prefix: bool = True  # a space before the text
    single_spaces: bool = True

    @classmethod
    def load(cls, path: Path) -> "Pieces":
        try:
            return cls.read(path.read_bytes())
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from error
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        except Exception as error:  # each kind of damage has an error of its own
            raise BadInput(f"{path}: not a SentencePiece model, or damaged") from error

    @classmethod
    def read(cls, data: bytes) -> "Pieces":
        pieces, trainer, rules = [], {}, {}
        for number, value in fields(data):
            if number == 1:
                pieces.append(dict(fields(value)))
            elif number == 2:
                trainer = dict(fields(value))
            elif number == 3:
                rules = dict(fields(value))
        if trainer.get(3, UNIGRAM) != UNIGRAM or trainer.get(35, 0):
            raise BadInput("its pieces are merged (BPE), words or bytes; only unigram models can be read")
        found = cls(scores_of(pieces), rules.get(2, b""), bool(rules.get(3, 1)), bool(rules.get(4, 1)))
        found.normalizer()  # so that a damaged map of characters is found now
        return found

    def tokenizer(self, vocabulary: Sequence[str], marks: Sequence[str] = ()) -> Tokenizer:
        """Ids are places in `vocabulary`, which has our control tokens first. What it has and this file has
        not is decoded, and never comes out of a text, unless it is one of the marks."""
        entries = [(piece, 0.0) for piece in CONTROL]
        for piece in vocabulary[len(CONTROL) :]:
            known = piece in marks or (piece in self.scores and piece not in CONTROL)
            # No text has a plain space any more when it is cut into pieces.
            entries.append((piece, self.scores.get(piece, 0.0)) if known else (" " + piece, 0.0))
        inner = tokenizers.Tokenizer(models.Unigram(entries, unk_id=UNK, byte_fallback=False))
        inner.normalizer = self.normalizer()
        inner.pre_tokenizer = self.cuts()
        first = [decoders.Strip(" ", 1, 0)] if self.prefix else []
        spaces = [decoders.Replace(" ", ""), decoders.Replace(SPACE, " ")]
        inner.decoder = decoders.Sequence([*spaces, decoders.Fuse(), *first])
        inner.add_special_tokens(list(CONTROL))
        inner.add_tokens([AddedToken(mark, normalized=False, special=False) for mark in marks])
        return Tokenizer(inner)

    def normalizer(self) -> normalizers.Normalizer:
        steps = [normalizers.Precompiled(self.charsmap)] if self.charsmap else []
        if self.single_spaces:
            steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
        return normalizers.Sequence(steps)

    def cuts(self) -> pre_tokenizers.PreTokenizer:
        """Before each space, unless a piece has one inside; and within what reads like a control token, so
        that no text can become one."""
        inside = any(SPACE in piece[1:] for piece in self.scores)
        scheme = "always" if self.prefix else "never"
        forged = Regex("<(?=(" + "|".join(token[1:] for token in CONTROL) + "))")
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=not inside),
                pre_tokenizers.Split(forged, "merged_with_previous"),
            ]
        )


def scores_of(pieces: list[dict]) -> dict[str, float]:
    scores = {}
    for piece in pieces:
        if piece.get(3, ORDINARY) == ORDINARY:
            scores[piece[1].decode()] = struct.unpack("<f", piece[2])[0]
    highest = max(scores.values())
    for piece in pieces:
        if piece.get(3) == WHOLE:  # better than any of its parts, in the way of SentencePiece
            scores[piece[1].decode()] = len(piece[1]) * highest - 0.1
    return scores


def without_start(tokenizer: Tokenizer) -> Tokenizer:
    """For a model whose sources have an <end>, and nothing before them."""
    end = (CONTROL[END], END)
    tokenizer.inner.post_processor = TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    return tokenizer
