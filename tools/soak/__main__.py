"""Many clients who disturb a server with too little memory, each answer checked against an undisturbed server's.

  python3 tools/soak [--minutes 5] [--seed N] [--program build/bin/rondo] [--scripts 200] [--turns 6] [--json]

Needs nothing but Python; runs `rondo serve` on the demo model by itself. README.md says what must hold.
Exit status 1 when something did not hold; the seed it prints does the same again, but for what the clock decides.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import aborts  # noqa: E402
from edges import Edges  # noqa: E402
from kinds import KINDS  # noqa: E402
from known_conversation import Vocabulary  # noqa: E402
from models import write_deep_model  # noqa: E402
from oracle import Oracle, root_mean_square_of_logits  # noqa: E402
from phase import DRAIN_S, Phase  # noqa: E402
from server_process import REPOSITORY, ServerProcess  # noqa: E402
from tenants import EVERYBODY, three_tenants, write_keys  # noqa: E402

DEMO = os.path.join(REPOSITORY, "examples", "demo_model")
EDGES_EVERY = 3  # phases
CLIENTS = (16, 32, 64)
FAILURES_SHOWN = 10  # of a phase
SUMMED = ("aborts", "aborts_answered", "answers", "tokens", "near_ties", "kept_answers", "kept_restored",
          "kept_near_ties", "untraceable", "preemptions", "left", "cut_rounds", "frozen", "killed", "restarted",
          "restored_tokens", "failed_tokens", "damaged_records", "put_away_tokens", "warmed", "warmed_by_restoring",
          "not_warmed", "resent", "resent_restored_tokens", "first_asked", "first_asked_after_others", "peeks",
          "returned_same_bits", "returned_not_worth")
STORE_MIB = 128  # so that some of what is stored makes room
ENOUGH_ANSWERS = 500  # to say how often turns are preempted
PLANTS = ("token", "prompt", "lost_end", "second_end", "blocks", "found", "foreign", "bits")


class Soak:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.random = random.Random(args.seed)
        self.kinds = [KINDS[name] for name in args.kinds.split(",")]
        self.log = open(os.path.join(folder, "servers.log"), "w", encoding="utf-8")
        self.keys = write_keys(os.path.join(folder, "keys"))
        self.models = {}
        self.undisturbed, self.logits_rms = {}, {}
        self.results = []

    def server(self, kind, pool_mib, store=None, keys=None):
        if kind not in self.models:
            self.models[kind] = kind.write(DEMO, os.path.join(self.folder, "demo_" + kind.name))
        disk = [] if store is None else [f"memory.disk.path={store}", f"memory.disk.kv_mib={STORE_MIB}",
                                         "memory.disk.free_mib=0", "memory.disk.min_tokens=16"]
        locks = [] if keys is None else [f"server.api_keys_file={keys}"]
        return ServerProcess(self.args.program, f"memory.kv_dtype={kind.kv_dtype}", f"memory.device_kv_mib={pool_mib}",
                             *disk, *locks, drain_s=DRAIN_S, model=self.models[kind], log=self.log)

    def oracle(self, kind):
        if kind not in self.undisturbed:
            self.undisturbed[kind] = self.server(kind, 512)
            self.logits_rms[kind] = root_mean_square_of_logits(self.args.program, self.models[kind])
        oracle = Oracle(self.undisturbed[kind], kind, self.logits_rms[kind])
        known = {}

        async def encode(body):
            key = json.dumps(body)
            if key not in known:
                known[key] = await oracle.encode(body)
            return known[key]

        return oracle, Vocabulary(DEMO, encode)

    async def run(self):
        if self.args.aborts > 0:
            await self.aborts(self.args.aborts)
        end = time.monotonic() + self.args.minutes * 60
        number = 0
        while time.monotonic() < end:
            await self.phase(number)
            number += 1
            if self.args.plant is not None:
                break

    async def phase(self, number):
        kind = self.kinds[number % len(self.kinds)]
        pool, clients = self.random.choice(kind.pools_mib), self.random.choice(CLIENTS)
        name = f"{number}: {kind.name}, {pool} MiB, {clients} clients"
        (oracle, vocabulary), began = self.oracle(kind), time.monotonic()
        room_tokens = (pool << 20) // kind.kv_bytes_per_token
        every_second = (number + number // len(self.kinds)) % 2 == 1  # and each kind in turn with one and without
        stored = self.args.store == "always" or (self.args.store == "some" and every_second)
        if stored:
            name += ", stored"
        store = os.path.join(self.folder, f"store-{number}") if stored else None
        beside_idle_ones = number % EDGES_EVERY == EDGES_EVERY - 1 and not stored
        phase = (Edges if beside_idle_ones else Phase)(
            lambda: self.server(kind, pool, store, None if beside_idle_ones else self.keys), oracle, vocabulary,
            f"{self.args.seed} {number}", room_tokens, self.args.plant, lambda text: self.progress(f"{name}: {text}"),
            [EVERYBODY] if beside_idle_ones else three_tenants(), stored)
        try:
            await phase.run(self.args.scripts, self.args.turns, clients)
        except Exception as error:
            phase.fail(f"the phase ended with {error!r}", traceback.format_exception(error))
        finally:
            phase.server.kill()
            if store is not None:
                shutil.rmtree(store, ignore_errors=True)
        figures = dict(phase.figures) | dict(oracle.figures) | {
            "preemptions": phase.preempted_before + phase.preempted,
            "logprobs_apart": round(oracle.widest_logprob, 6), "tie_max": round(oracle.tie_max, 6),
            "tie_widest": round(oracle.widest_tie, 6), "kept_logprobs_apart": round(oracle.widest["kept"], 6),
            "kept_tie_widest": round(oracle.widest["kept_tie"], 6), "seconds": round(time.monotonic() - began)}
        held = {"phase": name, "kind": kind.name, "held": not phase.failures, "failures": phase.failures}
        self.results.append(held | figures)
        self.tell(name, phase.failures, figures)

    async def aborts(self, count):
        """Against the deep model, whose keys take a while to come back."""
        (oracle, vocabulary), began = self.oracle(KINDS["f32"]), time.monotonic()
        model = write_deep_model(DEMO, os.path.join(self.folder, "deep"))
        store = os.path.join(self.folder, "store-aborts")
        server = ServerProcess(self.args.program, *aborts.settings(store), model=model, log=self.log)
        phase = aborts.Aborts(server, oracle, vocabulary, self.args.seed, lambda text: self.progress(f"aborts: {text}"))
        try:
            await phase.run(count)
        except Exception as error:
            phase.fail(f"it ended with {error!r}", traceback.format_exception(error))
        finally:
            server.kill()
            shutil.rmtree(store, ignore_errors=True)
        figures = {"aborts": count, "aborts_answered": oracle.figures["answers"]} | dict(phase.figures)
        hits = {state: dict(hits) for state, hits in phase.hits.items()}
        figures["seconds"] = round(time.monotonic() - began)
        held = {"phase": "aborts", "kind": "aborts", "held": not phase.failures, "failures": phase.failures}
        self.results.append(held | {"hits": hits} | figures)
        self.tell("aborts", phase.failures, figures | {f"meant for {state}": hit for state, hit in hits.items()})

    def progress(self, text):
        if sys.stderr.isatty():
            print("\r\033[K" + text, end="", file=sys.stderr, flush=True)

    def tell(self, name, failures, figures):
        self.progress("")
        for failure in failures[:FAILURES_SHOWN]:
            log = "; ".join(line[:160] for line in failure["log"])
            what = failure["what"] + (f" (it was: {log})" if log else "")
            print(f"soak: {name}: {what}", file=sys.stderr, flush=True)
        if not self.args.json:
            held = "held" if not failures else "DID NOT HOLD"
            print(f"{name}: {held}: " + ", ".join(f"{k} {v}" for k, v in figures.items()), flush=True)

    def close(self):
        for server in self.undisturbed.values():
            server.kill()

    def summary(self):
        sums = collections.Counter()
        by_kind = {}
        for result in self.results:
            own = collections.Counter({key: result.get(key, 0) for key in SUMMED})
            own["failures"] = len(result["failures"])
            sums.update(own)
            by_kind.setdefault(result["kind"], collections.Counter({"phases": 0})).update(own | {"phases": 1})
        if sums["answers"] >= ENOUGH_ANSWERS and sums["preemptions"] * 20 < sums["answers"]:
            print("soak: fewer than one preemption in 20 answers; the pools must be smaller", file=sys.stderr)
            sums["failures"] += 1
        if sums["returned_not_worth"] > 0 == sums["returned_same_bits"]:
            print("soak: no history came back from the disk; it must be sooner than computing one", file=sys.stderr)
            sums["failures"] += 1
        return dict(sums) | {"seed": self.args.seed, "by_kind": {name: dict(own) for name, own in by_kind.items()}}


def main():
    parser = argparse.ArgumentParser(prog="soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--scripts", type=int, default=200)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--store", choices=("some", "always", "never"), default="some",
                        help="phases whose server keeps conversations on a disk (default: every second one)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of weights and KV, in turn (default: all)")
    parser.add_argument("--aborts", type=int, default=0, help="clients who leave, before the phases (10000 is much)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--failures", default=os.path.join(REPOSITORY, "build", "soak.json"),
                        help="written when something did not hold (default: build/soak.json)")
    parser.add_argument("--plant", choices=PLANTS, help="a fault in what the first phase sees: it must not hold")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="rondo-soak-") as folder:
        soak = Soak(args, folder)
        try:
            asyncio.run(soak.run())
        finally:
            soak.close()
    summary = soak.summary()
    if summary["failures"]:
        os.makedirs(os.path.dirname(args.failures), exist_ok=True)
        with open(args.failures, "w", encoding="utf-8") as file:
            json.dump(soak.results, file, indent=1)
        print(f"soak: {args.failures} has the log of every script that failed", file=sys.stderr)
    if args.json:
        print(json.dumps({"phases": soak.results, "sum": summary}))
    else:
        for name, own in (*summary.pop("by_kind").items(), ("all", summary)):
            print(f"{name}: " + ", ".join(f"{what} {value}" for what, value in own.items()))
    sys.exit(1 if summary["failures"] else 0)


if __name__ == "__main__":
    main()
