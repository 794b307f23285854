"""Pictures: well formed, self-contained, and safe whatever the tokens are."""

import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import torch

from heedful.look import View, draw, heat_map, pick
from heedful.look.heat import DARK, LIGHT, colour, legible
from heedful.look.page import page
from heedful.look.svg import svg

HOSTILE = ("</script><b>", "<!--<script>", "&amp;", "]]>", "\"'`", "\x00\x1b[31m", "\ud800", "{{data}}", "")
SVG = "{http://www.w3.org/2000/svg}"


def view(kind, layer, queries, keys, heads=2):
    torch.manual_seed(layer)
    return View(kind, layer, torch.randn(heads, len(queries), len(keys)).softmax(-1), queries, keys)


@pytest.fixture
def some():
    source, target = (" the", " cat", " €5", "$x_1$"), (" le", " chat")
    both = [view("encoder", n, source, source) for n in (0, 1)]
    return [*both, view("cross", 0, target, source), view("cross", 1, target, source)]


@pytest.fixture
def hostile():
    return [view("encoder", 0, HOSTILE, HOSTILE)]


def test_suffix_decides(some, tmp_path):
    for name in ("a.svg", "b.html", "c.SVG"):
        draw(some, tmp_path / name)
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert (tmp_path / "b.html").read_text().startswith("<!doctype html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "b.html", "c.SVG"]


@pytest.mark.parametrize("name", ["x.jpg", "x", ".png", "x.htm"])
def test_other_suffixes_are_refused(some, tmp_path, name):
    with pytest.raises(ValueError, match=r"a picture ends in \.png, \.svg, \.html"):
        draw(some, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_one_clear_line(some, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.*No such file or directory"):
        draw(some, tmp_path / "nowhere" / "x.svg")


def test_a_write_that_fails_leaves_the_old_picture(some, tmp_path, monkeypatch):
    out = tmp_path / "x.svg"
    out.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ValueError, match=r"x\.svg: cannot be written: No space left"):
        draw(some, out)
    assert [p.name for p in tmp_path.iterdir()] == ["x.svg"] and out.read_text() == "old"


def test_png(some, hostile, tmp_path):
    pytest.importorskip("matplotlib")
    for views in (some, hostile):
        draw(views, tmp_path / "x.png")
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_png_refuses_letters_that_it_cannot_draw(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"no 好 猫: draw a \.svg or \.html instead"):
        draw([view("encoder", 0, ("猫", "好", "cat"), ("\n", " ", ""))], tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_png_without_matplotlib_says_what_to_install(some, tmp_path, monkeypatch):
    for name in [m for m in sys.modules if m.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"^[^\n]*pip install heedful\[plot\][^\n]*$"):
        draw(some, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_pick_and_its_defaults(some):
    assert (pick(some).kind, pick(some).layer) == ("cross", 1)
    assert pick(some, "encoder", 0) is some[0]
    with pytest.raises(ValueError, match="no 'decoder' attention here: the model has encoder, cross"):
        pick(some, "decoder")
    with pytest.raises(ValueError, match="no layer 7: there are 0, 1"):
        pick(some, "cross", 7)
    with pytest.raises(ValueError, match="no head 2: this layer has heads 0 to 1"):
        heat_map(some[0], 2)


def test_a_head_or_their_mean(some):
    assert torch.equal(heat_map(some[0], 1).weight_TS, some[0].weight_HTS[1])
    assert torch.allclose(heat_map(some[0]).weight_TS, some[0].weight_HTS.mean(0))
    assert heat_map(some[2]).title == "Cross-attention, layer 0, mean of 2 heads"


def test_svg_is_well_formed_and_complete(some):
    heat = heat_map(pick(some, "cross"), 1)
    root = ElementTree.fromstring(svg(heat))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert texts[:7] == [heat.title, "le", "chat", "the", "cat", "€5", "$x_1$"]
    names = [t.text for t in root.iter(f"{SVG}title")]
    assert len(names) == 1 + 2 * 4
    assert names[1] == f"le → the: {heat.weight_TS[0, 0]:.3f}"


def test_svg_stays_well_formed_with_hostile_tokens(hostile):
    root = ElementTree.fromstring(svg(heat_map(hostile[0])).encode())
    assert not list(root.iter(f"{SVG}script")) and not list(root.iter(f"{SVG}b"))
    assert "</script><b>" in [t.text for t in root.iter(f"{SVG}text")]


class Tags(HTMLParser):
    """What a browser would see: tags, attributes, and the text of the scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.scripts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts[-1] += data


def test_page_asks_for_nothing(some):
    text = page(some, some[0])
    assert not re.search(r"https?:|//\w+\.|url\(|@import|\bfetch\b|XMLHttp", text)
    assert not {name for name, _ in Tags(text).attributes} & {"src", "href", "srcset", "action"}
    assert "default-src 'none'" in text


def test_page_holds_all_views(some):
    tags = Tags(page(some, some[2], head=1))
    assert {("id", "layer"), ("id", "head")} <= {*tags.attributes}
    data = json.loads(tags.scripts[0])
    assert data["start"] == {"kind": "cross", "layer": 0, "head": 1}
    assert [(v["kind"], v["layer"]) for v in data["views"]] == [(v.kind, v.layer) for v in some]
    heads = torch.tensor(data["views"][2]["heads"]).view(2, 2, 4) / data["fine"]
    assert torch.allclose(heads, some[2].weight_HTS, atol=1e-4)
    assert data["views"][2]["keys"] == ["the", "cat", "€5", "$x_1$"]


def test_page_is_safe_with_hostile_tokens(some, hostile):
    plain, attacked = Tags(page(some, some[0])), Tags(page(hostile, hostile[0]))
    assert attacked.tags == plain.tags
    keys = json.loads(attacked.scripts[0])["views"][0]["keys"]
    assert keys == [legible(token) for token in HOSTILE]
    assert keys[0] == "</script><b>" and "{{data}}" in keys
    page(hostile, hostile[0]).encode()  # a lone surrogate would not go into a file


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        (" cat", "cat"),
        ("cat", "cat"),
        (" ", "␣"),
        ("\u202f!", "␣!"),
        ("\n", "↵"),
        ("", "∅"),
        ("e\u0301", "é"),
        ("\x1b", "\N{REPLACEMENT CHARACTER}"),
        ("a\u202eb", "ab"),
        ("<C3>", "<C3>"),
    ],
)
def test_every_token_is_legible(token, seen):
    assert legible(token) == seen


def test_colours_end_where_the_ramp_ends():
    for ramp in (LIGHT, DARK):
        assert [colour(share, ramp) for share in (0, 0.25, 1, 2)] == [ramp[0], ramp[1], ramp[-1], ramp[-1]]
