#!/usr/bin/python3
"""Rondo against llama.cpp on the same weights and the same machine in one run: each round measures every test with what
the machine itself can do, with one, and with the other. A ratio is the median of the rounds' own ratios: what a shared
machine gives changes by the minute, and a median of one and a median of the other may come from different minutes.

  bench/peer.py [--rounds 5] [--threads N] [--only NAME,NAME] [--no-save]

Needs root (tools/peer.sh sets llama.cpp up in a root of its own), numpy, and 3 GB in MODELS_DIR (/tmp/models). Writes
docs/measurements/peer-DATE.md and .json.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TOOLS = os.path.join(REPOSITORY, "tools")
PROGRAMS = os.path.join(REPOSITORY, "build/bin")
MODELS = os.environ.get("MODELS_DIR", "/tmp/models")
PEER_ROOT = os.path.join(os.environ.get("PEER_DIR", "/tmp/peer"), "sid")
SHAPE = "qwen2-0.5b"
FOLDER = "qwen05"
FILES = {"bf16": "model.gguf", "q8_0": "q8_0.gguf", "q4_0": "q4_0.gguf"}
BYTES_PER_WEIGHT = {"bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}


@dataclass
class Test:
    phase: str  # "prefill" or "decode"
    tokens: int
    depth: int
    weights: str
    ratio_wanted: float
    share_wanted: float = 0.0  # of the machine's ceiling
    rondo: list = field(default_factory=list)  # tokens/s, a round each
    peer: list = field(default_factory=list)
    ceiling: list = field(default_factory=list)  # of what its phase is bound by: GFLOP/s or GB/s

    @property
    def ratios(self):
        return [rondo / peer for rondo, peer in zip(self.rondo, self.peer)]

    @property
    def name(self):
        return f"{self.phase}-{self.depth}-{self.weights}"

    @property
    def title(self):
        return f"{self.phase} {self.tokens} at depth {self.depth}, {self.weights}"


TESTS = [
    Test("prefill", 512, 0, "bf16", 2.5, 0.55),
    Test("decode", 64, 0, "bf16", 0.97, 0.90),
    Test("decode", 64, 0, "q8_0", 1.2),
    Test("decode", 64, 0, "q4_0", 1.2),
    Test("decode", 32, 8192, "bf16", 2.0, 0.85),
    Test("prefill", 512, 8192, "bf16", 3.0),
]


class Progress:
    """One line that is written over on a terminal; one line a step elsewhere."""

    def __init__(self, steps):
        self.steps, self.done = steps, 0

    def step(self, what):
        self.done += 1
        line = f"[{self.done}/{self.steps}] {what}"
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K" + line + ("\n" if self.done == self.steps else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def run(command):
    out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if out.returncode != 0:
        lines = out.stderr.strip().splitlines() or ["no message"]
        raise SystemExit(f"{' '.join(command)}: status {out.returncode}: {lines[-1]}")
    return out.stdout


def in_peer(*command):
    return run([os.path.join(TOOLS, "peer.sh"), "run", *command])


def prepare():
    """The peer and the models, made once."""
    version = run([os.path.join(TOOLS, "peer.sh"), "setup"]).splitlines()
    folder = os.path.join(MODELS, FOLDER)
    source = os.path.join(folder, FILES["bf16"])
    if not os.path.exists(source):
        run([os.path.join(TOOLS, "make_model.py"), folder, "--shape", SHAPE, "--dtype", "bf16"])
    for weights in ("q8_0", "q4_0"):
        if not os.path.exists(os.path.join(folder, FILES[weights])):
            in_peer("llama-quantize", "--pure", peer_path("bf16"), peer_path(weights), weights)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return ", ".join(" ".join(line.split("\t")) for line in version), json.load(file)


def peer_path(weights):
    return f"/models/{FOLDER}/{FILES[weights]}"


def rondo_flags(test, threads):
    return ["bench", test.phase, "--model", os.path.join(MODELS, FOLDER, FILES[test.weights]), "--tokens",
            str(test.tokens), "--depth", str(test.depth), "--threads", str(threads), "--repeat", "1", "--json"]


def groups(tests):
    """Tests of the same weights and depth: llama-bench measures them in one run, and fills its context once for both."""
    found = {}
    for test in tests:
        found.setdefault((test.weights, test.depth), []).append(test)
    return list(found.values())


def peer_flags(group, threads, flash):
    tokens = {"prefill": 0, "decode": 0} | {test.phase: test.tokens for test in group}
    return ["-m", peer_path(group[0].weights), "-p", str(tokens["prefill"]), "-n", str(tokens["decode"]), "-d",
            str(group[0].depth), "-t", str(threads), "-fa", flash, "-r", "1", "-o", "json"]


def measure_rondo(test, threads):
    return json.loads(run([os.path.join(PROGRAMS, "rondo"), *rondo_flags(test, threads)]))["tokens_per_s"]


def measure_peer(group, threads, flash):
    """Tokens/s of each test of the group, in its order."""
    measured = json.loads(in_peer("llama-bench", *peer_flags(group, threads, flash)))
    speeds = {"prefill" if one["n_prompt"] > 0 else "decode": one["avg_ts"] for one in measured}
    return [speeds[test.phase] for test in group]


def ceilings():
    """What bench/ceilings.cpp measures: name -> figure."""
    return json.loads(run([os.path.join(PROGRAMS, "bench_ceilings"), "--json"]))


def matrix_weights(config):
    """Weights every token is multiplied with: in the layers, and in the output head."""
    width, size = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layer = 2 * width * heads * size + 2 * width * kv_heads * size + 3 * width * config["intermediate_size"]
    return layer * config["num_hidden_layers"], width * config["vocab_size"]


def work_rate(test, config, tokens_per_s):
    """GFLOP/s of a prefill (the output head is needed for the last row alone), GB/s read by a decode."""
    in_layers, in_head = matrix_weights(config)
    size, layers = config["head_dim"], config["num_hidden_layers"]
    if test.phase == "prefill":
        keys = test.depth + (test.tokens + 1) / 2  # seen by a row, on average
        attention = 4 * keys * config["num_attention_heads"] * size * layers
        return (2 * in_layers + attention) * tokens_per_s / 1e9
    keys = test.depth + test.tokens / 2
    kv_bytes = keys * 2 * config["num_key_value_heads"] * size * layers * 2
    return ((in_layers + in_head) * BYTES_PER_WEIGHT[test.weights] + kv_bytes) * tokens_per_s / 1e9


def choose_flash(group, threads):
    """The peer's faster setting of flash attention: it differs with depth. Of a group, its first test decides."""
    speeds = {flash: measure_peer(group, threads, flash)[0] for flash in ("on", "off")}
    return max(speeds, key=speeds.get)


