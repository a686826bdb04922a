#!/usr/bin/python3
"""Trains the demo model (a small Llama) on roundtalk and writes it as a Hugging Face folder.

  train_demo.py OUT [--minutes M] [--resume CHECKPOINT]

Needs torch and numpy; two CPU cores need 100 minutes, a GPU makes it minutes. The learning rate and the length of the
dialogues follow the share of the time that has passed, so --minutes alone decides how good the model gets.
"""
import argparse
import json
import math
import os
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

from files import save_weights, tokenizer_json
from roundtalk import dialogue, render
from tokenizer import CHAT_TEMPLATE, Tokenizer

class Shape:
    width, layers, heads, kv_heads, head_dim, ffn = 192, 8, 6, 3, 32, 512
    vocabulary = 640
    theta, eps = 100000.0, 1e-5


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + Shape.eps).to(x.dtype) * self.weight


def rope_tables(count, device):
    frequency = 1.0 / Shape.theta ** (torch.arange(0, Shape.head_dim, 2, device=device).float() / Shape.head_dim)
    angles = torch.outer(torch.arange(count, device=device).float(), frequency)
    return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        queries, keys = Shape.heads * Shape.head_dim, Shape.kv_heads * Shape.head_dim
        self.n1, self.n2 = RmsNorm(Shape.width), RmsNorm(Shape.width)
        self.q = nn.Linear(Shape.width, queries, bias=False)
        self.k = nn.Linear(Shape.width, keys, bias=False)
        self.v = nn.Linear(Shape.width, keys, bias=False)
        self.o = nn.Linear(queries, Shape.width, bias=False)
        self.gate = nn.Linear(Shape.width, Shape.ffn, bias=False)
        self.up = nn.Linear(Shape.width, Shape.ffn, bias=False)
        self.down = nn.Linear(Shape.ffn, Shape.width, bias=False)

    def forward(self, x, cos, sin, mask):
        rows, count, _ = x.shape

        def heads(y):
            return y.view(rows, count, -1, Shape.head_dim).transpose(1, 2)

        normed = self.n1(x)
        q, k = rotate(heads(self.q(normed)), cos, sin), rotate(heads(self.k(normed)), cos, sin)
        v = heads(self.v(normed))
        group = Shape.heads // Shape.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = torch.softmax((q * Shape.head_dim**-0.5) @ k.transpose(-1, -2) + mask, -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(rows, count, -1))
        normed = self.n2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(Shape.vocabulary, Shape.width)
        self.layers = nn.ModuleList(Layer() for _ in range(Shape.layers))
        self.norm = RmsNorm(Shape.width)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
        for layer in self.layers:
            for linear in (layer.o, layer.down):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * Shape.layers))

    def forward(self, ids):
        count = ids.shape[1]
        cos, sin = rope_tables(count, ids.device)
        mask = torch.full((count, count), -1e9, device=ids.device).triu(1)
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.norm(x) @ self.emb.weight.t()


