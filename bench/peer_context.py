#!/usr/bin/python3
"""How fast llama.cpp decodes behind a long context, without the hours it takes to compute one: llama-server computes a
short one, saves it, and restores it as many times over, one copy behind the other. What keys and values say does not
change what a decode step reads and computes; that the server holds all of them, its own count of cached tokens shows.

  bench/peer_context.py --model /models/mha/model.gguf --depth 32768 [--tokens 48] [--threads N]
"""
import argparse
import json
import os
import struct
import subprocess
import time
import urllib.error
import urllib.request

import peer_setup

PORT = 18918
SLOTS = "slots"  # in the peer's root
COMPUTED = 2048


class Words:
    """A saved slot, word by word."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def words(self, count):
        found = struct.unpack_from(f"<{count}i", self.data, self.at)
        self.at += 4 * count
        return list(found)

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count:self.at]


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"llama-server's saved slot: {what} is {found}, not {wanted}: a format this does not know")


def repeat_slot(data, copies):
    """A slot of `copies` times the tokens: of each layer the same keys and values again, at later positions."""
    slot, out = Words(data), []
    magic, version, count = slot.words(3)
    expect("version", (magic, version), (0x67677371, 4))
    before, length = slot.words(2), slot.words(1)[0]
    expect("number of words", count, length + 4)
    tokens, after = slot.words(length), slot.words(1)
    out.append(struct.pack("<3i", magic, version, length * copies + 4))
    out.append(struct.pack(f"<{length * copies + 4}i", *before, length * copies, *(tokens * copies), *after))
    expect("streams and cells", slot.words(2), [1, length])
    out.append(struct.pack("<2i", 1, length * copies))
    cells = [slot.words(3) for _ in range(length)]
    for copy in range(copies):
        for position, sequences, sequence in cells:
            out.append(struct.pack("<3i", position + copy * length, sequences, sequence))
    head = slot.words(4)
    transposed, layers = head[:2]
    expect("transposed values", transposed, 0)  # as with flash attention
    out.append(struct.pack("<4i", *head))
    for _ in range(2 * layers):  # every layer's keys, then every layer's values
        kind = slot.words(1)[0]
        row = struct.unpack("<q", slot.bytes(8))[0]
        out.append(struct.pack("<iq", kind, row))
        out.append(slot.bytes(row * length) * copies)
    expect("end", slot.at, len(data))
    return b"".join(out)


class Server:
    """llama-server with one slot of `context` tokens."""

    def __init__(self, model, context, threads, flags=("-fa", "on")):
        os.makedirs(os.path.join(peer_setup.PEER_ROOT, SLOTS), exist_ok=True)
        peer_setup.need_free(PORT)
        self.process = subprocess.Popen(
            [os.path.join(peer_setup.TOOLS, "peer.sh"), "run", "llama-server", "-m", model, "-c", str(context), "-np", "1",
             "-t", str(threads), *flags, "--port", str(PORT), "--slot-save-path", f"/{SLOTS}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(600):
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1).status == 200:
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.__exit__()
        raise SystemExit("llama-server did not come up within a minute")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return json.load(answer)

    def complete(self, tokens, count):
        return self.post("/completion", {"prompt": tokens, "n_predict": count, "cache_prompt": True, "id_slot": 0,
                                         "temperature": 0, "ignore_eos": True})["timings"]


def decode_rate(model, depth, tokens, threads):
    """Tokens/s of `tokens` decoded behind `depth`."""
    copies = max(1, depth // COMPUTED)
    computed = depth // copies
    path = os.path.join(peer_setup.PEER_ROOT, SLOTS, "context.bin")
    with Server(model, depth + tokens + 256, threads) as server:
        prompt = [3 + i * 7919 % 251 for i in range(computed)]
        server.complete(prompt, 1)
        server.post("/slots/0?action=save", {"filename": "context.bin"})
        with open(path, "rb") as file:
            repeated = repeat_slot(file.read(), copies)
        with open(path, "wb") as file:
            file.write(repeated)
        saved = struct.unpack_from("<6i", repeated)[5]
        held = list(struct.unpack_from(f"<{saved}i", repeated, 24))
        server.post("/slots/0?action=restore", {"filename": "context.bin"})
        timings = server.complete(held + [5], tokens)
    os.remove(path)
    if timings["cache_n"] < computed * copies or timings["prompt_n"] > 8:
        raise SystemExit(f"llama-server computed {timings['prompt_n']} tokens anew, cached {timings['cache_n']}")
    return timings["predicted_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    print(f"{decode_rate(args.model, args.depth, args.tokens, args.threads):.2f} tokens/s")


if __name__ == "__main__":
    main()
