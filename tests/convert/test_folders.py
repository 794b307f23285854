"""Export and import as commands: what is written, what comes back, what is refused."""

import json
import sys

import pytest
import torch

import heedful
from heedful import convert
from heedful.cli import main
from heedful.convert import huggingface
from heedful.convert.whole import Whole
from heedful.data.tokenizer import learn
from heedful.errors import BadInput
from heedful.generate import Search
from heedful.run import Run
from tests.convert.test_names import SHAPES
from tests.convert.tiny import TEXTS, tiny, tiny_run

WRITABLE = [shape for shape in SHAPES if shape["norm"] == "post" or not shape["two"]]
SHORT = Search(max_length=6)  # what is not trained does not know when to end


@pytest.mark.parametrize("shape", WRITABLE, ids=lambda shape: "-".join(map(str, shape.values())))
def test_out_and_in_again_is_the_same_run(shape, tmp_path):
    run = tiny_run(tmp_path / "run", **shape, activation="gelu", dropout=0.0)
    convert.export(run, tmp_path / "out", "huggingface")
    again = convert.bring(tmp_path / "out", tmp_path / "again")
    before, after = Whole.of(run), Whole.of(again)
    assert after.config == before.config
    assert all(torch.equal(after.tensors()[name], tensor) for name, tensor in before.tensors().items())
    texts = [[tokenizer.inner.to_str() for tokenizer in whole.tokenizers] for whole in (before, after)]
    assert texts[0] == texts[1]
    first, second = (heedful.load(folder.folder).translate(TEXTS, SHORT) for folder in (run, again))
    assert first == second


def test_the_folder_has_what_transformers_asks_for(tmp_path):
    assert (
        main(["export", str(tiny_run(tmp_path / "run").folder), str(tmp_path / "out"), "--to", "huggingface"])
        == 0
    )
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {"tokenizer_config.json"}
    table = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (table["model_type"], table["architectures"]) == ("pegasus", ["PegasusForConditionalGeneration"])
    assert table["decoder_layers"] == 3 and table["max_position_embeddings"] == 64


def test_each_side_has_its_tokenizer(tmp_path):
    run = tiny_run(tmp_path / "run", two=True, norm="post")
    convert.export(run, tmp_path / "out", "huggingface")
    source, target = run.tokenizers(run.config())
    for folder, tokenizer in ((tmp_path / "out", source), (tmp_path / "out" / "target_tokenizer", target)):
        theirs = heedful_free(folder / "tokenizer.json")
        theirs.encode_special_tokens = True
        assert [theirs.encode(text).ids for text in TEXTS] == tokenizer.encode_all(TEXTS)


def heedful_free(path):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_every_kind_of_tokenizer_goes_along(tmp_path, kind):
    tokenizer = learn(TEXTS, kind, 60)
    framed = huggingface.framed(tokenizer)
    framed.encode_special_tokens = True
    assert [framed.encode(text).ids for text in TEXTS] == tokenizer.encode_all(TEXTS)
    whole = tiny(tmp_path / "run")
    assert Whole(whole.config, whole.model, (tokenizer, tokenizer)).kind == kind
    assert tokenizer.inner.post_processor is None


def test_the_norm_first_and_two_vocabularies_are_too_much(tmp_path):
    run = tiny_run(tmp_path / "run", two=True, norm="pre")
    with pytest.raises(BadInput, match="the norm first and two vocabularies: export it to ctranslate2"):
        convert.export(run, tmp_path / "out", "huggingface")
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(BadInput, match="pip install ctranslate2"):
        convert.export(tiny_run(tmp_path / "run"), tmp_path / "out", "ctranslate2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["export", "none", "out", "--to", "huggingface"], "none is not a run"),
        (["export", "run", "run", "--to", "huggingface"], "run is there already"),
        (
            ["export", "run", "out", "--to", "huggingface", "--quantization", "int8"],
            "goes with --to ctranslate2",
        ),
        (["export", "run", "run/config.toml/x", "--to", "huggingface"], "cannot be written"),
        (["export", "run", "none/..", "--to", "int8"], "none/..: is no name for a new folder"),
        (["export", "run", "", "--to", "int8"], ".: is no name for a new folder"),
        (["export", "run", "/", "--to", "int8"], "/: is no name for a new folder"),
        (["export", "run", "out"], "the following arguments are required: --to"),
        (["import", "none", "out"], "none/config.json: No such file"),
        (["import", "run", "out"], "run: is a run already"),
        (["bench", "speling"], "no bench 'speling'"),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path, monkeypatch, capsys, words, told):
    tiny_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and told in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_an_int8_run_is_small_and_works(tmp_path):
    run = tiny_run(tmp_path / "run", dim=128, heads=4, ff=256)
    assert main(["export", str(run.folder), str(tmp_path / "small"), "--to", "int8"]) == 0
    large, small = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("run", "small"))
    assert small < 0.4 * large
    assert heedful.load(tmp_path / "small").translate(TEXTS[:1], SHORT)


def test_an_int8_run_is_exported_too(tmp_path):
    run = tiny_run(tmp_path / "run")
    convert.export(run, tmp_path / "small", "int8")
    convert.export(Run(tmp_path / "small"), tmp_path / "out", "huggingface")
    assert (tmp_path / "out" / "config.json").is_file()
