#!/usr/bin/python3
"""What eviction frees, by method. Methods that evict give blocks back while they answer; methods that only choose hold
everything, and copies of what they chose. Two questions about conversations that all ask at the same time:

  - how many answer at once from one small KV pool, and how long all of them take;
  - how small a pool lets all of them answer at once with none put off, and the server's peak memory with it.

  bench/evicting_memory.py [--methods dense,progressive,snapkv,adakv,streaming_llm,h2o] [--conversations 12]
                           [--prompt 1500] [--answer 200] [--pool-mib 64] [--budget 256]

The demo model; for each method and pool a server is started anew.
"""
import argparse
import asyncio
import json
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import peer_setup  # noqa: E402
from abuse import Server, request, words  # noqa: E402

POOL_MIB_MAX = 256
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build/bin/rondo")


class Refused(Exception):
    """A prompt that the pool has no room for."""


async def ask(port, method, args):
    """One whole answer: its usage."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request(words(args.prompt), args.answer, stream=False, method=method))
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length"))
        body = json.loads(await reader.readexactly(length))
        if status != 200:
            raise Refused(f"{method}: {body['error']['message']}")
        return body
    finally:
        writer.close()


async def watch(server, samples):
    """The number of turns at once, watched until it is cancelled."""
    while True:
        samples.append((await asyncio.to_thread(server.metrics))["num_requests_running"])
        await asyncio.sleep(0.02)


def peak_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


async def measure(method, pool_mib, args):
    server = Server(PROGRAM, f"memory.device_kv_mib={pool_mib}", f"pipeline.decode.batch_max={args.conversations}",
                    f"pipeline.methods=[{method}]", f"pipeline.decode.attention.budget_tokens={args.budget}")
    try:
        samples, idle = [], peak_mib(server)
        watcher = asyncio.create_task(watch(server, samples))
        start = time.monotonic()
        answers = await asyncio.gather(*(ask(server.port, method, args) for _ in range(args.conversations)))
        seconds = time.monotonic() - start
        watcher.cancel()
        return {"method": method, "pool_mib": pool_mib, "idle_mib": idle, "peak_mib": peak_mib(server),
                "at_once_max": int(max(samples)), "at_once_mean": round(statistics.mean(samples), 1),
                "seconds": round(seconds, 2), "preemptions": sum(one["timings"]["preemptions"] for one in answers)}
    finally:
        server.stop()


def least_pool(method, args, progress):
    """The smallest pool, to 2 MiB, that all conversations answer from at once."""
    def holds(pool_mib):
        progress.step(f"{method}, a pool of {pool_mib} MiB")
        try:
            found = asyncio.run(measure(method, pool_mib, args))
        except Refused:
            return None
        return found if found["at_once_max"] == args.conversations and found["preemptions"] == 0 else None

    low, high = 0, POOL_MIB_MAX
    best = holds(high)
    if best is None:
        raise SystemExit(f"{method}: {args.conversations} conversations are not at once in {POOL_MIB_MAX} MiB; answers "
                         "(--answer) must be longer")
    while high - low > 2:
        middle = (low + high) // 2
        found = holds(middle)
        low, high, best = (low, middle, found) if found else (middle, high, best)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="dense,progressive,snapkv,adakv,streaming_llm,h2o")
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=1500, help="words, of two tokens each")
    parser.add_argument("--answer", type=int, default=200, help="tokens")
    parser.add_argument("--pool-mib", type=int, default=64)
    parser.add_argument("--budget", type=int, default=256, help="keys a method chooses")
    args = parser.parse_args()
    print(f"{args.conversations} conversations of some {2 * args.prompt} tokens and {args.answer} more, budget "
          f"{args.budget}\n")
    print(f"| method | at once in {args.pool_mib} MiB, most | mean | seconds for all | preemptions "
          "| pool for all at once, MiB | peak RSS with it, MiB | above idle |\n|---|---|---|---|---|---|---|---|")
    methods = args.methods.split(",")
    steps_each = 2 + math.ceil(math.log2(POOL_MIB_MAX / 2))
    progress = peer_setup.Progress(len(methods) * steps_each)
    for number, method in enumerate(methods):
        progress.done = number * steps_each
        progress.step(f"{method}, a pool of {args.pool_mib} MiB")
        try:
            small = asyncio.run(measure(method, args.pool_mib, args))
        except Refused as refused:
            raise SystemExit(f"--pool-mib {args.pool_mib}: {refused}") from None
        least = least_pool(method, args, progress)
        print("| {method} | {at_once_max} | {at_once_mean} | {seconds} | {preemptions} | ".format(**small)
              + "{} | {:.0f} | {:.0f} |".format(least["pool_mib"], least["peak_mib"],
                                                least["peak_mib"] - least["idle_mib"]), flush=True)


if __name__ == "__main__":
    main()
