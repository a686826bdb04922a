#!/usr/bin/python3
"""Rondo's server against llama-server on the same weights and the same multi-turn workload, in one run: in each round
first one, then the other is started, replayed against, and stopped. A ratio is the median of the rounds' own ratios.

  bench/multi_turn_peer.py [--rounds 3] [--threads N] [--weights q4_0|q8_0|bf16] [--conversations 8] [--scale 0.25]
                           [--answers-only] [--timeout 900] [--tier avx512|avx2|portable] [--search] [--no-save]

LMCache's shape: a long system prompt and history, short answers. With --answers-only: prompts of 32 tokens, answers of
128, one turn each, as many at once as --conversations says. A replay that is not over after --timeout seconds is ended,
named in the report, and in none of its figures. --tier and llama.cpp's fastest flags are as in peer.py.
Needs root (tools/peer.sh). Writes build/measurements/multi-turn-….
"""
import argparse
import datetime
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

from peer import Test, add_tier, environment_of, fastest_settings, spread
from peer_setup import (BYTES_PER_WEIGHT, PROGRAMS, QWEN, REPOSITORY, TOOLS, Progress, commit, machine_name, make_model,
                        need_free, save, set_up_peer)

PORT = 18200


def wait_until_up(port, process, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server at port {port} did not come up")


def rondo_command(args):
    return [os.path.join(PROGRAMS, "rondo"), "serve", "--model", QWEN.path(args.weights), "--port", str(PORT),
            "--quiet", "--threads", str(args.threads),
            "--set", f"pipeline.decode.batch_max={args.conversations}", "--set", "memory.device_kv_mib=2048"]


def peer_flags(args, version, progress):
    """llama-server's flags that change its speed, by what the workload is mostly made of."""
    phase, tokens = ("decode", 64) if args.answers_only else ("prefill", 512)
    test = Test(QWEN, phase, tokens, 0, args.weights, 0.0)
    [chosen] = fastest_settings([[test]], args, version, progress)
    _, flash, _, packed = chosen[phase]
    return ["-fa", flash, *(["--no-repack"] if packed == "0" else [])]


def peer_command(args, flags):
    context = args.context * args.conversations
    return [os.path.join(TOOLS, "peer.sh"), "run", "llama-server", "-m", QWEN.peer_path(args.weights), "--host",
            "127.0.0.1", "--port", str(PORT), "-t", str(args.threads), "-tb", str(args.threads), "-c", str(context),
            "-np", str(args.conversations), "-cb", *flags]


def client_command(args, seed):
    shape = ["--conversations", str(args.conversations), "--scale", str(args.scale)]
    if args.answers_only:
        at_once = str(args.conversations)
        shape = ["--conversations", str(2 * args.conversations), "--active", at_once, "--clients", at_once,
                 "--turns", "1", "--shared-prefix", "0", "--own-prefix", "0", "--user-tokens", "32",
                 "--answer-tokens", "128"]
    return [os.path.join(PROGRAMS, "rondo"), "bench", "multi_turn", "--url", f"http://127.0.0.1:{PORT}", "--workload",
            "lmcache", *shape, "--seed", str(seed), "--fixed-history", "--timeout-s", str(args.timeout), "--json"]


def stop(server):
    """Ends a server's whole process group: the one that was started may be gone while another still holds the port."""
    for kind, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        end = time.monotonic() + seconds
        try:
            os.killpg(server.pid, kind)
            while time.monotonic() < end:
                server.poll()  # a zombie would keep the group in being
                os.killpg(server.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return
    raise SystemExit(f"process group {server.pid} survives SIGKILL")


def measure(command, args, seed):
    """What the client measured, or None where its replay was not over in time."""
    need_free(PORT)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                              env=os.environ | environment_of(args.tier))
    try:
        wait_until_up(PORT, server)
        out = subprocess.run(client_command(args, seed), capture_output=True, text=True, check=False,
                             timeout=args.timeout)
        if out.returncode != 0:
            raise SystemExit(f"{' '.join(client_command(args, seed))}: {out.stderr.strip()}")
        return json.loads(out.stdout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        stop(server)


FIGURES = {
    "requests/s": lambda r: r["requests_per_s"],
    "output tokens/s": lambda r: r["output_tokens_per_s"],
    "all tokens/s": lambda r: r["total_tokens_per_s"],
    "TTFT p50, ms": lambda r: r["ttft_ms"]["p50"],
    "TTFT p99, ms": lambda r: r["ttft_ms"]["p99"],
    "TPOT p50, ms": lambda r: r["tpot_ms"]["p50"],
}


def row(name, rondo, other):
    """Medians over each server's rounds that ended, and the ratios of the rounds that ended for both."""
    value = FIGURES[name]
    sides = [[value(one) for one in results if one] for results in (rondo, other)]
    medians = [f"{statistics.median(values):.4g}" if values else "–" for values in sides]
    ratios = [value(one) / value(two) for one, two in zip(rondo, other) if one and two]
    return f"| {name} | {medians[0]} | {medians[1]} | {spread(ratios) if ratios else '–'} |"


def not_ended(server, results, timeout):
    """A line that names a server's rounds without figures; none where all have ended."""
    rounds = [str(number) for number, result in enumerate(results, 1) if result is None]
    if not rounds:
        return []
    return [f"{server} was not done after {timeout:g} s in {len(rounds)} of {len(results)} rounds"
            f" ({', '.join(rounds)}).", "Such a round is in none of its figures, nor in a ratio.", ""]


def report(rondo, other, about):
    work = (f"{about['conversations']} short prompts at once, answers of 128" if about["answers_only"] else
            f"LMCache's workload × {about['scale']}, {about['conversations']} conversations")
    tier = f", no more than {about['tier']} in both" if about["tier"] else ""
    return "\n".join([
        f"# Multi-turn serving: Rondo and llama-server, {about['date']}", "",
        f"{about['machine']}, {about['threads']} threads{tier}; {about['peer']};",
        f"Rondo {about['commit']}; shape {QWEN.name}, {about['weights']};",
        f"{work}; medians of {len(rondo)} rounds, alternating; ratios are medians",
        "of the rounds' own, with the least and the greatest.", "",
        "| | Rondo | llama-server | Rondo / llama-server |", "|---|---|---|---|",
        *(row(name, rondo, other) for name in FIGURES), "",
        *not_ended("Rondo", rondo, about["timeout"]), *not_ended("llama-server", other, about["timeout"]),
        "Commands:", "```", *about["commands"], "```", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--weights", choices=BYTES_PER_WEIGHT, default="bf16")
    parser.add_argument("--conversations", type=int, default=8)
    parser.add_argument("--scale", type=float, default=0.25, help="of LMCache's numbers of tokens")
    parser.add_argument("--context", type=int, default=4096, help="of a conversation, at llama-server")
    parser.add_argument("--answers-only", action="store_true", help="short prompts, one turn each")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that one replay may take")
    add_tier(parser)
    parser.add_argument("--search", action="store_true", help="find llama.cpp's fastest flags anew")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    if not 0.001 <= args.timeout <= 86400:  # as the client's own --timeout-s
        parser.error("--timeout must be from 0.001 to 86400 seconds")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that the server is stopped then, too
    progress = Progress(2 + 2 * args.rounds)
    progress.step("setting up llama.cpp and the models")
    version = set_up_peer()
    make_model(QWEN, args.weights)
    flags = peer_flags(args, version, progress)
    rondo, other = [], []
    for number in range(1, args.rounds + 1):
        progress.step(f"round {number}: Rondo")
        rondo.append(measure(rondo_command(args), args, number))
        progress.step(f"round {number}: llama-server")
        other.append(measure(peer_command(args, flags), args, number))
    today = datetime.date.today().isoformat()
    commands = [rondo_command(args), peer_command(args, flags), client_command(args, 1)]
    about = vars(args) | {"date": today, "machine": machine_name(), "peer": version, "commit": commit(),
                          "commands": [" ".join(command) for command in commands]}
    text = report(rondo, other, about)
    text = re.sub(re.escape(REPOSITORY) + "/", "", text)
    print(text)
    if not args.no_save:
        name = f"multi-turn-{today}-{args.weights}" + (f"-{args.conversations}-answers" if args.answers_only else "")
        name += f"-{args.tier}" if args.tier else ""
        save(name, text, {"rondo": rondo, "llama-server": other})
    sys.exit(0)


if __name__ == "__main__":
    main()
