"""Attention over packed dialogues in plain torch: for GPUs, and to test the compiled kernels by.

Dialogues of about one length are padded to one batch. The mass on each round is what attention gives when the values
are one-hot codes of the keys' rounds; so a fused attention yields masses without ever storing all probabilities.
"""
import math

import torch
import torch.nn.functional as F

DIM = 32  # of a head


def rotate(x, cosine, sine):
    low, high = x[..., :DIM // 2], x[..., DIM // 2:]
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


def attend(q, k, v):
    """Causal; q and k [batch][heads][rows][32], v of any width."""
    if not hasattr(F, "scaled_dot_product_attention"):
        mask = torch.full((q.shape[2], q.shape[2]), -1e30, device=q.device).triu(1)
        return torch.softmax((q @ k.transpose(2, 3)).float() * DIM**-0.5 + mask, -1).to(v.dtype) @ v
    width = max(DIM, v.shape[-1])

    def wide(x):
        return F.pad(x, (0, width - x.shape[-1]))

    out = F.scaled_dot_product_attention(wide(q), wide(k), wide(v), is_causal=True, scale=DIM**-0.5)
    return out[..., :v.shape[-1]]


def groups(starts, device):
    """Rows [dialogues][longest] of dialogues of about one length, and which of them are real."""
    lengths, found = (starts[1:] - starts[:-1]).tolist(), {}
    for i, length in enumerate(lengths):
        found.setdefault(int(math.log(length) / math.log(1.4)), []).append(i)
    for some in found.values():
        longest = max(lengths[i] for i in some)
        places = torch.arange(longest)[None]
        real = places < torch.tensor([lengths[i] for i in some])[:, None]
        rows = torch.where(real, starts[torch.tensor(some)][:, None] + places, 0)
        yield rows.to(device), real.to(device)


def wanted_rounds(pack):
    """[rows][rounds]: 1 where the round holds evidence for the row; and [rows]: whether anybody asks."""
    wanted = torch.zeros(pack.rows, int(pack.round_of.max()) + 1)
    asks = torch.zeros(pack.rows)
    for first, end, rounds in pack.asked:
        asks[first:end] = 1
        if rounds:
            wanted[first:end, torch.tensor(rounds)] = 1
    return wanted, asks


def plain_attention(qkv, pack, with_masses):
    device = qkv.device
    out = torch.zeros(pack.rows, pack.heads * DIM, dtype=qkv.dtype, device=device)
    masses = torch.zeros(pack.rows, pack.heads, 2, device=device) if with_masses else None
    cosine, sine = pack.cosine.to(device), pack.sine.to(device)
    if with_masses:
        wanted, asks = (x.to(device) for x in wanted_rounds(pack))
        round_of = pack.round_of.to(device)
        every = torch.arange(wanted.shape[1], device=device)
    for rows, real in groups(pack.starts, device):
        count = rows.shape[1]
        x = qkv[rows].view(*rows.shape, -1, DIM).transpose(1, 2)
        q, k, v = x.split([pack.heads, pack.kv_heads, pack.kv_heads], 1)
        q = rotate(q.float(), cosine[:count], sine[:count]).to(x.dtype)
        k = rotate(k.float(), cosine[:count], sine[:count]).to(x.dtype)
        each = pack.heads // pack.kv_heads
        k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
        out = out.index_put((rows[real],), attend(q, k, v).transpose(1, 2).flatten(2)[real])
        if with_masses:
            own = round_of[rows]
            codes = F.one_hot(own, len(every)).to(x.dtype)[:, None].expand(-1, pack.heads, -1, -1)
            by_round = attend(q, k, codes).float().transpose(1, 2)  # [dialogues][rows][heads][rounds]
            on = (by_round * wanted[rows][:, :, None]).sum(-1)
            past = (by_round * (every < own[..., None])[:, :, None]).sum(-1)
            both = torch.stack([on, past - on], -1) * asks[rows][..., None, None]
            masses = masses.index_put((rows[real],), both[real])
    return out, masses.transpose(0, 1) if with_masses else None
