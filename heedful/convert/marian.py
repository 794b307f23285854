"""A Hugging Face Marian folder as a model of ours: OPUS-MT and its kin, and what was exported from here."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from heedful.config import Config, check, fill
from heedful.convert.huggingface import FAMILIES, SETTINGS, TARGET_TOKENIZER, halves
from heedful.convert.names import HUGGINGFACE, POSITIONS, reorder, rows, to_ours
from heedful.convert.opus import read_json, with_our_ids
from heedful.convert.whole import Whole
from heedful.data.batch import END, START
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.models.translation import Translation, TranslationConfig
from heedful.nn.position import sinusoid
from heedful.run import copy_into, weights_of

NORMS = {family: norm for norm, (family, _) in FAMILIES.items()}
# What a config.json may leave out.
USUAL = {
    "d_model": 1024,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_function": "gelu",
    "max_position_embeddings": 1024,
    "scale_embedding": False,
    "tie_word_embeddings": True,
    "share_encoder_decoder_embeddings": True,
}
# The names under which one and the same table may be found; we ask for the first.
ONE = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
TWO = (ONE[1:2], ONE[2:])
PICKLED = "has its weights as pytorch_model.bin, which can run code when it is opened, and not as \
model.safetensors: load it where you trust it, and save it anew with save_pretrained"


def read(folder: Path) -> Whole:
    theirs, path = read_config(folder), folder / "model.safetensors"
    config = config_of(theirs, folder / "config.json")
    try:
        tensors = read_weights(folder)
        tensors = to_ours(complete(named_once(tensors, config), config), rows(HUGGINGFACE, config))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    if not (folder / "source.spm").is_file():
        tokenizers = own_tokenizers(folder)
    else:
        tokenizers, config, tensors = with_our_ids(folder, theirs, config, tensors)
    config, tensors = with_positions(config, tensors)
    model = Translation(config)
    copy_into(weights_of(model), tensors, path)
    return Whole(config, model.eval(), tokenizers)


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if (folder / "config.toml").is_file():
        raise BadInput(f"{folder}: is a run already; what can be imported is a folder of Hugging Face's")
    theirs = USUAL | read_json(path)
    if theirs.get("model_type") not in list(NORMS):
        known = " and ".join(NORMS)
        raise BadInput(f"{path}: model_type {theirs.get('model_type')!r}: only {known} models can be read")
    for key in ("scale_embedding", "tie_word_embeddings"):
        if theirs[key] is not True:
            raise BadInput(f"{path}: {key} {theirs[key]!r}: only models in which it is true can be read")
    key = "share_encoder_decoder_embeddings"
    if type(theirs[key]) is not bool:
        raise BadInput(f"{path}: {key} {theirs[key]!r}: should be true or false")
    return theirs


def config_of(theirs: dict[str, Any], path: Path) -> TranslationConfig:
    ours: dict[str, Any] = {"norm": NORMS[theirs["model_type"]]}
    for key, names in SETTINGS.items():
        values = [theirs.get(name) for name in names]
        if values[0] != values[-1]:
            raise BadInput(f"{path}: {' and '.join(names)} differ: {values[0]} and {values[-1]}")
        ours[key] = values[0]
    ours["activation"] = {"silu": "swish"}.get(ours["activation"], ours["activation"])
    if not theirs["share_encoder_decoder_embeddings"]:
        ours["target_vocabulary"] = theirs.get("decoder_vocab_size") or ours["vocabulary"]
    try:
        return check(fill(Config, {"model": ours})).model
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def read_weights(folder: Path) -> dict[str, Tensor]:
    if not (folder / "model.safetensors").is_file():
        raise BadInput(PICKLED if (folder / "pytorch_model.bin").is_file() else "missing")
    try:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
    except Exception as error:  # the library has errors of its own for each kind of damage
        raise BadInput(f"damaged, or not safetensors ({error})") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise BadInput(f"weight {name!r} is of type {tensor.dtype}")
    tensors = {name: tensor.float() for name, tensor in tensors.items()}
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise BadInput("holds numbers that are not finite")
    return tensors


def named_once(tensors: dict[str, Tensor], config: TranslationConfig) -> dict[str, Tensor]:
    """Each embedding table under its first name."""
    out = dict(tensors)
    for names in TWO if config.target_vocabulary else (ONE,):
        keys = [f"{name}.weight" for name in names]
        found = [out.pop(key) for key in keys if key in out]
        if any(not torch.equal(found[0], other) for other in found):
            raise BadInput(f"{' and '.join(keys)} differ: only models with one table there can be read")
        if found:
            out[keys[0]] = found[0]
    return out


def complete(tensors: dict[str, Tensor], config: TranslationConfig) -> dict[str, Tensor]:
    """With what a file may leave out; names the first weight that is missing or too much."""
    check_tables(tensors, config)
    bias, places = HUGGINGFACE.bias, [HUGGINGFACE.positions.format(side=s) for s in ("encoder", "decoder")]
    usual = {bias: torch.zeros(config.target_vocabulary or config.vocabulary)}
    usual |= {place: their_waves(config.length, config.dim) for place in places}
    out = usual | tensors
    out[bias] = out[bias].flatten()
    known = {name for row in rows(HUGGINGFACE, config) for name in row.theirs}
    for name in sorted(known ^ out.keys()):
        raise BadInput(f"{'lacks' if name in known else 'has an unknown'} weight {name!r}")
    return out


def check_tables(tensors: dict[str, Tensor], config: TranslationConfig) -> None:
    """Before anything is made as large as the config says."""
    V, D, own = config.vocabulary, config.dim, config.target_vocabulary
    names, bias = HUGGINGFACE, tensors.get(HUGGINGFACE.bias)
    for name in (*names.source, *names.target) if own else names.shared:
        size = (own if name in names.target else V, D)
        if name not in tensors:
            raise BadInput(f"lacks weight {name!r}")
        check_size(name, tuple(tensors[name].shape), size)
    if bias is not None:
        check_size(names.bias, (bias.numel(),), (own or V,))


def check_size(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise BadInput(f"weight {name!r} is {shape}, where config.json makes it {wanted}")


def their_waves(length: int, dim: int) -> Tensor:
    """Marian's positions: all sines, then all cosines, rounded once at the end."""
    rate = 10000.0 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / rate
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :dim].float()


def with_positions(
    config: TranslationConfig, tensors: dict[str, Tensor]
) -> tuple[TranslationConfig, dict[str, Tensor]]:
    """Our own waves are known again. Others are kept to the last bit, as a learned table."""
    order = halves(config.dim)
    waves = sinusoid(config.length, config.dim)[:, order]
    tables = {name for name in POSITIONS.values() if name in tensors}
    if not all(torch.equal(tensors[name], waves) for name in tables):
        return replace(config, position="learned"), tensors
    tensors = {name: tensor for name, tensor in tensors.items() if name not in tables}
    return replace(config, position="sinusoid"), reorder(tensors, order.argsort())


def own_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """As they were before an export put <start> and <end> into them."""
    if not (folder / "tokenizer.json").is_file():
        raise BadInput(f"{folder}: has neither source.spm nor tokenizer.json")
    source = Tokenizer.load(folder / "tokenizer.json")
    target_path = folder / TARGET_TOKENIZER / "tokenizer.json"
    target = Tokenizer.load(target_path) if target_path.is_file() else source
    for tokenizer in (source, target):
        if tokenizer.encode("") == [START, END]:
            tokenizer.inner.post_processor = None
    return source, target
