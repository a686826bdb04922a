#!/usr/bin/python3
"""How long a model takes to load, beside reading its file cold, and how much memory loading takes at most.

  bench/load.py [--rounds 5] [--pause 5] [--model FILE]

Each round drops the file from the page cache and reads it, drops it again and runs `rondo generate` for one token: the
whole process counts, start and first token included. Before each of them it waits, because a virtual machine hands
freed memory back to its host some seconds later: without the pause, what a run finds depends on what ran just before
it (of one file, reads took 0.5 to 1.7 s). MODEL is bench/peer.py's bf16 file unless given.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import peer_setup


def drop(path, pause):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(pause)


def read_cold(path, pause):
    drop(path, pause)
    start = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        piece = bytearray(1 << 22)
        while file.readinto(piece):
            pass
    return time.monotonic() - start


def load_cold(path, pause):
    """Seconds, and the peak of resident memory in bytes."""
    drop(path, pause)
    start = time.monotonic()
    command = [os.path.join(peer_setup.PROGRAMS, "rondo"), "generate", "--model", path, "--tokens", "1", "--max-tokens", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    return time.monotonic() - start, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=5, help="seconds before each read and each load")
    parser.add_argument("--model")
    args = parser.parse_args()
    if args.model is None:
        peer_setup.set_up_peer()
        peer_setup.make_model(peer_setup.QWEN, "bf16")
        args.model = peer_setup.QWEN.path("bf16")
    size = os.path.getsize(args.model)
    reads, loads, peaks = [], [], []
    for _ in range(args.rounds):
        reads.append(read_cold(args.model, args.pause))
        seconds, peak = load_cold(args.model, args.pause)
        loads.append(seconds)
        peaks.append(peak)
    read, load = statistics.median(reads), statistics.median(loads)
    print(f"{os.path.basename(args.model)}, {size / 1e6:.0f} MB, medians of {args.rounds}: read cold {read:.2f} s, "
          f"loaded and one token {load:.2f} s = {load / read:.2f} x (wanted <= 2); peak memory "
          f"{max(peaks) / size:.3f} x the file (wanted <= 1.15)")
    sys.exit(0 if load <= 2 * read and max(peaks) <= 1.15 * size else 1)


if __name__ == "__main__":
    main()
