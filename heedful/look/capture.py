"""Capture: the attention weights of one forward pass, and the tokens that they belong to."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from heedful.errors import nearest
from heedful.nn import Attention

KINDS = ("encoder", "decoder", "cross")
PLACE = re.compile(r"(?:.*\.)?(encoder|decoder)\.blocks\.(\d+)\.(self|cross)_attention")


@dataclass(frozen=True)
class View:
    """One attention layer, as one example saw it: row = the token that looks, column = the one seen.

    Layers and heads count from 0, as in the names of the modules.
    """

    kind: str
    layer: int
    weight_HTS: Tensor
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        H, *sizes = self.weight_HTS.shape
        if not H or sizes != [len(self.queries), len(self.keys)] or 0 in sizes:
            shape, tokens = tuple(self.weight_HTS.shape), (len(self.queries), len(self.keys))
            raise ValueError(f"{self.kind} layer {self.layer}: weights {shape} for {tokens} tokens")
        if not self.weight_HTS.isfinite().all():
            raise ValueError(f"{self.kind} layer {self.layer}: some weights are not finite")


def place(name: str) -> tuple[str, int] | None:
    """(kind, layer) out of a module's name: decoder.blocks.2.cross_attention -> ("cross", 2)."""
    found = PLACE.fullmatch(name)
    if not found:
        return None
    stack, layer, looks = found.groups()
    return "cross" if looks == "cross" else stack, int(layer)


def attentions(model: nn.Module) -> dict[str, Attention]:
    """Every attention that can be watched, by its name in the model."""
    modules = model.named_modules()
    return {name: m for name, m in modules if isinstance(m, Attention) and place(name)}


@contextmanager
def watch(model: nn.Module, names: Iterable[str] | None = None) -> Iterator[dict[str, Tensor]]:
    """Gives a dict that one forward pass fills: name -> weight_BHTS, float32 on the CPU.

    Without names every attention is watched. The others stay on the fast kernel.
    """
    known = attentions(model)
    names = list(known if names is None else names)
    if not known:
        raise ValueError(f"{type(model).__name__} has no attention to watch")
    for name in names:
        if name not in known:
            raise ValueError(f"no attention is called {name!r}{nearest(name, known)}")
    weights: dict[str, Tensor] = {}
    with ExitStack() as hooks:
        for name in names:
            hooks.enter_context(known[name].weights.register_forward_hook(keep(weights, name)))
        yield weights


def keep(weights: dict[str, Tensor], name: str) -> Callable[[nn.Module, tuple, Tensor], None]:
    def hook(module: nn.Module, inputs: tuple, weight_BHTS: Tensor) -> None:
        # Two passes may differ in batch and length: which one to show is not ours to guess.
        if name in weights:
            raise RuntimeError(f"{name} ran twice while watched: open a new `watch` for each pass")
        weights[name] = weight_BHTS.detach().float().cpu()

    return hook


def views(
    weights: Mapping[str, Tensor],
    source: Sequence[str] = (),
    read: Sequence[str] = (),
    written: Sequence[str] | None = None,
    row: int = 0,
) -> list[View]:
    """The views of one example: its `row` in the batch, without the padding on its right.

    `source` are the tokens of the encoder, `read` those that went into the decoder. While it reads
    one token the decoder is about to write the next: given `written`, these name the rows of the
    cross-attention.
    """
    written = read if written is None else written
    tokens = {"encoder": (source, source), "decoder": (read, read), "cross": (written, source)}
    found = []
    for name, weight_BHTS in weights.items():
        kind, layer = place(name) or ("", 0)
        found.append(view(kind, layer, weight_BHTS[row], *tokens[kind]))
    return sorted(found, key=lambda v: (KINDS.index(v.kind), v.layer))


def view(kind: str, layer: int, weight_HTS: Tensor, queries: Sequence[str], keys: Sequence[str]) -> View:
    T, S = len(queries), len(keys)
    if weight_HTS[:, :T, S:].any():
        raise ValueError(f"{kind} layer {layer}: {S} tokens, but weight on {weight_HTS.shape[2]} keys")
    return View(kind, layer, weight_HTS[:, :T, :S], tuple(queries), tuple(keys))
