#!/usr/bin/env python3
"""Conversations that rest while others are served: how soon each goes on when memory holds a quarter of them.

    bench/idle.py --model FOLDER --pool-mib N [--tokens 4096] [--conversations 32] [--gap-s 0] [--seed 1] [--peer]

Each conversation is begun, and then goes on once with 16 more tokens, in a random order: with a store, and on a server
without one whose pool is as large. --pool-mib should hold some eight of them. Before each of them there is a gap, drawn
from an exponential distribution of mean --gap-s. Prints the median and the 90th percentile of the time to the first
token. Validates that both servers give the same answers.

With --peer llama-server does the same work on the same weights (FOLDER/model.gguf), and has as much memory: one slot,
and the rest of the pool as --cache-ram. That takes half an hour and more. Needs root (tools/peer.sh).
"""
import argparse
import functools
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_store  # noqa: E402
from raw_read import raw_rate  # noqa: E402
from restore import add_server_options, ask, segment_files, start, stop  # noqa: E402


def prompt(args, number):
    return [17 + (31 * i + 7 * number * i + number) % (args.vocabulary - 100) for i in range(args.tokens)]


def converse(args, ask_one):
    """Seconds to the first token of each conversation that goes on, and the answers."""
    for number in range(args.conversations):
        ask_one(prompt(args, number), 2)
        print(f"begun {number + 1}/{args.conversations}", end="\r", file=sys.stderr) if sys.stderr.isatty() else None
    chance = random.Random(args.seed)
    seconds, texts = [], []
    for number in chance.sample(range(args.conversations), args.conversations):
        time.sleep(chance.expovariate(1.0 / args.gap_s) if args.gap_s > 0 else 0.0)
        took, text, _ = ask_one(prompt(args, number) + [23 + i for i in range(16)], 4)
        seconds.append(took)
        texts.append(text)
    return seconds, texts


def run(args, store, log):
    server, address = start(args, store, log)
    found = converse(args, functools.partial(ask, address))
    stop(server)
    return found


def run_peer(args, model):
    """One slot, and beside it what else the pool has; also its flag, and how many prompts were in memory."""
    context = (args.tokens + 64 + 255) // 256 * 256
    flash = args.flash or peer_store.faster_flash(model, context, args.threads, prompt(args, 0))
    slot_mib = context * peer_store.kv_bytes_per_token(args.model) / 2**20
    flags = ("-fa", flash, "--cache-ram", str(round(args.pool_mib - slot_mib)))
    held = []

    def one(server, ids, tokens):
        first, text, timings = server.first_token(ids, tokens, slot=-1)
        held.append(timings["cache_n"] >= args.tokens - 1)
        return first, text, timings

    with peer_store.Server(model, context, args.threads, flags) as server:
        found = converse(args, functools.partial(one, server))
    return *found, flash, sum(held[args.conversations:])


def figures_of(args, name, seconds):
    """Median and 90th percentile, told at once: a part that fails later does not take them along."""
    found = {"p50_s": statistics.median(seconds), "p90_s": statistics.quantiles(seconds, n=10)[-1]}
    if not args.json:
        print(f"{name}: first token p50 / p90 {found['p50_s']:.3f} / {found['p90_s']:.3f} s", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, required=True, help="holds some eight of the conversations")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--conversations", type=int, default=32)
    parser.add_argument("--gap-s", type=float, default=0.0, help="mean of the gaps before requests")
    parser.add_argument("--seed", type=int, default=1, help="of the order and the gaps")
    parser.add_argument("--peer", action="store_true", help="llama-server has the same conversations")
    parser.add_argument("--flash", choices=peer_store.FLASH, help="llama-server's flash attention; without "
                        "this what computes one prompt sooner")
    args = parser.parse_args()
    model = peer_store.set_up(args.model) if args.peer else None
    folder = tempfile.mkdtemp(prefix="rondo-idle-", dir=args.folder)
    with open(os.devnull, "w") as log:
        try:
            stored, texts = run(args, folder + "/kv", log)
            figures = {"with_store": figures_of(args, "with a store", stored)}
            files = segment_files(folder + "/kv")
            one_bytes = sum(file.stat().st_size for file in files) / args.conversations
            raw_s = one_bytes / raw_rate(files)
            computed, others = run(args, None, log)
        finally:
            shutil.rmtree(folder)
    if texts != others:
        sys.exit("the answers of a conversation that came back are others")
    figures |= {"without": figures_of(args, "without", computed), "bytes": one_bytes, "raw_s": raw_s}
    figures["sooner"] = figures["without"]["p50_s"] / figures["with_store"]["p50_s"]
    if not args.json:
        print(f"{args.conversations} conversations of {args.tokens} tokens, the same answers: "
              f"{figures['sooner']:.1f} times sooner with a store; a raw read of one ({one_bytes / 1e6:.0f} MB) takes "
              f"{raw_s:.3f} s", flush=True)
    if args.peer:
        seconds, peer_texts, flash, held = run_peer(args, model)
        figures["peer"] = figures_of(args, f"llama-server (-fa {flash})", seconds)
        figures["peer"] |= {"flash": flash, "held_in_memory": held,
                            "same_answers": sum(a == b for a, b in zip(texts, peer_texts))}
    if args.json:
        print(json.dumps(figures))
    elif args.peer:
        print(f"{figures['peer']['p50_s'] / figures['with_store']['p50_s']:.1f} times later than with a store; it had "
              f"{held} of {args.conversations} in memory; {figures['peer']['same_answers']} of its answers are ours")


if __name__ == "__main__":
    main()
