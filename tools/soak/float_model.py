"""The demo model with its weights in f32, so that a product is the same sum whatever kernel computes it."""
import json
import os
import shutil
import struct


def write_float_model(source, target):
    """Copies a folder whose model.safetensors holds bf16; each becomes the f32 of the same value."""
    os.makedirs(target)
    for name in os.listdir(source):
        if name.endswith(".json"):
            shutil.copy(os.path.join(source, name), target)
    with open(os.path.join(source, "model.safetensors"), "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    wide = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "BF16":
            raise SystemExit(f"{source}: {name} is {tensor['dtype']}; it must be BF16")
        begin, end = tensor["data_offsets"]
        wide[name] = tensor | {"dtype": "F32", "data_offsets": [begin * 2, end * 2]}
    values = bytearray(2 * len(data))  # an f32's upper half is the bf16
    values[2::4], values[3::4] = data[0::2], data[1::2]
    head = json.dumps(wide).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(target, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + values)
    with open(os.path.join(target, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(target, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config | {"torch_dtype": "float32"}, file)
    return target
