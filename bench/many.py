#!/usr/bin/env python3
"""A restart with many conversations on the disk, some of whose KV is damaged.

    bench/many.py [--program build/bin/rondo] [--conversations 10000] [--damaged 100] [--key-file F] [--json]

Runs `rondo serve` on the demo model by itself; needs nothing but Python. Each conversation has one round of at least
128 tokens. A byte of --damaged pages of the segments is changed between two starts. Then all are listed, and each goes
on with a second round. Exit status 1 when one is missing, when an answer is not that of a server without a store, when
more than the damaged ones are computed again (but for those of which that is sooner: the model is small), or when the
server is not ready within 5 s.
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from listing import Connection  # noqa: E402
from server_process import REPOSITORY, ServerProcess  # noqa: E402

PAGE = 4096
TOKENS_MIN = 128
READY_MAX_S = 5.0
WORDS = "red blue green box code door harbour river stone light paper round".split()


def asked(number):
    words = random.Random(number)
    return f"Number {number}. " + " ".join(words.choice(WORDS) for _ in range(100)) + "."


async def turn(connection, number, text):
    body = {"conversation": f"c{number}", "messages": [{"role": "user", "content": text}], "max_tokens": 4,
            "temperature": 0}
    status, answer = await connection.call("POST", "/v1/chat/completions", json.dumps(body).encode())
    answer = json.loads(answer)
    if status != 200:
        sys.exit(f"conversation {number}: {answer}")
    return answer["choices"][0]["message"]["content"], answer["usage"]


async def all_turns(port, numbers, text_of):
    """What each was answered, and what it cost."""
    numbers, told = list(numbers), {}

    async def some(first):
        connection = await Connection(port).open()
        for number in numbers[first::16]:
            told[number] = await turn(connection, number, text_of(number))
    await asyncio.gather(*(some(first) for first in range(16)))
    return told


async def listed(port):
    connection, ids, after = await Connection(port).open(), set(), None
    while after != "":
        _, body = await connection.call("GET", "/v1/sessions?limit=100" + (after or ""))
        page = json.loads(body)
        ids.update(one["id"] for one in page["data"])
        after = f"&after={page['last_id']}" if page["has_more"] else ""
    return ids


async def wait_until_ready(port):
    while True:
        status, _ = await (await Connection(port).open()).call("GET", "/ready")
        if status == 200:
            return
        await asyncio.sleep(0.01)


def wait_until_written(server):
    before = -1
    while (now := server.metrics()["store_written_bytes_total"]) != before or server.metrics()["store_queue"] > 0:
        before = now
        time.sleep(0.3)


def damage(folder, pages, seed):
    """A byte of so many pages that hold something."""
    places = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("kv-"):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            places += [(name, at) for at in range(PAGE, len(data), PAGE) if any(data[at:at + PAGE])]
    for name, at in random.Random(seed).sample(places, pages):
        with open(os.path.join(folder, name), "r+b") as file:
            file.seek(at + 16)
            byte = file.read(1)
            file.seek(at + 16)
            file.write(bytes([byte[0] ^ 1]))


def run(args, folder):
    store = os.path.join(folder, "kv")
    settings = ["memory.kv_dtype=f32", "memory.device_kv_mib=256", f"server.conversations_max={args.conversations}"]
    disk = [f"memory.disk.path={store}", "memory.disk.kv_mib=65536", "memory.disk.free_mib=0"]
    if args.key_file:
        disk.append(f"memory.disk.key_file={args.key_file}")
    numbers = range(args.conversations)

    def second(number):
        return f"And what of number {number}?"

    server = ServerProcess(args.program, *settings, *disk, drain_s=60)
    first = asyncio.run(all_turns(server.port, numbers, asked))
    wait_until_written(server)
    stored = server.metrics()
    server.stop()
    tokens = min(usage["total_tokens"] for _, usage in first.values())
    if tokens < TOKENS_MIN:
        sys.exit(f"a conversation has {tokens} tokens, must be {TOKENS_MIN} at least")
    damage(store, args.damaged, args.seed)

    begin = time.perf_counter()
    server = ServerProcess(args.program, *settings, *disk, drain_s=60)
    asyncio.run(wait_until_ready(server.port))
    ready_s = time.perf_counter() - begin
    missing = args.conversations - len(asyncio.run(listed(server.port)))
    again = asyncio.run(all_turns(server.port, numbers, second))
    after = server.metrics()
    server.stop()

    def restored(number):
        return again[number][1]["prompt_tokens_details"]["restored_tokens"]

    computed = [number for number in numbers if restored(number) < first[number][1]["total_tokens"] - 1]
    # Beside a server that has never heard of a disk: all that were computed, and as many as that takes no long time of.
    beside = sorted({*computed, *random.Random(args.seed).sample(numbers, min(1000, args.conversations))})
    undisturbed = ServerProcess(args.program, *settings)
    asyncio.run(all_turns(undisturbed.port, beside, asked))
    right = asyncio.run(all_turns(undisturbed.port, beside, second))
    undisturbed.stop()
    wrong = [number for number in beside if right[number][0] != again[number][0]]
    return {"conversations": args.conversations, "tokens_min": tokens, "bytes": stored["store_bytes"],
            "records": stored["store_records"], "pages_damaged": args.damaged,
            "records_damaged": after["store_records_damaged_total"], "ready_s": ready_s, "missing": missing,
            "computed_again": len(computed),
            "sooner_computed": round(after["store_prompt_tokens_not_worth_total"] / tokens), "compared": len(beside), "wrong": len(wrong), "seed": args.seed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--conversations", type=int, default=10000)
    parser.add_argument("--damaged", type=int, default=100, help="pages of the segments, of 4 KiB")
    parser.add_argument("--key-file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rondo-many-")
    try:
        told = run(args, folder)
    finally:
        shutil.rmtree(folder)
    if args.json:
        print(json.dumps(told))
    else:
        print(f"{told['conversations']} conversations of {told['tokens_min']} tokens or more, {told['bytes'] / 1e6:.0f} "
              f"MB in {told['records']:.0f} records, {told['pages_damaged']} pages damaged: ready after "
              f"{told['ready_s']:.2f} s, {told['missing']} missing, {told['computed_again']} computed again "
              f"(about {told['sooner_computed']} of them because that was sooner), "
              f"{told['wrong']} of {told['compared']} answers wrong")
    failed = (told["missing"] or told["wrong"] or told["ready_s"] > READY_MAX_S or
              told["computed_again"] > told["pages_damaged"] + told["sooner_computed"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