def orthogonalise(gradients):
    """Newton-Schulz iteration of Muon, for a stack of matrices at once."""
    x = gradients / (gradients.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    for _ in range(5):
        a = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.transpose(-1, -2) if tall else x


class Muon:
    """Momentum with orthogonalised steps, for matrices; those of one shape go through together."""

    def __init__(self, parameters):
        self.groups = {}
        for parameter in parameters:
            self.groups.setdefault(tuple(parameter.shape), []).append(parameter)
        self.momentum = {shape: torch.zeros(len(group), *shape, device=group[0].device)
                         for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, group in self.groups.items():
            gradients = torch.stack([parameter.grad for parameter in group])
            momentum = self.momentum[shape].mul_(0.95).add_(gradients)
            updates = orthogonalise(gradients.add_(momentum, alpha=0.95))
            for parameter, update in zip(group, updates):
                parameter.mul_(1 - rate * 0.1).add_(update, alpha=-rate * max(1, shape[0] / shape[1])**0.5)
                parameter.grad = None


def draw_dialogue(tokenizer, rng, tokens, easy):
    """Ids of one dialogue of about `tokens` tokens, filled up with shorter ones and cut."""
    rounds = rng.randint(1, 3) if easy else max(2, int(tokens / rng.choice([45, 60, 80])))
    seed = rng.getrandbits(48)
    filler = (0, 1) if easy else (0, rng.choice([1, 3, 5]))
    ids = tokenizer.encode(render(dialogue(seed, rounds, filler=filler, facts_per_round=(1, 2) if easy else (1, 4))))
    while len(ids) < tokens + 1:
        ids += tokenizer.encode(render(dialogue(rng.getrandbits(48), max(1, rounds // 2), filler=(0, 2))))
    return ids[:tokens + 1]


def draw_batch(tokenizer, rng, tokens, rows, easy):
    """Ids and weights [rows, tokens + 1]. A token weighs 1 when the one before it stands inside an answer and .1
    otherwise, so an answer's <|end|> counts and the <|assistant|> before it does not."""
    begin, end = tokenizer.ids["<|assistant|>"], tokenizer.ids["<|end|>"]
    batch, weights = [], []
    for _ in range(rows):
        ids = draw_dialogue(tokenizer, rng, tokens, easy)
        row, inside = [], False
        for token in ids:
            row.append(1.0 if inside else 0.1)
            if token == begin:
                inside = True
            elif token == end:
                inside = False
        batch.append(ids)
        weights.append(row)
    return torch.tensor(batch), torch.tensor(weights)


@torch.no_grad()
def evaluate(model, tokenizer, device, count=40, rounds=8, seed=10_000_000):
    """Share of dialogues whose last answer is right: teacher-forced, every token of it must be the likeliest."""
    right = 0
    for i in range(count):
        talk = dialogue(seed + i, rounds)
        prompt = tokenizer.encode(render(talk, False))
        expected = tokenizer.encode(talk[-1][1] + "<|end|>")
        logits = model(torch.tensor([prompt + expected], device=device))[0, len(prompt) - 1:-1]
        right += logits.argmax(-1).tolist() == expected
    return right / count


def named_weights(model):
    out = {"model.embed_tokens.weight": model.emb.weight, "model.norm.weight": model.norm.weight}
    for i, layer in enumerate(model.layers):
        prefix = f"model.layers.{i}."
        out[prefix + "input_layernorm.weight"] = layer.n1.weight
        out[prefix + "post_attention_layernorm.weight"] = layer.n2.weight
        for name in ("q", "k", "v", "o"):
            out[f"{prefix}self_attn.{name}_proj.weight"] = getattr(layer, name).weight
        for name in ("gate", "up", "down"):
            out[f"{prefix}mlp.{name}_proj.weight"] = getattr(layer, name).weight
    return out


def save(model, tokenizer, folder):
    end = tokenizer.ids["<|end|>"]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": Shape.width,
        "intermediate_size": Shape.ffn, "num_hidden_layers": Shape.layers, "num_attention_heads": Shape.heads,
        "num_key_value_heads": Shape.kv_heads, "head_dim": Shape.head_dim, "vocab_size": len(tokenizer.tokens),
        "rms_norm_eps": Shape.eps, "rope_theta": Shape.theta, "max_position_embeddings": 4096,
        "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "bfloat16", "eos_token_id": end,
    }
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>",
                        "chat_template": CHAT_TEMPLATE}

    def write(name, value, indent=None):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent, ensure_ascii=False)

    os.makedirs(folder, exist_ok=True)
    write("config.json", config, indent=1)
    write("generation_config.json", {"eos_token_id": end})
    write("tokenizer.json", tokenizer_json(tokenizer))
    write("tokenizer_config.json", tokenizer_config, indent=1)
    save_weights(named_weights(model), os.path.join(folder, "model.safetensors"))


def lengths(share, resumed, long_share):
    """(tokens, rows, easy) of a batch when this share of the time has passed."""
    if resumed:
        return (1024, 8, False) if share < 1 - long_share else (2048, 4, False)
    if share < 0.15:
        return 128, 64, True
    if share < 0.45:
        return 256, 32, False
    return (512, 16, False) if share < 0.85 else (1024, 8, False)


class Training:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        self.rng = random.Random(2)
        self.tokenizer = Tokenizer.train([render(dialogue(i, 12)) for i in range(600)], Shape.vocabulary)
        Shape.vocabulary = len(self.tokenizer.tokens)
        self.model = Model().to(self.device)
        if args.resume:
            self.model.load_state_dict(torch.load(args.resume, map_location=self.device))
        matrices = [p for p in self.model.layers.parameters() if p.ndim == 2]
        others = [p for p in self.model.parameters() if p.ndim < 2] + [self.model.emb.weight]
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0)
        self.started, self.steps, self.seen = time.time(), 0, 0

    def step(self, share):
        """One batch; its length, its loss, and the loss on answers alone."""
        tokens, rows, easy = lengths(share, self.args.resume, self.args.long)
        if self.device == "cuda":
            rows *= 8
        rate = min(1, (self.steps + 1) / 100) * (1 if share < 0.5 else max(0.02, (1 - share) / 0.5))
        ids, weights = draw_batch(self.tokenizer, self.rng, tokens, rows, easy)
        ids, weights = ids.to(self.device), weights.to(self.device)[:, 1:].reshape(-1)
        with torch.autocast(self.device, dtype=torch.bfloat16):
            logits = self.model(ids[:, :-1])
        losses = F.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="none")
        loss = (losses * weights).sum() / weights.sum()
        loss.backward()
        self.muon.step(self.args.lr * rate)
        for group in self.adam.param_groups:
            group["lr"] = 3e-3 * rate
        self.adam.step()
        self.adam.zero_grad()
        self.steps += 1
        self.seen += ids.numel()
        answers = weights > 0.5
        return tokens, loss.item(), ((losses * answers).sum() / answers.sum()).item()

    def exact(self, count, rounds):
        return {r: evaluate(self.model, self.tokenizer, self.device, count, r) for r in rounds}

    def save(self):
        torch.save(self.model.state_dict(), self.args.out + ".ckpt")
        save(self.model, self.tokenizer, self.args.out)

    def run(self):
        while (share := (time.time() - self.started) / 60 / self.args.minutes) < 1:
            tokens, loss, answer_loss = self.step(share)
            if self.steps % 100 == 0:
                speed = self.seen / (time.time() - self.started)
                print(f"{self.steps} T={tokens} loss {loss:.3f} answer {answer_loss:.3f} tok {self.seen / 1e6:.1f}M "
                      f"{speed:.0f}/s {100 * share:.0f}%", flush=True)
            if self.steps % 1000 == 0:
                print("  exact", self.exact(40, (2, 6, 12)), flush=True)
                self.save()
        self.save()
        print("final exact", self.exact(100, (2, 6, 12, 20)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="the Hugging Face folder to write; the checkpoint goes beside it as OUT.ckpt")
    parser.add_argument("--minutes", type=float, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", metavar="CHECKPOINT")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--long", type=float, default=0.0, help="share of a resumed run on 2048 tokens, at its end")
    training = Training(parser.parse_args())
    parameters = sum(p.numel() for p in training.model.parameters())
    print(f"vocabulary {Shape.vocabulary}, {parameters / 1e6} M parameters", flush=True)
    training.run()


if __name__ == "__main__":
    main()
