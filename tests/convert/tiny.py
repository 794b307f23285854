"""Runs with random weights, to be sent abroad and fetched back."""

from pathlib import Path

import torch

from heedful.config import Config
from heedful.convert.whole import Whole
from heedful.data.tokenizer import learn
from heedful.generate.rules import NEVER
from heedful.models.translation import TranslationConfig
from heedful.run import Run, build, weights_of, with_vocabularies

TEXTS = [
    "The cat sat on the mat.",
    "A dog saw the cat, and the cat saw the dog!",
    "Where is the old house?",
    "I ate three red apples yesterday evening.",
    "She reads.",
    "They walk to the sea, and then they walk back again.",
]


def tiny_run(folder: Path, two: bool = False, **settings) -> Run:
    """A model whose weights are all random, biases and norms too, and say more than their first values do."""
    torch.manual_seed(1)
    source = learn(TEXTS, "bpe", 290)
    target = learn([text.upper() for text in TEXTS], "bpe", 275) if two else source
    shape = {"dim": 32, "heads": 4, "layers": 2, "decoder_layers": 3, "ff": 48, "length": 64}
    config = Config(title="tiny", model=TranslationConfig(**shape | settings))
    config = with_vocabularies(config, (source, target))
    model = build(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) * (0.1 if weight.ndim == 1 else weight.std())
        # As training leaves them: control tokens are next to impossible, an end is not.
        model.head.bias[list(NEVER)] = -30.0
        model.head.bias[3] += 2.0
    run = Run(folder)
    run.create(config, (source, target))
    run.save_weights(config, weights_of(model), {"step": 0})
    return run


def tiny(folder: Path, two: bool = False, **settings) -> Whole:
    return Whole.of(tiny_run(folder, two, **settings))
