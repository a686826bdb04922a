#!/usr/bin/env python3
"""How much sooner a prompt is done that is computed beside the loading of its history than behind it.

    bench/gates.py --model FOLDER [--tokens 8192] [--new 256] [--rounds 7]

One `rondo serve` whose pool holds one of two stored histories: each request takes the place of the other one's. A round
asks with a few new tokens, which tells how long loading takes, and with --new of them, each once more while the history
is in memory. Loading first would take the loading and the new tokens' own time. Validates that what is asked for came
from the disk, and that the answer is the one of a history in memory.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from restore import add_server_options, ask, start, stop  # noqa: E402

FEW = 2  # computed beside the loading too, so there should be little to compute


class Server:
    def __init__(self, args, store, pool_mib, log, **more):
        self.args = argparse.Namespace(**{**vars(args), "pool_mib": pool_mib, **more})
        self.process, self.address = start(self.args, store, log)

    def ask(self, ids, wanted_restored):
        seconds, text, usage = ask(self.address, ids, 4)
        restored = usage["prompt_tokens_details"]["restored_tokens"]
        if restored < wanted_restored:
            sys.exit(f"{restored} tokens came from the disk, must be {wanted_restored} at least")
        return seconds, text


def history(args, which):
    return [17 + which + 31 * i % 20011 % (args.vocabulary - 100) for i in range(args.tokens)]


def measure(server, args, number):
    """Seconds of loading, of the new tokens alone, and of both together."""
    ids = history(args, number % 2)
    few = [23 + (7 * i + number) % 1000 for i in range(FEW)]
    many = [29 + (11 * i + number) % 1000 for i in range(args.new)]
    most = args.tokens // 2  # the rest may be in memory still
    with_few, _ = server.ask(ids + few, most)
    few_alone, _ = server.ask(ids + few[::-1], 0)
    many_alone, undisturbed = server.ask(ids + many, 0)
    server.ask(history(args, (number + 1) % 2) + few, most)  # takes the room
    beside, text = server.ask(ids + many, most)
    if text != undisturbed:
        sys.exit("the answer is not the one of a history in memory")
    loading = with_few - few_alone
    return {"loading_s": loading, "new_tokens_s": many_alone, "beside_s": beside,
            "sooner": (loading + many_alone) / beside}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, required=True, help="holds one history and its new tokens, not two")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--new", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    store = tempfile.mkdtemp(prefix="rondo-gates-", dir=args.folder)
    try:
        with open(os.devnull, "w") as log:
            server = Server(args, store + "/kv", 8 * args.pool_mib, log)
            for which in (0, 1):
                server.ask(history(args, which), 0)
            stop(server.process)
            # Nothing more is written: that is another measurement.
            server = Server(args, store + "/kv", args.pool_mib, log, settings=["memory.disk.written_a_day_mib=1"])
            rounds = [measure(server, args, number) for number in range(args.rounds + 1)][1:]
            stop(server.process)
    finally:
        shutil.rmtree(store)
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    if args.json:
        print(json.dumps({"tokens": args.tokens, "new": args.new, "median": median, "rounds": rounds}))
        return
    sooner = sorted(one["sooner"] for one in rounds)
    print(f"{args.tokens} tokens on the disk, {args.new} new: loading {median['loading_s']:.3f} s, the new tokens alone "
          f"{median['new_tokens_s']:.3f} s, beside each other {median['beside_s']:.3f} s: {median['sooner']:.2f} times "
          f"sooner than one behind the other [{sooner[0]:.2f}, {sooner[-1]:.2f}]")


if __name__ == "__main__":
    main()
