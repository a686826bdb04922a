#!/usr/bin/python3
"""Rondo against llama.cpp on the same weights and the same machine in one run: each round measures every test with what
the machine itself can do, with one, and with the other. A ratio is the median of the rounds' own ratios: what a shared
machine gives changes by the minute, and a median of one and a median of the other may come from different minutes.

  bench/peer.py [--rounds 5] [--threads N] [--only NAME,NAME] [--tier avx512|avx2|portable] [--search] [--list]
                [--no-save]

NAME may end in *. Which of llama.cpp's flags are its fastest is found out for prompts and for answers apart, once for a
machine, and kept beside the measurements; --search finds it out anew. --tier makes all use no more than that of the
processor: Rondo, llama.cpp, and oneDNN, whose rate is the ceiling of prompts. Quantized prompts are printed as times of
Rondo's bf16 prompts as well. Needs root (tools/peer.sh sets llama.cpp up in a root of its own), numpy, and 8 GB in
MODELS_DIR (/tmp/models). Writes build/measurements/peer-DATE.md and .json.
"""
import argparse
import datetime
import fnmatch
import itertools
import json
import os
import statistics
from dataclasses import dataclass, field

from peer_setup import (BYTES_PER_WEIGHT, LLAMA, PROGRAMS, QWEN, RESULTS, Progress, Shape, commit, in_peer,
                        machine_name, make_model, run, save, set_up_peer)


@dataclass
class Test:
    shape: Shape
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
        return f"{self.shape.name}/{self.phase}-{self.tokens}-at-{self.depth}-{self.weights}"

    @property
    def title(self):
        return f"{self.shape.name}, {self.phase} {self.tokens} at depth {self.depth}, {self.weights}"


TESTS = [
    *(Test(QWEN, "prefill", tokens, 0, "bf16", 2.7, 0.55) for tokens in (64, 512, 2048)),
    *(Test(QWEN, "prefill", tokens, 0, "q8_0", 3.0) for tokens in (64, 512, 2048)),
    *(Test(QWEN, "prefill", tokens, 0, "q4_0", 1.5) for tokens in (64, 512, 2048)),
    Test(QWEN, "prefill", 512, 8192, "bf16", 3.5),
    Test(QWEN, "decode", 64, 0, "bf16", 0.97, 0.90),
    Test(QWEN, "decode", 64, 0, "q8_0", 1.2),
    Test(QWEN, "decode", 64, 0, "q4_0", 1.2),
    Test(QWEN, "decode", 32, 8192, "bf16", 2.0, 0.85),
    Test(LLAMA, "prefill", 512, 0, "bf16", 2.7),
    Test(LLAMA, "prefill", 512, 0, "q4_0", 1.5),
    Test(LLAMA, "prefill", 512, 0, "q4_k", 3.0),
    Test(LLAMA, "prefill", 512, 0, "q6_k", 3.0),
]

# The greatest that oneDNN may use beside a tier. "portable" is Highway's own dispatch, which may use AVX-512 too.
ONEDNN_ISA = {"portable": "AVX512_CORE_BF16", "avx2": "AVX2", "avx512": "AVX512_CORE_BF16"}
SEARCH_RUNS = 3  # of llama-bench with each setting, whose median counts


def rondo_flags(test, threads):
    return ["bench", test.phase, "--model", test.shape.path(test.weights), "--tokens", str(test.tokens), "--depth",
            str(test.depth), "--threads", str(threads), "--repeat", "1", "--json"]


def groups(tests):
    """Tests of the same file and depth: one run of llama-bench may measure them, and fill its context once for all."""
    found = {}
    for test in tests:
        found.setdefault((test.shape.name, test.weights, test.depth), []).append(test)
    return list(found.values())


def group_title(group):
    return f"{group[0].shape.name}, {group[0].weights}, depth {group[0].depth}"


def peer_flags(group, threads, setting):
    tokens = {phase: sorted({test.tokens for test in group if test.phase == phase}) for phase in ("prefill", "decode")}
    listed = {phase: ",".join(map(str, some)) or "0" for phase, some in tokens.items()}
    return ["-m", group[0].shape.peer_path(group[0].weights), "-p", listed["prefill"], "-n", listed["decode"], "-d",
            str(group[0].depth), "-t", str(threads), *setting, "-r", "1", "-o", "json"]


def measure_rondo(test, threads, environment):
    return json.loads(run([os.path.join(PROGRAMS, "rondo"), *rondo_flags(test, threads)], environment))["tokens_per_s"]


def measure_peer(group, args, setting):
    """Tokens/s of each test of the group, in its order."""
    measured = json.loads(in_peer("llama-bench", *peer_flags(group, args.threads, setting),
                                  environment=environment_of(args.tier)))
    speeds = {("prefill", one["n_prompt"]) if one["n_prompt"] > 0 else ("decode", one["n_gen"]): one["avg_ts"]
              for one in measured}
    return [speeds[test.phase, test.tokens] for test in group]


