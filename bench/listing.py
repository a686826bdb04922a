#!/usr/bin/python3
"""Short answers alone, and beside clients who list 10,000 conversations page by page without pause.

  bench/listing.py [--program build/bin/rondo] [--conversations 10000] [--clients 64] [--answers 200] [--json]

Runs `rondo serve` on the demo model by itself; needs nothing but Python. Every page is checked before it counts: each
walk must show every conversation once. The clients who list are a process of their own, so that an answer does not wait
here until their pages are read. Exit status 1 when a page is wrong or p99 beside is above 3 times p99 alone.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from server_process import REPOSITORY, ServerProcess  # noqa: E402

RATIO_MAX = 3.0


class Connection:
    def __init__(self, port):
        self.port = port

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def call(self, method, path, body=b""):
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                          + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        return int(head.split()[1]), await self.reader.readexactly(size)


async def fill(port, count):
    async def some(first):
        connection = await Connection(port).open()
        for i in range(first, count, 16):
            status, body = await connection.call("POST", "/v1/sessions", json.dumps({"id": f"c{i}"}).encode())
            assert status == 200, body
    await asyncio.gather(*(some(first) for first in range(16)))


async def walk(port, count, pages, walks):
    """All pages, again and again."""
    connection = await Connection(port).open()
    while True:
        ids, after, first = set(), "", True
        while first or after:
            first = False
            status, body = await connection.call("GET", "/v1/sessions?limit=100" + after)
            assert status == 200, (status, body[:200])
            page = json.loads(body)
            ids.update(one["id"] for one in page["data"])
            pages.value += 1
            after = f"&after={page['last_id']}" if page["has_more"] else ""
        assert len(ids) == count, f"a walk showed {len(ids)} of {count} conversations"
        walks.value += 1


def walk_all(port, count, clients, pages, walks):
    async def together():
        await asyncio.gather(*(walk(port, count, pages, walks) for _ in range(clients)))
    asyncio.run(together())


async def answers(port, count):
    """Seconds of each, one after the other."""
    connection = await Connection(port).open()
    body = json.dumps({"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4, "temperature": 0,
                       "ignore_eos": True}).encode()
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        status, said = await connection.call("POST", "/v1/chat/completions", body)
        assert status == 200 and json.loads(said)["usage"]["completion_tokens"] == 4, said
        times.append(time.perf_counter() - begun)
    return times


def figures(times):
    times = sorted(times)
    return {"p50_ms": statistics.median(times) * 1e3, "p99_ms": times[int(len(times) * 0.99) - 1] * 1e3,
            "max_ms": times[-1] * 1e3}


async def run(args, server):
    await fill(server.port, args.conversations)
    await answers(server.port, args.answers)
    alone = figures(await answers(server.port, args.answers))
    pages, walks = (multiprocessing.Value("q", 0, lock=False) for _ in range(2))
    walkers = multiprocessing.Process(target=walk_all, args=(server.port, args.conversations, args.clients, pages, walks))
    walkers.start()
    while walks.value == 0 and walkers.is_alive():  # all of them are at work
        await asyncio.sleep(0.1)
    begun, before = time.perf_counter(), pages.value
    beside = figures(await answers(server.port, args.answers))
    pages_per_s = (pages.value - before) / (time.perf_counter() - begun)
    if not walkers.is_alive():
        raise SystemExit("a client who listed got a wrong page")
    walkers.kill()
    walkers.join()
    return {"conversations": args.conversations, "clients": args.clients, "answers": args.answers, "alone": alone,
            "beside": beside, "p99_ratio": beside["p99_ms"] / alone["p99_ms"], "pages_per_s": pages_per_s}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build", "bin", "rondo"))
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    server = ServerProcess(args.program, "memory.device_kv_mib=64")
    try:
        result = asyncio.run(run(args, server))
    finally:
        server.kill()
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{args.answers} answers of 4 tokens, {args.clients} clients listing {args.conversations} conversations")
        for name in ("alone", "beside"):
            one = result[name]
            print(f"{name:7} p50 {one['p50_ms']:7.1f} ms   p99 {one['p99_ms']:7.1f} ms   longest {one['max_ms']:7.1f} ms")
        print(f"p99 {result['p99_ratio']:.2f} times alone (at most {RATIO_MAX:g}); {result['pages_per_s']:.0f} pages/s")
    return 0 if result["p99_ratio"] <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
