"""Weights in eight bits: how near they are, and that a compact run is read like any other."""

import shutil
from pathlib import Path

import torch

import heedful
from heedful.compact import compact, expand
from heedful.convert.int8 import to_int8
from heedful.run import Run

RUN = Path(__file__).parent / "old_runs" / "v1" / "run"


def test_rounding_is_within_half_a_step_of_each_row():
    tensors = {"matrix": torch.randn(64, 128), "bias": torch.randn(128), "small": torch.randn(4, 4)}
    small = compact(tensors)
    assert small["matrix.int8"].dtype == torch.int8
    back = expand(small)
    assert back.keys() == tensors.keys() and back["bias"].equal(tensors["bias"])
    step_N1 = tensors["matrix"].abs().amax(1, keepdim=True) / 127
    assert ((back["matrix"] - tensors["matrix"]).abs() <= step_N1 * 0.501).all()


def test_a_compact_run_translates(tmp_path):
    shutil.copytree(RUN, tmp_path / "run")
    small = to_int8(Run(tmp_path / "run"), tmp_path / "small")
    assert small.weights.stat().st_size < Run(RUN).weights.stat().st_size
    assert (small.folder / "card.md").is_file()
    heedful.load(small.folder).translate(["one two"])
