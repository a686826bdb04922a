#!/usr/bin/python3
"""Writes tests/fixtures/golden/*.json: small models, and the float64 logits tools/reference.py computes for them.

No weights are stored: the tests make the same ones again (tests/model/golden_models.cpp) from the case's seed.
Element i (row-major) of a tensor is
    bits   = mix(seed + fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15)   mix: splitmix64's finaliser; all modulo 2^64
    u      = (bits >> 40) / 2^23 - 1                                    in [-1, 1), exact in float32
    value  = 1 + u / 4        weights of norms
             u / 4            biases
             u                the embedding table
             u * scale        other matrices; scale = the largest power of two with scale^2 * columns <= 4
so each is rounded at most once, and C++ and numpy agree to the bit. "f32" holds the logits of these weights, "bf16"
those of the weights rounded to bf16.

quantized.json has one model for each quantized type of GGUF: its matrices are blocks of the same bits, eight bytes of
each number, first byte lowest, with scale and minimum replaced (BLOCKS); "f32" holds the logits of what they stand for.

attention.json has one model of more layers, and of a dialogue what tools/attention_figures.py says of its attention.
"""
import argparse
import json
import os

import numpy as np

from attention_figures import LookingModel, figures, plain
from gguf_files import TYPES
from model_files import ARCHITECTURES, from_bf16, tensor_shapes, to_bf16
from reference import Model

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures", "golden")
VOCABULARY = 97
TOKENS = 40  # beyond two blocks of 16
ROWS = [17, TOKENS - 1]
HEADS = {1: (2, 2), 2: (4, 2), 7: (7, 1)}  # ratio: (query heads, KV heads)
# The original context lies within the test's tokens, so that kept, blended and slowed frequencies all occur.
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}
VARIANTS = {  # each architecture's own settings, one after the other over its cases
    "llama": [{}, {"rope_scaling": LLAMA3_ROPE}, {"rope_scaling": {"type": "linear", "factor": 2.5}},
              {"attention_bias": True}, {"mlp_bias": True}],
    "mistral": [{"sliding_window": None}, {"sliding_window": 4096}],
    "qwen2": [{"rope_theta": 1000000.0}, {"use_sliding_window": False, "sliding_window": 32}],
    "qwen3": [{"rope_theta": 1000000.0, "attention_bias": False}, {}],
}
SIZES = [(64, 136), (96, 160)]  # width and feed-forward width, in turn
# Of each type, by ggml's number: where a block has its scale and its minimum, and values that make weights of about 1/14
# with a mean of nearly nothing.
BLOCKS = {
    2: [(0, 2**-6)], 3: [(0, 2**-6), (2, -7.5 * 2**-6)], 6: [(0, 2**-7)], 7: [(0, 2**-7), (2, -15.5 * 2**-7)],
    8: [(0, 2**-10)], 10: [(80, 2**-7), (82, 1.5 * 2**-7)], 11: [(108, 2**-9)],
    12: [(0, 2**-12), (2, 7.5 * 2**-12)], 13: [(0, 2**-13), (2, 15.5 * 2**-13)], 14: [(208, 2**-14)], 20: [(0, 2**-10)],
    23: [(0, 2**-14)],
}
QUANTIZED = {
    "architectures": [ARCHITECTURES["qwen2"]], "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 256,
    "tie_word_embeddings": False, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
}


