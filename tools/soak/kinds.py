"""What phases are made of: weights, the type of keys and values, pools, and how far two runs may lie apart."""
import dataclasses
import math
import typing

from models import read_json, write_float_model, write_q8_model

POOLS_TOKENS = (512, 853, 1365)  # that a phase's pool has room for, at least


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    kv_dtype: str
    relative_error: float  # of logits, by their root mean square: what the golden tests allow such weights and keys
    logprob_apart_max: float  # of the same token in two runs; another prompt's differ by more
    write: typing.Callable = lambda demo, target: demo  # (the demo model's folder, a path to use) -> the model's path

    @property
    def is_exact(self):
        """Sums are the same whatever computes them, but for rounding in f32."""
        return self.name == "f32"

    def kv_bytes_per_token(self, folder):
        """What keys and values of a token take of the model in this folder, in all layers and heads."""
        config = read_json(folder, "config.json")
        size = config["head_dim"]
        of_a_head = {"f32": 8 * size, "bf16": 4 * size, "int8": 2 * size + 8}[self.kv_dtype]
        return config["num_hidden_layers"] * config["num_key_value_heads"] * of_a_head

    def pools_mib(self, folder):
        return [math.ceil(tokens * self.kv_bytes_per_token(folder) / 2**20) for tokens in POOLS_TOKENS]


KINDS = {kind.name: kind for kind in (
    Kind("f32", "f32", 1e-5, 1e-3, write_float_model),
    Kind("bf16", "bf16", 2e-2, 1.0),
    Kind("int8", "int8", 3e-2, 1.0, write_float_model),
    Kind("q8_0", "f32", 4e-2, 1.0, lambda demo, target: write_q8_model(demo, target + ".gguf")),
)}
