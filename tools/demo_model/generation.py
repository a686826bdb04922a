"""Greedy answers with a KV cache, for several prompts at once."""
import torch
import torch.nn.functional as F

from native import WORK, Pack, add_norm, gate
from plain import DIM, rotate


class Cache:
    """Keys (rotated) and values of some sequences: [sequences][KV heads][places][32] in each layer."""

    def __init__(self, model, prompts, extra):
        shape = model.shape
        self.lengths = torch.tensor([len(prompt) for prompt in prompts])
        places = int(self.lengths.max()) + extra
        angles = torch.outer(torch.arange(places).double(),
                             1.0 / shape.theta**(torch.arange(0, DIM, 2).double() / DIM))
        self.cosine, self.sine = angles.cos().float(), angles.sin().float()
        starts = [0, *self.lengths.cumsum(0).tolist()]
        keep = []
        ids = torch.tensor([token for prompt in prompts for token in prompt])
        hidden, _ = model.hidden(ids, Pack(starts, shape.heads, shape.kv_heads, shape.theta), keep=keep)
        self.next = model.logits(hidden[torch.tensor(starts[1:]) - 1]).argmax(-1)
        self.keys, self.values = [], []
        for qkv in keep:
            keys = torch.zeros(len(prompts), shape.kv_heads, places, DIM, dtype=WORK)
            values = torch.zeros_like(keys)
            for i, (first, end) in enumerate(zip(starts, starts[1:])):
                count = end - first
                k, v = self.split(shape, qkv[first:end])[1:]
                k = rotate(k.float().transpose(0, 1), self.cosine[:count], self.sine[:count])
                keys[i, :, :count], values[i, :, :count] = k.to(WORK), v.transpose(0, 1)
            self.keys.append(keys)
            self.values.append(values)

    @staticmethod
    def split(shape, qkv):
        return qkv.view(len(qkv), -1, DIM).split([shape.heads, shape.kv_heads, shape.kv_heads], 1)


def step(model, cache, ids):
    """The likeliest token after `ids`, one for each sequence."""
    shape, at = model.shape, cache.lengths
    every = torch.arange(len(ids))
    cosine, sine = cache.cosine[at][:, None], cache.sine[at][:, None]
    places = int(at.max()) + 1
    unseen = torch.arange(places)[None] > at[:, None]
    x, y = F.embedding(ids, model.embedding), None
    for layer, keys, values in zip(model.layers, cache.keys, cache.values):
        x, normed = add_norm(x, y, layer.norm1, shape.eps)
        q, k, v = cache.split(shape, F.linear(normed, layer.qkv.to(WORK)))
        q, k = rotate(q.float(), cosine, sine).to(WORK), rotate(k.float(), cosine, sine).to(WORK)
        keys[every, :, at], values[every, :, at] = k, v
        grouped = q.view(len(ids), shape.kv_heads, -1, DIM)
        scores = (grouped.float() @ keys[:, :, :places].transpose(2, 3).float()) * DIM**-0.5
        p = torch.softmax(scores.masked_fill(unseen[:, None, None], -1e30), -1).to(WORK)
        heads = (p @ values[:, :, :places]).reshape(len(ids), -1)
        x, normed = add_norm(x, F.linear(heads, layer.o.to(WORK)), layer.norm2, shape.eps)
        y = F.linear(gate(F.linear(normed, layer.gate_up.to(WORK))), layer.down.to(WORK))
    cache.lengths = at + 1
    return model.logits(add_norm(x, y, model.norm, shape.eps)[1]).argmax(-1)


@torch.no_grad()
def forced(model, cache, ids):
    """The likeliest token after each of `ids` [sequences][tokens], which follow what the cache holds: as `step` gives
    them one by one."""
    shape, (count, tokens) = model.shape, ids.shape
    at = cache.lengths[:, None] + torch.arange(tokens)
    cosine, sine = cache.cosine[at][:, :, None], cache.sine[at][:, :, None]
    places, group = int(at.max()) + 1, shape.heads // shape.kv_heads
    unseen = (torch.arange(places) > at[..., None]).repeat_interleave(group, 1)[:, None]
    x, y = F.embedding(ids.flatten(), model.embedding), None
    for layer, keys, values in zip(model.layers, cache.keys, cache.values):
        x, normed = add_norm(x, y, layer.norm1, shape.eps)
        q, k, v = (part.view(count, tokens, -1, DIM)
                   for part in cache.split(shape, F.linear(normed, layer.qkv.to(WORK))))
        q, k = rotate(q.float(), cosine, sine).to(WORK), rotate(k.float(), cosine, sine).to(WORK)
        keys[torch.arange(count)[:, None], :, at], values[torch.arange(count)[:, None], :, at] = k, v
        rows = q.view(count, tokens, shape.kv_heads, group, DIM).permute(0, 2, 1, 3, 4).flatten(2, 3)
        scores = (rows.float() @ keys[:, :, :places].transpose(2, 3).float()) * DIM**-0.5
        p = torch.softmax(scores.masked_fill(unseen, -1e30), -1).to(WORK)
        heads = (p @ values[:, :, :places]).view(count, shape.kv_heads, tokens, group, DIM).permute(0, 2, 1, 3, 4)
        x, normed = add_norm(x, F.linear(heads.reshape(count * tokens, -1), layer.o.to(WORK)), layer.norm2, shape.eps)
        y = F.linear(gate(F.linear(normed, layer.gate_up.to(WORK))), layer.down.to(WORK))
    return model.logits(add_norm(x, y, model.norm, shape.eps)[1]).argmax(-1).view(count, tokens)


@torch.no_grad()
def answer(model, prompts, end, tokens_max=96):
    """What follows each prompt up to the token `end`, without it."""
    cache = Cache(model, prompts, tokens_max)
    out, ids = [[] for _ in prompts], cache.next
    done = [False] * len(prompts)
    for _ in range(tokens_max):
        for i, token in enumerate(ids.tolist()):
            done[i] = done[i] or token == end
            if not done[i]:
                out[i].append(token)
        if all(done):
            break
        ids = step(model, cache, ids)
    return out
