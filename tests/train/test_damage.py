"""A damaged, foreign or doctored file is one error that names it; never a wrong load, never much memory."""

import json
import random
import resource
import shutil

import pytest
import torch

from heedful import disk
from heedful.errors import BadInput
from heedful.run import Run, load_model
from heedful.train.checkpoint import checkpoints
from tests.train.tiny import trained

RUNS = {"one": ("--train.seed", "1"), "two": ("--train.seed", "2")}


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Two runs that differ in their seed alone, and a trainer for the first."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    words = ("--train.steps", "6", "--train.save_every", "3", "--model.dim", "8", "--model.ff", "8")
    trainers = {name: trained(data, folder / name, *words, *more) for name, more in RUNS.items()}
    return folder, trainers["one"]


def doctored(path, out, draw):
    """A file that is whole, by its own account, but not what it should be."""
    tensors, facts = disk.load_tensors(path)
    name = draw.choice(sorted(tensors))
    kind = draw.choice(["nan", "name", "shape", "lost", "type", "fact", "no fact", "more"])
    if kind == "nan":
        tensors[name] = torch.full_like(tensors[name], draw.choice([float("nan"), float("inf")]))
    elif kind == "name":
        tensors[draw.choice(["../../evil", "/etc/evil", "weight.../evil", "a" * 5000, "\n"])] = tensors.pop(
            name
        )
    elif kind == "shape":
        shape = draw.choice([(1,), (0,), (2, 3, 4), (*tensors[name].shape, 1)])
        tensors[name] = torch.zeros(shape)
    elif kind == "lost":
        tensors.pop(name)
    elif kind == "type":
        tensors[name] = tensors[name].to(torch.complex64)
    elif kind == "more":
        tensors["weight.more"] = torch.zeros(3)
    elif kind == "fact":
        facts[draw.choice(["data", "model", "train", "place", "step"])] = draw.choice(
            [None, [], "x", -7, {"a": 1}, 1e300, {}]
        )
    else:
        facts.pop(draw.choice(sorted(facts)))
    disk.save_tensors(out, tensors, facts)


def damaged(raw, draw):
    """The bytes after an accident."""
    raw = bytearray(raw)
    at, kind = (
        draw.randrange(len(raw)),
        draw.choice(["cut", "flip", "head", "block", "longer", "length", "empty"]),
    )
    if kind == "cut":
        return raw[:at]
    if kind == "flip":
        raw[at] ^= 1 << draw.randrange(8)
    elif kind == "head":  # the header says which bytes are which tensor
        raw[draw.randrange(8, 8 + int.from_bytes(raw[:8], "little"))] ^= 1 << draw.randrange(8)
    elif kind == "block":
        raw[at : at + 64] = draw.randbytes(64)
    elif kind == "longer":
        raw += draw.randbytes(draw.randrange(1, 5000))
    elif kind == "length":
        raw[:8] = draw.choice([2**16, 2**27, 2**40, 2**64 - 1, draw.randrange(2**64)]).to_bytes(8, "little")
    else:
        return bytearray(draw.choice([b"", b"\0" * 8, b"\0" * 5000, b"{}"]))
    return raw


def header_changed(raw, draw):
    """A header that is sound JSON and tells lies."""
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    name = draw.choice(sorted(header.keys() - {"__metadata__"}))
    entry = header[name]
    change = draw.choice(["dtype", "shape", "offsets", "swap", "about", "deep"])
    if change == "dtype":
        entry["dtype"] = draw.choice(["I32", "F16", "F64", "BOOL", "F8_E4M3", "F4", "X"])
    elif change == "shape":
        entry["shape"] = draw.choice([[], [1], [2**62, 2**62], [-1], [9, 9, 9]])
    elif change == "offsets":
        entry["data_offsets"] = draw.choice([[0, 0], [0, 2**60], [9, 3], [-4, 0], [0]])
    elif change == "swap":
        other = draw.choice(sorted(header.keys() - {"__metadata__", name}))
        header[name], header[other] = header[other], header[name]
    elif change == "about":
        about = header["__metadata__"]
        about[draw.choice(sorted(about))] = draw.choice(["", "2", "{}", "0" * 64])
    else:
        text = '{"a":' * 3000 + "1" + "}" * 3000
        return len(text).to_bytes(8, "little") + text.encode()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + size :]


def same(path, original):
    """By accident the damage may have changed nothing that is said: spaces in the header."""
    (tensors, facts), (given, known) = disk.load_tensors(path), original
    return facts == known and disk.digest(tensors, "") == disk.digest(given, "")


