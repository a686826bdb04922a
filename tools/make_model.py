#!/usr/bin/python3
"""Writes one random-weight model twice: as a Hugging Face folder (safetensors) and as a GGUF file of the same
weights, so that the engine and a peer can be measured, or compared number by number, on the same work.

  make_model.py OUT [--shape NAME] [--arch llama|mistral|qwen2|qwen3] [--layers N] [--dim D] [--heads H] [--kv KV]
                [--head-dim HD] [--ffn F] [--vocab V] [--tied | --untied] [--attention-bias] [--dtype f32|bf16|f16]
                [--rope none|linear|llama3] [--rope-factor X] [--rope-original N] [--theta T] [--ctx C]
                [--std X] [--seed S] [--no-gguf]
"""
import argparse
import json
import os

import numpy as np

from model_files import (ARCHITECTURES, GGUF_FILE_TYPE, gguf_name, head_dim, pair_neighbours, tensor_shapes, write_gguf,
                         write_safetensors)
from reference import inverse_frequency

SHAPES = {
    "tiny": dict(arch="qwen2", layers=4, dim=128, heads=8, kv=4, head_dim=16, ffn=352, vocab=512, tied=True),
    "odd": dict(arch="llama", layers=5, dim=192, heads=6, kv=2, head_dim=32, ffn=440, vocab=777, tied=False),
    "qwen2-0.5b": dict(arch="qwen2", layers=24, dim=896, heads=14, kv=2, head_dim=64, ffn=4864, vocab=151936,
                       tied=True),
    "qwen3-0.6b": dict(arch="qwen3", layers=28, dim=1024, heads=16, kv=8, head_dim=128, ffn=3072, vocab=151936,
                       tied=True),
    "llama-1b": dict(arch="llama", layers=16, dim=2048, heads=32, kv=8, head_dim=64, ffn=8192, vocab=128256,
                     tied=True),
    "llama-mha": dict(arch="llama", layers=16, dim=1024, heads=16, kv=16, head_dim=64, ffn=2816, vocab=32000,
                      tied=True),
}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "Ġ a", "h e", "i n", "r e", "o n", "Ġt he", "e r", "Ġ s", "a t", "Ġ w", "Ġ o", "e n", "i t", "o r",
          "i s", "Ġ b", "e s", "Ġ c", "a n"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
