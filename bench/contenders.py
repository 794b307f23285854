"""Who takes part in bench/train.py: a training step each, as its own people write it, on the same batch."""

import importlib.util
import logging
from types import SimpleNamespace

SIZES = {
    "tiny": {"dim": 128, "heads": 4, "layers": 4, "ff": 256, "vocabulary": 10_000, "dropout": 0.3},
    "base": {"dim": 512, "heads": 8, "layers": 6, "ff": 2048, "vocabulary": 32_000, "dropout": 0.1},
}
SMOOTHING = 0.1
LR = 5e-4
PAD, START, END = 0, 2, 3  # as heedful's own tokenizers have them


class Heedful:
    """Our own training step: the parts of `heedful train`, without its schedule and its checks."""

    def __init__(self, shape: dict, precision: str):
        from heedful.config import TrainConfig
        from heedful.models.translation import Translation, TranslationConfig
        from heedful.tasks.next_token import NextToken
        from heedful.train import optimizers
        from heedful.train.machine import keep_kernels, keep_memory
        from heedful.train.weights import Weights

        keep_memory()
        keep_kernels()
        self.steps = 0
        self.model = Translation(TranslationConfig(norm="post", **shape))
        self.task = NextToken(SMOOTHING)
        self.weights = Weights(self.model, precision, 0.0)
        self.optimizers = optimizers.make(self.weights.masters, TrainConfig(lr=LR))

    def step(self, batch) -> float:
        import torch

        from heedful.train.loop import TIDY_EVERY
        from heedful.train.machine import return_memory

        loss = self.task.loss(self.model, batch) / batch.tokens
        loss.backward()
        self.weights.gather()
        masters = list(self.weights.masters.values())
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.weights.publish()
        for master in masters:
            master.grad = None
        self.steps += 1
        if self.steps % TIDY_EVERY == 0:
            return_memory()
        return loss.item()


class PlainTorch:
    """A loop over torch.nn.Transformer in float32, as tutorials write it."""

    def __init__(self, shape: dict):
        import torch
        from torch import nn

        self.torch, dim = torch, shape["dim"]
        self.embed = nn.Embedding(shape["vocabulary"], dim, padding_idx=PAD)
        nn.init.normal_(self.embed.weight, std=dim**-0.5)  # its table is also the head
        sizes = (dim, shape["heads"], shape["layers"], shape["layers"], shape["ff"], shape["dropout"])
        self.body = nn.Transformer(*sizes, batch_first=True)
        self.drop = nn.Dropout(shape["dropout"])
        self.position = nn.Parameter(torch.randn(256, dim) * 0.02)
        self.head = nn.Linear(dim, shape["vocabulary"])
        self.head.weight = self.embed.weight
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)
        self.all = nn.ModuleList([self.embed, self.body, self.drop, self.head])
        self.adam = torch.optim.Adam([*self.all.parameters(), self.position], LR, (0.9, 0.98), 1e-9)

    def vectors(self, ids):
        return self.drop(self.embed(ids) * self.position.shape[1] ** 0.5 + self.position[: ids.shape[1]])

    def step(self, batch) -> float:
        source, target, labels = batch.source_BS, batch.target_BT[:, :-1], batch.labels_BT
        causal = self.body.generate_square_subsequent_mask(target.shape[1])
        pads = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0}
        y = self.body(self.vectors(source), self.vectors(target), tgt_mask=causal, tgt_is_causal=True, **pads)
        loss = self.loss(self.head(y).flatten(0, 1), labels.flatten())
        self.adam.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(list(self.all.parameters()), 1.0)
        self.adam.step()
        return loss.item()


