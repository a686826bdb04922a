"""Reads GGUF files for the Python tools: the metadata, and every tensor as float32.

The dequantizers are written from the formats' layouts in numpy and share nothing with the engine's, which is held
against them. A split model is read from all its parts, whichever is given.
"""
import os
import re
import struct

import numpy as np

from model_files import GGUF_PART, GGUF_TOP, from_bf16

SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1", 10: "<u8", 11: "<i8",
           12: "<f8"}
IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def _half(blocks, at):
    return blocks[:, at:at + 2].copy().view("<f2").astype(np.float32)  # [n, 1]


def _nibbles(part):
    """[n, 16·k] bytes: of each 16 the low nibbles, then the high ones."""
    groups = part.reshape(len(part), -1, 16)
    return np.concatenate([groups & 15, groups >> 4], axis=2).reshape(len(part), -1)


def _nibbles_by_32(part):
    groups = part.reshape(len(part), -1, 32)
    return np.concatenate([groups & 15, groups >> 4], axis=2).reshape(len(part), -1)


def _pairs(part):
    """[n, 64] bytes, two halves of 32: four planes of two bits each."""
    halves = part.reshape(len(part), 2, 1, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 1, 4, 1)
    return (halves >> shifts & 3).reshape(len(part), 256)


def _bits(part, count):
    """`count` planes of one bit, each as long as the part."""
    shifts = np.arange(count, dtype=np.uint8).reshape(1, count, 1)
    return (part[:, None, :] >> shifts & 1).reshape(len(part), -1)


def _fifth_bits(part):
    return np.unpackbits(part, axis=1, bitorder="little")


def _scales_6bit(part):
    """The 12 bytes of q4_K and q5_K: 8 scales and 8 minima."""
    low, mid, high = part[:, 0:4], part[:, 4:8], part[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], axis=1)
    return scales, minima


def _scaled(codes, scales, per):
    return codes.astype(np.float32) * np.repeat(scales, per, axis=1)


