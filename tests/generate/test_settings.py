"""Settings that make no sense, and models that cannot generate: one line that names what is wrong."""

import dataclasses

import pytest
import torch

from heedful.generate import Search, generate, score, stream
from tests.generate.models import sources, translation

BAD = [
    ({"beam": 0}, "beam 0: should be 1 or more"),
    ({"beam": 2.5}, "beam 2.5: should be a whole number"),
    ({"beam": True}, "beam True: should be a whole number"),
    ({"nbest": 0}, "nbest 0: should be 1 or more"),
    ({"nbest": 6, "beam": 5}, "nbest 6: is above beam 5"),
    ({"max_length": 0}, "max_length 0: should be 1 or more"),
    ({"max_ratio": -1.0}, "max_ratio -1.0: should be 0 or more"),
    ({"min_length": -1}, "min_length -1: should be 0 or more"),
    ({"min_length": 9, "max_length": 8}, "min_length 9: is above max_length 8"),
    ({"temperature": -0.5}, "temperature -0.5: should be 0 or more"),
    ({"temperature": float("nan")}, "temperature nan: should be 0 or more"),
    ({"temperature": float("inf")}, "temperature inf: should be 0 or more"),
    ({"temperature": 1.0, "beam": 4}, "temperature 1.0: sampling needs beam 1, not 4"),
    ({"temperature": 1.0, "top_k": -1}, "top_k -1: should be 0 or more"),
    ({"temperature": 1.0, "top_p": 0.0}, "top_p 0.0: should be above 0; 1 keeps every token"),
    ({"temperature": 1.0, "top_p": 1.5}, "top_p 1.5: should be between 0 and 1"),
    ({"temperature": 1.0, "min_p": 2.0}, "min_p 2.0: should be between 0 and 1"),
    ({"top_k": 5}, "top_k 5: has no effect without a temperature"),
    ({"top_p": 0.9}, "top_p 0.9: has no effect without a temperature"),
    ({"min_p": 0.1}, "min_p 0.1: has no effect without a temperature"),
    ({"seed": -1}, "seed -1: should be 0 or more"),
    ({"no_repeat": -2}, "no_repeat -2: should be 0 or more"),
    ({"repetition_penalty": 0.0}, "repetition_penalty 0.0: should be between 0.01 and 100"),
    ({"repetition_penalty": 1e300}, "repetition_penalty 1e+300: should be between 0.01 and 100"),
    ({"length_penalty": float("nan")}, "length_penalty nan: should be between -10 and 10"),
    ({"length_penalty": 1e308}, "length_penalty 1e+308: should be between -10 and 10"),
]


@pytest.mark.parametrize("settings, message", BAD, ids=[message for _, message in BAD])
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError) as error:
        Search(**settings)
    assert str(error.value) == message


def test_settings_are_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Search().beam = 5
    assert Search(beam=5) == Search(beam=5) and hash(Search()) == hash(Search())
    with pytest.raises(ValueError, match="beam 0"):
        dataclasses.replace(Search(), beam=0)


@pytest.mark.parametrize(
    "more, message",
    [
        ({"prefixes": [[8]]}, "prefixes: 1 for 7 sources"),
        ({"seeds": [1, 2]}, "seeds: 2 for 7 sources"),
        ({"prefixes": [[8]] * 6 + [[2, 8]]}, "prefix 6: has <start>"),
        ({"prefixes": [[8, 3]] + [[]] * 6}, "prefix 0: has <end>"),
        ({"prefixes": [[]] * 6 + [[0]]}, "prefix 6: has <pad>"),
        ({"prefixes": [[8] * 20] + [[]] * 6}, "prefix 0: 20 tokens leave no room under max_length 20"),
    ],
)
def test_bad_requests_are_named(more, message):
    with pytest.raises(ValueError, match=message):
        generate(translation(), sources(), Search(max_length=20), **more)


LONG = [8] * 70  # the models here have 64 positions


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda model: generate(model, [[8], LONG]), "source 1: 70 tokens; the model has positions for 64"),
        (lambda model: list(stream(model, LONG)), "source 0: 70 tokens; the model has positions for 64"),
        (lambda model: score(model, [LONG], [[8]]), "source 0: 70 tokens; the model has positions for 64"),
        (lambda model: score(model, [[8]], [LONG]), "target 0: 71 tokens; the model has positions for 64"),
        (
            lambda model: generate(model, [[8]], Search(min_length=65)),
            "min_length 65: is above",
        ),
        (
            lambda model: generate(model, [[8]], prefixes=[LONG]),
            "prefix 0: 70 tokens leave no room",
        ),
    ],
)
def test_what_is_longer_than_the_model_s_positions_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act(translation())


@pytest.mark.parametrize("beam", [1, 3])
def test_nothing_is_written_beyond_the_model_s_positions(beam):
    model = translation()
    with torch.no_grad():
        model.head.bias[3] -= 99.0  # it never ends
    ((h,),) = generate(model, [[8]], Search(beam=beam, max_length=500, max_ratio=0))
    assert len(h.ids) == 64


def test_a_model_without_a_decoder_is_named():
    with pytest.raises(ValueError, match="Linear has no decoder: it cannot generate"):
        generate(torch.nn.Linear(2, 2).eval(), sources())


def test_a_model_in_training_mode_is_refused():
    """Dropout would make it say something else each time."""
    with pytest.raises(ValueError, match="training mode"):
        generate(translation().train(), sources())


def test_a_stream_of_many_is_refused():
    with pytest.raises(ValueError, match="a stream is one hypothesis at a time, not 4"):
        stream(translation(), sources()[0], Search(beam=4))


def test_unequal_lists_are_refused():
    with pytest.raises(ValueError, match="1 targets for 7 sources"):
        score(translation(), sources(), [[8]])


def test_no_sentences_are_no_work():
    assert generate(translation(), []) == [] and score(translation(), [], []) == []


def test_nothing_is_left_on_the_model_and_no_gradient_is_kept():
    model = translation()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    keys = set(vars(model))
    generate(model, sources(), Search(beam=3))
    tokens = stream(model, sources()[0])
    next(tokens, None)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert set(vars(model)) == keys and all(p.grad is None for p in model.parameters())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
