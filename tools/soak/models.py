"""The demo model in other forms: its weights in f32, in Q8_0, and with so many keys that reading them takes a while."""
import array
import json
import os
import shutil
import struct

DEEP_TIMES = 3  # as many layers, of the deep model
Q8_BLOCK = 32
GGUF_F32, GGUF_Q8_0, GGUF_ALIGNMENT = 0, 8, 32


class Tensors:
    """Of a folder whose model.safetensors holds bf16: shapes, and the bytes of the f32 of the same values."""

    def __init__(self, folder):
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, self.data = json.loads(file.read(size)), file.read()
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            if tensor["dtype"] != "BF16":
                raise SystemExit(f"{folder}: {name} is {tensor['dtype']}; it must be BF16")
        self.header = header

    def shape(self, name):
        return self.header[name]["shape"]

    def floats(self, name):
        begin, end = self.header[name]["data_offsets"]
        wide = bytearray(2 * (end - begin))  # an f32's upper half is the bf16
        wide[2::4], wide[3::4] = self.data[begin:end:2], self.data[begin + 1:end:2]
        return bytes(wide)


def read_json(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def write_folder(source, target, tensors, changes):
    """`tensors`: name -> (shape, bytes of f32). `changes` are config.json's."""
    os.makedirs(target)
    for name in os.listdir(source):
        if name.endswith(".json"):
            shutil.copy(os.path.join(source, name), target)
    header, end = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(target, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.writelines(data for _, data in tensors.values())
    config = read_json(source, "config.json") | {"torch_dtype": "float32"} | changes
    with open(os.path.join(target, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return target


def write_float_model(source, target):
    """Weights in f32, so that a product is the same sum whatever kernel computes it."""
    tensors = Tensors(source)
    own = {name: (tensors.shape(name), tensors.floats(name)) for name in tensors.header}
    return write_folder(source, target, own, {})


def write_deep_model(source, target):
    """Says what the f32 model says, with six times the keys: each key head twice, and layers behind the others that add
    nothing."""
    config, tensors = read_json(source, "config.json"), Tensors(source)
    size, layers, own = config["head_dim"], config["num_hidden_layers"], {}
    for name in tensors.header:
        shape, data = tensors.shape(name), tensors.floats(name)
        if name.split(".")[-2] in ("k_proj", "v_proj"):
            head = len(data) * size // shape[0]
            data = b"".join(2 * data[at:at + head] for at in range(0, len(data), head))
            shape = [2 * shape[0], *shape[1:]]
        own[name] = (shape, data)
    for layer in range(layers, DEEP_TIMES * layers):
        for name, (shape, data) in [(name, own[name]) for name in tensors.header if ".layers.0." in name]:
            adds = name.split(".")[-2] in ("o_proj", "down_proj")
            own[name.replace(".layers.0.", f".layers.{layer}.")] = (shape, bytes(len(data)) if adds else data)
    return write_folder(source, target, own, {"num_hidden_layers": DEEP_TIMES * layers,
                                              "num_key_value_heads": 2 * config["num_key_value_heads"]})


def q8_0(floats):
    """Blocks of 32: their largest value over 127 as an f16, and each value over that, rounded."""
    values, out = array.array("f", floats), bytearray()
    for at in range(0, len(values), Q8_BLOCK):
        block = values[at:at + Q8_BLOCK]
        scale = max(map(abs, block)) / 127
        out += struct.pack("<e32b", scale, *(round(value / scale) if scale else 0 for value in block))
    return bytes(out)


def side_by_side(rows, heads):
    """Rows of q or k in the order of GGUF's Llama, where a rotated pair stands side by side."""
    half = len(rows) // heads // 2
    return [rows[head * 2 * half + part * half + at] for head in range(heads) for at in range(half) for part in (0, 1)]


GGUF_NAMES = {"model.embed_tokens.": "token_embd.", "model.norm.": "output_norm.", "model.layers.": "blk.",
              "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
              "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    for old, new in GGUF_NAMES.items():
        name = name.replace(old, new)
    return name


def gguf_tensors(config, tensors):
    """name -> (shape, type, bytes): matrices in Q8_0, vectors in f32."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    out = {}
    for name in tensors.header:
        shape, data, part = tensors.shape(name), tensors.floats(name), name.split(".")[-2]
        if part in heads:
            row = 4 * shape[1]
            data = b"".join(side_by_side([data[at:at + row] for at in range(0, len(data), row)], heads[part]))
        out[gguf_name(name)] = (shape, GGUF_Q8_0, q8_0(data)) if len(shape) == 2 else (shape, GGUF_F32, data)
    return out


def gguf_metadata(source, config):
    tokenizer = read_json(source, "tokenizer.json")
    ids = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = sorted(ids, key=ids.get)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    merges = [one if isinstance(one, str) else " ".join(one) for one in tokenizer["model"]["merges"]]
    return {
        "general.architecture": "llama", "general.file_type": 7,
        "llama.block_count": config["num_hidden_layers"], "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"], "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.key_length": config["head_dim"], "llama.attention.value_length": config["head_dim"],
        "llama.rope.dimension_count": config["head_dim"], "llama.rope.freq_base": float(config["rope_theta"]),
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.vocab_size": config["vocab_size"],
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token in tokens],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.chat_template": read_json(source, "tokenizer_config.json")["chat_template"]}


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(value):
    if isinstance(value, list):
        texts = isinstance(value[0], str)
        items = b"".join(gguf_text(item) if texts else struct.pack("<i", item) for item in value)
        return struct.pack("<IIQ", 9, 8 if texts else 5, len(value)) + items
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def write_q8_model(source, target):
    """A GGUF file whose matrices are Q8_0."""
    config = read_json(source, "config.json")
    metadata, tensors = gguf_metadata(source, config), gguf_tensors(config, Tensors(source))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_text(key) + gguf_value(value) for key, value in metadata.items())
    body = bytearray()
    for name, (shape, kind, data) in tensors.items():
        head += gguf_text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in reversed(shape)) + struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % GGUF_ALIGNMENT)
    with open(target, "wb") as file:
        file.write(head + bytes(-len(head) % GGUF_ALIGNMENT) + body)
    return target
