"""What a training's log says of it."""
import json
import re

from card_text import NONE, short, table

CURVE_ROWS = 12
TASKS = ["recall", "local", "list", "again", "unknown"]
STEP = re.compile(r"step (\d+) tokens ([\d.]+)M .* on (\S+:\S+).* (\d+) tokens/s \d+ tokens/s of")


def training_of(log):
    """Each start's step and settings; hours, steps, tokens; the curve: (tokens, mass on evidence, shares by task)."""
    starts, hours, steps, seen, on, curve, shares = [], 0.0, 0, 0.0, None, [], None
    for line in log.splitlines():
        if line.startswith("{"):
            settings = json.JSONDecoder().raw_decode(line)[0]
            starts.append((int(re.search(r"from step (\d+)", line)[1]), settings))
            seen = starts[-1][0] * settings["batch"] * settings["processes"] / 1e6
        elif match := STEP.match(line):
            steps, now, on = int(match[1]), float(match[2]), float(match[3].split(":")[1])
            hours, seen = hours + max(0.0, now - seen) * 1e6 / int(match[4]) / 3600, now
        elif line.startswith("  cells"):
            shares = {}
            curve.append((seen, on, shares))
        elif shares is not None and (parts := line.split()) and parts[0] in TASKS and len(parts) == 3:
            shares[parts[0]] = [float(part) for part in parts[1:]]
        else:
            shares = None
    return starts, hours, steps, seen, curve


def changes_of(starts):
    """What a later start of the training set otherwise than the one before it."""
    changed = []
    for (_, before), (step, after) in zip(starts, starts[1:]):
        changed += [f"{name} {before.get(name)} → {after[name]} at step {step:,}" for name in after
                    if after[name] != before.get(name)]
    return f"Settings were changed on the way: {'; '.join(changed)}." if changed else "Settings were never changed."


def curve_table(curve):
    if not curve:
        return NONE
    keep = sorted({round(i * (len(curve) - 1) / max(1, CURVE_ROWS - 1)) for i in range(CURVE_ROWS)})
    head = ["M tokens", "on evidence"] + [f"{task} {rounds}" for task in TASKS for rounds in (8, 32)]
    return table(head, [[f"{seen:.1f}", short(on)] + [short(share) for task in TASKS for share in shares[task]]
                        for seen, on, shares in (curve[i] for i in keep)])
