#!/usr/bin/python3
"""Writes tests/fixtures/roundtalk.json from tools/demo_model/roundtalk.py, for the test that holds the C++ generator to it:
`dialogues` in full, `fingerprints` of many more (null where Python finds nothing to ask about), and `statistics`: mean and
standard deviation over 2,000 dialogues of what a dialogue has in all. Only people run it.

usage: tools/make_roundtalk_fixture.py
"""
import argparse
import itertools
import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/demo_model"))
import roundtalk  # noqa: E402

KINDS = list(roundtalk.KINDS)
PLACES = ["begin", "middle", "end"]
STATISTICS_FIRST_SEED, STATISTICS_DIALOGUES, STATISTICS_ROUNDS = 1_000_000, 2000, 10


def case(seed, rounds, facts_per_round=(1, 4), filler=(0, 4), kinds=None, where=None):
    return {"seed": seed, "rounds": rounds, "facts_per_round": facts_per_round, "filler": filler, "kinds": kinds,
            "where": where}


def full_cases():
    """40 in all."""
    yield from (case(seed, 8) for seed in range(12))
    yield from (case(seed, 4) for seed in (2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1))
    yield from (case(100 + i, 6, kinds=[kind], where=PLACES[i % 3]) for i, kind in enumerate(KINDS))
    yield from (case(200 + i, 6, kinds=["recall"], where=place) for i, place in enumerate(PLACES))
    yield from (case(300 + i, 6, facts_per_round=facts) for i, facts in enumerate([(1, 1), (3, 3), (2, 6), (8, 8)]))
    yield from (case(400 + i, 6, filler=filler) for i, filler in enumerate([(0, 0), (1, 1), (5, 9)]))
    yield from (case(500 + i, 6, facts_per_round=(0, 1), kinds=["tell", "unknown", "chat"]) for i in range(3))
    yield from (case(600 + i, 6, (1, 2), (0, 2), ["local", "list", "again"], PLACES[i]) for i in range(3))


def fingerprint_cases():
    seed = 10_000
    facts, fillers = [(1, 4), (1, 1), (0, 2), (4, 6)], [(0, 4), (0, 0), (3, 3)]
    kinds = [None, ["recall"], ["list"], ["recall", "local"], ["tell", "unknown", "again", "chat"]]
    for options in itertools.product(facts, fillers, kinds, [None, *PLACES]):
        yield case(seed, 1 + seed % 25, *options)
        seed += 1
    yield case(seed, 1000, facts_per_round=(5, 5))  # long enough that objects run out and facts are not found


def fnv1a(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def fingerprint(options):
    try:
        rounds = roundtalk.dialogue(**options)
    except IndexError:
        return None
    text = ""
    for user, answer, meta in rounds:
        text += "\n".join([user, answer, meta["kind"], meta["where"], " ".join(map(str, meta["evidence"]))]) + "\n"
    return f"{fnv1a(text.encode()):016x}"


def totals(seed):
    """What one dialogue has in all, by name."""
    rounds = roundtalk.dialogue(seed, STATISTICS_ROUNDS)
    out = {"user_bytes": sum(len(user) for user, _, _ in rounds), "answer_bytes": sum(len(text) for _, text, _ in rounds)}
    out["lags"] = sum(i - min(meta["evidence"]) for i, (_, _, meta) in enumerate(rounds) if meta["evidence"])
    out["corrections"] = sum(user.count("Correction: ") for user, _, _ in rounds)
    out["sentences"] = sum(user.count(".") + user.count("?") + user.count("!") for user, _, _ in rounds)
    for kind in KINDS:
        out[f"task {kind}"] = sum(meta["kind"] == kind for _, _, meta in rounds)
    for place in PLACES:
        out[f"place {place}"] = sum(meta["where"] == place for _, _, meta in rounds)
    return out


def main():
    dialogues = []
    for options in full_cases():
        rounds = roundtalk.dialogue(**options)
        told = [[user, answer, meta["kind"], meta["where"], meta["evidence"]] for user, answer, meta in rounds]
        dialogues.append({"options": options, "rounds": told})
    prints = [{"options": options, "fingerprint": fingerprint(options)} for options in fingerprint_cases()]
    seeds = range(STATISTICS_FIRST_SEED, STATISTICS_FIRST_SEED + STATISTICS_DIALOGUES)
    samples = [totals(seed) for seed in seeds]
    spread = {}
    for name in samples[0]:
        values = [sample[name] for sample in samples]
        spread[name] = {"mean": statistics.fmean(values), "deviation": statistics.stdev(values)}

    def lines(values):
        return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)

    path = ROOT / "tests/fixtures/roundtalk.json"
    path.write_text(
        f'{{"dialogues":[\n{lines(dialogues)}\n],\n"fingerprints":[\n{lines(prints)}\n],\n'
        f'"statistics":{json.dumps({"dialogues": len(samples), "rounds": STATISTICS_ROUNDS, "totals": spread})}}}\n')


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
