#!/usr/bin/python3
"""How much of their prompts clients find computed when all of them talk at once and the KV pool holds a few of them.

  bench/pressure.py [--program build/bin/rondo] [--clients 64] [--turns 6] [--pool-mib 4] [--by conversation|resend]
                    [--think-ms 0] [--repeat 1] [--compare OTHER_PROGRAM] [--json] [--set K=V]...

Each client asks its next turn as soon as it has the answer (and has thought for --think-ms). The same clients one after
the other come first: what they find then is the most that any order of turns and any choice of what is kept can find,
because between two turns of a conversation nothing of another one comes. With --compare the two programs alternate,
--repeat times each, and the medians of the ratios of the pairs are printed too. Demo model, greedy. Answers go on past
their end, but not those that clients send back: what follows an end is not text that they could send.
"""
import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(REPOSITORY, "tools"))
from abuse import Server  # noqa: E402

WORDS = "the red box code lamp of is old 4817 Oslo road river dog soup day long paper rain who lives in".split()


def workload(args):
    """By client, its messages and how long each answer is."""
    draw = random.Random(args.seed)
    return [[(" ".join(draw.choices(WORDS, k=draw.randint(*args.words))), draw.randint(*args.answer))
             for _ in range(args.turns)] for _ in range(args.clients)]


async def exchange(port, body):
    """A streamed answer: its text, when its first and last pieces came (in seconds from now), and its usage."""
    start = time.monotonic()
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: " + str(len(data)).encode() + b"\r\n\r\n" + data)
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        if status != 200:
            raise SystemExit(f"pressure: status {status}: {(await reader.read(2000)).decode(errors='replace')}")
        first, last, text, end = None, None, "", None
        while True:
            line = await reader.readline()
            if not line or b"[DONE]" in line:
                break
            if not line.startswith(b"data:"):
                continue
            piece = json.loads(line[5:])
            if "error" in piece:
                raise SystemExit(f"pressure: {piece['error']['message']}")
            for choice in piece.get("choices", []):
                said = choice.get("delta", {}).get("content")
                if said:
                    last = time.monotonic() - start
                    first = last if first is None else first
                text += said or ""
            end = piece if piece.get("usage") else end
        now = time.monotonic() - start
        return text, now if first is None else first, now if last is None else last, end
    finally:
        writer.close()


async def client(port, number, script, args, found):
    history, draw = [], random.Random(number)
    for message, tokens in script:
        said = {"role": "user", "content": message}
        body = {"max_tokens": tokens, "temperature": 0, "ignore_eos": args.by == "conversation", "stream": True,
                "stream_options": {"include_usage": True}}
        if args.by == "conversation":
            body |= {"conversation": f"c{number}", "messages": [said]}
        else:
            body |= {"messages": [*history, said]}
        text, first, last, end = await exchange(port, body)
        usage, timings = end["usage"], end.get("timings", {})
        found.append({"client": number, "ttft": first, "step": (last - first) / max(usage["completion_tokens"] - 1, 1),
                      "prompt": usage["prompt_tokens"],
                      "cached": usage["prompt_tokens_details"]["cached_tokens"],
                      "answer": usage["completion_tokens"], "preemptions": timings.get("preemptions", 0)})
        history += [said, {"role": "assistant", "content": text}]
        if args.think_ms > 0:
            await asyncio.sleep(draw.expovariate(1000 / args.think_ms))


async def replay(port, args, at_once):
    found, start = [], time.monotonic()
    clients = [client(port, number, script, args, found) for number, script in enumerate(workload(args))]
    if at_once:
        await asyncio.gather(*clients)
    else:
        for one in clients:
            await one
    return found, time.monotonic() - start


def figures(found, seconds):
    waits = sorted(one["ttft"] for one in found)
    by_client = {}
    for one in found:
        by_client.setdefault(one["client"], []).append(one["ttft"])
    means = sorted(statistics.mean(ones) for ones in by_client.values())
    prompt = sum(one["prompt"] for one in found)
    return {"prompt_tokens": prompt, "found": sum(one["cached"] for one in found) / prompt, "seconds": seconds,
            "turns_per_s": len(found) / seconds, "ttft_p50": statistics.median(waits),
            "ttft_mean": statistics.mean(waits), "ttft_p99": waits[int(0.99 * len(waits))], "ttft_max": waits[-1],
            "step_ms": 1000 * statistics.median(one["step"] for one in found),
            "client_mean_least": means[0], "client_mean_most": means[-1],
            "preemptions": sum(one["preemptions"] for one in found)}


def measure(program, args, at_once=True):
    pairs = [f"memory.device_kv_mib={args.pool_mib}", *args.set]
    server = Server(program, *pairs)
    try:
        found = figures(*asyncio.run(replay(server.port, args, at_once)))
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return found | {"cpu_s": (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")}
    finally:
        server.stop()


def show(name, one):
    print(f"| {name} | {one['prompt_tokens']} | {100 * one['found']:.2f}% | {one['turns_per_s']:.1f} | "
          f"{one['ttft_p50']:.3f} | {one['ttft_mean']:.3f} | {one['ttft_p99']:.3f} | {one['ttft_max']:.3f} | "
          f"{one['step_ms']:.2f} | {one['client_mean_least']:.3f} to {one['client_mean_most']:.3f} | "
          f"{one['preemptions']} | {one['cpu_s']:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--compare", help="another program, measured in turn with it")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--pool-mib", type=int, default=4)
    parser.add_argument("--by", choices=["conversation", "resend"], default="conversation",
                        help="who keeps the history: the server, or the client, who sends it again")
    parser.add_argument("--words", type=int, nargs=2, default=[10, 70], help="of a message, from and to")
    parser.add_argument("--answer", type=int, nargs=2, default=[8, 40], help="tokens of an answer, from and to")
    parser.add_argument("--think-ms", type=float, default=0, help="mean time between an answer and the next turn")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--no-alone", action="store_true", help="leave out the clients one after the other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.json:
        print(f"{args.clients} clients, {args.turns} turns, {args.pool_mib} MiB, by {args.by}; times in s\n")
        print("| | prompt tokens | found | turns/s | TTFT p50 | mean | p99 | most | ms a token | mean by client "
              "| preemptions | the server's CPU time |\n"
              "|---|---|---|---|---|---|---|---|---|---|---|---|")
    programs = [("this", args.program)] + ([("other", args.compare)] if args.compare else [])
    results = {name: [] for name, _ in programs}
    alone = None
    if not args.no_alone:
        alone = measure(args.program, args, at_once=False)
        if not args.json:
            show("one after the other", alone)
    for number in range(args.repeat):
        for name, program in programs if number % 2 == 0 else programs[::-1]:
            results[name].append(measure(program, args))
            if not args.json:
                show(name, results[name][-1])
    out = {"alone": alone, **results}
    if args.compare:
        out["median_of_ratios"] = {key: statistics.median(a[key] / b[key] if b[key] else float("nan") for a, b in
                                                          zip(results["this"], results["other"]))
                                   for key in ("turns_per_s", "ttft_p50", "ttft_mean", "ttft_p99", "ttft_max",
                                               "step_ms", "cpu_s")}
    if args.json:
        print(json.dumps(out))
    elif args.compare:
        print("\nthis / other, medians of pairs: " +
              ", ".join(f"{key} {value:.3f}" for key, value in out["median_of_ratios"].items()))


if __name__ == "__main__":
    main()
