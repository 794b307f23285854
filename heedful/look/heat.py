"""Heat map: what every picture is drawn from. One matrix of weights with a name on every side."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from heedful.errors import BadInput
from heedful.look.capture import KINDS, View

NAMES = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
Colour = tuple[int, int, int]

# From no weight to the largest one; each ramp starts just off the paper that it is drawn on.
LIGHT = ((247, 243, 235), (250, 214, 160), (238, 140, 88), (188, 62, 84), (74, 24, 72))
DARK = ((31, 29, 40), (80, 36, 94), (184, 58, 92), (241, 142, 78), (254, 236, 176))


@dataclass(frozen=True)
class HeatMap:
    title: str
    weight_TS: Tensor
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def rows(self) -> list[str]:
        return [legible(token) for token in self.queries]

    @property
    def columns(self) -> list[str]:
        return [legible(token) for token in self.keys]

    @property
    def top(self) -> float:
        """The largest weight: where the colours end. Never 0, so that one may divide by it."""
        return max(self.weight_TS.max().item(), 1e-9)


def heat_map(view: View, head: int | None = None) -> HeatMap:
    """One head of a view, or the mean of its heads."""
    H = len(view.weight_HTS)
    if head is not None and not 0 <= head < H:
        raise BadInput(f"no head {head}: this layer has heads 0 to {H - 1}")
    which = f"mean of {H} heads" if head is None and H > 1 else f"head {head or 0}"
    weight_TS = view.weight_HTS.mean(0) if head is None else view.weight_HTS[head]
    title = f"{NAMES[view.kind]}, layer {view.layer}, {which}"
    return HeatMap(title, weight_TS, view.queries, view.keys)


def pick(views: Sequence[View], kind: str | None = None, layer: int | None = None) -> View:
    """One view. Left open, the kind is cross if there is any, and the layer is the last."""
    kinds = [k for k in KINDS if any(view.kind == k for view in views)]
    if not kinds:
        raise ValueError("there are no views to pick from")
    if kind is not None and kind not in kinds:
        raise BadInput(f"no {kind!r} attention here: the model has {', '.join(kinds)}")
    layers = {view.layer: view for view in views if view.kind == (kind or kinds[-1])}
    if layer is not None and layer not in layers:
        raise BadInput(f"no layer {layer}: there are {', '.join(map(str, sorted(layers)))}")
    return layers[max(layers) if layer is None else layer]


def legible(token: str) -> str:
    """A token as one visible line. The space that starts a word goes; other spaces show."""
    shown = unicodedata.normalize("NFC", token)
    shown = shown.strip(" ") or shown
    return "".join(map(visible, shown)) or "∅"


def visible(c: str) -> str:
    if c == "\n":
        return "↵"
    if c.isspace():
        return "␣"
    # Joiners and marks of direction have no shape of their own, and can turn a label around.
    if unicodedata.category(c) == "Cf":
        return ""
    return c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"


def shorten(label: str, most: int) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def colour(share: float, ramp: Sequence[Colour]) -> Colour:
    """The colour at `share` of the way along a ramp, 0 to 1."""
    at = min(max(share, 0.0), 1.0) * (len(ramp) - 1)
    i = min(int(at), len(ramp) - 2)
    low, high = ramp[i], ramp[i + 1]
    r, g, b = (round(x + (y - x) * (at - i)) for x, y in zip(low, high, strict=True))
    return r, g, b


def hexadecimal(rgb: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)
