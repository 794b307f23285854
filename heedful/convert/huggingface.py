"""A run as a Hugging Face folder: MarianMTModel, or PegasusForConditionalGeneration if the norm comes first.

Marian is post-norm only. Of the pre-norm models there, Pegasus is the one with all that ours has: scaled
embeddings, a position table of its own, a last norm, a bias for each token, and nothing more.
"""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from heedful import disk
from heedful.convert.names import HUGGINGFACE, reorder, rows, to_theirs
from heedful.convert.whole import Whole
from heedful.data.batch import CONTROL, END, PAD, START, UNK
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.generate.rules import NEVER
from heedful.models.translation import TranslationConfig
from heedful.nn import Sinusoid

FAMILIES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
TARGET_TOKENIZER = "target_tokenizer"  # the folder of the target's own, if it has one

# Our settings under their names there.
SETTINGS = {
    "dim": ("d_model",),
    "heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "layers": ("encoder_layers",),
    "decoder_layers": ("decoder_layers",),
    "ff": ("encoder_ffn_dim", "decoder_ffn_dim"),
    "dropout": ("dropout",),
    "attention_dropout": ("attention_dropout",),
    "activation": ("activation_function",),
    "length": ("max_position_embeddings",),
    "vocabulary": ("vocab_size",),
}
IDS = {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}


def halves(dim: int) -> Tensor:
    """The order of Marian's waves: all sines, then all cosines. Ours take turns."""
    return torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])


def write(whole: Whole, folder: Path) -> None:
    c = whole.config
    if c.norm == "pre" and c.target_vocabulary:
        raise BadInput(
            "no Hugging Face model has the norm first and two vocabularies: "
            "export it to ctranslate2, or train with model.norm post or one vocabulary"
        )
    tensors = whole.tensors()
    if isinstance(whole.model.source_embed.position, Sinusoid):
        # So that it also works with the waves that Marian makes anew when it is saved from there.
        tensors = reorder(tensors, halves(c.dim))
    out = to_theirs(tensors, rows(HUGGINGFACE, c))
    out[HUGGINGFACE.bias] = out[HUGGINGFACE.bias][None]
    folder.mkdir(parents=True)
    disk.save_safetensors(folder / "model.safetensors", out, {"format": "pt"})
    write_json(folder / "config.json", settings(c))
    write_json(folder / "generation_config.json", generation(c))
    source, target = whole.tokenizers
    write_tokenizer(folder, source, c)
    if target is not source:
        (folder / TARGET_TOKENIZER).mkdir()
        write_tokenizer(folder / TARGET_TOKENIZER, target, c)


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def settings(c: TranslationConfig) -> dict[str, Any]:
    family, architecture = FAMILIES[c.norm]
    ours = vars(c) | {"decoder_layers": c.decoder_layers or c.layers}
    out = {"model_type": family, "architectures": [architecture], "is_encoder_decoder": True}
    out |= {theirs: ours[name] for name, names in SETTINGS.items() for theirs in names}
    out |= IDS | {"forced_eos_token_id": None, "scale_embedding": True, "tie_word_embeddings": True}
    if family == "marian":
        out["decoder_vocab_size"] = c.target_vocabulary or c.vocabulary
        out["share_encoder_decoder_embeddings"] = not c.target_vocabulary
    return out


def generation(c: TranslationConfig) -> dict[str, Any]:
    """What `generate` does if nothing is asked for: the same as `heedful translate`."""
    search = {"num_beams": 5, "length_penalty": 1.0, "max_length": c.length, "suppress_tokens": sorted(NEVER)}
    return IDS | search


def write_tokenizer(folder: Path, tokenizer: Tokenizer, c: TranslationConfig) -> None:
    (folder / "tokenizer.json").write_text(framed(tokenizer).to_str(), encoding="utf-8")
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": c.length,
        "pad_token": CONTROL[PAD],
        "unk_token": CONTROL[UNK],
        "bos_token": CONTROL[START],
        "eos_token": CONTROL[END],
        "split_special_tokens": True,  # text that reads like a control token is text
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", about)


def framed(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """A copy that puts <start> and <end> around a text by itself."""
    copy = tokenizers.Tokenizer.from_str(tokenizer.inner.to_str())
    if copy.post_processor is None:
        copy.post_processor = frame(CONTROL[START], "$A", CONTROL[END])
    return copy


def frame(*parts: str) -> TemplateProcessing:
    special = [(part, CONTROL.index(part)) for part in parts if part in CONTROL]
    return TemplateProcessing(single=" ".join(parts), special_tokens=special)
