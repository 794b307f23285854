"""Names: what the weights of a translation model are called elsewhere. One table per format.

A row says which tensors of ours, one under another, are which of theirs, one under another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.errors import BadInput
from heedful.models.translation import TranslationConfig

SOURCE, TARGET = "source_embed.table_VD", "target_embed.table_VD"
POSITIONS = {SOURCE: "source_embed.position.table_TD", TARGET: "target_embed.position.table_TD"}
BIAS = "head.bias"


@dataclass(frozen=True)
class Names:
    """`block` has the linear layers and norms of a block; {side} is encoder or decoder, {n} a layer."""

    block: dict[str, str]
    layer: str
    norm: str  # the last one of a pre-norm stack
    leaves: tuple[str, str]  # the endings of a weight and a bias
    norm_leaves: tuple[str, str]
    shared: tuple[str, ...]  # the one table of both sides
    source: tuple[str, ...]  # the table of each side, if there are two
    target: tuple[str, ...]
    positions: str
    bias: str


HUGGINGFACE = Names(
    block={
        "self_attention.query": "self_attn.q_proj",
        "self_attention.key_value": "self_attn.k_proj self_attn.v_proj",
        "self_attention.out": "self_attn.out_proj",
        "self_residual.norm": "self_attn_layer_norm",
        "cross_attention.query": "encoder_attn.q_proj",
        "cross_attention.key_value": "encoder_attn.k_proj encoder_attn.v_proj",
        "cross_attention.out": "encoder_attn.out_proj",
        "cross_residual.norm": "encoder_attn_layer_norm",
        "ff.up": "fc1",
        "ff.down": "fc2",
        "ff_residual.norm": "final_layer_norm",
    },
    layer="model.{side}.layers.{n}.",
    norm="model.{side}.layer_norm",
    leaves=(".weight", ".bias"),
    norm_leaves=(".weight", ".bias"),
    shared=("model.shared.weight",),
    source=("model.encoder.embed_tokens.weight",),
    target=("model.decoder.embed_tokens.weight",),
    positions="model.{side}.embed_positions.weight",
    bias="final_logits_bias",
)

CTRANSLATE2 = Names(
    block={
        "self_attention.query self_attention.key_value": "self_attention/linear_0",
        "self_attention.out": "self_attention/linear_1",
        "self_residual.norm": "self_attention/layer_norm",
        "cross_attention.query": "attention/linear_0",
        "cross_attention.key_value": "attention/linear_1",
        "cross_attention.out": "attention/linear_2",
        "cross_residual.norm": "attention/layer_norm",
        "ff.up": "ffn/linear_0",
        "ff.down": "ffn/linear_1",
        "ff_residual.norm": "ffn/layer_norm",
    },
    layer="{side}/layer_{n}/",
    norm="{side}/layer_norm",
    leaves=("/weight", "/bias"),
    norm_leaves=("/gamma", "/beta"),
    shared=("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight"),
    source=("encoder/embeddings_0/weight",),
    target=("decoder/embeddings/weight", "decoder/projection/weight"),
    positions="{side}/position_encodings/encodings",
    bias="decoder/projection/bias",
)


@dataclass(frozen=True)
class Row:
    """Each list of tensors makes the same one when put together."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


def rows(names: Names, config: TranslationConfig) -> Iterator[Row]:
    yield from outside_rows(names, config)
    for side, layers in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
        for n in range(layers):
            for ours, theirs in names.block.items():
                if side == "decoder" or not ours.startswith("cross"):
                    layer = names.layer.format(side=side, n=n)
                    yield from leaf_rows(names, f"{side}.blocks.{n}.", ours, layer, theirs)
        if config.norm == "pre":
            yield from leaf_rows(names, f"{side}.", "norm", names.norm.format(side=side), "")


def outside_rows(names: Names, config: TranslationConfig) -> Iterator[Row]:
    """Embeddings, positions and head. One of ours may be several of theirs: copies."""
    two = bool(config.target_vocabulary)
    tables = [(SOURCE, names.source), (TARGET, names.target)] if two else [(SOURCE, names.shared)]
    for ours, copies in tables:
        yield from (Row((ours,), (theirs,)) for theirs in copies)
    for side, ours in (("encoder", SOURCE), ("decoder", TARGET if two else SOURCE)):
        yield Row((POSITIONS[ours],), (names.positions.format(side=side),))
    yield Row((BIAS,), (names.bias,))


def leaf_rows(names: Names, our_path: str, ours: str, their_path: str, theirs: str) -> Iterator[Row]:
    """The weight and the bias of a linear layer or norm."""
    endings = names.norm_leaves if ours.endswith("norm") else names.leaves
    for leaf, ending in zip(("weight", "bias"), endings, strict=True):
        yield Row(
            tuple(f"{our_path}{part}.{leaf}" for part in ours.split()),
            tuple(f"{their_path}{part}{ending}" for part in theirs.split() or [""]),
        )


def to_theirs(tensors: dict[str, Tensor], table: Iterator[Row]) -> dict[str, Tensor]:
    """Always copies: who gets them may change them."""
    out = {}
    for row in table:
        whole = torch.cat([tensors[name].detach() for name in row.ours])
        parts = whole.chunk(len(row.theirs))
        out |= {name: part.clone() for name, part in zip(row.theirs, parts, strict=True)}
    return out


def to_ours(tensors: dict[str, Tensor], table: Iterator[Row]) -> dict[str, Tensor]:
    """The way back, for tables that put none of ours together."""
    out: dict[str, Tensor] = {}
    for row in table:
        (name,) = row.ours
        whole = torch.cat([tensors[part] for part in row.theirs])
        if name in out and not torch.equal(out[name], whole):
            raise BadInput(f"weight {row.theirs[0]!r} should be the same as another, but is not")
        out[name] = whole
    return out


# Where each weight has the width of the model: 0 is its rows, 1 its columns.
WIDTH = {
    "table_VD": 1,
    "table_TD": 1,
    "norm.weight": 0,
    "norm.bias": 0,
    "query.weight": 1,
    "key_value.weight": 1,
    "out.weight": 0,
    "out.bias": 0,
    "up.weight": 1,
    "down.weight": 0,
    "down.bias": 0,
}


def reorder(tensors: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """The same model with the numbers of its vectors in another order."""
    out = {}
    for name, tensor in tensors.items():
        axes = [axis for ending, axis in WIDTH.items() if name.endswith(ending)]
        out[name] = tensor.index_select(axes[0], order) if axes else tensor
    return out
