"""A run as a CTranslate2 folder: an engine in C++, for where there is no torch."""

from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from heedful.convert.names import BIAS, CTRANSLATE2, rows, to_theirs
from heedful.convert.whole import NEVER_BIAS, Whole
from heedful.data.batch import CONTROL, END, START, UNK
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.generate.rules import NEVER
from heedful.run import TOKENIZERS

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}


def engine() -> Any:
    try:
        return import_module("ctranslate2.specs")
    except ImportError as error:
        raise BadInput("export to ctranslate2 needs its library: pip install ctranslate2") from error


def write(whole: Whole, folder: Path, quantization: str = "float32") -> None:
    specs = engine()
    spec = empty_spec(specs, whole)
    for name, tensor in to_theirs(silenced(whole.tensors()), rows(CTRANSLATE2, whole.config)).items():
        place, _, leaf = name.rpartition("/")
        setattr(specs.model_spec.index_spec(spec, place), leaf, tensor)
    spec.validate()
    spec.optimize(quantization)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    for name, tokenizer in zip(TOKENIZERS, dict.fromkeys(whole.tokenizers), strict=False):
        tokenizer.save(folder / name)


def empty_spec(specs: Any, whole: Whole) -> Any:
    c, (source, target) = whole.config, whole.tokenizers
    layers = (c.layers, c.decoder_layers or c.layers)
    activation = specs.common_spec.Activation[ACTIVATIONS[c.activation]]
    spec = specs.TransformerSpec.from_config(layers, c.heads, pre_norm=c.norm == "pre", activation=activation)
    spec.register_source_vocabulary(vocabulary(source))
    spec.register_target_vocabulary(vocabulary(target))
    spec.config.unk_token, spec.config.eos_token = CONTROL[UNK], CONTROL[END]
    spec.config.bos_token = spec.config.decoder_start_token = CONTROL[START]
    spec.config.add_source_bos = source.encode("")[0] == START
    spec.config.add_source_eos = True
    return spec


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.inner.id_to_token(i) or "" for i in range(len(tokenizer))]


def silenced(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The engine has no list of tokens that it must not write: their bias says so."""
    bias = tensors[BIAS].clone()
    bias[list(NEVER)] = NEVER_BIAS
    return tensors | {BIAS: bias}
