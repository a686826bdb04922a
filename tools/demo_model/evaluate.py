#!/usr/bin/python3
"""How often the demo model's last answer is exactly right, by task, rounds and place, with 95% intervals (Wilson).

  evaluate.py MODEL [--dialogues N] [--rounds 2,8,16,32] [--history teacher_forced|free_running|both] [--json]

MODEL is a checkpoint, a folder of checkpoints (the latest), or a Hugging Face folder. All rounds of a dialogue ask for
the same task at the same place, as in `rondo eval`. Free-running, each answer of the history is the model's own.
"""
import argparse
import json
import math
import os
import sys
import time

import torch

from files import load
from generation import answer
from lessons import PLACES, Encoded
from roundtalk import dialogue
from scoring import grouped, right_answers

TASKS = ["recall", "local", "list", "again", "unknown"]
FIRST_SEED = 1_000_000  # dialogues to choose by; those of a report begin at 20,000,000


def wilson(right, count, z=1.96):
    share, square = right / count, z * z / count
    middle = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / count + square / 4 / count) / (1 + square)
    return middle - half, middle + half


def first_pass(model, tokenizer, talks):
    """For each dialogue a list: is the answer of round i right when those before it are the right ones?"""
    encoded = [Encoded(tokenizer, talk) for talk in talks]
    return [right for pack in grouped(encoded) for right in right_answers(model, pack)]


def teacher_forced(rights):
    return [right[-1] for right in rights]


def free_running(model, tokenizer, talks, rights):
    """While an answer is the one that stands in the history, one pass over the dialogue tells so; only from the first
    wrong one on the history differs, so only wrong answers are generated. `rights` is the first pass."""
    end = tokenizer.ids["<|end|>"]
    state = [{"talk": list(talk), "from": 0, "right": None} for talk in talks]
    pending = state
    while pending:
        wrong = []
        for one, right in zip(pending, rights):
            last = len(right) - 1
            at = next((i for i in range(one["from"], last + 1) if not right[i]), None)
            if at is None or at == last:
                one["right"] = at is None
            else:
                one["from"] = at + 1
                wrong.append((one, at))
        for i in range(0, len(wrong), 16):
            some = wrong[i:i + 16]
            encoded = [Encoded(tokenizer, one["talk"]) for one, _ in some]
            prompts = [whole.ids[:whole.rounds[at]["answer"]] for whole, (_, at) in zip(encoded, some)]
            for (one, at), ids in zip(some, answer(model, prompts, end)):
                user, _, meta = one["talk"][at]
                one["talk"][at] = (user, tokenizer.decode(ids), meta)
        pending = [one for one, _ in wrong]
        rights = first_pass(model, tokenizer, [one["talk"] for one in pending])
    return [one["right"] for one in state]


HISTORIES = ["teacher_forced", "free_running"]


def longest(tokenizer, talk, tokens_max):
    """As many of its rounds as the context holds. A dialogue of fewer rounds is the beginning of one of more."""
    return talk[:len(Encoded(tokenizer, talk, tokens_max=tokens_max).rounds)]


def cells(model, tokenizer, args):
    for rounds in args.rounds:
        for task in args.tasks:
            for place in PLACES:
                talks = [dialogue(args.seed + i, rounds, kinds=[task], where=place) for i in range(args.dialogues)]
                talks = [longest(tokenizer, talk, args.context) for talk in talks]
                while args.pause_while and os.path.exists(args.pause_while):
                    time.sleep(1)
                rights = first_pass(model, tokenizer, talks)
                for history in args.histories:
                    right = sum(teacher_forced(rights) if history == "teacher_forced" else
                                free_running(model, tokenizer, talks, rights))
                    low, high = wilson(right, len(talks))
                    yield {"history": history, "task": task, "rounds": rounds, "place": place, "dialogues": len(talks),
                           "right": right, "share": right / len(talks), "low": low, "high": high}


def summary(rows):
    for history in sorted({row["history"] for row in rows}):
        some = [row for row in rows if row["history"] == history]
        enough = sum(row["share"] >= 0.95 for row in some)
        sure = sum(row["share"] >= 0.95 and row["low"] > 0.9 for row in some)
        yield f"{history}: {enough} of {len(some)} cells at .95 or more, {sure} of them with the interval above .90"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dialogues", type=int, default=200, help="for each cell")
    parser.add_argument("--rounds", type=lambda text: [int(part) for part in text.split(",")], default=[2, 8, 16, 32])
    parser.add_argument("--context", type=int, default=4096, help="tokens; rounds that do not fit are left out: with "
                        "--rounds 90 all dialogues are about as long as this")
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=TASKS)
    parser.add_argument("--history", choices=[*HISTORIES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first dialogue of each cell")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pause-while", metavar="FILE", help="no cell begins while this file exists")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.histories = HISTORIES if args.history == "both" else [args.history]
    torch.set_num_threads(args.threads)
    model, tokenizer = load(args.model)
    rows = []
    for row in cells(model, tokenizer, args):
        rows.append(row)
        line = ("{history:14} {task:8} {rounds:3} rounds {place:6} {right:4}/{dialogues} {share:.3f} "
                "[{low:.3f}, {high:.3f}]").format(**row)
        print(json.dumps(row) if args.json else line, flush=True)
    for line in summary(rows):
        print(line, file=sys.stderr if args.json else sys.stdout)


if __name__ == "__main__":
    main()
