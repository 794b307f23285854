"""Config: a recipe is read strictly, written whole, and its mistakes are named."""

import dataclasses
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful import config as module
from heedful.config import Config, DataConfig, TrainConfig, from_toml, load_recipe, seconds_in, to_toml
from heedful.errors import BadInput
from heedful.models.translation import TranslationConfig
from heedful.nn.block import ACTIVATIONS, NORMS
from heedful.nn.position import KINDS as POSITIONS
from heedful.train.optimizers import OPTIMIZERS
from heedful.train.schedule import SCHEDULES
from heedful.train.weights import PRECISIONS

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def read(*words, toml=""):
    return from_toml(toml, "recipe.toml", [*words])


def complaint(*words, toml=""):
    with pytest.raises(BadInput) as caught:
        read(*words, toml=toml)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("recipe.toml: ")
    return str(caught.value).removeprefix("recipe.toml: ")


@settings(max_examples=200, deadline=None)
@given(
    title=TEXT,
    names=st.lists(TEXT, max_size=3),
    lr=st.floats(1e-9, 1e9),
    heads=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 2**32 - 1),
    unseen=st.booleans(),
)
def test_what_is_written_is_read_again(title, names, lr, heads, seed, unseen):
    config = Config(
        title,
        TranslationConfig(heads=heads, norm="post"),
        DataConfig(train=tuple(names), pattern=title, unseen=unseen),
        TrainConfig(lr=lr, seed=seed, budget="90s"),
    )
    assert from_toml(to_toml(config), "written", []) == config


def test_odd_characters_come_back():
    odd = 'quote " back \\ tab \t line \n null \x00 del \x7f no-break \u00a0 日本 😀 \u2028 \\u0041'
    config = dataclasses.replace(Config(), title=odd)
    assert from_toml(to_toml(config), "written", []).title == odd


@pytest.mark.parametrize("name", module.shipped())
def test_shipped_recipes_are_read(name):
    config = load_recipe(name)
    assert config.title and config.train.epochs
    assert bool(config.data.train) == (name != "pairs")  # which is for data of the user's own
    assert config.data.dev or config.data.hold_out


