#!/usr/bin/python3
"""Decoding with LoopServe against our own dense engine and against llama.cpp, on the same weights in one run: each round
measures one, then the other; the result is the median of the rounds' own ratios.

  bench/loopserve_peer.py [--depths 8192,32768] [--rounds 3] [--threads N] [--tokens 48] [--lag 15] [--no-save]

The shape is llama-mha's (a KV head for each query head), random weights in bf16. llama.cpp gets its context by
bench/peer_context.py: computing it would take most of an hour at 32768. Needs root (tools/peer.sh) and 1 GB in MODELS_DIR.
Writes build/measurements/loopserve-peer-DATE.md and .json.
"""
import argparse
import datetime
import json
import os
import statistics

import peer_context
from peer_setup import MHA, PROGRAMS, Progress, commit, machine_name, make_model, run, save, set_up_peer

def rondo_command(args, depth):
    return ["bench", "decode", "--model", MHA.path("bf16"), "--tokens", str(args.tokens),
            "--depth", str(depth), "--threads", str(args.threads), "--repeat", "1", "--method", "progressive", "--set",
            f"pipeline.decode.attention.lag_steps={args.lag}", "--json"]


def peer_command(args, depth):
    return ["--model", MHA.peer_path("bf16"), "--depth", str(depth), "--tokens", str(args.tokens), "--threads",
            str(args.threads)]


def measure(args, depth):
    """Tokens/s: LoopServe, dense, llama.cpp."""
    ours = json.loads(run([os.path.join(PROGRAMS, "rondo"), *rondo_command(args, depth)]))
    theirs = peer_context.decode_rate(MHA.peer_path("bf16"), depth, args.tokens, args.threads)
    return ours["tokens_per_s"], ours["dense_tokens_per_s"], theirs


def ratio(rounds, one, other):
    each = [figures[one] / figures[other] for figures in rounds]
    return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="8192,32768")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--lag", type=int, default=15, help="decode steps that the keys chosen before still serve")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    depths = [int(depth) for depth in args.depths.split(",")]

    progress = Progress(1 + len(depths) * args.rounds)
    progress.step("setting up llama.cpp and the model")
    version = set_up_peer()
    make_model(MHA, "bf16")
    lines = [
        f"# Decoding with LoopServe beside llama.cpp, {datetime.date.today().isoformat()}",
        "",
        f"{machine_name()}, {args.threads} threads; {version}; Rondo {commit()}; shape llama-mha, random weights, bf16, B = 1024,",
        f"chosen anew every 16 steps, lag {args.lag}; medians of {args.rounds} alternating rounds, a ratio's of the "
        "rounds' own (least to greatest).",
        "",
        "| depth | LoopServe, tokens/s | dense | llama.cpp | LoopServe / dense | LoopServe / llama.cpp | dense / llama.cpp |",
        "|---|---|---|---|---|---|---|",
    ]
    measured = {}
    for depth in depths:
        rounds = measured[depth] = []
        for number in range(1, args.rounds + 1):
            progress.step(f"depth {depth}, round {number}")
            rounds.append(measure(args, depth))
        sparse, dense, theirs = (statistics.median(column) for column in zip(*rounds))
        lines.append(f"| {depth} | {sparse:.1f} | {dense:.1f} | {theirs:.2f} | {ratio(rounds, 0, 1)} | "
                     f"{ratio(rounds, 0, 2)} | {ratio(rounds, 1, 2)} |")
    lines += ["", "Commands of a round:", "```"]
    for depth in depths:
        lines.append("rondo " + " ".join(rondo_command(args, depth)))
        lines.append("bench/peer_context.py " + " ".join(peer_command(args, depth)))
    lines.append("```")
    text = "\n".join(lines) + "\n"
    print(text)
    if not args.no_save:
        save(f"loopserve-peer-{datetime.date.today().isoformat()}", text, measured)


if __name__ == "__main__":
    main()
