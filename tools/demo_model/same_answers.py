#!/usr/bin/python3
"""Whether the engine and the trainer give the same greedy answers.

  same_answers.py MODEL_FOLDER [--program build/bin/rondo] [--dialogues 500] [--near 0.25] [--json]

Each dialogue, mixed and of 1 to 32 rounds, is answered once by `rondo serve` and once by the trainer's own code. Where
an answer differs, the trainer's logits tell by how much: up to --near between the two tokens it is a near tie (both
compute in bf16). Exit status 1 where one differs by more.
"""
import argparse
import json
import random
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from files import load
from generation import answer
from lessons import Encoded
from native import Pack
from roundtalk import dialogue

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from server_process import ServerProcess  # noqa: E402

FIRST_SEED, TOKENS_MAX = 40_000_000, 96


def ask(port, ids):
    body = json.dumps({"prompt": ids, "max_tokens": TOKENS_MAX, "temperature": 0}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as said:
        return json.load(said)["choices"][0]["text"]


@torch.no_grad()
def margin(model, prompt, mine, theirs):
    """By how much the trainer prefers its own token where the answers part."""
    at = next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), len(theirs)) - 1)
    ids = prompt + mine[:at]
    hidden, _ = model.hidden(torch.tensor(ids), Pack([0, len(ids)], model.shape.heads, model.shape.kv_heads,
                                                     model.shape.theta))
    logits = model.logits(hidden[-1:])[0]
    return (logits[mine[at]] - logits[theirs[at]]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default=str(ROOT / "build/bin/rondo"))
    parser.add_argument("--dialogues", type=int, default=500)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--near", type=float, default=0.25, help="difference of two logits that is a near tie")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(args.model)
    end, chance = tokenizer.ids["<|end|>"], random.Random(args.seed)
    prompts = [Encoded(tokenizer, dialogue(args.seed + i, chance.randint(1, 32)), answer_last=False,
                       tokens_max=model.shape.context - TOKENS_MAX).ids for i in range(args.dialogues)]
    server = ServerProcess(args.program, model=args.model)
    try:
        with ThreadPoolExecutor(8) as several:
            theirs = list(several.map(lambda ids: ask(server.port, ids), prompts))
    finally:
        server.stop()
    near, far = [], []
    for first in range(0, len(prompts), 16):
        some = prompts[first:first + 16]
        for i, mine in enumerate(answer(model, some, end, TOKENS_MAX), first):
            if tokenizer.decode(mine) != theirs[i]:
                apart = margin(model, prompts[i], mine + [end], tokenizer.encode(theirs[i]) + [end])
                (near if abs(apart) <= args.near else far).append({"dialogue": args.seed + i, "margin": apart})
    found = {"dialogues": args.dialogues, "same": args.dialogues - len(near) - len(far), "near_ties": near, "others": far}
    print(json.dumps(found) if args.json else
          f"{found['same']} of {args.dialogues} answers are the same, {len(near)} differ by a near tie (up to {args.near}), "
          f"{len(far)} by more: {[one['dialogue'] for one in far]}")
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
