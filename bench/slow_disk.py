#!/usr/bin/env python3
"""How soon a history comes back from a disk that is about as slow as computing: its first rounds are computed while the
others are read.

    bench/slow_disk.py --model FOLDER [--weights random:1] [--disk-mb-s 10,20,40] [--tokens 4096] [--round-tokens 256]
                       [--new 8] [--rounds 3] [--beside PROGRAM]

The kernel holds the server's reads to the rate (a control group's blkio.throttle or io.max; needs root and a real disk
under --folder). Each round restarts `rondo serve` over a store with the history, and asks with some more tokens; and
once more without a store, so that all is computed. Times are from the request to the first token. Reading all takes no
less than the bytes' raw read, measured under the same limit in the same round. With --beside another program of Rondo's
does the same over a store of its own. Validates that all answers are the undisturbed run's.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import restore  # noqa: E402
from raw_read import forget_cached  # noqa: E402


class SlowReads:
    """A control group whose processes read so many bytes a second from the disk of a folder."""

    def __init__(self, folder, bytes_per_second):
        device = os.stat(folder).st_dev
        disk = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        if not disk.exists():
            sys.exit(f"{folder} lies on no disk whose reads could be held to a rate; name another --folder")
        if (disk / "partition").exists():
            disk = disk.resolve().parent
        number = (disk / "dev").read_text().strip()
        old = pathlib.Path("/sys/fs/cgroup/blkio")
        self.path = (old if old.exists() else pathlib.Path("/sys/fs/cgroup")) / f"rondo-slow-disk-{os.getpid()}"
        try:
            self.path.mkdir()
            if old.exists():
                (self.path / "blkio.throttle.read_bps_device").write_text(f"{number} {bytes_per_second}")
            else:
                (self.path.parent / "cgroup.subtree_control").write_text("+io")
                (self.path / "io.max").write_text(f"{number} rbps={bytes_per_second}")
        except OSError as error:
            sys.exit(f"no control group can hold reads to a rate here ({error}); that needs root")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        with contextlib.suppress(OSError):  # a server that did not end is still in it
            self.path.rmdir()

    def raw_rate(self, files):
        """Bytes a second that a process which only reads gets of these files."""
        code = "import sys; from raw_read import raw_rate; print(raw_rate(sys.argv[1:]))"
        read = subprocess.run([sys.executable, "-c", code, *map(str, files)], capture_output=True, text=True, check=True,
                              cwd=pathlib.Path(__file__).resolve().parent, preexec_fn=self.enter)
        return float(read.stdout)


def figures(address):
    """Tokens that were computed while others were read, and the seconds that either waited for the other."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    names = {"ahead": "store_prompt_tokens_ahead_total", "computer_waited_s": "store_wait_seconds_total",
             "disk_waited_s": "store_ahead_seconds_total"}
    found = {key: [float(line.split()[-1]) for line in lines if line.startswith(f"rondo:{name}")]
             for key, name in names.items()}
    return {key: values[0] if values else 0.0 for key, values in found.items()}


def say(address, messages, tokens=8):
    """Seconds to the first token, the answer and where its prompt's tokens came from."""
    first, text, usage = None, "", {}
    body = {"messages": messages, "max_tokens": tokens}
    for seconds, event in restore.events_of(address, "/v1/chat/completions", body):
        said = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        first = seconds if first is None and said else first
        usage = event.get("usage") or usage
        text += said
    return first, text, usage["prompt_tokens_details"] | {"prompt_tokens": usage["prompt_tokens"]}


def message(number, words):
    return {"role": "user", "content": " ".join(str((number * 131 + 17 * i) % 97) for i in range(words))}


