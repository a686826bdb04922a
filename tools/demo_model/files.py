#!/usr/bin/python3
"""The demo model's files: a checkpoint of train.py, and the Hugging Face folder that everything else reads.

  files.py CHECKPOINT FOLDER     writes the folder
"""
import argparse
import json
import struct
from pathlib import Path

import torch

from model import Model, Shape
from plain import DIM
from tokenizer import CHAT_TEMPLATE, SPECIAL, SPLIT, Tokenizer


def parts_of(shape):
    """Name in a Llama's files -> (layer's parameter, first row, rows)."""
    queries, keys = shape.heads * DIM, shape.kv_heads * DIM
    return {
        "self_attn.q_proj": ("qkv", 0, queries), "self_attn.k_proj": ("qkv", queries, keys),
        "self_attn.v_proj": ("qkv", queries + keys, keys), "self_attn.o_proj": ("o", 0, shape.width),
        "mlp.gate_proj": ("gate_up", 0, shape.ffn), "mlp.up_proj": ("gate_up", shape.ffn, shape.ffn),
        "mlp.down_proj": ("down", 0, shape.width), "input_layernorm": ("norm1", 0, shape.width),
        "post_attention_layernorm": ("norm2", 0, shape.width),
    }


def named_weights(model):
    out = {"model.embed_tokens.weight": model.embedding.data, "model.norm.weight": model.norm.data}
    for i, layer in enumerate(model.layers):
        for name, (own, row, rows) in parts_of(model.shape).items():
            out[f"model.layers.{i}.{name}.weight"] = getattr(layer, own).data[row:row + rows]
    return out


def save_weights(named, path):
    header, offset, blobs = {"__metadata__": {"format": "pt"}}, 0, []
    for name, weight in named.items():
        blob = weight.detach().cpu().to(torch.bfloat16).view(torch.int16).contiguous().numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob)


def tokenizer_json(tokenizer):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "normalizer": None,
        "added_tokens": [{"id": tokenizer.ids[token], "content": token, **flags} for token in SPECIAL],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "decoder": byte_level,
        "model": {"type": "BPE", "unk_token": None, "fuse_unk": False, "byte_fallback": False, "vocab": tokenizer.ids,
                  "merges": [f"{left} {right}" for left, right in tokenizer.merges]},
    }


def save_folder(model, tokenizer, folder):
    shape, folder = model.shape, Path(folder)
    end = tokenizer.ids["<|end|>"]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": shape.width,
        "intermediate_size": shape.ffn, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": DIM, "vocab_size": len(tokenizer.tokens),
        "rms_norm_eps": shape.eps, "rope_theta": shape.theta, "max_position_embeddings": shape.context,
        "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "bfloat16", "eos_token_id": end,
    }
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>",
                        "chat_template": CHAT_TEMPLATE}

    def write(name, value, indent=None):
        with open(folder / name, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent, ensure_ascii=False)

    folder.mkdir(parents=True, exist_ok=True)
    write("config.json", config, indent=1)
    write("generation_config.json", {"eos_token_id": end})
    write("tokenizer.json", tokenizer_json(tokenizer))
    write("tokenizer_config.json", tokenizer_config, indent=1)
    save_weights(named_weights(model), folder / "model.safetensors")


def load_checkpoint(path):
    state = torch.load(path, map_location="cpu")
    model = Model(Shape(**state["shape"]))
    model.load_state_dict(state["model"])
    return model, Tokenizer(state["merges"])


def load_folder(folder):
    """A folder that save_folder wrote."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    shape = Shape(width=config["hidden_size"], layers=config["num_hidden_layers"], heads=config["num_attention_heads"],
                  kv_heads=config["num_key_value_heads"], ffn=config["intermediate_size"],
                  vocabulary=config["vocab_size"], theta=config["rope_theta"], eps=config["rms_norm_eps"])
    raw = (folder / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header, blob = json.loads(raw[8:8 + size]), raw[8 + size:]
    model = Model(shape)
    for name, weight in named_weights(model).items():
        begin, end = header[name]["data_offsets"]
        saved = torch.frombuffer(bytearray(blob[begin:end]), dtype=torch.int16).view(torch.bfloat16)
        weight.copy_(saved.float().view(weight.shape))
    merges = json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]
    return model, Tokenizer([tuple(pair.split(" ")) for pair in merges])


def load(path):
    """(model, tokenizer) of a checkpoint, of a Hugging Face folder, or of a folder's latest checkpoint."""
    path = Path(path)
    if path.is_dir() and not (path / "config.json").exists():
        path = sorted(path.glob("checkpoint_*.pt"))[-1]
    return load_folder(path) if path.is_dir() else load_checkpoint(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a file, or a folder of checkpoints whose latest is taken")
    parser.add_argument("folder")
    args = parser.parse_args()
    save_folder(*load(args.checkpoint), args.folder)


if __name__ == "__main__":
    main()
