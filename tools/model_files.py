"""What the Python tools know of model files: the tensors of each architecture, safetensors both ways, GGUF to write.

Tools are for people; neither the build nor the tests need them, so nothing here shares code with the C++ loaders.
"""
import json
import os
import struct

import numpy as np

BIASED = {"qwen2"}  # q, k and v have biases without being asked
QK_NORM = {"qwen3"}  # q and k of each head are normalised
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def tensor_shapes(config):
    """Name -> shape of every tensor a model with this config.json has, in the order files list them."""
    width, ffn = config["hidden_size"], config["intermediate_size"]
    size = head_dim(config)
    queries = config["num_attention_heads"] * size
    keys = config.get("num_key_value_heads", config["num_attention_heads"]) * size
    kind = config["model_type"]
    attention_bias = config.get("attention_bias", False)
    qkv_bias = kind in BIASED or attention_bias
    linear = {  # name: (outputs, inputs, bias)
        "self_attn.q_proj": (queries, width, qkv_bias),
        "self_attn.k_proj": (keys, width, qkv_bias),
        "self_attn.v_proj": (keys, width, qkv_bias),
        "self_attn.o_proj": (width, queries, attention_bias),
        "mlp.gate_proj": (ffn, width, config.get("mlp_bias", False)),
        "mlp.up_proj": (ffn, width, config.get("mlp_bias", False)),
        "mlp.down_proj": (width, ffn, config.get("mlp_bias", False)),
    }
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = (width,)
        shapes[prefix + "post_attention_layernorm.weight"] = (width,)
        if kind in QK_NORM:
            shapes[prefix + "self_attn.q_norm.weight"] = (size,)
            shapes[prefix + "self_attn.k_norm.weight"] = (size,)
        for name, (outputs, inputs, bias) in linear.items():
            shapes[prefix + name + ".weight"] = (outputs, inputs)
            if bias:
                shapes[prefix + name + ".bias"] = (outputs,)
    shapes["model.norm.weight"] = (width,)
    if not config.get("tie_word_embeddings", False):
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    return shapes


def to_bf16(values):
    """The upper halves of float32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


ENCODE = {
    "f32": lambda values: np.ascontiguousarray(values, np.float32).tobytes(),
    "f16": lambda values: np.ascontiguousarray(values, np.float16).tobytes(),
    "bf16": lambda values: to_bf16(values).tobytes(),
}
DECODE = {
    "F32": lambda data: np.frombuffer(data, np.float32),
    "F16": lambda data: np.frombuffer(data, np.float16).astype(np.float32),
    "BF16": lambda data: from_bf16(np.frombuffer(data, np.uint16)),
}
ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}


def write_safetensors(path, tensors, dtype):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        end = offset + values.size * ELEMENT_BYTES[dtype]
        header[name] = {"dtype": dtype.upper(), "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(ENCODE[dtype](values))


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = DECODE[entry["dtype"]](data[begin:end].tobytes()).reshape(entry["shape"])
    return tensors


def read_folder(folder):
    """config.json and all tensors of a Hugging Face folder, single file or sharded."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    tensors = {}
    for name in names:
        tensors.update(read_safetensors(os.path.join(folder, name)))
    return config, tensors


# GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.
GGUF_TENSOR_TYPE = {"f32": 0, "f16": 1, "bf16": 30}
GGUF_FILE_TYPE = {"f32": 0, "f16": 1, "bf16": 32}
GGUF_ALIGNMENT = 32
GGUF_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
GGUF_PART = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    if name in GGUF_TOP:
        return GGUF_TOP[name]
    _, _, layer, rest = name.split(".", 3)
    part, leaf = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_PART[part]}.{leaf}"


def pair_neighbours(values, heads):
    """Rows of Hugging Face's q or k, a rotated pair half a head apart, in the order of GGUF's Llama: side by side."""
    half = values.shape[0] // heads // 2
    return values.reshape(heads, 2, half, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """The type number of a metadata value and its bytes."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _string(value)
    texts = len(value) == 0 or isinstance(value[0], str)
    items = [_string(item) if texts else struct.pack("<i", item) for item in value]
    return 9, struct.pack("<IQ", 8 if texts else 5, len(value)) + b"".join(items)


def write_gguf(path, metadata, tensors, dtype):
    """`tensors` under their GGUF names. Vectors stay f32 in every file, as llama.cpp wants them."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, data = _value(value)
        header += _string(key) + struct.pack("<I", kind) + data
    offset = 0
    stored = {name: "f32" if values.ndim == 1 else dtype for name, values in tensors.items()}
    for name, values in tensors.items():
        header += _string(name) + struct.pack("<I", values.ndim)
        header += b"".join(struct.pack("<Q", size) for size in reversed(values.shape))
        header += struct.pack("<IQ", GGUF_TENSOR_TYPE[stored[name]], offset)
        offset += values.size * ELEMENT_BYTES[stored[name]]
        offset += -offset % GGUF_ALIGNMENT
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % GGUF_ALIGNMENT))
        for name, values in tensors.items():
            data = ENCODE[stored[name]](values)
            file.write(data + b"\0" * (-len(data) % GGUF_ALIGNMENT))
