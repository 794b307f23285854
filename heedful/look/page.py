"""All views in one HTML file that needs nothing else: no network, no library."""

import json
from collections.abc import Sequence
from importlib import resources

from heedful.look.capture import View
from heedful.look.heat import DARK, LIGHT, NAMES, Colour, hexadecimal, legible

FINE = 10_000  # weights are written as whole numbers of this part


def page(views: Sequence[View], start: View, head: int | None = None) -> str:
    """The page; it opens at `start`, at one head or at the mean of the heads."""
    data = {
        "views": [describe(view) for view in views],
        "start": {"kind": start.kind, "layer": start.layer, "head": head},
        "names": NAMES,
        "ramps": {"light": spell(LIGHT), "dark": spell(DARK)},
        "fine": FINE,
    }
    template = resources.files("heedful.look").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("{{data}}", embed(data))


def describe(view: View) -> dict:
    return {
        "kind": view.kind,
        "layer": view.layer,
        "queries": [legible(token) for token in view.queries],
        "keys": [legible(token) for token in view.keys],
        "heads": (view.weight_HTS * FINE).round().int().flatten(1).tolist(),
    }


def spell(ramp: Sequence[Colour]) -> list[str]:
    return [hexadecimal(colour) for colour in ramp]


def embed(data: dict) -> str:
    """JSON that may stand inside <script>: without < no tag can begin or end there."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
