"""A Marian folder as OPUS-MT has it, with random weights, made by hand."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import safetensors.torch
import torch

from heedful.convert.names import HUGGINGFACE, rows, to_theirs
from heedful.models.translation import Translation, TranslationConfig

SOURCE_PIECES = {"▁the": -2.0, "▁cat": -3.0, "▁": -4.0, "c": -5.0, "a": -5.0, "t": -5.0, "s": -5.5, "<": -6.0}
SOURCE_PIECES |= {"end": -6.0, ">": -6.0, "▁odd": -6.5}
TARGET_PIECES = {"▁le": -2.0, "▁chat": -3.0, "▁": -4.0, "c": -5.0, "h": -5.0, "a": -5.0, "t": -5.0, "s": -5.5}
ABSENT = "▁odd"  # a piece of the source that the vocabulary has not
CONTROL, ORDINARY, WHOLE = 3, 1, 4


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def spm(
    scores: dict[str, float], trainer: bytes = b"", rules: bytes = b"", whole: tuple[str, ...] = ()
) -> bytes:
    """A SentencePiece model file."""
    types = {"<unk>": 2, "<s>": CONTROL, "</s>": CONTROL} | dict.fromkeys(whole, WHOLE)
    pieces = {**dict.fromkeys(types, 0.0), **scores}
    out = b""
    for piece, score in pieces.items():
        about = field(1, piece.encode()) + field(2, score)
        out += field(1, about + (field(3, types[piece]) if piece in types else b""))
    return out + field(2, field(3, 1) + trainer) + field(3, rules)


def vocabulary(*groups: dict[str, float]) -> dict[str, int]:
    pieces = sorted({piece for group in groups for piece in group} - {ABSENT})
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", ">>fra<<", *pieces, "<pad>"])}


def marian(folder: Path, two: bool = False, **settings) -> Path:
    folder.mkdir(parents=True)
    groups = [[SOURCE_PIECES], [TARGET_PIECES]] if two else [[SOURCE_PIECES, TARGET_PIECES]]
    vocabularies = [vocabulary(*group) for group in groups]
    for name, words in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    (folder / "source.spm").write_bytes(spm(SOURCE_PIECES))
    (folder / "target.spm").write_bytes(spm(TARGET_PIECES))
    V, own = len(vocabularies[0]), len(vocabularies[1]) if two else 0
    config = TranslationConfig(dim=16, heads=2, layers=1, ff=24, length=32, norm="post", activation="swish")
    config = replace(config, vocabulary=V, target_vocabulary=own)
    tensors = to_theirs(random_tensors(config), rows(HUGGINGFACE, config))
    tensors = {name: tensor for name, tensor in tensors.items() if "embed_positions" not in name}
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    table = {"model_type": "marian", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": V}
    table |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "scale_embedding": True}
    table |= {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "activation_function": "swish"}
    table |= {"max_position_embeddings": 32, "pad_token_id": (own or V) - 1, "eos_token_id": 0}
    table |= {"decoder_start_token_id": (own or V) - 1, "share_encoder_decoder_embeddings": not two}
    table |= {"decoder_vocab_size": own or V, "forced_eos_token_id": None} | settings
    (folder / "config.json").write_text(json.dumps(table), encoding="utf-8")
    return folder


def random_tensors(config: TranslationConfig) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    model = Translation(config)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach() + 0.1 * torch.randn_like(tensor) for name, tensor in tensors.items()}
