#!/usr/bin/python3
"""The demo model's card, from what its evaluations wrote. The prose is card.txt's.

  card.py RESULTS MODEL_FOLDER > examples/demo_model/README.md

RESULTS is a folder of these files; the card says of those which are missing that nothing was measured:
  evaluate*.json    evaluate.py --json, of any rounds; those of 90 fill the context
  attention*.json   rondo inspect attention --json, a file for each number of rounds
  merge_map*.json   merge_map.py --json
  same_answers.json same_answers.py --json
  training.log      what train.py printed
  transcript.txt    a chat; users' lines begin with "> "
"""
import argparse
import json
import re
import string
from pathlib import Path

from card_text import NONE, short, table, wrapped
from training_log import TASKS, changes_of, curve_table, training_of

PLACES = ["begin", "middle", "end"]


def read_lines(folder, pattern):
    return [json.loads(line) for path in sorted(Path(folder).glob(pattern)) for line in path.read_text().splitlines()
            if line.startswith("{")]


def mean(layer, name):
    return layer[name]["mean"] if layer[name] else None


def cells_of(rows):
    """A table for each kind of history: task and place by rounds."""
    tables = []
    for history in ("teacher_forced", "free_running"):
        cells = {(row["task"], row["place"], row["rounds"]): row for row in rows if row["history"] == history}
        rounds = sorted({key[2] for key in cells})
        if cells:
            count = sorted({row["dialogues"] for row in cells.values()})
            names = ["4,096 tokens" if r == 90 else f"{r} rounds" for r in rounds]
            head = [history.replace("_", "-"), "question at", *names]
            body = [[task, place] + ["{share:.3f} [{low:.3f}, {high:.3f}]".format(**cells[task, place, r])
                                     if (task, place, r) in cells else "–" for r in rounds]
                    for task in TASKS for place in PLACES]
            tables.append(f"Dialogues a cell: {', '.join(map(str, count))}.\n\n{table(head, body)}")
    return "\n\n".join(tables) or NONE


def cells_summary(rows):
    lines = []
    for history in ("teacher_forced", "free_running"):
        for part, some in (("2 to 32 rounds", [r for r in rows if r["rounds"] <= 32]),
                           ("dialogues that fill the context", [r for r in rows if r["rounds"] > 32])):
            some = [row for row in some if row["history"] == history]
            sure = sum(row["share"] >= 0.95 and row["low"] > 0.9 for row in some)
            right, count = sum(row["right"] for row in some), sum(row["dialogues"] for row in some)
            if some:
                lines.append(f"{history.replace('_', '-').capitalize()}, {part}: {right / count:.3f} of all answers; "
                             f"in {sure} of {len(some)} cells at least .95, the interval above .90.")
    return " ".join(lines)


def same_answers(found):
    if not found:
        return f"Whether engine and trainer give the same greedy answers: {NONE.lower()}"
    one = found[-1]
    return (f"Engine and trainer give the same greedy answers to {one['same']} of {one['dialogues']} unseen dialogues; "
            f"{len(one['near_ties'])} differ by a near tie of two logits, {len(one['others'])} by more.")


def rounds_of(attention):
    return int(re.search(r"rounds: (\d+)", attention["dialogues"])[1])


def attention_table(attention):
    rows = [[one["layer"], short(mean(one, "initial_recent")), short(one["initial_recent_often"]),
             short(mean(one, "divergence")), *(short(mean(one, name)) for name in
                                               ("top_share", "evidence_found", "question_past"))]
            for one in attention["layers"]]
    found = attention["watershed"]
    kind = "a local minimum of D" if found and found["is_minimum"] else "D has no minimum before"
    chance = short(mean(attention, "evidence_by_chance"))
    return (table([f"{rounds_of(attention)} rounds", "I-R", "often", "D", "top", "evidence", "on past"], rows) +
            f"\n\n{len(attention['each'])} dialogues; evidence by chance {chance}; watershed: layer "
            f"{found['layer'] if found else '–'} ({kind}).")