class Marian:
    """Hugging Face MarianMTModel in its plain loop, float32."""

    def __init__(self, shape: dict):
        import torch
        from transformers import MarianConfig, MarianMTModel

        names = {"dim": "d_model", "vocabulary": "vocab_size", "dropout": "dropout"}
        settings = {names[key]: shape[key] for key in names}
        for side in ("encoder", "decoder"):
            settings |= {f"{side}_layers": shape["layers"], f"{side}_attention_heads": shape["heads"]}
            settings |= {f"{side}_ffn_dim": shape["ff"]}
        special = {
            "pad_token_id": PAD,
            "decoder_start_token_id": START,
            "eos_token_id": END,
            "bos_token_id": START,
        }
        config = MarianConfig(activation_function="relu", scale_embedding=True, **special, **settings)
        self.torch, self.model = torch, MarianMTModel(config).train()
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)
        self.adam = torch.optim.Adam(self.model.parameters(), LR, (0.9, 0.98), 1e-9)

    def step(self, batch) -> float:
        source, target = batch.source_BS, batch.target_BT[:, :-1]
        masks = {"attention_mask": source != 0, "decoder_attention_mask": target != 0}
        logits = self.model(input_ids=source, decoder_input_ids=target, use_cache=False, **masks).logits
        loss = self.loss(logits.flatten(0, 1), batch.labels_BT.flatten())
        self.adam.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        return loss.item()


class JoeyNMT:
    """Joey NMT's own model, batch, loss, training step, clipping and optimizer, in float32, from its own
    builders. Its checkout must be on PYTHONPATH."""

    UNK, PAD = 0, 1  # its order is fixed

    def __init__(self, shape: dict):
        from joeynmt.builders import build_gradient_clipper, build_optimizer
        from joeynmt.model import build_model
        from joeynmt.training import TrainManager
        from joeynmt.vocabulary import Vocabulary

        logging.disable(logging.INFO)
        names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        ids = {"pad_id": self.PAD, "unk_id": self.UNK, "bos_id": START, "eos_id": END}
        extra = {"sep_token": None, "sep_id": None, "lang_tags": []}
        rest = [f"t{n}" for n in range(shape["vocabulary"] - len(ids))]
        vocabulary = Vocabulary(rest, SimpleNamespace(**names, **ids, **extra))
        self.model = build_model(self.settings(shape), vocabulary, vocabulary)
        self.model.loss_function = ("crossentropy", SMOOTHING)
        adam = {"optimizer": "adam", "learning_rate": LR, "adam_betas": [0.9, 0.98]}
        self.adam = build_optimizer(adam, self.model.parameters())
        self.clip = build_gradient_clipper({"clip_grad_norm": 1.0, "clip_grad_val": None})
        args = SimpleNamespace(normalization="tokens", batch_multiplier=1)
        autocast = {"device_type": "cpu", "enabled": False}
        self.manager = SimpleNamespace(model=self.model, autocast=autocast, args=args, n_gpu=0, scaler=None)
        self.train_step = TrainManager._train_step

    @staticmethod
    def settings(shape: dict) -> dict:
        side = {"type": "transformer", "num_layers": shape["layers"], "num_heads": shape["heads"]}
        side |= {"hidden_size": shape["dim"], "ff_size": shape["ff"], "dropout": shape["dropout"]}
        side |= {"embeddings": {"embedding_dim": shape["dim"], "scale": True}, "layer_norm": "post"}
        settings = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
        xavier = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
        return settings | xavier

    def step(self, batch) -> float:
        import torch
        from joeynmt.batch import Batch

        source, target = (ids.masked_fill(ids == PAD, self.PAD) for ids in (batch.source_BS, batch.target_BT))
        lengths, order = (source != self.PAD).sum(1), torch.arange(len(source))
        theirs = Batch(source, lengths, None, target, None, order, torch.device("cpu"), self.PAD, END)
        loss, _ = self.train_step(self.manager, theirs)
        self.clip(parameters=self.model.parameters())
        self.adam.step()
        self.model.zero_grad()
        return loss


CONTENDERS = {
    "heedful bfloat16": lambda shape: Heedful(shape, "bfloat16"),
    "heedful float32": lambda shape: Heedful(shape, "float32"),
    "torch.nn.Transformer": PlainTorch,
    "MarianMTModel": Marian,
    "Joey NMT": JoeyNMT,
}
NEEDS = {"MarianMTModel": "transformers", "Joey NMT": "joeynmt"}


def missing(name: str) -> str:
    """What would have to be installed for this contender; nothing if it can start."""
    package = NEEDS.get(name, "torch")
    return "" if importlib.util.find_spec(package) else package
