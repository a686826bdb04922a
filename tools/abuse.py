#!/usr/bin/python3
"""What a server of ours does under clients who behave badly; each part prints its figures, and fails when they are bad.

  tools/abuse.py [--program build/bin/rondo] [--only aborts,slow,drip,overload,drain,bodies,idle,calls] [--aborts 10000] [--json]

Runs `rondo serve` on the demo model by itself. Needs nothing but Python. Exit status 1 when something did not hold.
"""
import argparse
import asyncio
import json
import os
import random
import re
import resource
import socket
import statistics
import struct
import sys
import time

from abuse_calls import calls
from server_process import REPOSITORY, ServerProcess


class Server(ServerProcess):
    async def idle(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = await asyncio.to_thread(self.metrics)
            if now["num_requests_running"] == 0 and now["num_requests_waiting"] == 0:
                return now
            await asyncio.sleep(0.05)
        raise SystemExit("abuse: turns are still under way after a minute")


def request(words, tokens, stream=True, **more):
    body = json.dumps({"messages": [{"role": "user", "content": " ".join(words)}], "max_tokens": tokens,
                       "temperature": 0, "stream": stream, "ignore_eos": True, **more}).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)


def words(count):
    return random.choices(["the", "red", "box", "code", "lamp", "of", "is", "old", "4817", "Oslo"], k=count)


async def stream_tokens(port, tokens, prompt=8):
    """Times at which the pieces of one answer came, and its status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request(words(prompt), tokens))
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        times = []
        while status == 200:
            line = await reader.readline()
            if not line or b"[DONE]" in line:
                break
            if line.startswith(b"data:"):
                times.append(time.monotonic())
        return status, times
    finally:
        writer.close()


async def abort_one(port, limit):
    async with limit:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request(words(random.choices([2, 20, 200, 1500], [50, 40, 8, 2])[0]), random.choice([4, 64, 1500])))
            await writer.drain()
            kind = random.randrange(3)
            if kind == 0:
                await asyncio.sleep(random.random() * 0.1)
            elif kind == 1:
                await reader.read(1)
            else:
                await reader.read(1)
                await asyncio.sleep(random.random() * 0.05)
            gone = writer.get_extra_info("socket")
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        finally:
            writer.close()


async def aborts(program, count):
    server = Server(program, "memory.device_kv_mib=64", "pipeline.decode.batch_max=8")
    try:
        limit = asyncio.Semaphore(32)
        # Until all of the KV pool's pages have been touched, memory grows by design.
        await asyncio.gather(*(stream_tokens(server.port, 4, 1500) for _ in range(64)))
        await asyncio.gather(*(abort_one(server.port, limit) for _ in range(count // 10)))
        before = await server.idle()
        rss, descriptors = server.rss_mib(), server.descriptors()
        await asyncio.gather(*(abort_one(server.port, limit) for _ in range(count)))
        after = await server.idle()
        await asyncio.sleep(0.5)
        figures = {"aborted": count, "turns_aborted": after["request_success_total:abort"] - before["request_success_total:abort"],
                   "turns_whole": after.get("request_success_total:length", 0) - before.get("request_success_total:length", 0),
                   "blocks_in_turns_after": after["kv_blocks_in_turns"], "fds_before": descriptors,
                   "fds_after": server.descriptors(), "rss_mib_before": round(rss, 1),
                   "rss_mib_after": round(server.rss_mib(), 1)}
        good = (figures["blocks_in_turns_after"] == 0 and figures["fds_after"] <= descriptors
                and figures["rss_mib_after"] <= rss * 1.1 + 8)
        return figures, good
    finally:
        server.stop()


async def slow_reader(port, seconds):
    """Asks for a long answer and takes one byte a second."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, ("127.0.0.1", port))
    await loop.sock_sendall(raw, request(words(8), 2000))
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if not await loop.sock_recv(raw, 1):
                break
            await asyncio.sleep(1)
    except OSError:
        pass
    finally:
        raw.close()


def gaps(times):
    return [b - a for a, b in zip(times[2:], times[3:])]


async def probe(port, rounds):
    """p99 of the gaps between tokens, of four good clients."""
    all_gaps = []
    for _ in range(rounds):
        for status, times in await asyncio.gather(*(stream_tokens(port, 200) for _ in range(4))):
            assert status == 200, status
            all_gaps += gaps(times)
    all_gaps.sort()
    return all_gaps[int(len(all_gaps) * 0.99)] * 1e3


