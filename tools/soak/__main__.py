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
from models import read_json, write_deep_model  # noqa: E402
from oracle import Oracle, root_mean_square_of_logits  # noqa: E402
from phase import DRAIN_S, Phase  # noqa: E402
from server_process import REPOSITORY, ServerProcess  # noqa: E402
from sizes import ROUNDS_MAX, long_sizes, short_sizes  # noqa: E402
from store_folder import StoreFolder  # noqa: E402
from tenants import EVERYBODY, three_tenants, write_keys  # noqa: E402

DEMO = os.path.join(REPOSITORY, "examples", "demo_model")
EDGES_EVERY = 3  # phases
SEALED_EVERY, LONG_EVERY = 2, 3  # of those with a store, from the first one on
LONG_SCRIPTS_MIN = 10
CLIENTS = (16, 32, 64)
FAILURES_SHOWN = 10  # of a phase
SUMMED = ("aborts", "aborts_answered", "answers", "tokens", "near_ties", "kept_answers", "kept_restored",
          "kept_near_ties", "untraceable", "preemptions", "left", "cut_rounds", "frozen", "killed", "restarted",
          "restored_tokens", "failed_tokens", "damaged_records", "put_away_tokens", "warmed", "warmed_by_restoring",
          "not_warmed", "resent", "resent_restored_tokens", "first_asked", "first_asked_after_others", "peeks",
          "returned_same_bits", "returned_not_worth", "outlived", "outlived_rounds", "unheard_rounds",
          "young_rounds_lost", "went_on", "shown_by_plain_files")
ENOUGH_ANSWERS = 500  # to say how often turns are preempted
PLANTS = ("token", "prompt", "lost_end", "second_end", "blocks", "found", "foreign", "bits", "lost_round", "unsealed")


