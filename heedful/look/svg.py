"""A heat map as an SVG: text, so written by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len

from heedful.look.heat import LIGHT, HeatMap, colour, hexadecimal, shorten

LONGEST = 20  # letters of a label
LETTER = 0.61  # of the font size: how far one letter of a fixed-width font goes
SLOPE = 0.71  # sin 45°: the names of the columns stand slanted
MARGIN, TITLE, LEGEND = 22, 34, 44
PAPER, INK, PALE = "#fdfbf7", "#2b2530", "#857a86"
FIXED = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PROSE = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Layout:
    """Where things stand, in pixels; left and top are the corner of the first cell."""

    cell: float
    font: float
    left: float
    top: float
    width: float
    height: float


def layout(heat: HeatMap) -> Layout:
    T, S = heat.weight_TS.shape
    cell = min(max(1000 / max(T, S), 11), 30)
    font = min(cell * 0.68, 14)
    side, above = (max(map(text_width, labels)) * font for labels in (heat.rows, heat.columns))
    left, top = MARGIN + side + 8, MARGIN + TITLE + above * SLOPE + 8
    # Slanted names lean out over the right edge of the cells.
    ends = ((s + 0.7) * cell + text_width(c) * font * SLOPE for s, c in enumerate(heat.columns))
    right = max(left + S * cell, left + max(ends), MARGIN + cell_len(heat.title) * LETTER * 16, left + 180)
    return Layout(cell, font, left, top, right + MARGIN, top + T * cell + LEGEND + MARGIN)


def text_width(label: str) -> float:
    return min(cell_len(label), LONGEST) * LETTER


def svg(heat: HeatMap) -> str:
    at = layout(heat)
    size = f'width="{at.width:.0f}" height="{at.height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {at.width:.0f} {at.height:.0f}"'
        f' role="img" font-size="{at.font:.1f}" fill="{INK}">',
        f"<title>{escape(heat.title)}</title>",
        f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 14}" font-family="{PROSE}" font-size="16" font-weight="600">'
        f"{escape(heat.title)}</text>",
        f'<g font-family="{FIXED}">',
        *labels(heat, at),
        "</g>",
        f'<g stroke="{PAPER}">',
        *cells(heat, at),
        "</g>",
        *legend(heat, at),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def labels(heat: HeatMap, at: Layout) -> Iterator[str]:
    for t, row in enumerate(heat.rows):
        y = at.top + (t + 0.5) * at.cell + at.font * 0.35
        text = escape(shorten(row, LONGEST))
        yield f'<text x="{at.left - 8:.1f}" y="{y:.1f}" text-anchor="end">{text}</text>'
    for s, column in enumerate(heat.columns):
        x, y = at.left + (s + 0.5) * at.cell + at.font * 0.25, at.top - 8
        text = escape(shorten(column, LONGEST))
        yield f'<text transform="translate({x:.1f} {y:.1f}) rotate(-45)">{text}</text>'


def cells(heat: HeatMap, at: Layout) -> Iterator[str]:
    for t, row in enumerate(heat.rows):
        for s, column in enumerate(heat.columns):
            weight = heat.weight_TS[t, s].item()
            place = f'x="{at.left + s * at.cell:.1f}" y="{at.top + t * at.cell:.1f}"'
            fill = hexadecimal(colour(weight / heat.top, LIGHT))
            name = escape(f"{row} → {column}: {weight:.3f}")
            yield (
                f'<rect {place} width="{at.cell:.1f}" height="{at.cell:.1f}" rx="3" fill="{fill}">'
                f"<title>{name}</title></rect>"
            )


def legend(heat: HeatMap, at: Layout) -> Iterator[str]:
    y = at.height - MARGIN - 12
    stops = (
        f'<stop offset="{i / (len(LIGHT) - 1)}" stop-color="{hexadecimal(c)}"/>' for i, c in enumerate(LIGHT)
    )
    yield f'<linearGradient id="ramp">{"".join(stops)}</linearGradient>'
    yield (
        f'<rect x="{at.left + 14:.1f}" y="{y:.1f}" width="120" height="10" rx="3" fill="url(#ramp)"'
        f' stroke="{PALE}" stroke-opacity="0.4"/>'
    )
    yield f'<g font-family="{PROSE}" font-size="12" fill="{PALE}">'
    yield f'<text x="{at.left:.1f}" y="{y + 9:.1f}">0</text>'
    yield f'<text x="{at.left + 140:.1f}" y="{y + 9:.1f}">{heat.top:.2f}</text>'
    yield "</g>"