def test_a_recipe_is_a_name_or_a_path(tmp_path):
    (tmp_path / "mine.toml").write_text('title = "mine"')
    assert load_recipe(str(tmp_path / "mine.toml")).title == "mine"
    with pytest.raises(BadInput, match=r"no recipe 'cmudit' \(did you mean 'cmudict'\?\); shipped: "):
        load_recipe("cmudit")
    (tmp_path / "bad.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(BadInput, match=r"bad\.toml"):
        load_recipe(str(tmp_path / "bad.toml"))


def test_settings_on_the_command_line():
    got = read(
        *("--model.layers", "6", "--train.lr=2e-3", "--train.weight_decay", ".5", "--train.clip", "0"),
        *("--data.train", "a.en", "a.fr", "--data.dev=dev.tsv", "--data.unseen", "true"),
        *(
            "--data.folder",
            "2024",
            "--train.budget",
            '"10m"',
            "--data.pattern=^(?P<a>=)-- $",
            "--train.lr",
            "3",
        ),
    )
    assert got.model.layers == 6 and got.train.lr == 3.0 and got.train.weight_decay == 0.5
    assert got.data.train == ("a.en", "a.fr") and got.data.dev == ("dev.tsv",) and got.data.unseen is True
    assert got.data.folder == "2024" and got.train.budget == "10m" and got.data.pattern == "^(?P<a>=)-- $"
    assert read('--data.train=["a b", "c"]').data.train == ("a b", "c")
    assert read("--model.norm", '"post"').model.norm == "post"


def test_the_command_line_is_laid_over_the_recipe():
    toml = "[model]\nlayers = 2\ndim = 64\n"
    got = read("--model.layers", "6", toml=toml)
    assert (got.model.layers, got.model.dim) == (6, 64)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model.layrs 6", "unknown key 'model.layrs' (did you mean 'model.layers'?)"),
        ("--modle.layers 6", "unknown key 'modle' (did you mean 'model'?)"),
        ("--model.layers six", "model.layers should be a whole number, not 'six'"),
        ("--model.layers 6.5", "model.layers should be a whole number, not 6.5"),
        ("--model.layers true", "model.layers should be a whole number, not True"),
        ("--train.lr high", "train.lr should be a number, not 'high'"),
        ("--train.threads 20000", "train.threads 20000 should be from 0 to 1024"),
        ("--data.rename 2", "data.rename 2.0 should be from 0 to 1"),
        ("--data.unseen 1", "data.unseen should be true or false, not 1"),
        ("--model.layers", "--model.layers needs a value"),
        ("--model.layers 1 2", "model.layers should be a whole number, not ['1', '2']"),
        ("--layers 6", "unexpected argument '--layers'; settings look like --train.steps 300"),
        ("layers 6", "unexpected argument 'layers'; settings look like --train.steps 300"),
        ("--title.x 6", "title should be text, not {'x': '6'}"),
        ("--model.kind bert2", "model.kind 'bert2' is not one of"),
        ("--model.norm prae", "model.norm 'prae' is not one of pre, post"),
        ("--model.activation rleu", "(did you mean 'relu'?)"),
        ("--model.position sine", "(did you mean 'sinusoid'?)"),
        ("--train.optimizer adm", "(did you mean 'adam'?)"),
        ("--train.schedule cosin", "(did you mean 'cosine'?)"),
        ("--train.precision float16", "is not one of float32, bfloat16 (did you mean"),
        ("--data.tokenizer bytes", "data.tokenizer 'bytes' is not one of bpe, words, characters"),
        ("--data.target_tokenizer word", "is not one of bpe, words, characters (did you mean 'words'?)"),
        ("--model.heads 3 --model.dim 128", "model.heads 3 does not divide model.dim 128 (did you mean 2?)"),
        ("--model.heads 0", "model.heads 0 should be at least 1"),
        ("--model.dim -8", "model.dim -8 should be at least 1"),
        ("--model.dropout 1.0", "model.dropout 1.0 should be from 0 to 0.99"),
        ("--model.dropout -0.1", "model.dropout -0.1 should be from 0 to 0.99"),
        ("--train.lr nan", "train.lr nan should be at least 1e-09"),
        ("--train.clip inf", "train.clip inf should be at least 0"),
        ("--train.keep 0", "train.keep 0 should be at least 1"),
        ("--train.seed -1", "train.seed -1 should be from 0 to 4294967295"),
        ("--train.steps -5", "train.steps -5 should be at least 0"),
        ("--train.budget 10", "train.budget '10' should look like 90s, 10m or 2h"),
        ("--train.budget 0m", "train.budget '0m' should look like 90s, 10m or 2h"),
        ("--train.budget -5m", "train.budget '-5m' should look like 90s, 10m or 2h"),
        ("--data.folder \udcff", "data.folder is not UTF-8 text"),
    ],
)
def test_mistakes_are_named(words, said):
    assert said in complaint(*words.split())


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("x = ", "Invalid value"),
        ("[model]\nlayers = '6'", "model.layers should be a whole number, not '6'"),
        ("model = 3", "model should be a table, not 3"),
        ("[data]\ntrain = 3", "data.train should be text, not 3"),
        ("[data]\ntrain = ['a', 3]", "data.train should be text, not 3"),
        ("[data.train]\na = 1", "data.train should be text, not {'a': 1}"),
        ("[modle]\nlayers = 6", "unknown key 'modle' (did you mean 'model'?)"),
        ("[model]\nkind = []", "model.kind '[]' is not one of"),
        ("[model]\nnorm = 1", "model.norm '1' is not one of pre"),
    ],
)
def test_mistakes_in_the_file_are_named(toml, said):
    assert said in complaint(toml=toml)


@pytest.mark.parametrize(
    ("budget", "seconds"), [("", 0), ("90s", 90), ("10m", 600), ("1.5h", 5400), (".5m", 30)]
)
def test_budget(budget, seconds):
    assert seconds_in(budget) == seconds


def test_the_words_that_types_allow_are_those_that_exist():
    """A type's Literal is what the check goes by; it must not drift from what the code knows."""
    model, train = (typing.get_type_hints(kind) for kind in (TranslationConfig, TrainConfig))
    assert {*typing.get_args(model["norm"])} == {*NORMS}
    assert {*typing.get_args(model["activation"])} == {*ACTIVATIONS}
    assert {*typing.get_args(model["position"])} == {*POSITIONS}
    assert {*typing.get_args(train["optimizer"])} == {*OPTIMIZERS}
    assert {*typing.get_args(train["schedule"])} == {*SCHEDULES}
    assert {*typing.get_args(train["precision"])} == {*PRECISIONS}


def test_defaults_make_sense():
    assert module.check(Config()) == Config()
