#!/usr/bin/python3
"""Logits of a Hugging Face folder or a GGUF file in float64, straight from the published definitions: what the engine is
measured against. Quantized weights are dequantized by tools/gguf_files.py, in numpy.

  reference.py MODEL --tokens 1,2,3 [--out LOGITS.npy] [--compare ENGINE.npy] [--greedy N]

Knows Llama, Mistral, Qwen2 and Qwen3 with any ratio of query to KV heads, biases, QK norm, tied or untied embeddings,
and rope scaling `linear` and `llama3`. --compare prints |difference| / |reference| of all logits that
`rondo score --logits` wrote. --greedy prints the N tokens that follow and the smallest lead of a chosen one over the
next best.
"""
import argparse

import numpy as np

from gguf_files import read_gguf_model
from model_files import head_dim, read_folder


def rope_settings(config):
    """Theta and the scaling table, in either of the two places config.json keeps them."""
    rope = config.get("rope_parameters") or {}
    theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    return theta, rope or config.get("rope_scaling") or {}


def inverse_frequency(config):
    size = head_dim(config)
    theta, scaling = rope_settings(config)
    frequency = theta ** -(np.arange(0, size, 2, dtype=np.float64) / size)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequency
    if kind == "linear":
        return frequency / scaling["factor"]
    if kind != "llama3":
        raise SystemExit(f"rope scaling '{kind}': expected linear or llama3")
    # Waves longer than the original context divided by `low` are slowed by the factor, those shorter than it divided by
    # `high` are kept, and between the two the share kept falls linearly in (original context / wavelength).
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    waves = scaling["original_max_position_embeddings"] * frequency / (2 * np.pi)
    kept = np.clip((waves - low) / (high - low), 0.0, 1.0)
    return frequency * (kept + (1.0 - kept) / scaling["factor"])


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, cos, sin):
    """x [n, heads, d]; channel i and i + d/2 are a pair."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Model:
    def __init__(self, config, tensors):
        self.config = config
        self.tensors = tensors
        self.frequency = inverse_frequency(config)
        if "rope_freqs.weight" in tensors:  # how GGUF keeps llama3's scaling
            self.frequency = self.frequency / self.weight("rope_freqs.weight")
        self.eps = config["rms_norm_eps"]

    def weight(self, name):
        return self.tensors[name].astype(np.float64)

    def linear(self, x, name):
        y = x @ self.weight(name + ".weight").T
        if name + ".bias" in self.tensors:
            y = y + self.weight(name + ".bias")
        return y

    def attention(self, x, prefix):
        count, size = x.shape[0], head_dim(self.config)
        heads = self.config["num_attention_heads"]
        kv_heads = self.config.get("num_key_value_heads", heads)
        q = self.linear(x, prefix + "q_proj").reshape(count, heads, size)
        k = self.linear(x, prefix + "k_proj").reshape(count, kv_heads, size)
        v = self.linear(x, prefix + "v_proj").reshape(count, kv_heads, size)
        if prefix + "q_norm.weight" in self.tensors:
            q = rms_norm(q, self.weight(prefix + "q_norm.weight"), self.eps)
            k = rms_norm(k, self.weight(prefix + "k_norm.weight"), self.eps)
        angles = np.arange(count)[:, None, None] * self.frequency  # [n, 1, d/2]
        q, k = rotate(q, np.cos(angles), np.sin(angles)), rotate(k, np.cos(angles), np.sin(angles))
        out = np.empty_like(q)
        hidden = np.triu(np.ones((count, count), bool), 1)
        for head in range(heads):
            shared = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, shared].T / np.sqrt(size)
            scores[hidden] = -np.inf
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights = scores / scores.sum(axis=1, keepdims=True)
            self.look(prefix, head, weights)
            out[:, head] = weights @ v[:, shared]
        return self.linear(out.reshape(count, heads * size), prefix + "o_proj")

    def look(self, prefix, head, weights):
        """For who wants to know what rows attend to: weights [n, n] of a query head."""

    def feed_forward(self, x, prefix):
        gate = self.linear(x, prefix + "gate_proj")
        return self.linear(gate / (1.0 + np.exp(-gate)) * self.linear(x, prefix + "up_proj"), prefix + "down_proj")

    def logits(self, ids):
        """[n, vocabulary], every position's."""
        window = self.config.get("sliding_window")
        if window and self.config.get("use_sliding_window", True) and window < len(ids):
            raise SystemExit(f"sliding window {window} is shorter than the {len(ids)} tokens")
        x = self.weight("model.embed_tokens.weight")[ids]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            normed = rms_norm(x, self.weight(prefix + "input_layernorm.weight"), self.eps)
            x = x + self.attention(normed, prefix + "self_attn.")
            normed = rms_norm(x, self.weight(prefix + "post_attention_layernorm.weight"), self.eps)
            x = x + self.feed_forward(normed, prefix + "mlp.")
        x = rms_norm(x, self.weight("model.norm.weight"), self.eps)
        head = "lm_head.weight" if "lm_head.weight" in self.tensors else "model.embed_tokens.weight"
        return x @ self.weight(head).T

    def greedy(self, ids, count):
        """The next tokens, and the smallest lead of a chosen one over the next best."""
        answer, lead = [], np.inf
        for _ in range(count):
            last = self.logits(ids + answer)[-1]
            second, first = np.partition(last, -2)[-2:]
            lead = min(lead, first - second)
            answer.append(int(last.argmax()))
        return answer, lead


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, help="ids, separated by commas")
    parser.add_argument("--out", help="where all positions' logits go, as float64 .npy")
    parser.add_argument("--compare", help=".npy with the engine's logits of the same tokens")
    parser.add_argument("--greedy", type=int, default=0, metavar="N")
    args = parser.parse_args()

    read = read_gguf_model if args.model.endswith(".gguf") else read_folder
    model = Model(*read(args.model))
    ids = [int(part) for part in args.tokens.split(",")]
    reference = model.logits(ids)
    if args.out:
        np.save(args.out, reference)
    if args.compare:
        engine = np.load(args.compare).astype(np.float64)
        if engine.shape != reference.shape:
            raise SystemExit(f"{args.compare}: shape {engine.shape}, expected {reference.shape}")
        error = np.linalg.norm(engine - reference) / np.linalg.norm(reference)
        print(f"relative error {error:.3e}, largest difference {np.abs(engine - reference).max():.3e}")
    if args.greedy:
        answer, lead = model.greedy(ids, args.greedy)
        print(",".join(map(str, answer)))
        print(f"smallest lead {lead:.3e}")


if __name__ == "__main__":
    main()