class Soak:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.random = random.Random(args.seed)
        self.kinds = [KINDS[name] for name in args.kinds.split(",")]
        self.log = open(os.path.join(folder, "servers.log"), "w", encoding="utf-8")
        self.keys = write_keys(os.path.join(folder, "keys"))
        self.models = {}
        self.undisturbed, self.logits_rms = {}, {}
        self.results, self.stores = [], 0

    def server(self, kind, pool_mib, store=None, keys=None):
        if kind not in self.models:
            self.models[kind] = kind.write(DEMO, os.path.join(self.folder, "demo_" + kind.name))
        disk = [] if store is None else store.settings()
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
        token_bytes, pool_mib = kind.kv_bytes_per_token(DEMO), self.random.choice(kind.pools_mib(DEMO))
        sizes, clients = short_sizes(token_bytes, pool_mib), self.random.choice(CLIENTS)
        scripts, turns, rounds = self.args.scripts, self.args.turns, self.args.rounds
        (oracle, vocabulary), began = self.oracle(kind), time.monotonic()
        store, is_long = self.store(number)
        if is_long:
            sizes, turns = long_sizes(token_bytes, rounds), rounds
            scripts = max(scripts * self.args.turns // rounds, LONG_SCRIPTS_MIN)
        name = f"{number}: {kind.name}, {sizes.pool_mib} MiB, {clients} clients"
        name += f", {'sealed' if store.is_sealed else 'stored'}" if store else ""
        name += f", {turns} turns" if is_long else ""
        beside_idle_ones = number % EDGES_EVERY == EDGES_EVERY - 1 and store is None
        phase = (Edges if beside_idle_ones else Phase)(
            lambda: self.server(kind, sizes.pool_mib, store, None if beside_idle_ones else self.keys), oracle,
            vocabulary, f"{self.args.seed} {number}", sizes, self.args.plant,
            lambda text: self.progress(f"{name}: {text}"), [EVERYBODY] if beside_idle_ones else three_tenants(), store)
        try:
            await phase.run(scripts, turns, clients)
        except Exception as error:
            phase.fail(f"the phase ended with {error!r}", traceback.format_exception(error))
        finally:
            phase.server.kill()
            if store is not None:
                store.remove()
        self.conclude(name, kind, phase, oracle, began)

    def store(self, number):
        """A phase's, or None; and whether its conversations become long."""
        every_second = (number + number // len(self.kinds)) % 2 == 1  # and each kind in turn with one and without
        if self.args.store == "never" or (self.args.store == "some" and not every_second):
            return None, False
        is_sealed, is_long = self.stores % SEALED_EVERY == 0, self.stores % LONG_EVERY == 0 and self.args.rounds > 0
        self.stores += 1
        return StoreFolder(os.path.join(self.folder, f"store-{number}"), is_sealed, self.args.plant), is_long

    def conclude(self, name, kind, phase, oracle, began):
        figures = dict(phase.figures) | dict(oracle.figures) | {
            "preemptions": phase.preempted_before + phase.preempted, "rounds_max": phase.rounds_max,
            "logprobs_apart": round(oracle.widest_logprob, 6), "tie_max": round(oracle.tie_max, 6),
            "tie_widest": round(oracle.widest_tie, 6), "kept_logprobs_apart": round(oracle.widest["kept"], 6),
            "kept_tie_widest": round(oracle.widest["kept_tie"], 6), "seconds": round(time.monotonic() - began)}
        held = {"phase": name, "kind": kind.name, "held": not phase.failures, "failures": phase.failures,
                "stored": phase.stored, "sealed": phase.stored and phase.store.is_sealed, "long": phase.is_long}
        self.results.append(held | figures)
        self.tell(name, phase.failures, figures)

    async def aborts(self, count):
        """Against the deep model, whose keys take a while to come back."""
        (oracle, vocabulary), began = self.oracle(KINDS["f32"]), time.monotonic()
        model = write_deep_model(DEMO, os.path.join(self.folder, "deep"))
        store = os.path.join(self.folder, "store-aborts")
        settings = aborts.settings(store, KINDS["f32"].kv_bytes_per_token(model))
        server = ServerProcess(self.args.program, *settings, model=model, log=self.log)
        phase = aborts.Aborts(server, read_json(model, "config.json")["num_hidden_layers"], oracle, vocabulary,
                              self.args.seed, lambda text: self.progress(f"aborts: {text}"))
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
        for problem in self.problems(sums):
            print(f"soak: {problem}", file=sys.stderr)
            sums["failures"] += 1
        return dict(sums) | {"seed": self.args.seed, "by_kind": {name: dict(own) for name, own in by_kind.items()}}

    def problems(self, sums):
        """What all phases together have not done."""
        is_enough = sums["answers"] >= ENOUGH_ANSWERS
        stored = [result for result in self.results if result.get("stored")]
        plain = [result for result in stored if not result["sealed"]]
        long = [result["rounds_max"] for result in stored if result["long"]]
        short = [result for result in self.results if not result.get("long")]  # long ones wait for room before they begin
        answers, preemptions = (sum(result.get(what, 0) for result in short) for what in ("answers", "preemptions"))
        if answers >= ENOUGH_ANSWERS and preemptions * 20 < answers:
            yield "fewer than one preemption in 20 answers; the pools must be smaller"
        if sums["returned_not_worth"] > 0 == sums["returned_same_bits"]:
            yield "no history came back from the disk; it must be sooner than computing one"
        for what in ("restored_tokens", "preemptions"):
            if stored and sum(result.get(what, 0) for result in stored) == 0:
                yield f"{what} of all phases with a store are 0"
        if is_enough and long and max(long) < self.args.rounds:
            yield f"no conversation had {self.args.rounds} rounds; the longest had {max(long)}"
        if is_enough and stored and sums["went_on"] == 0:
            yield "no conversation went on after a kill"
        if is_enough and plain and sums["shown_by_plain_files"] == 0:
            yield "the files of plain stores showed nothing either; a look at sealed ones says nothing"


def main():
    parser = argparse.ArgumentParser(prog="soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--scripts", type=int, default=200)
    parser.add_argument("--turns", type=int, default=6, help="of a script in all other phases")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MAX, choices=range(ROUNDS_MAX + 1), metavar="N",
                        help=f"turns of a script in every third phase with a store, from the first on: {ROUNDS_MAX} at "
                             "most (default); 0: such phases are like others")
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
