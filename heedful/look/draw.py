"""Draw: views into a file, in the format that its suffix names."""

from collections.abc import Sequence
from pathlib import Path

from heedful import disk
from heedful.errors import BadInput, nearest
from heedful.look.capture import View
from heedful.look.heat import heat_map, pick
from heedful.look.page import page
from heedful.look.png import png
from heedful.look.svg import svg

SUFFIXES = (".png", ".svg", ".html")


def draw(
    views: Sequence[View],
    out: Path,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> None:
    """A .png or .svg shows one heat map; .html holds all views and opens at that one.

    Left open: cross-attention if there is any, the last layer, the mean of its heads.
    """
    suffix = check_suffix(out)
    view = pick(views, kind, layer)
    heat = heat_map(view, head)
    if suffix == ".html":
        content = page(views, view, head).encode()
    elif suffix == ".svg":
        content = svg(heat).encode()
    else:
        content = png(heat)
    disk.write(out, lambda aside: aside.write_bytes(content))


def check_suffix(out: Path) -> str:
    """The suffix. Ask this before long work, so that a slip in the name does not waste it."""
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise BadInput(f"{out}: a picture ends in {', '.join(SUFFIXES)}{nearest(suffix, SUFFIXES)}")
    return suffix
