#!/usr/bin/env python3
"""Conversations that rest while others are served: how soon each goes on when memory holds a quarter of them.

    bench/idle.py --model FOLDER --pool-mib N [--tokens 4096] [--conversations 32]

Each conversation is begun, and then goes on once with 16 more tokens, in a random order: with a store, and on a server
without one whose pool is as large. --pool-mib should hold some eight of them. Prints the median and the 90th percentile
of the time to the first token. Validates that both servers give the same answers.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from restore import add_server_options, ask, start, stop  # noqa: E402


def prompt(args, number):
    return [17 + (31 * i + 7 * number * i + number) % (args.vocabulary - 100) for i in range(args.tokens)]


def run(args, store, log, order):
    server, address = start(args, store, log)
    for number in range(args.conversations):
        ask(address, prompt(args, number), 2)
        print(f"begun {number + 1}/{args.conversations}", end="\r", file=sys.stderr) if sys.stderr.isatty() else None
    seconds, texts = [], []
    for number in order:
        took, text, _ = ask(address, prompt(args, number) + [23 + i for i in range(16)], 4)
        seconds.append(took)
        texts.append(text)
    stop(server)
    return seconds, texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, required=True, help="holds some eight of the conversations")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--conversations", type=int, default=32)
    args = parser.parse_args()
    order = random.Random(1).sample(range(args.conversations), args.conversations)
    folder = tempfile.mkdtemp(prefix="rondo-idle-", dir=args.folder)
    with open(os.devnull, "w") as log:
        try:
            stored, texts = run(args, folder + "/kv", log, order)
            computed, others = run(args, None, log, order)
        finally:
            shutil.rmtree(folder)
    if texts != others:
        sys.exit("the answers of a conversation that came back are others")
    figures = {name: {"p50_s": statistics.median(found), "p90_s": statistics.quantiles(found, n=10)[-1]}
               for name, found in (("with_store", stored), ("without", computed))}
    figures["sooner"] = figures["without"]["p50_s"] / figures["with_store"]["p50_s"]
    if args.json:
        print(json.dumps(figures))
        return
    print(f"{args.conversations} conversations of {args.tokens} tokens, first token p50 / p90: with a store "
          f"{figures['with_store']['p50_s']:.3f} / {figures['with_store']['p90_s']:.3f} s, without "
          f"{figures['without']['p50_s']:.3f} / {figures['without']['p90_s']:.3f} s: {figures['sooner']:.1f} times sooner")


if __name__ == "__main__":
    main()