async def slow(program):
    """Others beside 200 long answers: read at once, and then read at a byte a second. KV is there for all of them (2 GiB
    of the demo model's), since turns put away for want of it would wait for seconds either way."""
    server = Server(program, "memory.device_kv_mib=2560", "pipeline.decode.batch_max=256")
    try:
        await probe(server.port, 1)
        figures = {"readers": 200}
        for kind in ("fast", "slow"):
            if kind == "fast":
                readers = [asyncio.create_task(stream_tokens(server.port, 2000)) for _ in range(200)]
            else:
                readers = [asyncio.create_task(slow_reader(server.port, 120)) for _ in range(200)]
            await asyncio.sleep(2)
            figures[f"others_p99_ms_{kind}"] = round(await probe(server.port, 2), 2)
            if kind == "fast":  # until all of the KV pool's pages have been touched, memory grows by design
                await server.idle(240)
                await asyncio.gather(*(stream_tokens(server.port, 2000) for _ in range(64)))
            figures[f"rss_mib_{kind}"] = round(server.rss_mib(), 1)
            await server.idle(240)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        figures["rss_kib_a_slow_stream"] = round((figures["rss_mib_slow"] - figures["rss_mib_fast"]) * 1024 / 200, 1)
        good = (figures["others_p99_ms_slow"] <= 1.05 * figures["others_p99_ms_fast"]
                and figures["rss_kib_a_slow_stream"] <= 512)
        return figures, good
    finally:
        server.stop()


async def drip_one(port, seconds, closed):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start = time.monotonic()
    try:
        for byte in b"GET /v1/models HTTP/1.1\r\nHost: " + b"x" * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            try:
                if await asyncio.wait_for(reader.read(1), 0.5) == b"":
                    break
            except asyncio.TimeoutError:
                pass
            if time.monotonic() - start > seconds:
                return
        closed.append(time.monotonic() - start)
    except OSError:
        closed.append(time.monotonic() - start)
    finally:
        writer.close()


async def drip(program):
    server = Server(program)
    try:
        closed = []
        dripping = [asyncio.create_task(drip_one(server.port, 20, closed)) for _ in range(1000)]
        await asyncio.sleep(1)
        answers, end = [], time.monotonic() + 12
        while time.monotonic() < end:
            answers.append((await stream_tokens(server.port, 5))[0])
        await asyncio.gather(*dripping)
        figures = {"drips": 1000, "closed": len(closed), "closed_after_s_median": round(statistics.median(closed or [0]), 1),
                   "good_requests": len(answers), "good_share": answers.count(200) / len(answers)}
        return figures, len(closed) == 1000 and figures["good_share"] == 1.0
    finally:
        server.stop()


async def offer(port, rate, seconds):
    """Requests at a rate, whatever becomes of them: tokens/s of whole answers, times of refusals, and whether a whole
    answer was cut."""
    whole, refused, broken = [], [], 0

    async def one():
        nonlocal broken
        start = time.monotonic()
        status, times = await stream_tokens(port, 100)
        if status == 429:
            refused.append(time.monotonic() - start)
        elif status == 200 and len(times) > 50:
            whole.append(time.monotonic())
        else:
            broken += 1

    start, tasks = time.monotonic(), []
    while time.monotonic() - start < seconds:
        tasks.append(asyncio.create_task(one()))
        await asyncio.sleep(max(0.0, start + len(tasks) / rate - time.monotonic()))
    await asyncio.gather(*tasks)
    inside = sum(start + 2 < at < start + seconds for at in whole)
    return inside / (seconds - 2), sorted(refused), broken


async def overload(program):
    server = Server(program, "pipeline.decode.batch_max=16", "server.requests_waiting_max=32")
    try:
        peak = 0.0
        for rate in (10, 20, 40, 80):  # the most it finishes a second at any rate it still takes
            done, refused, _ = await offer(server.port, rate, 8)
            peak = max(peak, done)
            if refused:
                break
        done, refused, broken = await offer(server.port, 5 * peak, 20)
        figures = {"peak_per_s": round(peak, 1), "offered_per_s": round(5 * peak, 1), "finished_per_s": round(done, 1),
                   "goodput_share": round(done / peak, 3), "refused": len(refused), "broken": broken,
                   "refused_p99_ms": round(refused[int(len(refused) * 0.99)] * 1e3, 1) if refused else None}
        return figures, bool(refused) and broken == 0 and figures["goodput_share"] >= 0.9 and figures["refused_p99_ms"] < 50
    finally:
        server.stop()


