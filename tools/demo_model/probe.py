#!/usr/bin/python3
"""Where the demo model's layers look: a quick look while it is trained. `rondo inspect attention` is the measurement.

  probe.py MODEL [--dialogues N] [--rounds 16,32] [--seed S] [--json]

For dialogues whose last round recalls a fact of an earlier one, by layer (counted from 1):
  I-R       mass of the last 10% of the prompt's rows on the first and last 10% of keys
  top       share of the mass on past rounds that the top K of them hold, K = max(1, ceil(0.1 * T)), T past rounds
  evidence  how often the evidence round is among those K
  on past   share of the mass of those rows that falls on past rounds at all
  D         mean KL divergence of the last row's round masses to those of all later layers, epsilon 1e-6
Round masses: all rows of the question's round (for D the last alone), all heads, past rounds only, their sum 1.
"""
import argparse
import json
import math

import torch

from files import load
from lessons import PLACES, Encoded
from native import WORK, Pack
from plain import DIM, rotate
from roundtalk import dialogue


def talks_of(seed, rounds, count):
    """Dialogues that ask for recall, places in turn, whose last round needs an earlier one."""
    while count:
        talk = dialogue(seed, rounds, kinds=["recall"], where=PLACES[seed % len(PLACES)])
        if talk[-1][2]["kind"] == "recall" and talk[-1][2]["evidence"][0] < rounds - 1:
            count -= 1
            yield talk
        seed += 1


@torch.no_grad()
def attention_rows(model, ids, first):
    """For each layer, the attention [heads][rows from `first`][keys]."""
    shape, keep = model.shape, []
    pack = Pack([0, len(ids)], shape.heads, shape.kv_heads, shape.theta)
    model.hidden(torch.tensor(ids), pack, keep=keep)
    hidden_keys = torch.full((len(ids) - first, len(ids)), -1e30).triu(first + 1)
    for qkv in keep:
        q, k, _ = qkv.view(len(ids), -1, DIM).transpose(0, 1).split([shape.heads, shape.kv_heads, shape.kv_heads])
        q, k = rotate(q.float(), pack.cosine, pack.sine), rotate(k.float(), pack.cosine, pack.sine)
        k = k.repeat_interleave(shape.heads // shape.kv_heads, 0).to(WORK)
        yield torch.softmax((q[:, first:].to(WORK) @ k.transpose(1, 2)).float() * DIM**-0.5 + hidden_keys, -1)


def probe(model, tokenizer, talk):
    """By layer: I-R, top, evidence found; and the round masses [layers][past rounds]."""
    encoded = Encoded(tokenizer, talk, answer_last=False)
    count, last = len(encoded.ids), encoded.rounds[-1]
    tenth = math.ceil(count / 10)
    first = min(last["start"], count - tenth)
    past = len(talk) - 1
    kept = max(1, math.ceil(0.1 * past))
    rows, masses = [], []
    for p in attention_rows(model, encoded.ids, first):
        tail = p[:, count - tenth - first:]
        image = (tail[..., :tenth].sum() + tail[..., -tenth:].sum()) / (tail.shape[0] * tail.shape[1])
        asked = torch.stack([p[:, last["start"] + 1 - first:].sum((0, 1)), p[:, -1].sum(0)])
        mass = torch.stack([asked[:, part["start"]:part["end"]].sum(1) for part in encoded.rounds[:-1]], 1)
        past_share = mass[0].sum() / asked[0].sum()
        mass, mass_of_last_row = mass / mass.sum(1, keepdim=True)
        best = mass.topk(kept)
        rows.append([image.item(), best.values.sum().item(), float(last["past"][0] in best.indices.tolist()),
                     past_share.item()])
        masses.append(mass_of_last_row + 1e-6)
    return torch.tensor(rows), torch.stack(masses)


def distances(masses):
    layers = len(masses)
    logs = masses.log()
    return [torch.stack([(masses[i] * (logs[i] - logs[j])).sum() for j in range(i + 1, layers)]).mean().item()
            for i in range(layers - 1)] + [float("nan")]


def watershed(d):
    """The rule of Round Attention, layers counted from 1: see the pages on methods."""
    count = len(d)
    known = d[:count - 2]
    limit = min(known) + 0.25 * (max(known) - min(known))
    for i in range(1, len(known)):
        if d[i] < d[i - 1] and d[i] <= d[i + 1] and d[i] <= limit:
            return i + 1
    return min(range(count // 2), key=lambda i: d[i]) + 1


def measure(model, tokenizer, seed, rounds, count):
    """Means over dialogues, by the names of `rondo inspect attention --json`."""
    rows, d = [], []
    for talk in talks_of(seed, rounds, count):
        row, masses = probe(model, tokenizer, talk)
        rows.append(row)
        d.append(distances(masses))
    d = torch.tensor(d).mean(0).tolist()
    past = rounds - 1
    names = ("initial_recent", "top_share", "evidence_found", "question_past")
    layers = [{"layer": i + 1, **dict(zip(names, row)), "divergence": None if math.isnan(d[i]) else d[i]}
              for i, row in enumerate(torch.stack(rows).mean(0).tolist())]
    return {"rounds": rounds, "dialogues": count, "evidence_by_chance": max(1, math.ceil(past / 10)) / past,
            "watershed": watershed(d), "layers": layers}


def text_of(found):
    lines = ["{dialogues} dialogues of {rounds} rounds; chance of the evidence {evidence_by_chance:.2f}; watershed "
             "{watershed}".format(**found)]
    for name, key in (("I-R", "initial_recent"), ("top", "top_share"), ("evidence", "evidence_found"),
                      ("on past", "question_past"), ("D", "divergence")):
        values = [layer[key] for layer in found["layers"]]
        lines.append(f"  {name:9}" + " ".join("    –" if value is None else f"{value:5.2f}" for value in values))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dialogues", type=int, default=42)
    parser.add_argument("--rounds", type=lambda text: [int(part) for part in text.split(",")], default=[16, 32])
    parser.add_argument("--seed", type=int, default=30_000_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(args.model)
    for rounds in args.rounds:
        found = measure(model, tokenizer, args.seed, rounds, args.dialogues)
        print(json.dumps(found) if args.json else text_of(found), flush=True)


if __name__ == "__main__":
    main()
