"""OPUS-MT folders, made by hand: the ids that we give, the weights that follow them, and what is refused."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

import heedful
from heedful.cli import main
from heedful.convert import bring
from heedful.convert.marian import read
from heedful.convert.names import BIAS, SOURCE, TARGET
from heedful.convert.whole import NEVER_BIAS
from heedful.data.batch import END, PAD, START, UNK
from heedful.errors import BadInput
from heedful.run import Run
from tests.convert.marian import ABSENT, SOURCE_PIECES, marian, spm


@pytest.fixture
def folder(tmp_path):
    return marian(tmp_path / "opus")


@pytest.fixture(params=[False, True], ids=["shared", "two"])
def either(request, tmp_path):
    return marian(tmp_path / "opus", two=request.param)


def theirs_of(folder):
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    words = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    return tensors, words


def change(path, **settings):
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def alter(folder, change):
    """Saves the weights again after `change(tensors)`."""
    tensors, _ = theirs_of(folder)
    change(tensors)
    safetensors.torch.save_file(tensors, folder / "model.safetensors")


def test_each_piece_keeps_its_weights(folder):
    whole = read(folder)
    tensors, words = theirs_of(folder)
    table, bias = whole.tensors()[SOURCE], whole.tensors()[BIAS]
    ids = whole.tokenizers[0].inner.get_vocab()
    names = {"<pad>": PAD, "<unk>": UNK, "</s>": END} | {
        piece: ids.get(piece, ids.get(" " + piece))
        for piece in words
        if piece not in ("<pad>", "<unk>", "</s>")
    }
    assert len(set(names.values())) == len(words)
    for piece, number in words.items():
        assert torch.equal(table[names[piece]], tensors["model.shared.weight"][number])
        assert bias[names[piece]] == tensors["final_logits_bias"][0, number]


def test_the_decoder_starts_as_theirs_does(folder):
    tensors, words = theirs_of(folder)
    assert torch.equal(read(folder).tensors()[SOURCE][START], tensors["model.shared.weight"][words["<pad>"]])
    change(folder / "config.json", decoder_start_token_id=words["▁chat"])
    assert torch.equal(read(folder).tensors()[SOURCE][START], tensors["model.shared.weight"][words["▁chat"]])


def test_tokens_that_they_have_not_are_never_written(folder):
    whole = read(folder)
    _, words = theirs_of(folder)
    bias = whole.tensors()[BIAS]
    assert (
        int((bias == NEVER_BIAS).sum()) == len(bias) - len(words) == 5
    )  # <start> <cls> <sep> <mask>, a piece


def test_a_piece_without_an_id_is_read_as_unknown(either):
    whole = read(either)
    source = whole.tokenizers[0]
    (odd,) = source.encode("odd")[:-1]
    assert source.inner.id_to_token(odd) == ABSENT
    assert torch.equal(whole.tensors()[SOURCE][odd], whole.tensors()[SOURCE][UNK])


def test_a_source_has_an_end_and_no_start(either):
    source, target = read(either).tokenizers
    assert source.encode("")[:] == [END]
    assert target.encode("") == [START, END]
    assert source.pieces(source.encode("the cats")) == ["▁the", "▁cat", "s", "<end>"]
    assert target.decode(target.encode("le chat")) == "le chat"


def test_the_language_that_is_asked_for_is_one_token(folder):
    source = read(folder).tokenizers[0]
    assert source.pieces(source.encode(">>fra<< the cat")) == [">>fra<<", "▁the", "▁cat", "<end>"]


def test_each_side_reads_its_own_pieces(folder):
    source, target = read(folder).tokenizers
    assert (
        source.pieces(source.encode("chat"))[:-1] != ["▁chat"] == target.pieces(target.encode("chat"))[1:-1]
    )


def test_two_vocabularies_stay_two(tmp_path):
    whole = read(marian(tmp_path / "opus", two=True))
    assert [len(tokenizer) for tokenizer in whole.tokenizers] == [
        whole.config.vocabulary,
        whole.config.target_vocabulary,
    ]
    assert {SOURCE, TARGET} < whole.tensors().keys()


def test_from_folder_to_translation(either, tmp_path, capsys):
    run = tmp_path / "runs" / "mine"
    assert main(["import", str(either), str(run)]) == 0
    assert "wrote" in capsys.readouterr().err
    found = heedful.load(run).translate(["the cat sat", ">>fra<< a cat"])
    assert all(one[0].score < 0 for one in found)
    assert main(["translate", "the cat", "--model", str(run), "--beam", "2"]) == 0
    assert main(["info", str(run)]) == 0
    assert "unigram" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model_type": "t5"}, "model_type 't5': only marian and pegasus"),
        ({"scale_embedding": False}, "scale_embedding False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings False"),
        (
            {"decoder_attention_heads": 4},
            "encoder_attention_heads and decoder_attention_heads differ: 2 and 4",
        ),
        ({"decoder_ffn_dim": 25}, "decoder_ffn_dim differ: 24 and 25"),
        ({"activation_function": "tanh"}, "model.activation 'tanh' is not one of"),
        ({"d_model": "16"}, "model.dim should be a whole number"),
        ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "model.heads 3 does not divide"),
        ({"decoder_start_token_id": 999}, "decoder_start_token_id 999 is not an id"),
        ({"model_type": ["marian"]}, "only marian and pegasus"),
        ({"share_encoder_decoder_embeddings": "no"}, "share_encoder_decoder_embeddings 'no': should be true"),
        ({"max_position_embeddings": 10**9}, "model.length 1000000000 should be from 3 to 100000"),
    ],
)
def test_a_config_that_cannot_be_read_is_named(folder, settings, told):
    change(folder / "config.json", **settings)
    with pytest.raises(BadInput, match=f"config.json: .*{told}"):
        read(folder)


@pytest.mark.parametrize("settings", [{"vocab_size": 10**12}, {"d_model": 10**8}, {"vocab_size": 16}])
def test_sizes_that_the_weights_have_not_are_named_before_room_is_made_for_them(folder, settings):
    change(folder / "config.json", **settings)
    with pytest.raises(BadInput, match=r"model\.safetensors: .*shared.weight' is \(17, 16\), where"):
        read(folder)


def test_pieces_come_before_a_tokenizer_of_somebody_else(folder):
    """Others put a tokenizer.json of their own beside the pieces."""
    (folder / "tokenizer.json").write_text("{}")
    assert read(folder).tokenizers[0].pieces([8])


def test_what_is_a_run_already_is_said_to_be_one(folder, tmp_path, capsys):
    bring(folder, tmp_path / "run")
    assert main(["import", str(tmp_path / "run"), str(tmp_path / "again")]) == 2
    assert "run: is a run already" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(folder):
    with pytest.raises(BadInput, match=r"^/proc/none/run: cannot be written"):
        bring(folder, Path("/proc/none/run"))


def test_weights_that_can_run_code_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin, which can run code"):
        read(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(BadInput, match=r"model\.safetensors: missing"):
        read(folder)


def lose(tensors):
    del tensors["model.encoder.layers.0.fc1.bias"]


def invent(tensors):
    tensors["model.encoder.layernorm_embedding.weight"] = torch.ones(16)


def untie(tensors):
    tensors["lm_head.weight"] = tensors["model.shared.weight"] + 1


def break_one(tensors):
    tensors["model.shared.weight"][0, 0] = float("nan")


def shorten(tensors):
    tensors["final_logits_bias"] = tensors["final_logits_bias"][:, :-1].clone()


def narrow(tensors):
    tensors["model.shared.weight"] = tensors["model.shared.weight"][:, :-1].clone()


def round_off(tensors):
    tensors["model.shared.weight"] = tensors["model.shared.weight"].to(torch.int8)


def resize(tensors):
    tensors["model.encoder.layers.0.fc1.bias"] = torch.ones(25)


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lose, "lacks weight 'model.encoder.layers.0.fc1.bias'"),
        (invent, "has an unknown weight 'model.encoder.layernorm_embedding.weight'"),
        (untie, "lm_head.weight differ"),
        (break_one, "not finite"),
        (resize, "weight 'encoder.blocks.0.ff.up.bias' is"),
        (shorten, r"weight 'final_logits_bias' is \(16,\), where config.json makes it \(17,\)"),
        (narrow, r"weight 'model.shared.weight' is \(17, 15\), where config.json makes it \(17, 16\)"),
        (round_off, "weight 'model.shared.weight' is of type torch.int8"),
    ],
)
def test_weights_that_do_not_fit_are_named(folder, act, told):
    alter(folder, act)
    with pytest.raises(BadInput, match=rf"model\.safetensors: .*{told}"):
        read(folder)


def test_a_table_may_come_under_any_of_its_names(folder):
    expected = read(folder).tensors()

    def rename(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.shared.weight")

    alter(folder, rename)
    assert torch.equal(read(folder).tensors()[SOURCE], expected[SOURCE])


def test_a_bias_may_be_left_out(folder):
    alter(folder, lambda tensors: tensors.pop("final_logits_bias"))
    assert read(folder).tensors()[BIAS].count_nonzero() == 5


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("vocab.json", "[]", "not a table"),
        ("vocab.json", "{", "not JSON"),
        ("vocab.json", "{}", "has no <pad>"),
        ("vocab.json", '{"<pad>": 0, "<unk>": 0, "</s>": 1}', "its ids are not 3 numbers"),
        ("config.json", "nonsense", "not JSON"),
        ("source.spm", "", "not a SentencePiece model"),
        ("target.spm", "abc", "not a SentencePiece model"),
        ("model.safetensors", "abc", "damaged, or not safetensors"),
    ],
)
def test_a_file_that_is_damaged_or_gone_is_named(folder, tmp_path, name, text, told):
    (folder / name).write_text(text)
    with pytest.raises(BadInput, match=f"{name}: .*{told}"):
        bring(folder, tmp_path / "run")
    (folder / name).unlink()
    with pytest.raises(BadInput, match=name):
        bring(folder, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opus"]


def test_what_is_there_is_not_written_over(folder, tmp_path):
    bring(folder, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(BadInput, match="run is there already"):
        bring(folder, tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_merged_pieces_are_refused(folder):
    (folder / "source.spm").write_bytes(spm(SOURCE_PIECES, trainer=b"\x18\x02"))
    with pytest.raises(BadInput, match=r"source\.spm: .* only unigram"):
        read(folder)


def test_two_tokenizers_over_one_table_survive_the_run(folder, tmp_path):
    run = bring(folder, tmp_path / "run")
    source, target = Run(run.folder).tokenizers(run.config())
    assert source is not target and len(source) == len(target) == run.config().model.vocabulary
