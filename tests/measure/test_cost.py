"""What a training took, told so that nobody mistakes an estimate for a measurement."""

import pytest

from heedful import card
from heedful.config import Config
from heedful.measure import cost

XEON = {"name": "Xeon", "threads": 2, "processes": 1, "torch": "2", "precision": "bfloat16", "peak": 1e12}
OTHER = XEON | {"name": "Other", "threads": 4, "peak": 3e12}
BEGUN = {"step": 0, "seconds": 0.0, "machine": XEON, "flops_per_token": 1e6}


def line(step, seconds, **more):
    return {"step": step, "epoch": 1, "loss": 2.0, "tokens": step * 100, "seconds": seconds} | more


def known(*events):
    return card.trained(Config(), list(events))


def test_energy_is_estimated_from_cores_and_says_so():
    spans = [cost.Span({"threads": 2, "device": "cpu", "processes": 1}, 3600)]
    energy = cost.estimate(spans, watts=8, gpu_watts=300, grams_per_kwh=500)
    assert energy.kwh == pytest.approx(0.016) and energy.grams == pytest.approx(8)
    assert energy.text() == "0.016 kWh (an estimate: 8 W per core), 8 g CO2e at 500 g per kWh"
    assert energy.facts()["assumed_watts_per_core"] == 8 and not energy.facts()["measured"]


def test_a_gpu_is_part_of_an_estimate():
    spans = [cost.Span({"threads": 2, "device": "cuda", "processes": 3}, 3600)]
    energy = cost.estimate(spans, watts=10, gpu_watts=300, grams_per_kwh=500)
    assert energy.kwh == pytest.approx(0.96) and "10 W per core and 300 W per GPU" in energy.text()
    assert energy.facts()["assumed_watts_per_gpu"] == 300


def test_energy_that_was_measured_says_so():
    energy = cost.measured(joules=3.6e6, grams_per_kwh=100)
    assert energy.text() == "1 kWh (measured), 100 g CO2e at 100 g per kWh"
    assert energy.facts() == {"kwh": 1, "grams_co2e": 100, "measured": True}


def test_carbon_in_the_lectures_terms():
    assert cost.in_familiar_terms(90.0) == (
        "1/10,000 of a passenger's flight New York - San Francisco and back; "
        "1/635,033 of a car's lifetime, fuel included"
    )
    assert cost.in_familiar_terms(1.8e6).startswith("2.0 times a passenger's flight")
    assert cost.in_familiar_terms(0.0).startswith("nothing of a passenger's flight")


def test_share_of_peak_and_energy_of_one_machine():
    told = known(BEGUN, line(10, 100.0))
    assert told["operations"] == {"flops": 1e9, "share_of_peak": pytest.approx(1e-5)}
    assert told["energy"]["kwh"] == pytest.approx(100 * 2 * 8 / 3.6e6)


def test_a_training_that_moved_counts_each_machine_for_its_time():
    moved = {"step": 10, "seconds": 100.0, "machine": OTHER, "flops_per_token": 1e6}
    told = known(BEGUN, line(10, 100.0), moved, line(20, 150.0))
    assert [machine["name"] for machine in told["machines"]] == ["Xeon", "Other"]
    assert told["operations"]["flops"] == 2e9  # all tokens, once
    assert told["operations"]["share_of_peak"] == pytest.approx(2e9 / (100 * 1e12 + 50 * 3e12))
    assert told["energy"]["kwh"] == pytest.approx((100 * 2 + 50 * 4) * 8 / 3.6e6)


def test_measured_joules_win_and_their_absence_is_an_estimate():
    assert known(BEGUN, line(10, 100.0, joules=3.6e6))["energy"]["measured"]
    later = {"step": 20, "dev_loss": 1.0, "seconds": 200.0}
    told = known(BEGUN, line(10, 100.0, joules=3.6e6), later)
    assert not told["energy"]["measured"] and told["trained"]["seconds"] == 200.0


def test_a_log_from_before_machines_were_told():
    told = known(line(10, 100.0))
    assert "operations" not in told and told["energy"]["kwh"] == pytest.approx(100 * 8 / 3.6e6)


def test_nothing_logged_is_nothing_known():
    assert known() == {}
