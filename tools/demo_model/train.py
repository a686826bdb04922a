#!/usr/bin/python3
"""Trains the demo model on roundtalk.

  train.py FOLDER [--tokens 200e6] [--pause-while FILE] [--begin-with MODEL --seen 14e6] ...

FOLDER holds the last two checkpoints. Where there is one, training goes on from it, exactly: weights, optimizer and the
number of the next batch are all that decides what comes. The schedule goes by tokens; a checkpoint's settings win over
the defaults, and an option that is given wins over both. Where there is none, --begin-with takes the weights of a
Hugging Face folder or of another checkpoint that has seen so many tokens; its optimizer begins anew. Needs torch and
numpy.
"""
import argparse
import ctypes
import json
import math
import os
import signal
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import files
import lessons
import native
from model import Model, Shape
from optimizer import Adam, Muon
from roundtalk import dialogue, render
from scoring import pinned_table, quick_table
from team import Team
from tokenizer import Tokenizer

SETTINGS = {  # what decides the numbers, kept in checkpoints
    "seed": 1, "tokens": 160e6, "decay_from": 0.7, "batch": 8192, "rate": 0.02, "adam_rate": 3e-3, "stretch": 1.0,
    "layers": 10, "ffn": 512, "aux": "4:0.15,5:-0.03,6:0.02,7:0.02,8:0.02,9:0.02", "words": lessons.WORDS, "sample": 1.0,
    "pinned": lessons.PINNED_SHARE, "processes": 1,
}


def make_tokenizer():
    return Tokenizer.train([render(dialogue(i, 12)) for i in range(600)], Shape.vocabulary)


def parse_aux(text):
    """"4:0.05,5:-0.01" -> {4: 0.05, 5: -0.01}: layers, counted from 0, and the weights of their evidence loss; below
    zero where a layer is to look elsewhere."""
    return {int(layer): float(weight) for layer, weight in (part.split(":") for part in text.split(",") if part)}


ENOUGH = 0.95  # mass on the evidence: more is not asked for


def evidence_loss(masses, batch, elsewhere=False):
    """What the question's rows miss: the logarithm of the mass on evidence rounds, where there are any, and of what is
    left beside other past rounds. `elsewhere`: the logarithm of what is left beside the evidence. Masses are means over
    the heads; each question counts as much as another, however many rows it has. Also the masses themselves: on the
    evidence, of the rows that the answers begin from, beside it."""
    on, off = masses.mean(0).unbind(-1)
    knowing, asking = batch.knowing.to(on.device), batch.asking.to(on.device)

    def mean(values, weights):
        return (values * weights).sum() / weights.sum().clamp(min=1e-9)

    if elsewhere:
        loss = mean(-(1 - on + 1e-3).log(), knowing)
    else:
        loss = mean(-(on + 1e-4).clamp(max=ENOUGH).log(), knowing) + mean(-(1 - off + 1e-3).log(), asking)
    last = on[batch.last_rows.to(on.device)]
    return loss, {"on": mean(on, knowing).item() if knowing.any() else float("nan"), "last": last.mean().item(),
                  "off": mean(off, asking).item()}


