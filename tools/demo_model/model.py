"""The demo model: a small Llama over packed dialogues, weights in float, matrix products in what is fast here."""
import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from native import WORK, add_norm, attention, gate
from plain import DIM


@dataclass
class Shape:
    width: int = 256
    layers: int = 10
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 512
    vocabulary: int = 640
    theta: float = 100000.0
    eps: float = 1e-5
    context: int = 4096

    def dict(self):
        return asdict(self)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()

        def matrix(rows, columns, std=0.02):
            return nn.Parameter(torch.randn(rows, columns) * std)

        width, queries, keys = shape.width, shape.heads * DIM, shape.kv_heads * DIM
        small = 0.02 / math.sqrt(2 * shape.layers)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.qkv = matrix(queries + 2 * keys, width)
        self.o = matrix(width, queries, small)
        self.gate_up = matrix(2 * shape.ffn, width)
        self.down = matrix(width, shape.ffn, small)

    def forward(self, x, y, pack, eps, with_masses, keep=None):
        """The residual stream is x + y; what it becomes is handed on in two parts likewise."""
        x, normed = add_norm(x, y, self.norm1, eps)
        qkv = F.linear(normed, self.qkv.to(WORK))
        if keep is not None:
            keep.append(qkv)
        heads, masses = attention(qkv, pack, with_masses)
        x, normed = add_norm(x, F.linear(heads, self.o.to(WORK)), self.norm2, eps)
        return x, F.linear(gate(F.linear(normed, self.gate_up.to(WORK))), self.down.to(WORK)), masses


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * 0.02)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))

    def hidden(self, ids, pack, mass_layers=(), keep=None):
        """Final states [rows][width] in WORK, and {layer: masses [heads][rows][2]} of the layers asked for. `keep` is
        a list that takes each layer's queries, keys and values, not yet rotated."""
        x, y, masses = F.embedding(ids, self.embedding), None, {}
        for i, layer in enumerate(self.layers):
            x, y, found = layer(x, y, pack, self.shape.eps, i in mass_layers, keep)
            if found is not None:
                masses[i] = found
        return add_norm(x, y, self.norm, self.shape.eps)[1], masses

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.to(WORK)).float()

    def matrices(self):
        """What Muon trains: each matrix with the rows at which it falls into parts of its own (q, k, v; gate, up)."""
        shape = self.shape
        queries, keys = shape.heads * DIM, shape.kv_heads * DIM
        for layer in self.layers:
            yield layer.qkv, [queries, keys, keys]
            yield layer.o, [shape.width]
            yield layer.gate_up, [shape.ffn, shape.ffn]
            yield layer.down, [shape.width]

    def others(self):
        return [self.embedding, self.norm] + [p for layer in self.layers for p in (layer.norm1, layer.norm2)]