@pytest.mark.parametrize("part", range(10))
def test_a_thousand_damages(runs, tmp_path, part):
    folder, trainer = runs
    whole = checkpoints(Run(folder / "one"))[-1]
    raw, original = whole.read_bytes(), disk.load_tensors(whole)
    draw, memory = random.Random(part), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / whole.name
    for _ in range(100):
        how = draw.choice(["damaged", "damaged", "header", "doctored"])
        if how == "doctored":
            doctored(whole, path, draw)
        else:
            path.write_bytes(damaged(raw, draw) if how == "damaged" else header_changed(raw, draw))
        try:
            trainer.resume(path)
        except BadInput as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            assert len(str(error)) < 500 or "aaaa" in str(error)
        else:
            assert how != "doctored" and same(path, original)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # kilobytes


@pytest.mark.parametrize("part", range(2))
def test_weights_are_as_safe(runs, tmp_path, part):
    """Those that inference loads: the same damages to model.safetensors."""
    run = Run(shutil.copytree(runs[0] / "one", tmp_path / "run"))
    raw, original = run.weights.read_bytes(), disk.load_tensors(run.weights)
    draw = random.Random(100 + part)
    for _ in range(100):
        run.weights.write_bytes(draw.choice([damaged, header_changed])(raw, draw))
        try:
            load_model(run, run.config())
        except BadInput as error:
            assert str(error).startswith(f"{run.weights}: ") and "\n" not in str(error)
        else:
            assert same(run.weights, original)


def refused(act, said):
    with pytest.raises(BadInput) as caught:
        act()
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_swapped_files(runs, tmp_path):
    folder, trainer = runs
    (third, sixth), other = checkpoints(Run(folder / "one")), checkpoints(Run(folder / "two"))
    path = tmp_path / sixth.name
    for wrong, said in (
        (third, "is not the checkpoint of step 6"),
        (other[-1], "was made with train.seed = 2, but the config says 1"),
        (folder / "one" / "model.safetensors", "is not a checkpoint of a training"),
        (folder / "one" / "config.toml", "damaged, or not made by heedful"),
    ):
        shutil.copy(wrong, path)
        refused(lambda: trainer.resume(path), said)
    path.unlink()
    refused(lambda: trainer.resume(path), f"{path}: missing")
    path.mkdir()
    refused(lambda: trainer.resume(path), str(path))


@pytest.fixture
def copied(runs, tmp_path):
    shutil.copytree(runs[0] / "one", tmp_path / "copy")
    return Run(tmp_path / "copy")


def load(run):
    return load_model(run, run.config())


def test_swapped_files_in_a_run(runs, copied):
    """Weights, tokenizer and config are of one training or refused."""
    assert load(copied)
    checkpoint = checkpoints(copied)[-1]
    shutil.copy(checkpoint, copied.weights)
    refused(lambda: load(copied), "model.safetensors: ")
    shutil.copy(runs[0] / "one" / "model.safetensors", copied.weights)
    tokenizer = copied.folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    refused(lambda: load(copied), "was trained with another tokenizer")


@pytest.mark.parametrize("name", ["config.toml", "tokenizer.json", "model.safetensors"])
def test_a_run_with_a_file_missing_names_it(copied, name):
    (copied.folder / name).unlink()
    refused(lambda: (copied.tokenizers(copied.config()), load(copied)), name)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("heads = 2", "heads = 4", "was made with model.heads = 2, but the config says 4"),
        ("dim = 8", "dim = 16", "was made with model.dim = 8, but the config says 16"),
        ('norm = "pre"', 'norm = "post"', "was made with model.norm = 'pre', but the config says 'post'"),
        ('activation = "relu"', 'activation = "gelu"', "was made with model.activation = 'relu'"),
        ("heads = 2", "heads = 3", "model.heads 3 does not divide model.dim 8"),
        ("heads = 2", "haeds = 2", "unknown key 'model.haeds' (did you mean 'model.heads'?)"),
    ],
)
def test_config_edited_since(runs, copied, old, new, said):
    path = copied.folder / "config.toml"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    refused(lambda: load(copied), said)


def test_dropout_may_be_changed(copied):
    path = copied.folder / "config.toml"
    path.write_text(path.read_text().replace("dropout = 0.1", "dropout = 0.2"))
    assert load(copied)


def test_tokenizer_of_another_size_is_named(copied):
    config = copied.config()
    from heedful.data.tokenizer import learn

    learn(["a b c"], "words", 20).save(copied.folder / "tokenizer.json")
    refused(lambda: copied.tokenizers(config), "tokenizer.json: has 10 tokens, but the model was made for")