async def heard(port, stream):
    """All that an endless answer's client hears until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request(words(8), 4000, stream))
        return await reader.read()
    except OSError:
        return b""
    finally:
        writer.close()


async def drain(program):
    """SIGTERM with a second's patience: 50 streams and 50 whole answers, and 10 streams whose clients read nothing."""
    server = Server(program, "server.requests_waiting_max=500")
    hearing = [asyncio.create_task(heard(server.port, i % 2 == 0)) for i in range(100)]
    deaf = []
    for _ in range(10):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", server.port))
        raw.sendall(request(words(8), 4000, logprobs=True, top_logprobs=20))
        deaf.append(raw)
    await asyncio.sleep(2)
    start = time.monotonic()
    await asyncio.to_thread(server.stop)
    gone = time.monotonic() - start
    answers = await asyncio.gather(*hearing)
    for raw in deaf:
        raw.close()
    told = [b'"code":"shutting_down"' in answer for answer in answers]
    ended = [answer.endswith(b"\r\n0\r\n\r\n") if b"chunked" in answer else answer.rstrip().endswith(b"}}") for answer in answers]
    figures = {"clients": 100, "streams_begun": sum(b" 200 OK" in answer for answer in answers), "told": sum(told),
               "ended_properly": sum(ended), "gone_after_s": round(gone, 2)}
    return figures, all(told) and all(ended) and gone <= 2


async def bodies(program):
    """/health beside two clients who send 4.2 MB of JSON keys without pause."""
    server = Server(program)
    body = ("{" + ",".join(f'"{i:012d}":1' for i in range(2**18 - 1)) + "}").encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    parsed = 0

    async def send():
        nonlocal parsed
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            while True:
                writer.write(head + body)
                length = int(re.search(rb"Content-Length: (\d+)", await reader.readuntil(b"\r\n\r\n")).group(1))
                await reader.readexactly(length)
                parsed += 1
        finally:
            writer.close()

    def look():  # in a thread: what this process does itself must not count
        times = []
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            for _ in range(300):
                start = time.monotonic()
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.recv(4096)
                times.append((time.monotonic() - start) * 1e3)
                time.sleep(0.01)
        return sorted(times)

    try:
        rss = server.rss_mib()
        alone = await asyncio.to_thread(look)
        sending = [asyncio.create_task(send()) for _ in range(2)]
        beside = await asyncio.to_thread(look)
        for task in sending:
            task.cancel()
        for ended in await asyncio.gather(*sending, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise ended  # a client that is not there disturbs nobody
        await asyncio.sleep(1)
        figures = {"bodies": parsed, "health_ms_p99_alone": round(alone[297], 1), "health_ms_p50": round(beside[150], 1),
                   "health_ms_p99": round(beside[297], 1), "health_ms_max": round(beside[-1], 1), "rss_mib_before": round(rss, 1),
                   "rss_mib_after": round(server.rss_mib(), 1)}
        return figures, parsed > 0 and beside[297] < 50 and figures["rss_mib_after"] < rss + 32
    finally:
        server.stop()


async def idle(program):
    """10,000 connections that have asked once and are kept."""
    server = Server(program)
    rss, descriptors, kept = server.rss_mib(), server.descriptors(), []
    try:
        for _ in range(10_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"}")
            kept.append(writer)
        statuses = [(await stream_tokens(server.port, 20))[0] for _ in range(50)]
        figures = {"connections": server.descriptors() - descriptors, "kib_a_connection": round((server.rss_mib() - rss) * 1024 / 10_000, 2),
                   "good_share": statuses.count(200) / len(statuses)}
        start = time.monotonic()
        await asyncio.to_thread(server.stop)
        figures["gone_after_s"] = round(time.monotonic() - start, 2)
        return figures, figures["good_share"] == 1.0 and figures["connections"] >= 10_000 and figures["gone_after_s"] <= 2
    finally:
        for writer in kept:
            writer.close()
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--only", default="aborts,slow,drip,overload,drain,bodies,idle,calls")
    parser.add_argument("--aborts", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    random.seed(1)
    parts = {"aborts": lambda: aborts(args.program, args.aborts), "slow": lambda: slow(args.program),
             "drip": lambda: drip(args.program), "overload": lambda: overload(args.program), "drain": lambda: drain(args.program),
             "bodies": lambda: bodies(args.program), "idle": lambda: idle(args.program),
             "calls": lambda: asyncio.to_thread(calls, args.program)}
    results, all_good = {}, True
    for name in args.only.split(","):
        figures, good = asyncio.run(parts[name]())
        results[name] = figures | {"held": good}
        all_good = all_good and good
        if not args.json:
            print(f"{name}: {'held' if good else 'DID NOT HOLD'}: " + ", ".join(f"{k} {v}" for k, v in figures.items()), flush=True)
    if args.json:
        print(json.dumps(results))
    sys.exit(0 if all_good else 1)


if __name__ == "__main__":
    main()
