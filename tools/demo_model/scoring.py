"""Which answers a model gives right, from one pass over whole dialogues: teacher-forced, every token the likeliest."""
from collections import defaultdict

import torch

from lessons import PLACES, Batch, Encoded
from roundtalk import dialogue

PROBE_SEED = 5_000_000  # of dialogues that are only ever looked at while training


@torch.no_grad()
def right_answers(model, encoded):
    """For each dialogue a list: is the answer of round i right, token for token? One packed pass."""
    batch, device = Batch(encoded, model.shape), model.embedding.device
    hidden, _ = model.hidden(batch.ids.to(device), batch.pack)
    rows = (batch.weights > 0.5).nonzero()[:, 0]
    likeliest = model.logits(hidden[rows.to(device)]).argmax(-1).cpu()
    hits = torch.zeros(len(batch.ids), dtype=torch.bool)
    hits[rows] = likeliest == batch.ids[rows + 1]
    out = []
    for one, first in zip(encoded, batch.pack.starts.tolist()):
        out.append([bool(hits[first + part["answer"] - 1:first + part["end"] - 1].all()) for part in one.rounds])
    return out


def grouped(encoded, tokens_max=16384):
    """Dialogues in packs of at most so many tokens (or one dialogue)."""
    pack, total = [], 0
    for one in encoded:
        if pack and total + len(one.ids) > tokens_max:
            yield pack
            pack, total = [], 0
        pack.append(one)
        total += len(one.ids)
    if pack:
        yield pack


BUCKETS = [(0, 1), (2, 7), (8, 15), (16, 23), (24, 31)]


def pinned_table(model, tokenizer, count):
    """Accuracy of the last answers of `count` dialogues of one task, as in the cells that are reported, at two numbers
    of rounds; places in turn."""
    lines = []
    for kind in ("recall", "local", "list", "again", "unknown"):
        shares = []
        for rounds in (8, 32):
            encoded = [Encoded(tokenizer, dialogue(PROBE_SEED + i, rounds, kinds=[kind], where=PLACES[i % 3]),
                               tokens_max=model.shape.context) for i in range(count)]
            hits = [right[-1] for pack in grouped(encoded) for right in right_answers(model, pack)]
            shares.append(sum(hits) / len(hits))
        lines.append(f"  {kind:8}" + " ".join(f"{share:6.3f}" for share in shares))
    return "  cells        8     32\n" + "\n".join(lines)


def quick_table(model, tokenizer, count, rounds=32):
    """Accuracy of every answer of `count` mixed dialogues, by task and round of the question, and by task and place."""
    encoded = [Encoded(tokenizer, dialogue(PROBE_SEED + i, rounds)) for i in range(count)]
    by_round, by_place = defaultdict(list), defaultdict(list)
    for pack in grouped(encoded):
        for one, right in zip(pack, right_answers(model, pack)):
            for i, (part, hit) in enumerate(zip(one.rounds, right)):
                bucket = next(b for b in BUCKETS if b[0] <= i <= b[1])
                by_round[part["kind"], bucket].append(hit)
                by_place[part["kind"], part["where"]].append(hit)
    lines = []
    for kind in ("recall", "local", "list", "again", "unknown"):
        cells = [by_round[kind, b] for b in BUCKETS] + [by_place[kind, w] for w in ("begin", "middle", "end")]
        lines.append(f"  {kind:8}" + " ".join(f"{sum(c) / len(c):6.3f}" if c else "     -" for c in cells))
    head = " ".join(f"{a}-{b}".rjust(6) for a, b in BUCKETS) + "  begin middle    end"
    return "  probe   " + head + "\n" + "\n".join(lines)
