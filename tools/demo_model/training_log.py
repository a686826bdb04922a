"""What a training's log says of it."""
import json
import re

from card_text import NONE, short, table

CURVE_ROWS = 12
TASKS = ["recall", "local", "list", "again", "unknown"]
STEP = re.compile(r"step (\d+) tokens ([\d.]+)M .* on (\S+:\S+).* (\d+) tokens/s \d+ tokens/s of")


def training_of(log):
    """Each start's step and settings; hours, steps, tokens; the curve: (tokens, mass on evidence, shares by task)."""
    starts, known, hours, on, curve, shares = [], [(0, 0.0)], 0.0, None, [], None  # known: steps and M tokens
    for line in log.splitlines():
        if line.startswith("{"):
            step, settings = int(re.search(r"from step (\d+)", line)[1]), json.JSONDecoder().raw_decode(line)[0]
            before = starts[-1][1] if starts else settings
            last, seen = [one for one in known if one[0] <= step][-1]
            known.append((step, seen + (step - last) * before["batch"] * before["processes"] / 1e6))
            starts.append((step, settings))
        elif match := STEP.match(line):
            on, seen = float(match[3].split(":")[1]), known[-1][1]
            known.append((int(match[1]), float(match[2])))
            hours += max(0.0, known[-1][1] - seen) * 1e6 / int(match[4]) / 3600
        elif line.startswith("  cells"):
            shares = {}
            curve.append((known[-1][1], on, shares))
        elif shares is not None and (parts := line.split()) and parts[0] in TASKS and len(parts) == 3:
            shares[parts[0]] = [float(part) for part in parts[1:]]
        else:
            shares = None
    return starts, hours, *known[-1], curve


def changes_of(starts):
    """What a later start of the training set otherwise than the one before it."""
    changed = []
    for (_, before), (step, after) in zip(starts, starts[1:]):
        others = [f"{name} {before.get(name, 'new')} → {value}" for name, value in after.items()
                  if value != before.get(name)]
        changed += [f"at step {step:,} " + ", ".join(others).replace("000000.0", " M")] if others else []
    return f"Settings were changed on the way: {'; '.join(changed)}." if changed else "Settings were never changed."


def curve_table(curve):
    if not curve:
        return NONE
    keep = sorted({round(i * (len(curve) - 1) / max(1, CURVE_ROWS - 1)) for i in range(CURVE_ROWS)})
    head = ["M tokens", "on evidence"] + [f"{task} {rounds}" for task in TASKS for rounds in (8, 32)]
    return table(head, [[f"{seen:.1f}", short(on)] + [short(share) for task in TASKS for share in shares[task]]
                        for seen, on, shares in (curve[i] for i in keep)])
