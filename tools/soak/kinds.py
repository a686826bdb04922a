"""What phases are made of: weights, the type of keys and values, pools, and how far two runs may lie apart."""
import dataclasses
import typing

from models import write_float_model, write_q8_model


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    kv_dtype: str
    kv_bytes_per_token: int  # of the demo model
    pools_mib: tuple
    relative_error: float  # of logits, by their root mean square: what the golden tests allow such weights and keys
    logprob_apart_max: float  # of the same token in two runs; another prompt's differ by more
    write: typing.Callable = lambda demo, target: demo  # (the demo model's folder, a path to use) -> the model's path

    @property
    def is_exact(self):
        """Sums are the same whatever computes them, but for rounding in f32."""
        return self.name == "f32"


KINDS = {kind.name: kind for kind in (
    Kind("f32", "f32", 6144, (3, 5, 8), 1e-5, 1e-3, write_float_model),
    Kind("bf16", "bf16", 3072, (2, 3, 5), 2e-2, 1.0),
    Kind("int8", "int8", 1728, (1, 2, 3), 3e-2, 1.0, write_float_model),
    Kind("q8_0", "f32", 6144, (3, 5, 8), 4e-2, 1.0, lambda demo, target: write_q8_model(demo, target + ".gguf")),
)}