def _q8_0(b):
    return _half(b, 0) * b[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(b):
    return _half(b, 0) * (_nibbles(b[:, 2:]).astype(np.float32) - 8)


def _q4_1(b):
    return _half(b, 0) * _nibbles(b[:, 4:]).astype(np.float32) + _half(b, 2)


def _q5_0(b):
    codes = _nibbles(b[:, 6:]) | _fifth_bits(b[:, 2:6]) << 4
    return _half(b, 0) * (codes.astype(np.float32) - 16)


def _q5_1(b):
    codes = _nibbles(b[:, 8:]) | _fifth_bits(b[:, 4:8]) << 4
    return _half(b, 0) * codes.astype(np.float32) + _half(b, 2)


def _q2_k(b):
    scales = _half(b, 80) * (b[:, :16] & 15).astype(np.float32)
    minima = _half(b, 82) * (b[:, :16] >> 4).astype(np.float32)
    return _scaled(_pairs(b[:, 16:80]), scales, 16) - np.repeat(minima, 16, axis=1)


def _q3_k(b):
    codes = (_pairs(b[:, 32:96]) | _bits(b[:, :32], 8) << 2).astype(np.float32) - 4
    packed = b[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = np.concatenate([packed[:, 8:] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1)
    scales = (low | high << 4).astype(np.float32) - 32
    return _scaled(codes, _half(b, 108) * scales, 16)


def _q4_k(b):
    scales, minima = _scales_6bit(b[:, 4:16])
    low = _half(b, 2) * minima.astype(np.float32)
    return _scaled(_nibbles_by_32(b[:, 16:]), _half(b, 0) * scales.astype(np.float32), 32) - np.repeat(low, 32, axis=1)


def _q5_k(b):
    scales, minima = _scales_6bit(b[:, 4:16])
    codes = _nibbles_by_32(b[:, 48:]) | _bits(b[:, 16:48], 8) << 4
    low = _half(b, 2) * minima.astype(np.float32)
    return _scaled(codes, _half(b, 0) * scales.astype(np.float32), 32) - np.repeat(low, 32, axis=1)


def _q6_k(b):
    low = b[:, :128].reshape(len(b), 2, 2, 32)  # half, 32 of its first or second 32
    low = np.stack([low[:, :, 0] & 15, low[:, :, 1] & 15, low[:, :, 0] >> 4, low[:, :, 1] >> 4], axis=2)
    codes = low.reshape(len(b), 256) | _pairs(b[:, 128:192]) << 4
    scales = _half(b, 208) * b[:, 192:208].view(np.int8).astype(np.float32)
    return _scaled(codes.astype(np.float32) - 32, scales, 16)


def _iq4_nl(b):
    return _half(b, 0) * IQ4_VALUES[_nibbles(b[:, 2:])]


def _iq4_xs(b):
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], axis=2).reshape(len(b), 8)
    high = b[:, 2:4].copy().view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = (low | high.astype(np.uint8) << 4).astype(np.float32) - 32
    return _scaled(IQ4_VALUES[_nibbles(b[:, 8:])], _half(b, 0) * scales, 32)


# id: (name, elements of a block, bytes of a block, dequantizer of [blocks, bytes])
TYPES = {
    0: ("F32", 1, 4, lambda b: b.copy().view("<f4")),
    1: ("F16", 1, 2, lambda b: b.copy().view("<f2").astype(np.float32)),
    30: ("BF16", 1, 2, lambda b: from_bf16(b.copy().view("<u2"))),
    2: ("Q4_0", 32, 18, _q4_0),
    3: ("Q4_1", 32, 20, _q4_1),
    6: ("Q5_0", 32, 22, _q5_0),
    7: ("Q5_1", 32, 24, _q5_1),
    8: ("Q8_0", 32, 34, _q8_0),
    10: ("Q2_K", 256, 84, _q2_k),
    11: ("Q3_K", 256, 110, _q3_k),
    12: ("Q4_K", 256, 144, _q4_k),
    13: ("Q5_K", 256, 176, _q5_k),
    14: ("Q6_K", 256, 210, _q6_k),
    20: ("IQ4_NL", 32, 18, _iq4_nl),
    23: ("IQ4_XS", 256, 136, _iq4_xs),
}


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        kind = np.dtype(form)
        self.at += kind.itemsize
        return self.data[self.at - kind.itemsize:self.at].view(kind)[0].item()

    def text(self):
        length = self.number("<u8")
        self.at += length
        return self.data[self.at - length:self.at].tobytes().decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.number("<u4"), self.number("<u8")
            return [self.value(element) for _ in range(count)]
        return self.number(SCALARS[kind])


def read_one(path):
    """One file: metadata, and tensors (name: (type name, float32 values)) under their GGUF names."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    if bytes(data[:4]) != b"GGUF":
        raise SystemExit(f"{path}: not a GGUF file")
    reader = _Reader(data)
    reader.at = 8
    tensors, entries = reader.number("<u8"), reader.number("<u8")
    metadata = {}
    for _ in range(entries):
        key = reader.text()
        metadata[key] = reader.value(reader.number("<u4"))
    infos = []
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.number("<u8") for _ in range(reader.number("<u4"))]
        infos.append((name, shape[::-1], reader.number("<u4"), reader.number("<u8")))
    alignment = metadata.get("general.alignment", 32)
    begin = -(-reader.at // alignment) * alignment
    out = {}
    for name, shape, kind, offset in infos:
        type_name, elements, size, dequantize = TYPES[kind]
        blocks = int(np.prod(shape)) // elements
        part = np.array(data[begin + offset:begin + offset + blocks * size]).reshape(blocks, size)
        out[name] = (type_name, dequantize(part).reshape(shape))
    return metadata, out


def part_paths(path):
    """All parts of a split model, or the path alone."""
    split = re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.gguf", path)
    if not split:
        return [path]
    count = int(split[3])
    return [f"{split[1]}-{i + 1:05}-of-{count:05}.gguf" for i in range(count)]


def read_gguf(path):
    """Metadata of the first part, tensors of all."""
    metadata, tensors = {}, {}
    for i, part in enumerate(part_paths(path)):
        own, found = read_one(part)
        metadata = metadata or own if i else own
        tensors.update(found)
    return metadata, tensors


def split_gguf(path, stem, count):
    """Writes the file again as `count` parts, cut as llama.cpp's own tool does: the metadata in the first one."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    reader = _Reader(data)
    reader.at = 8
    tensors, entries = reader.number("<u8"), reader.number("<u8")
    start = reader.at
    alignment = 32
    for _ in range(entries):
        key = reader.text()
        value = reader.value(reader.number("<u4"))
        alignment = value if key == "general.alignment" else alignment
    metadata = data[start:reader.at].tobytes()
    infos = []
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.number("<u8") for _ in range(reader.number("<u4"))]
        infos.append((name, shape, reader.number("<u4"), reader.number("<u8")))
    begin = -(-reader.at // alignment) * alignment

    def entry(key, kind, form, value):
        return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + struct.pack(form, value)

    for part in range(count):
        own = infos[part * tensors // count:(part + 1) * tensors // count]
        head = entry("split.no", 2, "<H", part) + entry("split.count", 2, "<H", count)
        head += entry("split.tensors.count", 5, "<i", tensors)
        listed, body = b"", b""
        for name, shape, kind, offset in own:
            _, elements, size, _ = TYPES[kind]
            listed += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
            listed += b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, len(body))
            body += data[begin + offset:begin + offset + int(np.prod(shape)) // elements * size].tobytes()
            body += b"\0" * (-len(body) % alignment)
        with open(f"{stem}-{part + 1:05}-of-{count:05}.gguf", "wb") as file:
            file.write(b"GGUF" + struct.pack("<IQQ", 3, len(own), (entries if part == 0 else 0) + 3))
            file.write((metadata if part == 0 else b"") + head + listed)
            file.write(b"\0" * (-file.tell() % alignment) + body)
    return [os.path.basename(name) for name in part_paths(f"{stem}-{1:05}-of-{count:05}.gguf")]


def _hf_name(name):
    tops = {gguf: hf for hf, gguf in GGUF_TOP.items()}
    if name in tops or not name.startswith("blk."):
        return tops.get(name, name)
    _, layer, rest = name.split(".", 2)
    part, leaf = rest.rsplit(".", 1)
    parts = {gguf: hf for hf, gguf in GGUF_PART.items()}
    return f"model.layers.{layer}.{parts[part]}.{leaf}"


def _pair_halves(values, heads):
    """The inverse of pair_neighbours."""
    half = values.shape[0] // heads // 2
    return values.reshape(heads, half, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def read_gguf_model(path):
    """What read_folder gives of a Hugging Face folder: config.json's keys, and tensors under that naming."""
    metadata, found = read_gguf(path)
    kind = metadata["general.architecture"]

    def get(key, *fallback):
        return metadata.get(f"{kind}.{key}", *fallback) if fallback else metadata[f"{kind}.{key}"]

    heads = get("attention.head_count")
    config = {
        "model_type": kind, "hidden_size": get("embedding_length"), "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"), "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "head_dim": get("attention.key_length", get("embedding_length") // heads),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"), "rope_theta": get("rope.freq_base", 10000.0),
    }
    if get("rope.scaling.type", "none") == "linear":
        config["rope_scaling"] = {"type": "linear", "factor": get("rope.scaling.factor")}
    tensors = {}
    for name, (_, values) in found.items():
        if kind == "llama" and (".attn_q." in name or ".attn_k." in name):
            values = _pair_halves(values, heads if ".attn_q." in name else config["num_key_value_heads"])
        tensors[_hf_name(name)] = values
    return config, tensors
