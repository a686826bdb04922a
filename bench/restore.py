#!/usr/bin/env python3
"""How soon a conversation goes on after a restart: its KV read from the disk beside computing it again.

    bench/restore.py --model FOLDER [--weights random:1] [--tokens 2048,4096,8192] [--new 16] [--rounds 5] [--peer]
                     [--no-recompute]

Each round starts `rondo serve` with a store, asks once, stops it by SIGTERM, drops the file cache's copy, starts it
again and asks with some more tokens; and once more without a store, unless --no-recompute is given. Times are from the
request to the first token, at a server that says it is ready. The bytes' own time is that of a raw read of the segment
files, 1 MiB pieces past the cache at a queue depth of 32, in the same round. Validates that the answer's ids are the
undisturbed run's.

With --peer each round restarts llama-server too, on the same weights (FOLDER/model.gguf): it restores a slot that it
has saved, with the file in the kernel's cache and without, with flash attention and without. The faster flag counts.
Needs root (tools/peer.sh).
"""
import argparse
import atexit
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_store  # noqa: E402
from raw_read import forget_cached, raw_rate, touch_memory  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
running = []  # servers


@atexit.register
def end_all():
    """Whatever fails leaves no server behind."""
    for server in running:
        server.kill()


def start(args, store, log, before=None):
    """`before` is called in the server's process, before it is the server."""
    command = [args.program, "serve", "--quiet", "--model", args.model, "--weights", args.weights,
               "--port", "0", "--threads", str(args.threads), "--set", f"memory.device_kv_mib={args.pool_mib}"]
    for setting in getattr(args, "settings", []):
        command += ["--set", setting]
    if store:
        command += ["--set", f"memory.disk.path={store}"]
        if args.key_file:
            command += ["--set", f"memory.disk.key_file={args.key_file}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=before)
    running.append(server)
    line = server.stdout.readline()
    if "http" not in line:
        sys.exit(f"rondo serve did not start: {line}")
    return server, line.rsplit("http://", 1)[1].strip().rstrip("/")


def add_server_options(parser, **pool):
    """What every benchmark of the store asks: which model and program, on how many threads, and where the disk is."""
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pool-mib", type=int, **pool)
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--folder", help="on the disk that is measured (default: the temporary folder)")
    parser.add_argument("--program", default=str(ROOT / "build/bin/rondo"))
    parser.add_argument("--key-file")
    parser.add_argument("--json", action="store_true")


def stop(server):
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    running.remove(server)


def events_of(address, path, body):
    """An answer's events, each with the seconds since it was asked for."""
    body = json.dumps({**body, "temperature": 0, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}}).encode()
    request = urllib.request.Request(f"http://{address}{path}", body, {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=1200) as answer:
        for line in answer:
            if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                yield time.perf_counter() - began, json.loads(line[6:])


def ask(address, ids, tokens, at_first=lambda: None):
    """Seconds to the first token, the answer's ids and its usage. `at_first` is called then; computing goes on."""
    first, text, usage = None, "", {}
    for seconds, event in events_of(address, "/v1/completions", {"prompt": ids, "max_tokens": tokens}):
        if first is None:
            first = seconds
            at_first()
        usage = event.get("usage") or usage
        text += "".join(choice["text"] for choice in event["choices"])
    return first, text, usage


def bytes_read(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith("rondo:store_read_bytes_total"))


def segment_files(store):
    return sorted(pathlib.Path(store).glob("kv-*"))


def measure(args, tokens, log):
    ids, more = history(args, tokens), more_of(args)
    store = tempfile.mkdtemp(prefix="rondo-restore-", dir=args.folder)
    os.chmod(store, 0o700)
    try:
        server, address = start(args, store + "/kv", log)
        ask(address, ids, 2)
        new, undisturbed, usage = ask(address, ids + more, 8)
        if usage["prompt_tokens_details"]["cached_tokens"] < tokens - 1:
            sys.exit(f"the undisturbed run found {usage} of its prompt")
        stop(server)
        forget_cached(file for file in pathlib.Path(store).rglob("*") if file.is_file())
        rate = raw_rate(segment_files(store + "/kv"))
        touch_memory(4 << 30)
        server, address = start(args, store + "/kv", log)
        ask(address, [5] * 40, 1)
        restored, text, usage = ask(address, ids + more, 8)
        bytes_restored = bytes_read(address)
        stop(server)
        details = usage["prompt_tokens_details"]
        if text != undisturbed:
            sys.exit("the restored answer is another one")
        if details["restored_tokens"] < tokens - 16:
            sys.exit(f"only {details} was restored")
        recomputed = None
        if not args.no_recompute:
            server, address = start(args, None, log)
            ask(address, [5] * 40, 1)
            recomputed, _, _ = ask(address, ids + more, 8)
            stop(server)
    finally:
        shutil.rmtree(store)
    wanted = bytes_restored / rate + new
    found = {"restored_s": restored, "new_tokens_s": new, "bytes": bytes_restored, "raw_mb_s": rate / 1e6,
             "raw_s": bytes_restored / rate, "of_raw_and_new": restored / wanted}
    if recomputed is not None:
        found.update({"recomputed_s": recomputed, "sooner": recomputed / restored})
    return found


def history(args, tokens):
    return [17 + 31 * i % 20011 % args.vocabulary for i in range(tokens)]


def more_of(args):
    return [23 + 7 * i % args.vocabulary for i in range(args.new)]


def beside_peer(rounds):
    """The faster flag's medians, and the medians of the rounds' ratios: its seconds over ours."""
    flash = min(peer_store.FLASH, key=lambda one: statistics.median(each["peer"][one]["first_s"] for each in rounds))
    found = [one["peer"][flash] for one in rounds]
    median = {key: statistics.median(one[key] for one in found) for key in found[0]}
    for key, times in (("first_s", "ours_sooner"), ("cached_first_s", "ours_sooner_than_cached")):
        ratios = sorted(theirs[key] / one["restored_s"] for one, theirs in zip(rounds, found))
        median[times] = statistics.median(ratios)
        median[times + "_range"] = [ratios[0], ratios[-1]]
    return {"flash": flash, **median}


def told(tokens, median):
    """One line; of computing the history again only where that was measured."""
    line = (f"{tokens} tokens, {median['bytes'] / 1e6:.0f} MB: first token after {median['restored_s']:.3f} s; "
            f"raw read {median['raw_s']:.3f} s ({median['raw_mb_s']:.0f} MB/s) + new tokens "
            f"{median['new_tokens_s']:.3f} s: {median['of_raw_and_new']:.2f} of that")
    if "recomputed_s" in median:
        line += f"; computed again {median['recomputed_s']:.2f} s: {median['sooner']:.1f} times sooner"
    return line


def tell_peer(peer):
    least, most = peer["ours_sooner_range"]
    print(f"  llama-server (-fa {peer['flash']}), {peer['bytes'] / 1e6:.0f} MB: first token after "
          f"{peer['first_s']:.3f} s, of it restoring {peer['restoring_s']:.3f} s (raw read {peer['raw_s']:.3f} s): ours "
          f"is {peer['ours_sooner']:.2f} times sooner [{least:.2f}, {most:.2f}]; with its file in the kernel's cache "
          f"{peer['cached_first_s']:.3f} s: {peer['ours_sooner_than_cached']:.2f} times", flush=True)


def measure_rounds(args, tokens, model, log):
    slots = []
    try:
        for flash in peer_store.FLASH if model else ():
            slots.append(peer_store.SavedSlot(model, args.threads, history(args, tokens), more_of(args), flash))
        rounds = []
        for _ in range(args.rounds):
            rounds.append(measure(args, tokens, log))
            if slots:
                rounds[-1]["peer"] = peer_store.restored(slots)
    finally:
        for slot in slots:
            slot.remove()
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0] if key != "peer"}
    if slots:
        median["peer"] = beside_peer(rounds)
    return {"tokens": tokens, "median": median, "rounds": rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_server_options(parser, default=4096)
    parser.add_argument("--tokens", default="2048,4096,8192")
    parser.add_argument("--new", type=int, default=16, help="tokens behind the history")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-recompute", action="store_true", help="the history is not computed again")
    parser.add_argument("--peer", action="store_true", help="llama-server restores a slot of the same history")
    args = parser.parse_args()
    model = peer_store.set_up(args.model) if args.peer else None
    out = []
    with open(os.devnull, "w") as log:
        for tokens in map(int, args.tokens.split(",")):
            out.append(measure_rounds(args, tokens, model, log))
            median = out[-1]["median"]
            if not args.json:
                print(told(tokens, median), flush=True)
            if not args.json and args.peer:
                tell_peer(median["peer"])
    if args.json:
        print(json.dumps(out))


if __name__ == "__main__":
    main()
