"""Whole: a translation model with its tokenizers, as exports take it and imports make it."""

from dataclasses import dataclass

from tokenizers import models, pre_tokenizers
from torch import Tensor

from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.models.translation import Translation, TranslationConfig
from heedful.run import Run, load_model

NEVER_BIAS = -1e4  # for a token that is never written: its probability is 0, and float16 can hold it


@dataclass(frozen=True)
class Whole:
    config: TranslationConfig
    model: Translation
    tokenizers: tuple[Tokenizer, Tokenizer]

    @classmethod
    def of(cls, run: Run) -> "Whole":
        config = run.config()
        model = load_model(run, config)
        if not isinstance(model, Translation):
            raise BadInput(
                f"{run.folder}: is a {config.model.kind} model; only translation models are exported"
            )
        return cls(config.model, model, run.tokenizers(config))

    def tensors(self) -> dict[str, Tensor]:
        """Each once, with the positions, learned or not."""
        parameters, buffers = self.model.named_parameters(), self.model.named_buffers()
        return {name: tensor.detach() for name, tensor in (*parameters, *buffers)}

    @property
    def kind(self) -> str:
        """Of the source's tokenizer, as the config names it."""
        inner = self.tokenizers[0].inner
        if isinstance(inner.model, models.WordLevel):
            return "characters" if isinstance(inner.pre_tokenizer, pre_tokenizers.Split) else "words"
        return "bpe" if isinstance(inner.model, models.BPE) else "unigram"
