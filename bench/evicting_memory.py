#!/usr/bin/python3
"""How many conversations answer at once from one small KV pool, by method: those that evict give blocks back while they
answer, so that others come in; those that only choose hold everything, and copies of what they chose.

  bench/evicting_memory.py [--methods dense,progressive,snapkv,adakv,streaming_llm,h2o] [--conversations 12]
                           [--prompt 1500] [--answer 200] [--pool-mib 64] [--budget 256]

The demo model; all conversations ask at the same time, and for each method a server is started anew.
"""
import argparse
import asyncio
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from abuse import Server, request, words  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build/bin/rondo")


async def ask(port, method, args):
    """One whole answer: its usage."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request(words(args.prompt), args.answer, stream=False, method=method))
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        body = json.loads(await reader.readexactly(length))
        if status != 200:
            raise SystemExit(f"{method}: {body['error']['message']}")
        return body
    finally:
        writer.close()


async def watch(server, samples):
    """Turns at once, as long as it is let."""
    while True:
        samples.append((await asyncio.to_thread(server.metrics))["num_requests_running"])
        await asyncio.sleep(0.02)


async def measure(method, args):
    server = Server(PROGRAM, f"memory.device_kv_mib={args.pool_mib}", f"pipeline.decode.batch_max={args.conversations}",
                    f"pipeline.methods=[{method}]", f"pipeline.decode.attention.budget_tokens={args.budget}")
    try:
        samples = []
        watcher = asyncio.create_task(watch(server, samples))
        start = time.monotonic()
        answers = await asyncio.gather(*(ask(server.port, method, args) for _ in range(args.conversations)))
        seconds = time.monotonic() - start
        watcher.cancel()
        return {"method": method, "at_once_max": int(max(samples)), "at_once_mean": round(statistics.mean(samples), 1),
                "seconds": round(seconds, 2), "preemptions": sum(one["timings"]["preemptions"] for one in answers),
                "prompt_tokens": round(statistics.mean(one["usage"]["prompt_tokens"] for one in answers)),
                "rss_mib": round(server.rss_mib())}
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="dense,progressive,snapkv,adakv,streaming_llm,h2o")
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=1500, help="words, of two tokens each")
    parser.add_argument("--answer", type=int, default=200, help="tokens")
    parser.add_argument("--pool-mib", type=int, default=64)
    parser.add_argument("--budget", type=int, default=256, help="keys a method chooses")
    args = parser.parse_args()
    results = [asyncio.run(measure(method, args)) for method in args.methods.split(",")]
    print(f"{args.conversations} conversations of {results[0]['prompt_tokens']} tokens and {args.answer} more, a pool of "
          f"{args.pool_mib} MiB, budget {args.budget}\n")
    print("| method | at once, most | at once, mean | seconds for all | preemptions | RSS, MiB |\n|---|---|---|---|---|---|")
    for one in results:
        print("| {method} | {at_once_max} | {at_once_mean} | {seconds} | {preemptions} | {rss_mib} |".format(**one))


if __name__ == "__main__":
    main()
