"""The same weights there: logits, searches, tokens. Each part runs where its program is installed."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from heedful import convert
from heedful.convert import ctranslate, huggingface
from heedful.convert.whole import Whole
from heedful.data.batch import CONTROL, END, PAD, START, UNK, collate, pad
from heedful.generate import Search, generate, score
from heedful.generate.rules import NEVER
from tests.convert.marian import marian
from tests.convert.test_folders import WRITABLE
from tests.convert.tiny import TEXTS, tiny

BEAM = 4
LONGEST = 30
STEPS = 400
NAMES = ["-".join(map(str, shape.values())) for shape in WRITABLE]


def pairs(count: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Each token becomes itself or the next one, so that a search has something to weigh."""
    draw = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(count):
        length = int(torch.randint(2, 9, (1,), generator=draw))
        source = torch.randint(len(CONTROL), 20, (length,), generator=draw)
        target = source + torch.randint(0, 2, (length,), generator=draw)
        out.append(([START, *source.tolist(), END], [START, *target.tolist(), END]))
    return out


SOURCES = [source for source, _ in pairs(24, 1000)]


@pytest.fixture(scope="module", params=["pre", "post"])
def taught(request, tmp_path_factory) -> Whole:
    """A model that has learned a little: its translations end, and at different lengths."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("taught") / "run"
    whole = tiny(folder, norm=request.param, layers=1, decoder_layers=1, dropout=0.0)
    optimizer = torch.optim.Adam(whole.model.parameters(), lr=3e-3)
    whole.model.train()
    for step in range(STEPS):
        batch = collate(pairs(24, step))
        logits, labels = whole.model(batch).logits.flatten(0, 1), batch.labels_BT.flatten()
        cross_entropy(logits, labels, ignore_index=PAD).backward()
        optimizer.step()
        optimizer.zero_grad()
    whole.model.eval()
    return whole


def targets() -> torch.Tensor:
    draw = torch.Generator().manual_seed(5)
    return torch.cat(
        [torch.full((len(TEXTS), 1), START), torch.randint(7, 270, (len(TEXTS), 40), generator=draw)], 1
    )


def our_logits(whole: Whole) -> torch.Tensor:
    source = pad([whole.tokenizers[0].encode(text) for text in TEXTS])
    with torch.no_grad():
        return whole.model.decode(targets(), whole.model.encode(source), None)[0]


def searched(whole: Whole, search: Search) -> list[list[int]]:
    return [found[0].ids for found in generate(whole.model, SOURCES, search)]


def exported(whole: Whole, folder, to=huggingface, **settings):
    to.write(whole, folder, **settings)
    return folder


# ---- Hugging Face


def their_model(folder):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def their_logits(model, tokenizer) -> torch.Tensor:
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets()).logits


@pytest.mark.parametrize("shape", WRITABLE, ids=NAMES)
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_transformers_has_the_same_logits(shape, activation, tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = tiny(tmp_path / "run", **shape, activation=activation)
    folder = exported(whole, tmp_path / "out")
    model, tokenizer = their_model(folder), transformers.AutoTokenizer.from_pretrained(folder)
    kind = "MarianMTModel" if shape["norm"] == "post" else "PegasusForConditionalGeneration"
    assert type(model).__name__ == kind
    torch.testing.assert_close(their_logits(model, tokenizer), our_logits(whole), atol=1e-4, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformers_may_save_it_again(norm, tmp_path):
    """MarianMTModel leaves out its positions when it saves, and makes them anew."""
    transformers = pytest.importorskip("transformers")
    whole = tiny(tmp_path / "run", norm=norm)
    folder = exported(whole, tmp_path / "out")
    their_model(folder).save_pretrained(tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = their_logits(their_model(tmp_path / "again"), tokenizer)
    torch.testing.assert_close(found, our_logits(whole), atol=1e-3, rtol=0)


def test_transformers_reads_text_as_we_do(tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = tiny(tmp_path / "run", two=True, norm="post")
    folder = exported(whole, tmp_path / "out")
    for theirs, ours in zip((folder, folder / "target_tokenizer"), whole.tokenizers, strict=True):
        tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
        for text in [*TEXTS, "<end> of <pad> it", "", "  two  spaces", "le chat était là", "日本"]:
            assert tokenizer(text)["input_ids"] == ours.encode(text)
            assert tokenizer.decode(ours.encode(text), skip_special_tokens=True) == text


@pytest.mark.parametrize("beam", [1, BEAM])
def test_transformers_finds_the_same(taught, tmp_path, beam):
    model = their_model(exported(taught, tmp_path / "out"))
    sources = pad(SOURCES)
    settings = {"num_beams": beam, "max_new_tokens": LONGEST, "length_penalty": 1.0}
    settings |= {"early_stopping": "never"} if beam > 1 else {}
    found = model.generate(sources, attention_mask=(sources != PAD).long(), **settings)
    theirs = [[i for i in row[1:].tolist() if i not in (PAD, END)] for row in found]
    ours = searched(taught, Search(beam=beam, max_length=LONGEST, max_ratio=0))
    assert len({len(row) for row in ours}) > 3 and max(map(len, ours)) < LONGEST  # ends, at various places
    assert theirs == ours


# ---- CTranslate2


def their_translator(folder, compute_type="float32"):
    engine = pytest.importorskip("ctranslate2")
    return engine.Translator(str(folder), compute_type=compute_type, intra_threads=1, inter_threads=1)


def tokens(tokenizer, rows: list[list[int]]) -> list[list[str]]:
    return [[tokenizer.inner.id_to_token(i) for i in row if i not in (START, END)] for row in rows]


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("two", [False, True], ids=["shared", "two"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ctranslate2_has_the_same_probabilities(norm, two, activation, tmp_path):
    pytest.importorskip("ctranslate2")
    whole = tiny(tmp_path / "run", norm=norm, two=two, activation=activation)
    source, target = whole.tokenizers
    engine = their_translator(exported(whole, tmp_path / "out", ctranslate))
    sources, rows = source.encode_all(TEXTS), [row[1:].tolist() for row in targets()]
    theirs = engine.score_batch(tokens(source, sources), tokens(target, rows))
    ours = score(whole.model, sources, rows)
    for found, expected in zip(theirs, ours, strict=True):
        assert found.log_probs == pytest.approx(expected.logprobs, abs=1e-4)


@pytest.mark.parametrize("beam", [1, BEAM])
def test_ctranslate2_finds_the_same(taught, tmp_path, beam):
    pytest.importorskip("ctranslate2")
    engine = their_translator(exported(taught, tmp_path / "out", ctranslate))
    source, target = taught.tokenizers
    settings = {"beam_size": beam, "max_decoding_length": LONGEST, "min_decoding_length": 0}
    settings |= {"patience": 4} if beam > 1 else {}
    found = engine.translate_batch(tokens(source, SOURCES), return_scores=True, **settings)
    ours = generate(taught.model, SOURCES, Search(beam=beam, max_length=LONGEST, max_ratio=0))
    assert [one.hypotheses[0] for one in found] == tokens(target, [one[0].ids for one in ours])


@pytest.mark.parametrize("quantization", ["int8", "int8_float32", "bfloat16"])
def test_ctranslate2_in_fewer_bits_is_near(taught, tmp_path, quantization):
    pytest.importorskip("ctranslate2")
    folders = [
        exported(taught, tmp_path / kind, ctranslate, quantization=kind) for kind in ("float32", quantization)
    ]
    sizes = [(folder / "model.bin").stat().st_size for folder in folders]
    assert sizes[1] < 0.75 * sizes[0]
    source, target = taught.tokenizers
    ours = tokens(target, searched(taught, Search(max_length=LONGEST, max_ratio=0)))
    engine = their_translator(folders[1], "default")
    found = engine.translate_batch(tokens(source, SOURCES), beam_size=1, max_decoding_length=LONGEST)
    same = sum(one.hypotheses[0] == row for one, row in zip(found, ours, strict=True))
    assert same >= len(ours) / 2


def test_ctranslate2_never_writes_a_control_token(tmp_path):
    pytest.importorskip("ctranslate2")
    whole = tiny(tmp_path / "run")
    with torch.no_grad():
        whole.model.head.bias[list(NEVER)] = 5.0
    engine = their_translator(exported(whole, tmp_path / "out", ctranslate))
    found = engine.translate_batch(tokens(whole.tokenizers[0], SOURCES), max_decoding_length=20)
    assert not {token for one in found for token in one.hypotheses[0]} & set(CONTROL)


# ---- Marian


def test_a_marian_model_is_the_same_here(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = marian(tmp_path / "opus")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    whole = Whole.of(convert.bring(folder, tmp_path / "run"))
    ours_of = our_ids(whole, folder)
    draw = torch.Generator().manual_seed(2)
    V = model.config.vocab_size
    source = torch.randint(3, V - 1, (8, 20), generator=draw)
    source[:, -1] = model.config.eos_token_id
    target = torch.randint(3, V - 1, (8, 31), generator=draw)
    target[:, 0] = model.config.decoder_start_token_id
    with torch.no_grad():
        theirs = model(input_ids=source, decoder_input_ids=target).logits.log_softmax(-1)
        start = torch.full((8, 1), START)
        ids = torch.cat([start, ours_of[target[:, 1:]]], dim=1)
        ours = whole.model.decode(ids, whole.model.encode(ours_of[source]), None)[0].log_softmax(-1)
    torch.testing.assert_close(ours[:, :, ours_of], theirs, atol=1e-4, rtol=0)


def our_ids(whole: Whole, folder) -> torch.Tensor:
    import json

    words = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    ours = whole.tokenizers[0].inner.get_vocab()
    control = {"<pad>": PAD, "<unk>": UNK, "</s>": END}
    ids = {
        number: control.get(piece, ours.get(piece, ours.get(" " + piece))) for piece, number in words.items()
    }
    return torch.tensor([ids[number] for number in range(len(ids))])


@pytest.mark.parametrize("beam", [1, BEAM])
def test_a_marian_model_translates_the_same_here(tmp_path, beam):
    transformers = pytest.importorskip("transformers")
    folder = marian(tmp_path / "opus")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    whole = Whole.of(convert.bring(folder, tmp_path / "run"))
    ours_of = our_ids(whole, folder)
    V, draw = model.config.vocab_size, torch.Generator().manual_seed(2)
    source = torch.randint(3, V - 1, (16, 12), generator=draw)
    source[:, -1] = model.config.eos_token_id
    pad_id = model.config.pad_token_id
    settings = {"num_beams": beam, "min_new_tokens": 20, "max_new_tokens": 20, "suppress_tokens": [1, pad_id]}
    found = model.generate(source, length_penalty=1.0, early_stopping=beam > 1, **settings)
    theirs = ours_of[found[:, 1:]].tolist()
    search = Search(beam=beam, min_length=20, max_length=20, max_ratio=0)
    assert [one[0].ids for one in generate(whole.model, ours_of[source].tolist(), search)] == theirs
