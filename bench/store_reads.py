#!/usr/bin/env python3
"""How fast a server reads its store, beside a raw read of the same files: plain and encrypted.

    bench/store_reads.py --model FOLDER --pool-mib N [--tokens 8192] [--rounds 5]

One `rondo serve` whose pool holds one of two stored histories: each request takes the place of the other one's. A round
reads the segment files raw (1 MiB pieces past the kernel's cache, 32 at a time), and then one history by a request; the
server's own bytes and seconds of reading (rondo:store_*) give its rate. The same again with a key, which is made for
it. Validates that each history came from the disk, and that its answer is the one that it had before.

A history comes back beside the computing of its first layers, which takes memory's rate from the disk. So a round reads
the files raw once more while an answer is computed; that rate is printed beside the other one.
"""
import argparse
import json
import os
import pathlib
import secrets
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside import metric  # noqa: E402
from raw_read import raw_rate  # noqa: E402
from restore import add_server_options, ask, segment_files, start, stop  # noqa: E402


ANSWER = 32


def history(args, which):
    return [17 + which + 31 * i % 20011 % (args.vocabulary - 100) for i in range(args.tokens + 1)]


def read_once(address, args, which, answer):
    """Bytes and seconds of reading one history, as the server counts them."""
    names = ("rondo:store_read_bytes_total", "rondo:store_restore_seconds_total")
    before = [metric(address, name) for name in names]
    _, text, usage = ask(address, history(args, which), 4)
    restored = usage["prompt_tokens_details"]["restored_tokens"]
    if restored < args.tokens // 2:  # the rest may be in memory still
        sys.exit(f"{restored} tokens came from the disk, must be {args.tokens // 2} at least: --pool-mib is too large")
    if text != answer:
        sys.exit("the answer of a history that came back is another one")
    return [metric(address, name) - old for name, old in zip(names, before)]


def raw_beside_answer(args, address, which, files):
    """The raw rate while an answer is computed from a history in memory."""
    told = {}

    def read():
        told["rate"], told["end"] = raw_rate(files), time.perf_counter()

    ask(address, history(args, which), ANSWER, read)
    if time.perf_counter() - told["end"] < 0.01:
        sys.exit(f"the answer of {ANSWER} tokens was over before the files were read")
    return told["rate"]


def measure(args, log):
    store = tempfile.mkdtemp(prefix="rondo-reads-", dir=args.folder)
    server = None
    try:
        wide = argparse.Namespace(**{**vars(args), "pool_mib": 8 * args.pool_mib})
        server, address = start(wide, store + "/kv", log)
        answers = [ask(address, history(args, which), 4)[1] for which in (0, 1)]
        stop(server)
        # Nothing more is written: that is another measurement.
        args.settings = ["memory.disk.written_a_day_mib=1"]
        server, address = start(args, store + "/kv", log)
        rounds = []
        for number in range(args.rounds + 1):
            files = segment_files(store + "/kv")
            raw = raw_rate(files)
            read, seconds = read_once(address, args, number % 2, answers[number % 2])
            beside = raw_beside_answer(args, address, number % 2, files)
            rounds.append({"raw_mb_s": raw / 1e6, "raw_beside_mb_s": beside / 1e6, "bytes": read,
                           "mb_s": read / seconds / 1e6, "of_raw": read / seconds / raw,
                           "of_raw_beside": read / seconds / beside})
    finally:
        if server is not None:
            stop(server)
        shutil.rmtree(store)
    rounds = rounds[1:]  # the first touches memory
    ratios = [one["of_raw"] for one in rounds]
    return {"median": {key: statistics.median(one[key] for one in rounds) for key in rounds[0]},
            "of_raw_range": [min(ratios), max(ratios)], "rounds": rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, required=True, help="holds one history, not two")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.key_file:
        parser.error("--key-file: both ways are measured, the key is made here")
    out = {}
    with open(os.devnull, "w") as log, tempfile.NamedTemporaryFile("w") as key:  # nobody else may read it
        key.write(secrets.token_hex(32))
        key.flush()
        for name, file in (("plain", None), ("encrypted", key.name)):
            args.key_file, args.settings = file, []
            out[name] = found = measure(args, log)
            median, (least, most) = found["median"], found["of_raw_range"]
            if not args.json:
                print(f"{name}: {median['bytes'] / 1e6:.0f} MB of {args.tokens} tokens at {median['mb_s']:.0f} MB/s, "
                      f"raw {median['raw_mb_s']:.0f} MB/s: {median['of_raw']:.2f} of it [{least:.2f}, {most:.2f}]; "
                      f"raw beside an answer {median['raw_beside_mb_s']:.0f} MB/s: {median['of_raw_beside']:.2f} of it",
                      flush=True)
    if args.json:
        print(json.dumps({"tokens": args.tokens, **out}))


if __name__ == "__main__":
    main()