# A dialogue of five rounds behind a system's message of six tokens: where rounds begin, where the last one's words do,
# and where the model began to answer.
ATTENTION = {"rounds": [6, 41, 60, 97, 118], "question": 121, "turns": [30, 52, 88, 110, 139],
             "prompt": 139, "tokens": 150, "layers": 6, "gamma": 0.168, "layer_ratio": 0.5}


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_bits(seed, name, count):
    start = np.uint64((seed + fnv1a64(name)) & 0xFFFFFFFFFFFFFFFF)
    return mix(start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def tensor(seed, name, shape):
    bits = random_bits(seed, name, int(np.prod(shape)))
    u = ((bits >> np.uint64(40)).astype(np.float64) / 2**23 - 1).astype(np.float32).reshape(shape)
    if name.endswith("norm.weight"):
        return np.float32(1) + u * np.float32(0.25)
    if name.endswith(".bias"):
        return u * np.float32(0.25)
    if name == "model.embed_tokens.weight":
        return u
    scale = 1.0
    while scale * scale * shape[1] > 4:
        scale /= 2
    return u * np.float32(scale)


def case(kind, ratio, size, tied, number):
    heads, kv_heads = HEADS[ratio]
    width, ffn = SIZES[number % len(SIZES)]
    config = {
        "architectures": [ARCHITECTURES[kind]], "model_type": kind, "hidden_size": width, "intermediate_size": ffn,
        "num_hidden_layers": 2, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": size,
        "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 256,
        "tie_word_embeddings": tied, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
        **VARIANTS[kind][number % len(VARIANTS[kind])],
    }
    seed = 1000 + 100 * list(ARCHITECTURES).index(kind) + number
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, TOKENS).tolist()
    weights = {name: tensor(seed, name, shape) for name, shape in tensor_shapes(config).items()}
    rounded = {name: from_bf16(to_bf16(values)) for name, values in weights.items()}
    text = {
        "f32": [f"{x:.9g}" for x in Model(config, weights).logits(tokens)[ROWS].ravel()],
        "bf16": [f"{x:.5g}" for x in Model(config, rounded).logits(tokens)[ROWS].ravel()],
    }
    head = {"name": f"{kind}_gqa{ratio}_head{size}_{'tied' if tied else 'untied'}", "seed": seed, "config": config,
            "tokens": tokens, "rows": ROWS}
    logits = "".join(f',\n "{name}": [{",".join(numbers)}]' for name, numbers in text.items())
    return json.dumps(head)[:-1] + logits + "}"


def quantized_tensor(seed, name, shape, kind):
    if len(shape) == 1:
        return tensor(seed, name, shape)
    _, elements, size, dequantize = TYPES[kind]
    count = int(np.prod(shape)) // elements
    data = random_bits(seed, name, -(-count * size // 8)).view(np.uint8)[:count * size].reshape(count, size).copy()
    for at, value in BLOCKS[kind]:
        data[:, at:at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)
    return dequantize(data).reshape(shape)


def quantized_case(kind):
    seed = 2000 + kind
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, TOKENS).tolist()
    weights = {name: quantized_tensor(seed, name, shape, kind) for name, shape in tensor_shapes(QUANTIZED).items()}
    rows = [TOKENS - 1]
    numbers = ",".join(f"{x:.6g}" for x in Model(QUANTIZED, weights).logits(tokens)[rows].ravel())
    head = {"name": f"quantized_{TYPES[kind][0].lower()}", "seed": seed, "config": QUANTIZED, "tokens": tokens,
            "rows": rows}
    return json.dumps(head)[:-1] + f',\n "f32": [{numbers}],\n "bf16": []' + "}"


def attention_case():
    config = {**QUANTIZED, "hidden_size": 64, "intermediate_size": 136, "num_hidden_layers": ATTENTION["layers"],
              "head_dim": 32}
    seed = 3000
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, ATTENTION["tokens"]).tolist()
    weights = {name: tensor(seed, name, shape) for name, shape in tensor_shapes(config).items()}
    model = LookingModel(config, weights)
    found = figures(model, tokens, ATTENTION["prompt"], ATTENTION["rounds"], ATTENTION["question"],
                    ATTENTION["turns"], ATTENTION["gamma"], ATTENTION["layer_ratio"])
    rows = [ATTENTION["tokens"] - 1]
    numbers = ",".join(f"{x:.9g}" for x in model.logits(tokens)[rows].ravel())
    head = {"name": "attention_six_layers", "seed": seed, "config": config, "tokens": tokens, "rows": rows}
    told = {key: ATTENTION[key] for key in ("rounds", "question", "turns", "prompt", "gamma", "layer_ratio")}
    lines = "".join(f',\n "{key}": {json.dumps(value)}' for key, value in {**told, **plain(found)}.items())
    return json.dumps(head)[:-1] + f',\n "f32": [{numbers}],\n "bf16": []' + lines + "}"


def write_cases(name, cases):
    path = os.path.join(FOLDER, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"about": "written by tools/make_golden.py, which says how the weights come about",\n')
        file.write('"cases": [\n')
        file.write(",\n".join(cases) + "\n]}\n")
    print(f"{path}: {len(cases)} cases, {os.path.getsize(path)} bytes")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for kind in ARCHITECTURES:
        shapes = [(ratio, size, tied) for ratio in HEADS for size in (32, 64, 128) for tied in (True, False)]
        cases = [case(kind, *shape, number) for number, shape in enumerate(shapes)]
        write_cases(kind, cases)
    write_cases("quantized", [quantized_case(kind) for kind in BLOCKS])
    write_cases("attention", [attention_case()])


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
