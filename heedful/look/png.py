"""A heat map as a PNG. Its letters need fonts, so this one asks for matplotlib."""

import io

from heedful.errors import BadInput
from heedful.look.heat import LIGHT, HeatMap, hexadecimal, shorten
from heedful.look.svg import INK, LONGEST, PALE, PAPER

DPI = 160
FONT = "DejaVu Sans Mono"  # comes with matplotlib


def png(heat: HeatMap) -> bytes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        needs = "a .png needs matplotlib: pip install heedful[plot] (.svg and .html need nothing)"
        raise BadInput(needs) from error
    check_letters(heat)
    T, S = heat.weight_TS.shape
    cell = min(max(10 / max(T, S), 0.12), 0.32)  # inches
    figure = Figure(figsize=(S * cell, T * cell), dpi=DPI, facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    paint(axes, heat, cell)
    out = io.BytesIO()
    # "tight" widens the paper to whatever the labels need.
    figure.savefig(out, format="png", bbox_inches="tight", pad_inches=0.25)
    return out.getvalue()


def check_letters(heat: HeatMap) -> None:
    """A browser finds a font for any script; matplotlib brings one, and draws boxes for the rest."""
    from matplotlib.font_manager import findfont, get_font

    known = get_font(findfont(FONT)).get_charmap()
    strange = sorted({c for label in (*heat.rows, *heat.columns) for c in label if ord(c) not in known})
    if strange:
        some = " ".join(strange[:5])
        raise BadInput(f"the font of .png pictures has no {some}: draw a .svg or .html instead")


def paint(axes, heat: HeatMap, cell: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("ramp", [hexadecimal(c) for c in LIGHT])
    edges = {"edgecolors": PAPER, "linewidth": 1.2}
    cells = axes.pcolormesh(heat.weight_TS.numpy(), cmap=ramp, vmin=0, vmax=heat.top, **edges)
    axes.invert_yaxis()
    axes.set_title(heat.title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=10)
    font = min(cell * 72 * 0.55, 10)
    look = {"fontsize": font, "family": FONT, "color": INK}
    T, S = heat.weight_TS.shape
    axes.set_yticks([t + 0.5 for t in range(T)], [shorten(r, LONGEST) for r in heat.rows], **look)
    slant = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks([s + 0.5 for s in range(S)], [shorten(c, LONGEST) for c in heat.columns], **look, **slant)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for text in (axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)  # a dollar is a token, not a formula
    axes.spines[:].set_visible(False)
    legend(axes, cells, heat)


def legend(axes, cells, heat: HeatMap) -> None:
    T, S = heat.weight_TS.shape
    where = axes.inset_axes((0, T + 0.7, min(S, 5), 0.35), transform=axes.transData)
    bar = axes.figure.colorbar(cells, cax=where, orientation="horizontal", ticks=[0, heat.top])
    bar.ax.set_xticklabels(["0", f"{heat.top:.2f}"])
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=PALE)
    bar.outline.set(edgecolor=PALE, alpha=0.4)
