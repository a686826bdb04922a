"""Compiles kernels/ for this processor and offers its functions to autograd; plain torch does the same elsewhere.

Tensors are packed: the rows of all dialogues lie one behind another, `starts` says where each begins.
"""
import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

from plain import DIM, plain_attention

FLAGS = ["-O3", "-march=native", "-ffast-math", "-fno-finite-math-only", "-fno-strict-aliasing", "-fopenmp", "-shared",
         "-fPIC"]


class Arguments(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_void_p) for name in ("qkv", "out", "log_sums", "cosine", "sine", "starts")] +
                [(name, ctypes.c_int64) for name in ("dialogues", "rows", "heads", "kv_heads", "threads")] +
                [(name, ctypes.c_void_p) for name in ("masses", "past_ends", "mask_at", "evidence", "grad_out",
                                                      "grad_masses", "grad_qkv")])


def processor_has(*flags):
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return False
    return set(flags) <= set(words)


# What matrix products take and activations are kept in: bf16 is many times faster where the hardware multiplies it, and
# many times slower elsewhere.
WORK = torch.bfloat16 if torch.cuda.is_available() or processor_has("avx512_bf16") else torch.float32


def build():
    """The compiled library, or None where the processor or the compiler cannot."""
    sources = sorted(Path(__file__).with_name("kernels").iterdir())
    try:
        if not processor_has("avx2", "fma") or os.environ.get("RONDO_DEMO_PLAIN"):
            return None
        text = b"".join(source.read_bytes() for source in sources) + " ".join(FLAGS).encode()
        digest = hashlib.sha256(text).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"rondo_demo_kernels_{os.getuid()}_{digest}.so"
        if not path.exists():
            unfinished = path.with_suffix(f".{os.getpid()}")
            compiled = [str(source) for source in sources if source.suffix == ".cpp"]
            subprocess.run(["g++", *FLAGS, *compiled, "-o", str(unfinished)], check=True, capture_output=True)
            unfinished.rename(path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.CalledProcessError):
        return None


LIBRARY = build()


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr() if tensor is not None else None)


class Pack:
    """Where the dialogues of a batch begin, and which keys are evidence for which rows: as a mask over the keys before
    the row's round, for the kernels; as rounds (`round_of` a row, `asked`: rows from, to, rounds), for plain torch."""

    def __init__(self, starts, heads, kv_heads, theta):
        self.starts = torch.as_tensor(starts, dtype=torch.int64)
        self.heads, self.kv_heads = heads, kv_heads
        self.rows = int(self.starts[-1])
        longest = int((self.starts[1:] - self.starts[:-1]).max())
        frequency = 1.0 / theta**(torch.arange(0, DIM, 2).double() / DIM)
        angles = torch.outer(torch.arange(longest).double(), frequency)
        self.cosine, self.sine = angles.cos().float(), angles.sin().float()
        self.past_ends = self.mask_at = self.evidence = None
        self.round_of, self.asked = torch.zeros(self.rows, dtype=torch.int64), []

    def arguments(self, qkv, out, log_sums, masses=None):
        asks = masses is not None
        return Arguments(pointer(qkv), pointer(out), pointer(log_sums), pointer(self.cosine), pointer(self.sine),
                         pointer(self.starts), len(self.starts) - 1, self.rows, self.heads, self.kv_heads,
                         torch.get_num_threads(), pointer(masses), pointer(self.past_ends if asks else None),
                         pointer(self.mask_at if asks else None), pointer(self.evidence if asks else None), None, None,
                         None)


class NativeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, pack, with_masses):
        qkv = qkv.contiguous()
        out = torch.empty(pack.rows, pack.heads * DIM, dtype=WORK)
        log_sums = torch.empty(pack.heads, pack.rows)
        masses = torch.zeros(pack.heads, pack.rows, 2) if with_masses else None
        LIBRARY.attention_forward(ctypes.byref(pack.arguments(qkv, out, log_sums, masses)))
        ctx.save_for_backward(qkv, out, log_sums, masses)
        ctx.pack = pack
        return out, masses

    @staticmethod
    def backward(ctx, grad_out, grad_masses):
        qkv, out, log_sums, masses = ctx.saved_tensors
        if grad_masses is None:
            masses = None
        arguments = ctx.pack.arguments(qkv, out, log_sums, masses)
        grad_qkv, grad_out = torch.empty_like(qkv), grad_out.contiguous()
        arguments.grad_out, arguments.grad_qkv = pointer(grad_out), pointer(grad_qkv)
        if masses is not None:
            grad_masses = grad_masses.contiguous()
            arguments.grad_masses = pointer(grad_masses)
        LIBRARY.attention_backward(ctypes.byref(arguments))
        return grad_qkv, None, None


class NativeAddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, weight, eps):
        rows, width = x.shape
        total, out = torch.empty(rows, width), torch.empty(rows, width, dtype=WORK)
        inverse = torch.empty(rows)
        LIBRARY.add_norm_forward(pointer(x), pointer(y), pointer(weight), pointer(total), pointer(out),
                                 pointer(inverse), ctypes.c_int64(rows), ctypes.c_int64(width), ctypes.c_float(eps))
        ctx.save_for_backward(total, weight, inverse)
        ctx.adds = y is not None
        return total, out

    @staticmethod
    def backward(ctx, grad_total, grad_out):
        total, weight, inverse = ctx.saved_tensors
        rows, width = total.shape
        grad_x, grad_weight = torch.empty_like(total), torch.zeros_like(weight)
        grad_y = torch.empty(rows, width, dtype=WORK) if ctx.adds else None
        grad_total = grad_total.contiguous() if grad_total is not None else None
        grad_out = grad_out.contiguous()
        LIBRARY.add_norm_backward(pointer(total), pointer(weight), pointer(inverse), pointer(grad_total),
                                  pointer(grad_out), pointer(grad_x), pointer(grad_y), pointer(grad_weight),
                                  ctypes.c_int64(rows), ctypes.c_int64(width))
        return grad_x, grad_y, grad_weight, None


class NativeGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, both):
        rows, width = both.shape[0], both.shape[1] // 2
        out = torch.empty(rows, width, dtype=WORK)
        LIBRARY.gate_forward(pointer(both), pointer(out), ctypes.c_int64(rows), ctypes.c_int64(width))
        ctx.save_for_backward(both)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        both, = ctx.saved_tensors
        grad_both, grad_out = torch.empty_like(both), grad_out.contiguous()
        LIBRARY.gate_backward(pointer(both), pointer(grad_out), pointer(grad_both), ctypes.c_int64(both.shape[0]),
                              ctypes.c_int64(both.shape[1] // 2))
        return grad_both


def attention(qkv, pack, with_masses=False):
    """Rotates, attends causally within each dialogue: [rows][heads * 32], and masses [heads][rows][2] or None."""
    if LIBRARY and qkv.device.type == "cpu" and qkv.dtype == WORK:
        return NativeAttention.apply(qkv, pack, with_masses)
    return plain_attention(qkv, pack, with_masses)


def add_norm(x, y, weight, eps):
    """x + y in float, and its RMS norm in WORK."""
    if LIBRARY and x.device.type == "cpu" and (y is None or y.dtype == WORK):
        return NativeAddNorm.apply(x, y, weight, eps)
    total = x if y is None else x + y
    return total, (total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps) * weight).to(WORK)


def gate(both):
    if LIBRARY and both.device.type == "cpu" and both.dtype == WORK:
        return NativeGate.apply(both.contiguous())
    left, right = both.chunk(2, -1)
    return F.silu(left) * right
