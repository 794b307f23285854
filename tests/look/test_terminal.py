"""The terminal: plain numbers are pinned letter by letter; colour and width by what must hold."""

import io

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from heedful.look import HeatMap, show

TINY = HeatMap(
    "Cross-attention, layer 1, head 0",
    torch.tensor([[0.75, 0.25, 0.0], [0.0, 0.004, 0.996], [1.0, 0.0, 0.0]]),
    (" le", " chat", "<end>"),
    (" the", " cat", "<end>"),
)
GOLDEN = """\
Cross-attention, layer 1, head 0
numbers are hundredths; rows look at columns

                <
                e
        t   c   n
        h   a   d
        e   t   >
   le  75  25   .
 chat   .   . 100
<end> 100   .   .
"""


def printed(heat, width=80, colour=None, digits=False):
    out = io.StringIO()
    colours = {"color_system": colour, "force_terminal": colour is not None, "no_color": colour is None}
    show(heat, Console(file=out, width=width, **colours), digits)
    return out.getvalue()


def wide_map(T, S, letter="k"):
    queries, keys = tuple(f"query{t}" for t in range(T)), tuple(f"{letter}{s}" for s in range(S))
    return HeatMap("Wide", torch.full((T, S), 1 / S), queries, keys)


def test_plain_numbers():
    assert "\n".join(line.rstrip() for line in printed(TINY).splitlines()) + "\n" == GOLDEN


def test_no_color_gives_plain_numbers(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    show(TINY, Console(file=out, width=80, force_terminal=True, color_system="truecolor"))
    assert "\x1b[3" not in out.getvalue() and "\x1b[4" not in out.getvalue()
    assert " chat   .   . 100" in out.getvalue()


def test_colour_paints_cells():
    text = printed(TINY, colour="truecolor")
    assert text.count("48;2;") == 3 * 3 + 16
    assert "48;2;254;236;176" in text
    assert "75" not in text and "75" in printed(TINY, colour="truecolor", digits=True)


@pytest.mark.parametrize("width", [20, 33, 80])
@pytest.mark.parametrize("letter", ["k", "猫"])
@pytest.mark.parametrize("digits", [True, False])
def test_nothing_is_wider_than_the_console(width, letter, digits):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        show(wide_map(3, 50, letter), console, digits)
    lines = capture.get().splitlines()
    assert max(cell_len(Text.from_ansi(line).plain) for line in lines) <= width


def test_columns_that_do_not_fit_go_on_below():
    text = printed(wide_map(2, 50), width=40)
    blocks = text.split("\n\n")[1:]
    assert len(blocks) > 1
    assert sum(block.splitlines()[-1].count(" 2") for block in blocks) == 50


def test_columns_are_squeezed_before_they_are_folded():
    assert printed(wide_map(2, 50), width=120, colour="truecolor").count("query0") == 1
    assert printed(wide_map(2, 50), width=60, colour="truecolor").count("query0") == 1
    assert printed(wide_map(2, 50), width=56, colour="truecolor").count("query0") > 1


def test_hostile_tokens_stay_text():
    heat = HeatMap("t", torch.ones(2, 1) / 2, ("\x1b[31mred", "[bold]\n"), ("\x07",))
    text = printed(heat)
    assert "\x1b" not in text and "\x07" not in text
    assert "[bold]↵" in text