def claims(attentions, merges):
    """What the papers want of a model, and what this one has of it."""
    if not attentions:
        return NONE
    one, layers = attentions[0], attentions[0]["layers"]
    lines = [f"- **LoopServe.** A tenth of a turn's lines holds {short(min(mean(x, 'line_share') for x in layers))} to "
             f"{short(max(mean(x, 'line_share') for x in layers))} of its attention, by layer. "
             "[All methods on it](../../docs/methods.md)."]
    for each in attentions:
        found = each["watershed"]
        layer = each["layers"][found["layer"] - 1]
        which = "" if found["is_minimum"] else ", which is no minimum of D"
        lines.append(f"- **Round Attention, {rounds_of(each)} rounds.** Its rule finds layer {found['layer']} of "
                     f"{len(layers)}{which}. There the evidence is among the top tenth of rounds in "
                     f"{short(mean(layer, 'evidence_found'))} of the dialogues, and these rounds hold "
                     f"{short(mean(layer, 'top_share'))} of the attention on past rounds.")
    recent = sum(mean(x, "initial_recent") >= one["gamma"] for x in layers)
    middle = sorted((mean(x, "initial_recent") for x in layers), reverse=True)[(len(layers) + 1) // 2 - 1]
    often = [x for x in one["strategies"] if x["dialogues"] >= 0.05 * len(one["each"])]
    pairs = "; ".join(" ".join("{}+{}".format(*pair) for pair in x["pairs"]) +
                      f" {x['dialogues'] / len(one['each']):.2f}" for x in often[:6])
    cheap = [f"{m['task']} {len([p for p in m['pairs'] if m['dense'] - p['right'] <= 0.02 * m['dialogues']])} of "
             f"{len(m['pairs'])}" for m in merges]
    lines.append(f"- **Krul.** {recent} of {len(layers)} layers are I-R at γ = {short(one['gamma'])}; half of them "
                 f"are up to γ = {short(middle)}. {len(often)} strategies are each chosen in at least 5% of "
                 f"{len(one['each'])} conversations ({pairs}); two conversations differ in "
                 f"{one['strategies_differ']:.0%} of cases. Pairs that may be merged for at most 2 answers in a "
                 f"hundred: {', '.join(cheap) or 'not measured'}.")
    return "\n".join(lines)


def merge_table(found):
    layers = max(max(pair["layers"]) for pair in found["pairs"])
    right = {tuple(pair["layers"]): pair["right"] for pair in found["pairs"]}
    rows = [[i] + [f"{100 * (found['dense'] - right[i, j]) / found['dialogues']:.1f}" if j > i else ""
                   for j in range(2, layers + 1)] for i in range(1, layers)]
    return (f"{found['task'].capitalize()}, {found['dialogues']} dialogues of {found['rounds']} rounds, "
            f"{found['dense']} right without merging:\n\n" + table(["layers", *range(2, layers + 1)], rows))


def model_facts(folder):
    config = json.loads((folder / "config.json").read_text())
    size = (folder / "model.safetensors").stat().st_size
    return {"parameters": f"{size / 2e6:.2f}", "mib": f"{size / 2**20:.1f}", "layers": config["num_hidden_layers"],
            "width": config["hidden_size"], "ffn": config["intermediate_size"], "heads": config["num_attention_heads"],
            "kv_heads": config["num_key_value_heads"], "head_dim": config["head_dim"],
            "vocabulary": config["vocab_size"], "theta": f"{config['rope_theta']:.0f}",
            "context": config["max_position_embeddings"]}


def facts_of(results, folder):
    def text_of(name):
        return (results / name).read_text() if (results / name).exists() else ""

    cells, merges = read_lines(results, "evaluate*.json"), read_lines(results, "merge_map*.json")
    attentions = sorted(read_lines(results, "attention*.json"), key=lambda one: -len(one["each"]))
    starts, hours, steps, seen, curve = training_of(text_of("training.log"))
    settings = starts[-1][1] if starts else {}
    aux = [part.split(":") for part in settings.get("aux", "").split(",") if part]
    chat = text_of("transcript.txt").strip()
    return model_facts(folder) | {
        "first_seed": f"{20_000_000:,}", "cells": cells_of(cells), "cells_summary": cells_summary(cells),
        "same_answers": same_answers(read_lines(results, "same_answers.json")),
        "aux": ", ".join(f"{int(layer) + 1}: {weight}" for layer, weight in aux) or "none",
        "attention_facts": "; ".join(one["dialogues"] for one in attentions) or NONE,
        "gamma": short(attentions[0]["gamma"]) if attentions else "–",
        "attention_tables": "\n\n".join(map(attention_table, sorted(attentions, key=rounds_of))) or NONE,
        "claims": claims(attentions, merges), "merge_t": merges[0]["t"] if merges else "–",
        "merge_tables": "\n\n".join(map(merge_table, merges)) or NONE, "hours": f"{hours:.1f}", "tokens": f"{seen:.0f}",
        "steps": f"{steps:,}", "curve": curve_table(curve), "changes": changes_of(starts),
        "evidence_layer": int(aux[0][0]) + 1 if aux else "–",
        "transcript": f"```\n{chat}\n```" if chat else NONE} | {
            name: settings.get(name, "–") for name in ("seed", "batch", "processes", "decay_from")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("model", type=Path)
    args = parser.parse_args()
    prose = string.Template((Path(__file__).parent / "card.txt").read_text())
    print(wrapped(prose.substitute(facts_of(args.results, args.model))))


if __name__ == "__main__":
    main()
