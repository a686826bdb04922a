#!/usr/bin/python3
"""What it costs to share keys and values between two layers: the loss of right answers for every pair, a map.

  merge_map.py MODEL [--dialogues N] [--rounds R] [--tasks recall,list] [--t 0.6] [--json]

The history of each dialogue, up to its last question, is computed as ever. Then one pair of layers i < j shares: in
both, each key and value is the direction between theirs (slerp, t of the way from i's to j's) at the length that it
had. The last question and its answer are computed over that; the answer counts if every token is the likeliest.
"""
import argparse
import itertools
import json

import torch

from files import load
from generation import Cache, forced
from lessons import Encoded
from native import WORK
from roundtalk import dialogue

FIRST_SEED = 25_000_000


def slerp(a, b, t):
    """For vectors in the last dimension: both with the direction between theirs, each at its own length."""
    a, b = a.float(), b.float()
    lengths = [x.norm(dim=-1, keepdim=True) for x in (a, b)]
    u, v = a / lengths[0].clamp_min(1e-12), b / lengths[1].clamp_min(1e-12)
    angle = (u * v).sum(-1, keepdim=True).clamp(-1, 1).acos()
    flat = angle.sin() < 1e-4
    shares = torch.where(flat, 1 - t, ((1 - t) * angle).sin() / angle.sin()), torch.where(
        flat, t, (t * angle).sin() / angle.sin())
    between = shares[0] * u + shares[1] * v
    between = between / between.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return [(between * length).to(WORK) for length in lengths]


class Questions:
    """Some dialogues of one task: the KV of their histories, and what follows."""

    def __init__(self, model, tokenizer, talks):
        self.model, encoded = model, [Encoded(tokenizer, talk) for talk in talks]
        starts = [one.rounds[-1]["start"] for one in encoded]
        self.rest = [one.ids[start:] for one, start in zip(encoded, starts)]
        self.answers = [one.rounds[-1]["answer"] - start for one, start in zip(encoded, starts)]
        self.longest = max(map(len, self.rest))
        self.cache = Cache(model, [one.ids[:start] for one, start in zip(encoded, starts)], self.longest)
        self.lengths, self.kept = self.cache.lengths, (self.cache.keys, self.cache.values)

    def right(self, pair, t):
        """How many of the answers are right when these layers share their histories' keys and values."""
        cache = self.cache
        cache.lengths = self.lengths
        cache.keys, cache.values = ([x.clone() for x in part] for part in self.kept)
        for part in (cache.keys, cache.values) if pair else ():
            part[pair[0]], part[pair[1]] = slerp(part[pair[0]], part[pair[1]], t)
        padded = torch.tensor([ids + [0] * (self.longest - len(ids)) for ids in self.rest])
        likeliest = forced(self.model, cache, padded).tolist()
        return sum(said[answer - 1:len(ids) - 1] == ids[answer:]
                   for said, ids, answer in zip(likeliest, self.rest, self.answers))


@torch.no_grad()
def right_by_pair(model, tokenizer, args, task):
    """{pair: right answers}, layers counted from 0; the pair None is the model as it is."""
    pairs = [None, *itertools.combinations(range(model.shape.layers), 2)]
    right = dict.fromkeys(pairs, 0)
    for first in range(0, args.dialogues, args.at_once):
        talks = [dialogue(args.seed + i, args.rounds, kinds=[task])
                 for i in range(first, min(first + args.at_once, args.dialogues))]
        questions = Questions(model, tokenizer, talks)
        for pair in pairs:
            right[pair] += questions.right(pair, args.t)
    return right


def table(right, count, layers):
    """A line for each first layer: what is lost, in hundredths, with each second one."""
    dense = right[None]
    lines = ["      " + "".join(f"{j + 1:6}" for j in range(1, layers))]
    for i in range(layers - 1):
        cells = [f"{100 * (dense - right[i, j]) / count:6.1f}" if j > i else " " * 6 for j in range(1, layers)]
        lines.append(f"{i + 1:6}" + "".join(cells))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dialogues", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=["recall", "list"])
    parser.add_argument("--t", type=float, default=0.6, help="0: the first layer's direction, 1: the second's")
    parser.add_argument("--at-once", type=int, default=50, help="dialogues whose KV is in memory together")
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, tokenizer = load(args.model)
    for task in args.tasks:
        right = right_by_pair(model, tokenizer, args, task)
        if args.json:
            pairs = [{"layers": [i + 1 for i in pair], "right": count} for pair, count in right.items() if pair]
            print(json.dumps({"task": task, "rounds": args.rounds, "dialogues": args.dialogues, "t": args.t,
                              "dense": right[None], "pairs": pairs}))
            continue
        print(f"{task}, {args.dialogues} dialogues of {args.rounds} rounds, {right[None]} right; of a hundred answers "
              f"so many fewer when two layers share:\n{table(right, args.dialogues, model.shape.layers)}", flush=True)


if __name__ == "__main__":
    main()
