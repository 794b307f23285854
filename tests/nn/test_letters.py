"""The letters in a name are true: as many as the tensor has sides, and what is D or V is as long as it."""

import ast
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful import nn
from heedful.nn import Learned, Sinusoid, Stack, positions, steps
from heedful.nn.block import StackShape

HERE = Path(nn.__file__).parent
SUFFIX = re.compile(r"[a-z]\w*_((?:\d*[A-Z]|\d)+)")
SIDE = re.compile(r"\d*[A-Z]|\d")  # "T", "2H" (twice H), "1"


def sides(name: str) -> list[str]:
    match = SUFFIX.fullmatch(name)
    return SIDE.findall(match[1]) if match else []


def named_tensors(names: dict):
    """Tensors with letters, among some variables and the fields and parameters of those."""
    for name, value in names.items():
        if isinstance(value, Tensor) and sides(name):
            yield name, value
        elif is_dataclass(value):
            yield from named_tensors({f.name: getattr(value, f.name) for f in fields(value)})
        elif isinstance(value, torch.nn.Module):
            own = [*value.named_parameters(recurse=False), *value.named_buffers(recurse=False)]
            yield from named_tensors(dict(own))


def lies(names: dict, **known: int) -> list[str]:
    """What is not as its letters say. A mask, also as a bias, may have 1 where it does not care."""
    found = []
    for name, tensor in named_tensors(names):
        if tensor.dim() != len(sides(name)):
            found.append(f"{name} has {tensor.dim()} sides")
            continue
        for letter, size in zip(sides(name), tensor.shape, strict=True):
            any_size = size == 1 and (tensor.dtype == torch.bool or name.startswith("bias_"))
            expected = int(letter) if letter.isdigit() else known.get(letter, size)
            if size != expected and not any_size:
                found.append(f"{letter} of {name} is {size}, not {expected}")
    return found


class Witness:
    """Looks at the variables of every function of `folder` as it returns."""

    def __init__(self, folder: Path, **known: int):
        self.folder, self.known, self.lies, self.seen = str(folder), known, [], set()

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self.folder):
            return None
        if event == "return":
            place = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}"
            self.lies += [f"{place}: {lie}" for lie in lies(frame.f_locals, **self.known)]
            self.seen |= {f"{place}:{name}" for name, _ in named_tensors(frame.f_locals)}
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)


CORE = {"D": 10, "H": 2, "K": 5, "F": 11, "V": 23}


def run_the_core(norm: str, position: type):
    """Training, cached decoding, a long sequence and a watched one: every size is another number."""
    D, H, F, V = CORE["D"], CORE["H"], CORE["F"], CORE["V"]
    B, T, S = 3, 4, 7
    shape = StackShape(D, H, layers=2, ff=F, dropout=0.1, attention_dropout=0.1, norm=norm)
    embed = nn.Embed(V, D, position(200, D), 0.1)
    encoder, decoder = Stack(shape, nn.exists), Stack(shape, nn.causal & nn.window(5), crosses=True)
    head = nn.Head(embed.table_VD)
    source, target = torch.randint(1, V, (B, S)), torch.randint(1, V, (B, T))
    source[1, :2] = target[1, :2] = 0
    pos = positions(source > 0)
    encoded, _ = encoder(embed(source, pos), pos)
    memory = decoder.remember(encoded, pos)
    pos = positions(target > 0)
    y, state = decoder(embed(target, pos), pos, None, memory)
    nn.vocabulary_loss(y.flatten(0, 1), head, target.flatten(), 0.1).backward()
    nn.vocabulary_loss(y.detach().flatten(0, 1).repeat(2, 1), head, target.flatten(), 0.1, 0.5).backward()
    new = torch.full((B, 1), T)
    y, state = decoder(embed(target[:, :1], new), new, state, memory)
    head(y)
    with torch.no_grad():
        share(embed, decoder, state, memory)
    long = torch.arange(150).repeat(B, 1)
    encoder(embed(long % V, long), long)
    encoder.blocks[0].self_attention.weights.register_forward_hook(lambda *_: None)
    encoder.eval()(embed(source, positions(source > 0)), positions(source > 0))


def share(embed, decoder, state, memory):
    """Two hypotheses for each row, one step each, another order, and one of each row."""
    state, new = state.fan(2), torch.full((6, 1), 5)
    _, state = decoder(embed(new, new), new, state, memory)
    rows, parent = torch.tensor([2, 0, 0]), torch.tensor([[1, 0], [0, 0], [1, 1]])
    state, memory = state.follow(parent).stay(rows), memory.select(rows)
    for _ in range(2):
        _, state = decoder(embed(new, new), new, state, memory)
    state.select(torch.tensor([1, 2, 4]))


def run_the_steps():
    x, source = torch.randn(3, 4, 6), torch.randn(3, 5, 6)
    steps.dot_attention(x), steps.learned_attention(x, torch.randn(6, 6)), steps.mask_attention(x, x, x)
    steps.QueryKeyValue(6)(x), steps.SingleHead(6)(x, source), steps.WideHeads(6, 2)(x)


@pytest.mark.parametrize("norm, position", [("pre", Sinusoid), ("post", Learned)])
def test_letters_are_true(norm, position):
    with Witness(HERE, **CORE) as witness:
        run_the_core(norm, position)
    assert witness.lies == []
    for place in ("attention.py:attend_plainly:weight_BHTS", "attention.py:attend_fused:out_BHTK"):
        assert place in witness.seen
    for place in ("attention.py:Attention.remember:both_B2HSK", "head.py:chunk_loss:p_NV"):
        assert place in witness.seen
    assert "embed.py:Lookup.backward:total_VD" in witness.seen, "the way back is looked at too"


def test_letters_of_the_steps_are_true():
    with Witness(HERE, B=3, T=4, D=6, K=6) as witness:
        run_the_steps()
    assert witness.lies == [] and witness.seen


def test_every_name_with_letters_is_looked_at():
    """No function of the core hides from the test above."""
    with Witness(HERE) as witness:
        for norm, position in (("pre", Sinusoid), ("post", Learned)):
            run_the_core(norm, position)
        run_the_steps()
    seen = {place.split(":")[0] + ":" + place.split(":")[2] for place in witness.seen}
    written = set()
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.arg if isinstance(node, ast.arg) else getattr(node, "id", "")
            if sides(name):
                written.add(f"{path.name}:{name}")
    assert written - seen == set()


def test_a_lie_is_found():
    assert sides("both_B2HSK") == ["B", "2H", "S", "K"] and sides("pos_T1") == ["T", "1"]
    assert sides("mask") == sides("d_x") == []
    x = torch.zeros(2, 3)
    assert lies({"x_BT": x, "y_BT": x}) == []
    assert lies({"x_BTD": x}) == ["x_BTD has 2 sides"]
    assert lies({"keep_BT": torch.zeros(2, 1, dtype=torch.bool)}, T=5) == []
    assert lies({"x_BT": x}, T=5) == ["T of x_BT is 3, not 5"]
    assert lies({"x_T1": x}) == ["1 of x_T1 is 3, not 1"]