def row(test, config):
    median = statistics.median
    rates = [work_rate(test, config, speed) for speed in test.rondo]
    unit = "GFLOP/s" if test.phase == "prefill" else "GB/s"
    of_ceiling = median(rate / ceiling for rate, ceiling in zip(rates, test.ceiling))
    share = f"≥ {test.share_wanted:.0%}" if test.share_wanted else "–"
    return (f"| {test.title} | {median(test.rondo):.1f} | {median(test.peer):.1f} | {median(test.ratios):.2f}× "
            f"({min(test.ratios):.2f} to {max(test.ratios):.2f}) | ≥ {test.ratio_wanted}× "
            f"| {median(rates):.1f} of {median(test.ceiling):.1f} {unit}: {of_ceiling:.0%} | {share} |")


def report(tests, config, about):
    lines = [
        f"# Rondo and llama.cpp, {about['date']}",
        "",
        f"{about['machine']}, {about['threads']} threads; {about['peer']}; Rondo {about['commit']}; shape {SHAPE}, the",
        f"same GGUF files on both sides; medians of {about['rounds']} rounds, alternating: of tokens/s, of the rounds' own",
        "ratios (the least and the greatest beside it), of their own shares of the ceiling, measured in each round.",
        "",
        "| test | Rondo tokens/s | llama.cpp | ratio | wanted | Rondo's work, of the ceiling | wanted |",
        "|---|---|---|---|---|---|---|",
        *(row(test, config) for test in tests),
        "",
        "A prefill's ceiling is oneDNN's GEMM rate at 512 rows; a decode's is the rate at which memory is read, its work",
        "the weights and KV of a step.",
        "",
        "Commands of a round:",
        "```",
        *about["commands"],
        "```",
    ]
    return "\n".join(lines) + "\n"


def machine_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown processor")


def save(text, tests, about):
    folder = os.path.join(REPOSITORY, "docs/measurements")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"peer-{about['date']}")
    with open(path + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    rounds = {test.name: {"rondo": test.rondo, "llama.cpp": test.peer, "ceiling": test.ceiling} for test in tests}
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump({"about": about, "rounds": rounds}, file, indent=1)
    print(f"written: {os.path.relpath(path, REPOSITORY)}.md and .json", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="tests by name: " + ", ".join(test.name for test in TESTS))
    parser.add_argument("--no-save", action="store_true", help="print the table only")
    args = parser.parse_args()
    tests = [test for test in TESTS if not args.only or test.name in args.only.split(",")]
    if not tests:
        parser.error(f"--only {args.only}: no such test; there are " + ", ".join(test.name for test in TESTS))

    grouped = groups(tests)
    progress = Progress(1 + len(grouped) + 2 * len(grouped) * args.rounds)
    progress.step("setting up llama.cpp and the models")
    version, config = prepare()
    flash = []
    for group in grouped:
        progress.step(f"{group[0].title}: whether llama.cpp is faster with flash attention")
        flash.append(choose_flash(group, args.threads))
    for number in range(1, args.rounds + 1):
        for group, setting in zip(grouped, flash):
            names = ", ".join(test.title for test in group)
            progress.step(f"round {number}: {names}: Rondo")
            machine = ceilings()
            for test in group:
                test.ceiling.append(machine["gemm_gflop_per_s" if test.phase == "prefill" else "read_gb_per_s"])
                test.rondo.append(measure_rondo(test, args.threads))
            progress.step(f"round {number}: {names}: llama.cpp")
            for test, speed in zip(group, measure_peer(group, args.threads, setting)):
                test.peer.append(speed)

    commands = []
    for group, setting in zip(grouped, flash):
        commands += ["rondo " + " ".join(rondo_flags(test, args.threads)) for test in group]
        commands.append("llama-bench " + " ".join(peer_flags(group, args.threads, setting)))
    about = {
        "date": datetime.date.today().isoformat(), "machine": machine_name(), "threads": args.threads, "peer": version,
        "commit": run(["git", "describe", "--always", "--dirty"]).strip(), "rounds": args.rounds, "commands": commands,
    }
    text = report(tests, config, about)
    print(text)
    if not args.no_save:
        save(text, tests, about)


if __name__ == "__main__":
    main()
