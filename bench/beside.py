#!/usr/bin/env python3
"""What answers feel of a store: conversations that come back from the disk, and what is written behind turns.

    bench/beside.py --model FOLDER [--tokens 8192] [--pairs 7]

Two servers take turns at the same work, one with a store and one whose pool holds everything. Eight clients answer a
short prompt each; in the middle a conversation of --tokens goes on, which the one server reads from its disk. Then the
eight answer again and again without it, and what they compute is written behind them. Prints the 99th percentile of
the gaps between tokens, and tokens a second, with a store over those without: the median of the pairs' ratios, the
least and the greatest. Validates that the conversation came from the disk, and that something was written.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from restore import add_server_options, start, stop  # noqa: E402

CLIENTS, ANSWER, WARM_AFTER = 8, 96, 24


def call(address, path, body, method="POST"):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=1200) as answer:
        return json.load(answer)


def metric(address, name):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name + "{")), 0.0)


class Server:
    def __init__(self, args, store, log):
        self.process, self.address = start(args, store, log)
        self.store = store
        text = " ".join(f"word{i * 31 % 997}" for i in range(args.tokens // 3))
        self.long = call(self.address, "/v1/chat/completions",
                         {"conversation": "long", "messages": [{"role": "user", "content": text[:args.tokens * 3 // 2]}],
                          "max_tokens": 1})["usage"]["prompt_tokens"]

    def stream(self, prompt, times, ready=None):
        body = json.dumps({"prompt": prompt, "max_tokens": ANSWER, "ignore_eos": True, "stream": True,
                           "stream_options": {"include_usage": True}, "temperature": 0}).encode()
        tokens = 0
        request = urllib.request.Request(f"http://{self.address}/v1/completions", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1200) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                if b'"choices":[]' in line:
                    tokens = json.loads(line[len(b"data: "):])["usage"]["completion_tokens"]
                    continue
                times.append(time.perf_counter())
                if ready is not None and len(times) == WARM_AFTER:
                    ready.set()
        # A token that ends within a character has no event of its own.
        if tokens != ANSWER or len(times) < ANSWER * 3 // 4:
            raise RuntimeError(f"an answer of {tokens} tokens in {len(times)} events, must be {ANSWER}")

    def answers(self, number, ready=None):
        """When each token of each answer came, once all of them `result`."""
        times = [[] for _ in range(CLIENTS)]
        clients = concurrent.futures.ThreadPoolExecutor(CLIENTS)
        answers = [clients.submit(self.stream, [40 + client, 41 + number, *range(50, 50 + 14)], own, ready)
                   for client, own in enumerate(times)]
        clients.shutdown(wait=False)
        return times, answers

    def beside_the_long_one(self, number):
        """The 99th percentile of gaps, while it comes back."""
        if self.store:
            call(self.address, "/v1/sessions/long/put_away", {})
        ready = threading.Event()
        times, answers = self.answers(number, ready)
        if not ready.wait(120):
            sys.exit("the eight did not begin to answer within two minutes")
        came = call(self.address, "/v1/sessions/long/warm", {})
        for answer in answers:
            answer.result()
        if self.store and came["restored_tokens"] < came["tokens"] * 0.9:
            sys.exit(f"{came} came back, must be nearly all")
        gaps = sorted(b - a for own in times for a, b in zip(own[1:], own[2:]))
        return gaps[int(len(gaps) * 0.99)]

    def tokens_a_second(self, number):
        before = metric(self.address, "rondo:store_written_bytes_total")
        began = time.perf_counter()
        tokens = 0
        for turn in range(3):
            for answer in self.answers(1000 + 10 * number + turn)[1]:
                answer.result()
            tokens += ANSWER * CLIENTS
        seconds = time.perf_counter() - began
        if self.store and metric(self.address, "rondo:store_written_bytes_total") <= before:
            sys.exit("nothing was written behind the answers")
        return tokens / seconds


def compare(servers, measure, pairs):
    """Of with a store over without, by pair."""
    figures = []
    for pair in range(pairs + 1):
        order = servers if pair % 2 == 0 else servers[::-1]
        found = {server: measure(server, pair) for server in order}
        figures.append((found[servers[0]], found[servers[1]]))
    return figures[1:]  # the first touches memory


def tell(what, unit, figures):
    ratios = sorted(with_store / without for with_store, without in figures)
    medians = [statistics.median(column) for column in zip(*figures)]
    print(f"{what}: {medians[0]:.4g} {unit} with a store, {medians[1]:.4g} without: {statistics.median(ratios):.3f} "
          f"[{ratios[0]:.3f}, {ratios[-1]:.3f}]", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, default=2048)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rondo-beside-", dir=args.folder)
    with open(os.devnull, "w") as log:
        try:
            servers = [Server(args, folder + "/kv", log), Server(args, None, log)]
            gaps = compare(servers, Server.beside_the_long_one, args.pairs)
            rates = compare(servers, Server.tokens_a_second, args.pairs)
            for server in servers:
                stop(server.process)
        finally:
            shutil.rmtree(folder)
    if args.json:
        print(json.dumps({"tokens": servers[0].long, "gap_p99_s": gaps, "tokens_a_second": rates}))
        return
    tell(f"99th percentile of gaps while {servers[0].long} tokens come back", "s", gaps)
    tell("tokens a second while they are written", "tokens/s", rates)


if __name__ == "__main__":
    main()
