"""The machine, operations and energy of a training: counted once, and without touching it."""

import sys
import types

import pytest
import torch

from heedful import card, disk
from heedful.train import meter, start
from heedful.train.report import Reporter
from tests.train.tiny import trained, trainer


@pytest.fixture
def short_peak(monkeypatch):
    monkeypatch.setattr(meter, "peak", lambda *_: 1e9)


def machines(run):
    return [event for event in run.events() if "machine" in event]


def test_products_are_counted():
    left, out = torch.ones(8, 16), torch.zeros(8, 8)
    assert meter.operations(lambda: left @ left.T) == 2 * 8 * 16 * 8
    assert meter.operations(lambda: out.addmm_(left, left.T)) == 2 * 8 * 16 * 8
    stack = torch.ones(3, 8, 16)
    many = torch.zeros(3, 8, 8)
    assert meter.operations(lambda: many.baddbmm_(stack, stack.mT)) == 3 * 2 * 8 * 16 * 8


def test_operations_of_a_training_are_those_of_its_products(data, tmp_path):
    """By hand: each weight of a product takes two operations a token, and twice that on the way back;
    attention's own products come on top."""
    made = trainer(data, tmp_path / "run", "--model.dim", "64", "--model.ff", "256", "--model.layers", "2")
    rows = made.stream.batches_in(0)[0]
    counted = meter.flops_per_token(made.config, made.task, made.train, rows)
    batch = made.train.batch(rows[: meter.ROWS])
    S, T = (ids.numel() for ids in (batch.source_BS, batch.labels_BT))
    d, f, layers, vocabulary = 64, 256, 2, made.config.model.vocabulary
    encoder = S * (4 * d * d + 2 * d * f)
    decoder = T * (6 * d * d + 2 * d * f) + S * 2 * d * d
    linear = 6 * (layers * (encoder + decoder) + T * d * vocabulary)
    expected = linear / (S + batch.target_BT.numel())
    assert expected < counted < 1.15 * expected


def test_counting_disturbs_nothing(data, tmp_path, short_peak):
    made = trainer(data, tmp_path / "run")
    before, random = disk.digest(made.weights.own, ""), torch.get_rng_state()
    with Reporter(made):
        pass
    assert torch.equal(torch.get_rng_state(), random) and disk.digest(made.weights.own, "") == before
    assert all(weight.grad is None for weight in made.weights.own.values())


def test_a_machine_is_told_once_however_often_a_training_goes_on(data, tmp_path, short_peak):
    made = trained(data, tmp_path / "run", "--train.steps", "6")
    (first,) = machines(made.run)
    assert first["step"] == 0 and first["flops_per_token"] > 0 and first["machine"]["peak"] == 1e9
    assert {"name", "threads", "torch", "precision", "device"} <= first["machine"].keys()
    text = made.run.config_file.read_text()
    made.run.config_file.write_text(text.replace("steps = 6", "steps = 8"))
    assert start.resume(made.run.folder) == 0
    assert machines(made.run) == [first]
    told = card.facts(made.run)
    assert told["operations"]["flops"] == first["flops_per_token"] * told["trained"]["tokens"]


def test_another_machine_is_told_too(data, tmp_path, short_peak, monkeypatch):
    made = trained(data, tmp_path / "run", "--train.steps", "6")
    made.run.config_file.write_text(made.run.config_file.read_text().replace("steps = 6", "steps = 8"))
    monkeypatch.setattr(meter, "processor", lambda: "Another")
    assert start.resume(made.run.folder) == 0
    _, second = machines(made.run)
    assert second["machine"]["name"] == "Another" and second["step"] == 6 and second["seconds"] > 0
    assert "machine: Another, 1 threads" in card.text(made.run)


def test_assumptions_can_be_set(data, tmp_path, short_peak):
    made = trained(
        data, tmp_path / "run", "--train.steps", "2", "--train.watts", "15", "--train.grams_per_kwh", "50"
    )
    energy = card.facts(made.run)["energy"]
    if not energy["measured"]:
        assert energy["assumed_watts_per_core"] == 15
        assert "an estimate: 15 W per core" in card.text(made.run)
    assert "at 50 g per kWh" in card.text(made.run) and "a car's lifetime" in card.text(made.run)


def test_peak_is_a_rate_that_this_machine_can_have():
    assert 1e8 < meter.peak(torch.float32, size=128, seconds=0.01) < 1e15


# Energy


def zone(folder, name, kind, energy, full=1000):
    (folder / name).mkdir()
    for file, text in (("name", kind), ("energy_uj", energy), ("max_energy_range_uj", full)):
        (folder / name / file).write_text(f"{text}\n")
    return folder / name / "energy_uj"


def test_packages_and_memory_are_added_and_cores_are_not_counted_twice(tmp_path):
    first = zone(tmp_path, "intel-rapl:0", "package-0", 0, full=10**9)
    zone(tmp_path, "intel-rapl:0:0", "core", 0)
    memory = zone(tmp_path, "intel-rapl:0:1", "dram", 0, full=10**9)
    zone(tmp_path, "intel-rapl:1", "psys", 0)
    found = meter.Meter(meter.counters("cpu", 1, tmp_path), 100.0)
    first.write_text("5000000\n")
    memory.write_text("1000000\n")
    assert found.joules() == 106.0 and found.joules() == 106.0


def test_a_counter_that_starts_again_goes_on(tmp_path):
    file = zone(tmp_path, "intel-rapl:0", "package-0", 900)
    (counter,) = meter.counters("cpu", 1, tmp_path)
    for value in (100, 900, 100):
        file.write_text(str(value))
        counter.joules()
    assert counter.total == 200 + 800 + 200


def test_what_cannot_be_read_is_not_measured(tmp_path):
    assert meter.counters("cpu", 1, tmp_path / "none") == []
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    zone(tmp_path, "intel-rapl:1", "package-1", "secret")
    assert meter.counters("cpu", 1, tmp_path) == []
    assert meter.Meter([], 0.0).joules() is None


def test_joules_go_on_after_a_resume_and_a_gap_ends_them(data, tmp_path, short_peak, monkeypatch):
    def counters(*_):
        ticks = iter(range(0, 10**9, 10**6))
        return [meter.Counter(lambda: next(ticks))]

    monkeypatch.setattr(meter, "counters", counters)
    made = trained(data, tmp_path / "run", "--train.steps", "6")
    events = [event for event in made.run.events() if "joules" in event]
    assert [event["joules"] for event in events] == sorted(event["joules"] for event in events)
    made.run.config_file.write_text(made.run.config_file.read_text().replace("steps = 6", "steps = 8"))
    assert start.resume(made.run.folder) == 0
    last = list(made.run.events())[-1]
    assert last["joules"] > events[-1]["joules"] and card.facts(made.run)["energy"]["measured"]
    monkeypatch.setattr(meter, "counters", lambda *_: [])
    made.run.config_file.write_text(made.run.config_file.read_text().replace("steps = 8", "steps = 10"))
    assert start.resume(made.run.folder) == 0
    assert "joules" not in list(made.run.events())[-1]
    assert not card.facts(made.run)["energy"]["measured"]


def test_a_gpu_without_its_library_is_not_measured(tmp_path, monkeypatch):
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert meter.counters("cuda", 1, tmp_path) == []


def test_a_gpu_counts_millijoules(tmp_path, monkeypatch):
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    energy = iter([5000, 100, 9000, 1100])  # of two GPUs
    fake = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: next(energy),
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert meter.Meter(meter.counters("cuda", 2, tmp_path), 0.0).joules() == 5.0
