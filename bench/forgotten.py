#!/usr/bin/env python3
"""What is left of a conversation in the store's files after DELETE, and how soon nothing is.

    bench/forgotten.py [--program build/bin/rondo] [--key-file F] [--within-s 10] [--json]

Runs `rondo serve` on the demo model; needs nothing but Python. Two conversations have a secret word each. Of the first
one the text, the id, the token ids and pieces of its KV are looked for in all files of the folder: they must be there
before DELETE (with a key no text, id or token ids, and sealed pieces), and nowhere --within-s seconds later; the second
one stays. Exit status 1 otherwise.
"""
import argparse
import json
import os
import shutil
import struct
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from server_process import REPOSITORY, ServerProcess  # noqa: E402
from store_files import contents, found  # noqa: E402

PAGE = 4096


def call(server, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data,
                                     {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def turn(server, name, text):
    call(server, "POST", "/v1/chat/completions", {"conversation": name, "max_tokens": 16, "temperature": 0,
                                                  "messages": [{"role": "user", "content": text}]})


def pieces_of_kv(folder):
    """Bytes from the middle of each page of the segments that holds something."""
    return {data[at + 1024:at + 1088] for name, data in contents(folder) if name.startswith("kv-")
            for at in range(PAGE, len(data), PAGE) if any(data[at + 1024:at + 1088])}


def settle(server):
    while server.metrics()["store_queue"] > 0:
        time.sleep(0.05)
    time.sleep(0.5)


def run(args, folder):
    store = os.path.join(folder, "kv")
    settings = [f"memory.disk.path={store}", "memory.disk.free_mib=0", "memory.disk.min_tokens=16"]
    if args.key_file:
        settings.append(f"memory.disk.key_file={args.key_file}")
    server = ServerProcess(args.program, *settings, drain_s=10)
    try:
        secret, other = "quagga77 " * 30, "okapi55 " * 30
        turn(server, "stays-conversation", f"Remember {other}.")
        settle(server)
        before = pieces_of_kv(store)
        turn(server, "goes-conversation", f"Remember {secret}.")
        settle(server)
        ids = call(server, "POST", "/tokenize", {"text": secret})["ids"]
        canaries = {"text": [b"quagga77"], "id": [b"goes-conversation"], "kv": pieces_of_kv(store) - before,
                    "token ids": [struct.pack(f"<{len(part)}i", *part) for part in (ids[8:16], ids[16:24])]}
        at_first = found(store, canaries)
        if not args.key_file and at_first != sorted(canaries):
            sys.exit(f"before DELETE only {at_first} can be seen: nothing is measured")
        call(server, "DELETE", "/v1/sessions/goes-conversation")
        began = time.perf_counter()
        while (left := found(store, canaries)) and time.perf_counter() - began < args.within_s:
            time.sleep(0.1)
        seconds = time.perf_counter() - began
        stays = call(server, "GET", "/v1/sessions/stays-conversation")["id"]
        return {"before": at_first, "left": left, "seconds": seconds, "pieces_of_kv": len(canaries["kv"]), "stays": stays}
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--key-file")
    parser.add_argument("--within-s", type=float, default=10)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rondo-forgotten-")
    try:
        figures = run(args, folder)
    finally:
        shutil.rmtree(folder)
    # Sealed pages are pieces of the folder like any others: that they go is looked at too.
    seen = [what for what in figures["before"] if what != "kv"] if args.key_file else []
    print(json.dumps(figures) if args.json else
          f"before DELETE: {', '.join(figures['before']) or 'nothing'} (kv: {figures['pieces_of_kv']} pieces); "
          f"{figures['seconds']:.1f} s later: {', '.join(figures['left']) or 'nothing'}")
    sys.exit(1 if figures["left"] or seen else 0)


if __name__ == "__main__":
    main()