class History:
    """A program's store with a history of many rounds, and what the program answers to it undisturbed."""

    def __init__(self, args, program, log):
        self.args = argparse.Namespace(**{**vars(args), "program": program})
        self.log = log
        self.folder = tempfile.mkdtemp(prefix="rondo-slow-disk-", dir=args.folder)
        os.chmod(self.folder, 0o700)
        server, address = restore.start(self.args, self.folder + "/kv", log)
        self.messages, words, self.tokens = [], 100, 0
        while self.tokens < args.tokens:
            self.messages.append(message(len(self.messages), words))
            before = self.tokens
            _, answer, used = say(address, self.messages, 4)
            self.messages.append({"role": "assistant", "content": answer})
            self.tokens = used["prompt_tokens"]
            words = max(1, round(words * args.round_tokens / (self.tokens - before)))
        self.messages.append(message(len(self.messages), args.new))
        self.new_s, self.answer, self.undisturbed = say(address, self.messages)
        restore.stop(server)

    def files(self):
        return restore.segment_files(self.folder + "/kv")

    def comes_back(self, slow):
        forget_cached(file for file in pathlib.Path(self.folder).rglob("*") if file.is_file())
        server, address = restore.start(self.args, self.folder + "/kv", self.log, slow.enter)
        self.warm(address)
        first, answer, used = say(address, self.messages)
        found = {"first_s": first, "bytes": restore.bytes_read(address), **figures(address),
                 "restored": used["restored_tokens"]}
        restore.stop(server)
        self.check(answer)
        return found

    def computed(self):
        server, address = restore.start(self.args, None, self.log)
        self.warm(address)
        first, answer, _ = say(address, self.messages)
        restore.stop(server)
        self.check(answer)
        return first

    @staticmethod
    def warm(address):
        """The computer's rate is known then: the first prompt also reads the weights. None of these is stored."""
        for _ in range(6):
            restore.ask(address, [random.randrange(5, 500) for _ in range(300)], 1)

    def check(self, answer):
        if answer != self.answer:
            sys.exit("the answer is another one than the undisturbed run's")

    def remove(self):
        shutil.rmtree(self.folder)


def measure(args, histories, rate, size):
    """A round at one rate of the disk."""
    slow = SlowReads(args.folder or tempfile.gettempdir(), int(rate * 1e6))
    try:
        raw = slow.raw_rate(histories[0].files())
        found = {"raw_mb_s": raw / 1e6, "read_all_s": size / raw, **histories[0].comes_back(slow)}
        if len(histories) > 1:
            found["beside_s"] = histories[1].comes_back(slow)["first_s"]
    finally:
        slow.remove()
    found["computed_s"] = histories[0].computed()
    return found


def told(tokens, one):
    line = (f"disk at {one['raw_mb_s']:.1f} MB/s: first token after {one['first_s']:.2f} s, {one['ahead']:.0f} of "
            f"{tokens} tokens computed while the others were read; the computer waited {one['computer_waited_s']:.2f} s, "
            f"the disk {one['disk_waited_s']:.2f} s; reading all at least {one['read_all_s']:.2f} s, computing all "
            f"{one['computed_s']:.2f} s: {min(one['read_all_s'], one['computed_s']) / one['first_s']:.2f} times sooner "
            "than the better of them")
    return line + (f"; the other program {one['beside_s']:.2f} s" if "beside_s" in one else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    restore.add_server_options(parser, default=4096)
    parser.add_argument("--disk-mb-s", default="10,20,40")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--round-tokens", type=int, default=256)
    parser.add_argument("--new", type=int, default=8, help="words behind the history")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", help="another program, whose store is its own")
    args = parser.parse_args()
    out, histories = [], []
    with open(os.devnull, "w") as log:
        try:
            for program in (args.program, args.beside) if args.beside else (args.program,):
                histories.append(History(args, program, log))
            fast = SlowReads(args.folder or tempfile.gettempdir(), 1 << 40)
            size = histories[0].comes_back(fast)["bytes"]
            fast.remove()
            for rate in map(float, args.disk_mb_s.split(",")):
                rounds = [measure(args, histories, rate, size) for _ in range(args.rounds)]
                median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
                out.append({"disk_mb_s": rate, "bytes": size, "median": median, "rounds": rounds})
                if not args.json:
                    print(told(histories[0].tokens, median), flush=True)
        finally:
            for one in histories:
                one.remove()
    if args.json:
        print(json.dumps(out))


if __name__ == "__main__":
    main()