def settings(group):
    """The peer's flags that change its speed: flash attention, and for quantized weights its own packing of them."""
    repack = ("1",) if group[0].weights == "bf16" else ("1", "0")
    return [["-fa", flash, "--repack", packed] for flash, packed in itertools.product(("on", "off"), repack)]


def search_tests(group):
    """The tests by which flags are chosen: of each phase in the group the one nearest to 512 tokens."""
    phases = [[test for test in group if test.phase == phase] for phase in ("prefill", "decode")]
    return [min(tests, key=lambda test: abs(test.tokens - 512)) for tests in phases if tests]


def fastest_of(speeds):
    """Of (setting, its runs' tokens/s) the setting with the greatest median: the peer gets its best flags."""
    return max(speeds, key=lambda one: statistics.median(one[1]))[0]


def search(tests, args):
    """The fastest setting for each of some tests of one group. The settings take turns, so that a minute in which the
    machine is slow counts against all of them. A run measures every test, and fills its context once for all."""
    tried = settings(tests)
    passes = [[measure_peer(tests, args, setting) for setting in tried] for _ in range(SEARCH_RUNS)]
    return [fastest_of([(setting, [speeds[at][number] for speeds in passes]) for at, setting in enumerate(tried)])
            for number in range(len(tests))]


def fastest_settings(grouped, args, version, progress):
    """Of each group, phase -> setting, as found now or before: searching takes longer than measuring."""
    path = os.path.join(RESULTS, "peer-flags.json")
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    for group in grouped:
        progress.step(f"{group_title(group)}: llama.cpp's fastest flags")
        tests = search_tests(group)
        tier = f", {args.tier}" if args.tier else ""
        about = f"{machine_name()}, {args.threads} threads{tier}, {version}, by {SEARCH_RUNS} runs"
        keys = {test.phase: f"{about}: {test.title}" for test in tests}
        missing = [test for test in tests if args.search or keys[test.phase] not in kept]
        if missing:
            for test, setting in zip(missing, search(missing, args)):
                kept[keys[test.phase]] = setting
            os.makedirs(RESULTS, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
        yield {phase: kept[key] for phase, key in keys.items()}


def peer_runs(group, chosen):
    """(tests, setting) of each run of llama-bench: one for both phases where their fastest flags are the same."""
    runs = []
    for test in group:
        tests = next((tests for tests, setting in runs if setting == chosen[test.phase]), None)
        if tests is None:
            runs.append(([test], chosen[test.phase]))
        else:
            tests.append(test)
    return runs


def environment_of(tier):
    """Holds Rondo, our own loops, oneDNN and llama.cpp to the tier."""
    return {"RONDO_CPU": tier, "ONEDNN_MAX_CPU_ISA": ONEDNN_ISA[tier], "PEER_TIER": tier} if tier else {}


def add_tier(parser):
    parser.add_argument("--tier", default="", choices=tuple(ONEDNN_ISA),
                        help="what all may use of the processor (RONDO_CPU, ONEDNN_MAX_CPU_ISA, PEER_TIER)")


def ceilings(threads, environment):
    """What bench/ceilings.cpp measures: name -> figure."""
    command = [os.path.join(PROGRAMS, "bench_ceilings"), "--json", "--threads", str(threads)]
    return json.loads(run(command, environment))


def matrix_weights(config):
    """Weights every token is multiplied with: in the layers, and in the output head."""
    width, size = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layer = 2 * width * heads * size + 2 * width * kv_heads * size + 3 * width * config["intermediate_size"]
    return layer * config["num_hidden_layers"], width * config["vocab_size"]


def work_rate(test, tokens_per_s):
    """GFLOP/s of a prefill (the output head is needed for the last row alone), GB/s read by a decode."""
    config = test.shape.config()
    in_layers, in_head = matrix_weights(config)
    size, layers = config["head_dim"], config["num_hidden_layers"]
    if test.phase == "prefill":
        keys = test.depth + (test.tokens + 1) / 2  # seen by a row, on average
        attention = 4 * keys * config["num_attention_heads"] * size * layers
        return (2 * in_layers + attention) * tokens_per_s / 1e9
    keys = test.depth + test.tokens / 2
    kv_bytes = keys * 2 * config["num_key_value_heads"] * size * layers * 2
    return ((in_layers + in_head) * BYTES_PER_WEIGHT[test.weights] + kv_bytes) * tokens_per_s / 1e9


def spread(ratios):
    return f"{statistics.median(ratios):.2f}× ({min(ratios):.2f} to {max(ratios):.2f})"


def row(test):
    median = statistics.median
    rates = [work_rate(test, speed) for speed in test.rondo]
    unit = "GFLOP/s" if test.phase == "prefill" else "GB/s"
    of_ceiling = median(rate / ceiling for rate, ceiling in zip(rates, test.ceiling))
    share = f"≥ {test.share_wanted:.0%}" if test.share_wanted else "–"
    return (f"| {test.title} | {median(test.rondo):.1f} | {median(test.peer):.1f} | {spread(test.ratios)} "
            f"| ≥ {test.ratio_wanted}× "
            f"| {median(rates):.1f} of {median(test.ceiling):.1f} {unit}: {of_ceiling:.0%} | {share} |")


def beside_bf16(tests):
    """Each quantized prompt's tokens/s as times of Rondo's own bf16 prompt of the same shape and length, where the run
    measured both: the lines of a table, or none."""
    bf16 = {(test.shape, test.tokens, test.depth): test for test in tests
            if test.phase == "prefill" and test.weights == "bf16"}
    rows = []
    for test in tests:
        whole = bf16.get((test.shape, test.tokens, test.depth))
        if test.phase == "prefill" and test.weights != "bf16" and whole:
            ratios = [speed / other for speed, other in zip(test.rondo, whole.rondo)]
            rows.append(f"| {test.title} | {spread(ratios)} |")
    if not rows:
        return []
    return ["Rondo's quantized prompts beside its own bf16 prompts of the same shape and length:", "",
            "| test | as times of bf16's tokens/s |", "|---|---|", *rows, ""]


def report(tests, about):
    tier = f", no more than {about['tier']} in all" if about["tier"] else ""
    lines = [
        f"# Rondo and llama.cpp, {about['date']}",
        "",
        f"{about['machine']}, {about['threads']} threads{tier}; {about['peer']};",
        f"Rondo {about['commit']}; the same GGUF files on both sides;",
        f"medians of {about['rounds']} rounds, alternating: of tokens/s, of the rounds' own ratios (the least and",
        "the greatest beside it), of their own shares of the ceiling, measured in each round.",
        "",
        "| test | Rondo tokens/s | llama.cpp | ratio | wanted | Rondo's work, of the ceiling | wanted |",
        "|---|---|---|---|---|---|---|",
        *(row(test) for test in tests),
        "",
        "A prefill's ceiling is the greatest of oneDNN's GEMM rates at 512 rows (bf16, f32) and of loops of products.",
        "A decode's is the rate at which memory is read, its work the weights and KV of a step.",
        "",
        *beside_bf16(tests),
        "Commands of a round:",
        "```",
        *about["commands"],
        "```",
    ]
    return "\n".join(lines) + "\n"


def measure(grouped, flags, args, progress):
    environment = environment_of(args.tier)
    for number, (group, chosen) in itertools.product(range(1, args.rounds + 1), zip(grouped, flags)):
        progress.step(f"round {number}: {group_title(group)}: Rondo")
        machine = ceilings(args.threads, environment)
        for test in group:
            test.ceiling.append(machine["gemm_gflop_per_s" if test.phase == "prefill" else "read_gb_per_s"])
            test.rondo.append(measure_rondo(test, args.threads, environment))
        progress.step(f"round {number}: {group_title(group)}: llama.cpp")
        for some, setting in peer_runs(group, chosen):
            for test, speed in zip(some, measure_peer(some, args, setting)):
                test.peer.append(speed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="*", help="tests by name; --list names them")
    add_tier(parser)
    parser.add_argument("--search", action="store_true", help="find llama.cpp's fastest flags anew")
    parser.add_argument("--list", action="store_true", help="name all tests")
    parser.add_argument("--no-save", action="store_true", help="print the table only")
    args = parser.parse_args()
    if args.list:
        print("\n".join(test.name for test in TESTS))
        return
    tests = [test for test in TESTS if any(fnmatch.fnmatch(test.name, one) for one in args.only.split(","))]
    if not tests:
        parser.error(f"--only {args.only}: no such test; --list names all")
    for program in ("rondo", "bench_ceilings"):
        if not os.path.exists(os.path.join(PROGRAMS, program)):
            parser.error(f"no {program} in {PROGRAMS}: make build builds it, or set PROGRAMS_DIR")

    grouped = groups(tests)
    progress = Progress(1 + len(grouped) + 2 * len(grouped) * args.rounds)
    progress.step("setting up llama.cpp and the models")
    version = set_up_peer()
    for group in grouped:
        make_model(group[0].shape, group[0].weights)
    flags = list(fastest_settings(grouped, args, version, progress))
    measure(grouped, flags, args, progress)

    commands = []
    for group, chosen in zip(grouped, flags):
        commands += ["rondo " + " ".join(rondo_flags(test, args.threads)) for test in group]
        commands += ["llama-bench " + " ".join(peer_flags(some, args.threads, setting))
                     for some, setting in peer_runs(group, chosen)]
    about = {"date": datetime.date.today().isoformat(), "machine": machine_name(), "threads": args.threads,
             "peer": version, "commit": commit(), "rounds": args.rounds, "tier": args.tier, "commands": commands}
    text = report(tests, about)
    print(text)
    if not args.no_save:
        rounds = {test.name: {"rondo": test.rondo, "llama.cpp": test.peer, "ceiling": test.ceiling} for test in tests}
        save(f"peer-{about['date']}" + (f"-{args.tier}" if args.tier else ""), text, {"about": about, "rounds": rounds})


if __name__ == "__main__":
    main()
