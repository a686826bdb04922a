"""llama-server in the store's benchmarks: a slot that is saved to a file and restored after a restart, and prompts that
are kept in memory. Its weights are FOLDER/model.gguf, which tools/make_model.py writes beside FOLDER's own.
"""
import json
import os
import sys
import time
import urllib.request

import peer_context
import peer_setup
from raw_read import forget_cached, raw_rate, touch_memory

FLASH = ("on", "off")  # which of them is faster differs with shape and length


def set_up(folder):
    """Installs llama.cpp; where its programs see the model."""
    inside = os.path.relpath(os.path.realpath(folder), os.path.realpath(peer_setup.MODELS))
    if inside.startswith("..") or not os.path.exists(os.path.join(folder, "model.gguf")):
        sys.exit(f"--peer: {folder} must be a folder of MODELS_DIR ({peer_setup.MODELS}) with the model.gguf that "
                 "tools/make_model.py writes")
    peer_setup.set_up_peer()
    return f"/models/{inside}/model.gguf"


def kv_bytes_per_token(folder):
    """Of 16-bit keys and values."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    return 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]


class Server(peer_context.Server):
    def first_token(self, ids, tokens, slot=0):
        """Seconds to the first token, the answer's text and llama-server's own timings. It looks for a prompt in memory
        only where no slot is named (-1)."""
        body = json.dumps({"prompt": ids, "n_predict": tokens, "cache_prompt": True, "id_slot": slot, "temperature": 0,
                           "ignore_eos": True, "stream": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{peer_context.PORT}/completion", body,
                                         {"Content-Type": "application/json"})
        began = time.perf_counter()
        first, text, timings = None, "", {}
        with urllib.request.urlopen(request, timeout=1800) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                first = first or time.perf_counter() - began
                text += event["content"]
                timings = event.get("timings", timings)
        if timings["prompt_n"] + timings["cache_n"] != len(ids):
            sys.exit(f"llama-server's prompt has other tokens: {timings}, must be {len(ids)} together")
        return first, text, timings


def faster_flash(model, context, threads, ids):
    """With flash attention or without: what computes this prompt sooner."""
    seconds = {}
    for flash in FLASH:
        with Server(model, context, threads, ("-fa", flash, "--cache-ram", "0")) as server:
            seconds[flash] = server.first_token(ids, 1, slot=-1)[0]
    return min(seconds, key=seconds.get)


class SavedSlot:
    """A history that llama-server computes and saves once. Every `restore` is that of another process."""

    def __init__(self, model, threads, ids, more, flash):
        self.model, self.threads, self.ids, self.more, self.flash = model, threads, ids, more, flash
        self.name = f"history-{len(ids)}-{flash}.bin"
        self.path = os.path.join(peer_setup.PEER_ROOT, peer_context.SLOTS, self.name)
        with self.server() as server:
            server.first_token(ids, 1)
            server.post("/slots/0?action=save", {"filename": self.name})
            _, self.undisturbed, _ = server.first_token(ids + more, 8)
        forget_cached([self.path])
        self.bytes = os.path.getsize(self.path)
        self.raw_s = self.bytes / raw_rate([self.path])

    def server(self):
        return Server(self.model, len(self.ids) + 256, self.threads, ("-fa", self.flash))

    def restore(self, in_cache):
        """Seconds of restoring, and to the first token, restoring included; the file in the kernel's cache or not."""
        if not in_cache:
            forget_cached([self.path])
        touch_memory(4 << 30)
        with self.server() as server:
            server.first_token([5] * 40, 1)
            began = time.perf_counter()
            server.post("/slots/0?action=restore", {"filename": self.name})
            restoring = time.perf_counter() - began
            first, text, timings = server.first_token(self.ids + self.more, 8)
        if timings["cache_n"] < len(self.ids) or timings["prompt_n"] > len(self.more):
            sys.exit(f"llama-server computed what it had restored: {timings}")
        if text != self.undisturbed:
            sys.exit("llama-server's restored answer is another one")
        return restoring, restoring + first

    def remove(self):
        os.remove(self.path)


def restored(slots):
    """One round: the figures of each flag of flash attention."""
    found = {}
    for slot in slots:
        cold, cached = slot.restore(in_cache=False), slot.restore(in_cache=True)
        found[slot.flash] = {"restoring_s": cold[0], "first_s": cold[1], "cached_restoring_s": cached[0],
                             "cached_first_s": cached[1], "bytes": slot.bytes, "raw_s": slot.raw_s}
    return found