class Training:
    def __init__(self, settings, folder, merges=None):
        self.settings, self.folder = settings, Path(folder)
        torch.manual_seed(settings["seed"])
        self.tokenizer = Tokenizer(merges) if merges else make_tokenizer()
        self.shape = Shape(layers=settings["layers"], ffn=settings["ffn"], vocabulary=len(self.tokenizer.tokens))
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = Model(self.shape).to(self.device)
        self.team = Team(settings["processes"], list(self.model.parameters()))
        self.muon, self.adam = Muon(list(self.model.matrices()), self.team), Adam(self.model.others())
        self.aux = parse_aux(settings["aux"])
        self.steps, self.seen = 0, 0

    def rate(self):
        share = self.seen / self.settings["tokens"]
        since = self.settings["decay_from"]
        falling = 1 if share < since else max(0.01, (1 - share) / (1 - since))
        return min(1, (self.steps + 1) / 100) * falling

    def step(self):
        """One batch of each process; the losses of this one's."""
        settings, team = self.settings, self.team
        batch, rng = lessons.batch(self.tokenizer, self.shape, settings["seed"],
                                   self.steps * team.members + team.number, self.seen, settings["batch"],
                                   settings["stretch"], settings["words"], settings["pinned"])
        # Of the users' words, most of which nobody could foretell, a sample is enough.
        keep = torch.tensor([w > 0.5 or (w > 0 and rng.random() < settings["sample"]) for w in batch.weights.tolist()])
        rows = keep.nonzero()[:, 0]
        ids, device = batch.ids, self.device
        hidden, masses = self.model.hidden(ids.to(device), batch.pack, tuple(self.aux))
        logits = self.model.logits(hidden[rows.to(device)])
        losses = F.cross_entropy(logits, ids[rows + 1].to(device), reduction="none")
        weights = batch.weights[rows].to(device)
        weights = torch.where(weights > 0.5, weights, weights / settings["sample"])
        loss = (losses * weights).sum() / weights.sum()
        answers = (losses * (weights >= 1)).sum() / (weights >= 1).sum()
        found = {}
        for layer, weight in self.aux.items():
            missed, found[layer] = evidence_loss(masses[layer], batch, weight < 0)
            loss = loss + abs(weight) * missed
        loss.backward()
        team.take_mean()
        if not math.isfinite(sum(p.grad.sum() for p in self.model.parameters())):
            raise SystemExit(f"train.py: a gradient of step {self.steps} is no number; the last checkpoint stays")
        rate = self.rate()
        self.muon.step(settings["rate"] * rate)
        self.adam.step(settings["adam_rate"] * rate)
        for p in self.model.parameters():
            p.grad = None
        self.steps += 1
        self.seen += len(ids) * team.members
        return {"answers": answers.item(), "all": loss.item(), "rate": rate, "found": found}

    def save(self, name=None):
        """Atomically. The two latest checkpoints stay, and all that have a name of their own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / (name or f"checkpoint_{self.steps:07d}.pt")
        state = {"settings": self.settings, "shape": self.shape.dict(), "steps": self.steps, "seen": self.seen,
                 "merges": self.tokenizer.merges, "model": self.model.state_dict(), "muon": self.muon.state(),
                 "adam": self.adam.state(), "torch_random": torch.get_rng_state()}
        torch.save(state, path.with_suffix(".unfinished"))
        os.replace(path.with_suffix(".unfinished"), path)
        for old in sorted(self.folder.glob("checkpoint_*.pt"))[:-2]:
            old.unlink()

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.muon.load(state["muon"])
        self.adam.load(state["adam"])
        torch.set_rng_state(state["torch_random"])
        self.steps, self.seen = state["steps"], state["seen"]


def latest(folder):
    found = sorted(Path(folder).glob("checkpoint_*.pt"))
    return found[-1] if found else None


def start(folder, given, begin_with=None, seen=0):
    """A training as the options say, gone on with where the folder has a checkpoint."""
    path = latest(folder)
    state = torch.load(path, map_location="cpu") if path else None
    settings = {**SETTINGS, **(state["settings"] if state else {}),
                **{name: value for name, value in given.items() if value is not None}}
    if state:
        training = Training(settings, folder, state["merges"])
        training.load(state)
    elif begin_with:
        model, tokenizer = files.load(begin_with)
        training = Training(settings, folder, tokenizer.merges)
        training.model.load_state_dict(model.state_dict())
        training.seen = int(seen)
        training.steps = training.seen // (settings["batch"] * settings["processes"])
    else:
        training = Training(settings, folder)
    return training


class Log:
    """Means over the steps since the last line, and how fast they went."""

    def __init__(self, training):
        self.training = training
        self.restart()

    def restart(self):
        self.wall, self.processor, self.waited = time.time(), time.process_time(), 0.0
        self.before, self.taken = self.training.seen, []

    def line(self):
        training, taken = self.training, self.taken

        def mean(values):
            values = [value for value in values if value == value]
            return sum(values) / max(1, len(values))

        done = training.seen - self.before
        found = " ".join(name + "".join(f" {layer}:{mean(one['found'][layer][name] for one in taken):.3f}"
                                        for layer in training.aux) for name in ("on", "last", "off"))
        text = (f"step {training.steps} tokens {training.seen / 1e6:.2f}M "
                f"rounds {lessons.stage(training.seen / training.settings['stretch'])[:2]} "
                f"answers {mean(one['answers'] for one in taken):.4f} all {mean(one['all'] for one in taken):.4f} "
                f"rate {taken[-1]['rate']:.3f} {found} "
                f"{done / (time.time() - self.wall - self.waited):.0f} tokens/s "
                f"{done / training.team.members / (time.process_time() - self.processor):.0f} tokens/s of processor "
                "time")
        self.restart()
        return text


def run(training, args):
    """Steps until the tokens or the steps are done, or somebody sends SIGTERM; then saves."""
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    training.team.begin(training.step)
    saved, log = time.time(), Log(training)
    probe_at, milestone = (training.seen // args.probe_tokens + 1) * args.probe_tokens, next_milestone(training)
    while training.seen < training.settings["tokens"] and training.steps < args.steps:
        while args.pause_while and os.path.exists(args.pause_while) and not stopped:
            time.sleep(1)
            log.waited += 1
        if stopped:
            break
        log.taken.append(training.step())
        if training.steps % args.log_steps == 0:
            print(log.line(), flush=True)
        if time.time() - saved > 60 * args.save_minutes:
            training.save()
            saved = time.time()
        if training.seen >= milestone:
            training.save(f"milestone_{training.seen // 1e6:03.0f}M.pt")
            milestone = next_milestone(training)
        if training.seen >= probe_at:
            probe_at += args.probe_tokens
            print(quick_table(training.model, training.tokenizer, args.probe_dialogues), flush=True)
            print(pinned_table(training.model, training.tokenizer, args.probe_dialogues), flush=True)
            log.restart()
    training.save()


def next_milestone(training):
    """Every five million tokens, and where the rate begins to fall: from there another training may go on."""
    falls = training.settings["decay_from"] * training.settings["tokens"]
    after = (training.seen // 5e6 + 1) * 5e6
    return falls if training.seen < falls < after else after


def keep_memory():
    """What a step has freed is taken again by the next one: fresh pages cost a fifth of a step and more (glibc)."""
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for option, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**28)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            libc.mallopt(option, value)


def main():
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    for name, value in SETTINGS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=None, help=f"default {value}")
    parser.add_argument("--begin-with", metavar="MODEL")
    parser.add_argument("--seen", type=float, default=0, help="tokens that MODEL has seen")
    parser.add_argument("--steps", type=float, default=float("inf"), help="stop after so many, counted from the first")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pause-while", metavar="FILE", help="no step begins while this file exists")
    parser.add_argument("--save-minutes", type=float, default=10)
    parser.add_argument("--log-steps", type=int, default=50)
    parser.add_argument("--probe-tokens", type=float, default=2e6, help="accuracy is logged every so many tokens")
    parser.add_argument("--probe-dialogues", type=int, default=24)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    training = start(args.folder, {name: getattr(args, name) for name in SETTINGS}, args.begin_with, args.seen)
    parameters = sum(p.numel() for p in training.model.parameters())
    print(json.dumps(training.settings), f"{parameters / 1e6:.2f} M parameters, kernels "
          f"{'compiled' if native.LIBRARY else 'plain'}, from step {training.steps}", flush=True)
    run(training, args)


if __name__ == "__main__":
    main()
