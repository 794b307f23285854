"""Losses as a picture: an SVG in the run, made of its log."""

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from heedful import card
from heedful.cli import main
from heedful.errors import BadInput
from heedful.look.curve import Line, curve, field_of, ticks
from heedful.run import Run

OLD = Path(__file__).parents[1] / "old_runs" / "v1" / "run"

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def old_run(tmp_path):
    return Run(shutil.copytree(OLD, tmp_path / "run"))


def test_a_curve_is_a_picture_with_every_line_named():
    lines = [Line("a & b", [(1, 5.0), (50, 2.0)]), Line("dev", [(50, 2.5)])]
    root = ElementTree.fromstring(curve("<title>", lines))
    assert root.find(f"{SVG}title").text == "<title>"
    assert len(root.findall(f".//{SVG}polyline")) == 2
    assert {"a & b", "dev", "steps"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_higher_is_higher_and_later_is_further_right():
    at = field_of([Line("a", [(1, 5.0), (50, 2.0)])])
    assert at.y(5.0) < at.y(2.0) and at.x(1) < at.x(50)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (1.9, 5.1, [2, 3, 4, 5]), (0, 1000, [0, 200, 400, 600, 800, 1000])],
)
def test_ticks_are_round(low, high, wanted):
    assert list(ticks(low, high)) == wanted


def test_one_point_is_enough():
    assert "<polyline" in curve("short", [Line("loss", [(1, 3.0)])])


def run_with(folder, *events):
    run = Run(folder)
    run.log_file.write_text("")
    for event in events:
        run.log(event)
    return run


def test_a_run_without_losses_is_bad_input(tmp_path):
    run = run_with(tmp_path, {"step": 1, "loss": None})
    with pytest.raises(BadInput, match=r"log\.jsonl: no loss is logged that could be drawn"):
        card.plot(run)


def test_info_plots(old_run, capsys):
    assert main(["info", str(old_run.folder), "--plot"]) == 0
    told = capsys.readouterr()
    assert told.err == f"wrote {old_run.folder}/curve.svg\n" and "parameters" in told.out
    root = ElementTree.parse(old_run.folder / "curve.svg").getroot()
    assert len(root.findall(f".//{SVG}polyline")) == 2