CHAT_TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TORCH_NAME = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def byte_alphabet():
    """The printable character each byte is written as in byte-level BPE."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in keep]
    return {byte: chr(byte) for byte in keep} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def vocabulary(size):
    """`size` tokens: bytes, a few merges, padding, the special ones; and the merges used."""
    if size < 256 + len(SPECIAL):
        raise SystemExit(f"--vocab {size}: at least {256 + len(SPECIAL)}")
    alphabet = byte_alphabet()
    merges = MERGES[:size - 256 - len(SPECIAL)]
    tokens = [alphabet[byte] for byte in range(256)] + [merge.replace(" ", "") for merge in merges]
    tokens += [f"<|pad_{i}|>" for i in range(size - len(SPECIAL) - len(tokens))]
    return tokens + SPECIAL, merges


def model_config(shape, args):
    config = {
        "architectures": [ARCHITECTURES[shape["arch"]]],
        "model_type": shape["arch"],
        "hidden_size": shape["dim"],
        "intermediate_size": shape["ffn"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv"],
        "head_dim": shape["head_dim"],
        "vocab_size": shape["vocab"],
        "rms_norm_eps": 1e-6,
        "rope_theta": args.theta,
        "max_position_embeddings": args.ctx,
        "tie_word_embeddings": shape["tied"],
        "hidden_act": "silu",
        "torch_dtype": TORCH_NAME[args.dtype],
        "bos_token_id": shape["vocab"] - 3,
        "eos_token_id": shape["vocab"] - 1,
    }
    if args.attention_bias:
        config["attention_bias"] = True
    if args.rope == "linear":
        config["rope_scaling"] = {"type": "linear", "factor": args.rope_factor}
    if args.rope == "llama3":
        config["rope_scaling"] = {"rope_type": "llama3", "factor": args.rope_factor, "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0, "original_max_position_embeddings": args.rope_original}
    return config


def random_tensors(config, std, seed):
    """Normal with deviation `std`; the weights of norms lie about 1."""
    random = np.random.default_rng(seed)

    def draw(name, shape):
        values = random.standard_normal(shape, dtype=np.float32)
        return 1.0 + 0.1 * values if name.endswith("norm.weight") else values * std

    return {name: draw(name, shape).astype(np.float32) for name, shape in tensor_shapes(config).items()}


def write_json(folder, name, value, **options):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, **options)


def write_tokenizer(folder, tokens, merges):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    write_json(folder, "tokenizer.json", {
        "version": "1.0",
        "added_tokens": [{"id": tokens.index(token), "content": token, **flags} for token in SPECIAL],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges,
        },
    })
    write_json(folder, "tokenizer_config.json", {
        "tokenizer_class": "Qwen2Tokenizer", "eos_token": SPECIAL[2], "bos_token": None, "pad_token": SPECIAL[0],
        "chat_template": CHAT_TEMPLATE,
    }, indent=1)


def gguf_metadata(config, name, dtype, tokens, merges):
    kind = gguf_architecture(config)
    kinds = [3 if token in SPECIAL else 1 for token in tokens]  # none unused: random weights draw any of them
    metadata = {
        "general.architecture": kind,
        "general.name": name,
        f"{kind}.block_count": config["num_hidden_layers"],
        f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": config["hidden_size"],
        f"{kind}.feed_forward_length": config["intermediate_size"],
        f"{kind}.attention.head_count": config["num_attention_heads"],
        f"{kind}.attention.head_count_kv": config["num_key_value_heads"],
        f"{kind}.attention.key_length": head_dim(config),
        f"{kind}.attention.value_length": head_dim(config),
        f"{kind}.rope.dimension_count": head_dim(config),
        f"{kind}.rope.freq_base": config["rope_theta"],
        f"{kind}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{kind}.vocab_size": config["vocab_size"],
        "general.file_type": GGUF_FILE_TYPE[dtype],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    scaling = config.get("rope_scaling", {})
    if scaling.get("type") == "linear":
        metadata |= {f"{kind}.rope.scaling.type": "linear", f"{kind}.rope.scaling.factor": scaling["factor"]}
    return metadata


def gguf_architecture(config):
    """GGUF keeps Mistral as a Llama."""
    return "llama" if config["model_type"] == "mistral" else config["model_type"]


def gguf_tensors(config, tensors):
    """The same weights as GGUF lays them out: Llama's q and k permuted, llama3's scaling as a table of divisors."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    out = {}
    if config.get("rope_scaling", {}).get("rope_type") == "llama3":
        plain = inverse_frequency({**config, "rope_scaling": None})
        out["rope_freqs.weight"] = (plain / inverse_frequency(config)).astype(np.float32)
    for name, values in tensors.items():
        part = name.split(".")[-2]
        if part in heads and gguf_architecture(config) == "llama":
            values = pair_neighbours(values, heads[part])
        out[gguf_name(name)] = values
    return out


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--arch", choices=ARCHITECTURES)
    for option in ("layers", "dim", "heads", "kv", "head-dim", "ffn", "vocab"):
        parser.add_argument("--" + option, type=int)
    parser.add_argument("--tied", action="store_true", default=None)
    parser.add_argument("--untied", dest="tied", action="store_false")
    parser.add_argument("--attention-bias", action="store_true")
    parser.add_argument("--dtype", default="bf16", choices=TORCH_NAME)
    parser.add_argument("--rope", default="none", choices=["none", "linear", "llama3"])
    parser.add_argument("--rope-factor", type=float, default=8.0)
    parser.add_argument("--rope-original", type=int, default=8192)
    parser.add_argument("--theta", type=float, default=10000.0)
    parser.add_argument("--ctx", type=int, default=32768)
    parser.add_argument("--std", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--no-gguf", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    given = {key: value for key, value in vars(args).items() if value is not None}
    shape = {key: given.get(key, value) for key, value in SHAPES[args.shape].items()}
    tokens, merges = vocabulary(shape["vocab"])
    config = model_config(shape, args)
    tensors = random_tensors(config, args.std, args.seed)

    os.makedirs(args.out, exist_ok=True)
    write_json(args.out, "config.json", config, indent=1)
    write_json(args.out, "generation_config.json", {
        "bos_token_id": config["bos_token_id"], "eos_token_id": [config["eos_token_id"], config["bos_token_id"]]})
    write_tokenizer(args.out, tokens, merges)
    write_safetensors(os.path.join(args.out, "model.safetensors"), tensors, args.dtype)
    if not args.no_gguf:
        metadata = gguf_metadata(config, args.shape, args.dtype, tokens, merges)
        path = os.path.join(args.out, "model.gguf")  # last, and whole: where it is, all of them are
        write_gguf(path + ".unfinished", metadata, gguf_tensors(config, tensors), args.dtype)
        os.rename(path + ".unfinished", path)


if __name__ == "__main__":
    main()
