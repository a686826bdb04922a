#!/usr/bin/python3
"""Tests of the demo model's trainer: the compiled kernels against plain torch, and that a resumed training equals an
uninterrupted one, bit for bit, at one thread; and that tokens computed at once are those computed one by one.

  check_training.py [--steps 200] [--stop 77]

The shape is small (2 layers); steps, data, optimizer, schedule and checkpoints are the real ones.
"""
import argparse
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import torch

import files
import native
import roundtalk
import train
from generation import Cache, forced, step
from lessons import PINNED_SHARE, Batch, Encoded, draw, random
from model import Model, Shape

SMALL = {"layers": 2, "ffn": 256, "batch": 1024, "tokens": 250_000.0, "aux": "1:0.05", "stretch": 0.01}
OPTIONS = argparse.Namespace(steps=200, stop=77)


def state_of(training):
    return {"model": training.model.state_dict(), "muon": training.muon.state(), "adam": training.adam.state(),
            "steps": training.steps, "seen": training.seen}


def same(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


class Resuming(unittest.TestCase):
    def test_equals_an_uninterrupted_training(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            whole = train.start(Path(folder) / "none", SMALL)
            losses = [whole.step()["answers"] for _ in range(OPTIONS.steps)]
            parts = train.start(folder, SMALL)
            again = [parts.step()["answers"] for _ in range(OPTIONS.stop)]
            parts.save()
            torch.manual_seed(99)  # nothing of this process may matter
            resumed = train.start(folder, {})
            again += [resumed.step()["answers"] for _ in range(OPTIONS.steps - OPTIONS.stop)]
            self.assertEqual(losses, again)
            self.assertTrue(same(state_of(whole), state_of(resumed)))
            self.assertLess(sum(losses[-10:]), sum(losses[:10]))

    def test_equals_it_with_two_processes_too(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as parts:
            for folder, stops in ((whole, [30]), (parts, [13, 30])):
                for steps in stops:
                    self.train_elsewhere(folder, {**SMALL, "processes": 2}, steps)
            left, right = (torch.load(train.latest(folder)) for folder in (whole, parts))
            self.assertEqual((left["steps"], left["seen"]), (30, 30 * 2 * SMALL["batch"]))
            self.assertTrue(same({**left, "folder": 0}, {**right, "folder": 0}))

    @staticmethod
    def train_elsewhere(folder, settings, steps):
        """In a process of its own, which has not computed anything before."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        subprocess.run([sys.executable, train.__file__, folder, *options, f"--steps={steps}"], check=True,
                       stdout=subprocess.DEVNULL)

    def test_begins_with_the_weights_of_another(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            first = train.start(one, SMALL)
            first.step()
            first.save()
            files.save_folder(first.model, first.tokenizer, Path(one) / "model")
            for begin_with in (train.latest(one), Path(one) / "model"):
                begun = train.start(other, SMALL, begin_with, 5 * SMALL["batch"])
                self.assertEqual((begun.seen, begun.steps), (5 * SMALL["batch"], 5))
                self.assertEqual(begun.tokenizer.merges, first.tokenizer.merges)
                for mine, theirs in zip(begun.model.parameters(), first.model.parameters()):
                    self.assertLess((mine - theirs).abs().max(), 0.01)
                begun.step()

    def test_waits_while_a_file_exists(self):
        with tempfile.TemporaryDirectory() as folder:
            training, file = train.start(folder, SMALL), Path(folder) / "quiet"
            file.touch()
            args = argparse.Namespace(steps=2, pause_while=str(file), save_minutes=10, log_steps=50, probe_tokens=1e9)
            seen = []
            timer = threading.Timer(2, lambda: (seen.append(training.steps), file.unlink()))
            timer.start()
            train.run(training, args)
            self.assertEqual(seen, [0])
            self.assertEqual(training.steps, 2)

    def test_keeps_the_last_two_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            training = train.start(folder, SMALL)
            for steps in (1, 2, 3):
                training.steps = steps
                training.save()
            names = sorted(path.name for path in Path(folder).iterdir())
            self.assertEqual(names, ["checkpoint_0000002.pt", "checkpoint_0000003.pt"])


class Lessons(unittest.TestCase):
    def setUp(self):
        self.tokenizer = train.make_tokenizer()

    def test_marks_questions_and_evidence(self):
        for seed in range(50):
            talk = draw(random.Random(seed), 12, False, PINNED_SHARE)
            encoded = Encoded(self.tokenizer, talk)
            text = roundtalk.render(talk)
            self.assertEqual(self.tokenizer.decode(encoded.ids), text)
            for i, ((_, reply, meta), part) in enumerate(zip(talk, encoded.rounds)):
                answer = self.tokenizer.decode(encoded.ids[part["answer"]:part["end"]])
                self.assertEqual(answer, reply + "<|end|>")
                self.assertTrue(part["known"] or meta["kind"] in ("chat", "tell"))
                if meta["kind"] == "recall" and part["past"]:
                    told = encoded.rounds[part["past"][0]]
                    value = re.split(r" (?:is|in|likes|on|called) ", reply)[-1]
                    self.assertIn(value, self.tokenizer.decode(encoded.ids[told["start"]:told["end"]]))
                self.assertTrue(all(j < i for j in part["past"]))


class Kernels(unittest.TestCase):
    def test_agree_with_plain_torch(self):
        if not native.LIBRARY:
            self.skipTest("this processor or its compiler cannot build kernels/")
        tokenizer, shape = train.make_tokenizer(), Shape(layers=2, ffn=256)
        talks = [draw(random.Random(seed), 9, False, PINNED_SHARE) for seed in range(4)]
        batch = Batch([Encoded(tokenizer, talk) for talk in talks], shape)
        torch.manual_seed(3)
        model, library = Model(shape), native.LIBRARY
        direction = torch.randn(len(batch.ids), shape.width)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)  # attention that prefers something

        def gradients():
            hidden, masses = model.hidden(batch.ids, batch.pack, (1,))
            model.zero_grad()
            ((hidden.float() * direction).mean() + train.evidence_loss(masses[1], batch)[0]).backward()
            return [p.grad.clone() for p in model.parameters()], hidden.detach().float(), masses[1].detach()

        found, hidden, masses = gradients()
        native.LIBRARY = None
        try:
            expected, plain_hidden, plain_masses = gradients()
        finally:
            native.LIBRARY = library
        self.assertLess((hidden - plain_hidden).norm() / plain_hidden.norm(), 0.02)
        self.assertLess((masses - plain_masses).abs().max(), 0.02)
        for got, wanted in zip(found, expected):
            self.assertLess((got - wanted).norm(), 0.05 * wanted.norm())


class Generation(unittest.TestCase):
    def test_tokens_at_once_give_what_steps_give(self):
        torch.manual_seed(5)
        model = Model(Shape(layers=2, ffn=256))
        prompts = [[random.Random(seed).randrange(640) for _ in range(20 + 9 * seed)] for seed in range(3)]
        ids = torch.tensor([[random.Random(seed).randrange(640) for _ in range(25)] for seed in range(3, 6)])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
            at_once = forced(model, Cache(model, prompts, 25), ids)
            cache = Cache(model, prompts, 25)
            steps = torch.stack([step(model, cache, ids[:, i]) for i in range(25)], 1)
        self.assertGreaterEqual((at_once == steps).sum().item(), 73)  # of 75: bf16 may part two that are nearly equal


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop", type=int, default=77, help="after so many steps the second training is resumed")
    parser.add_argument("tests", nargs="*", help="only these, as Kernels or Resuming")
    OPTIONS = parser.parse_args()
    unittest.main(argv=["check_training", *OPTIONS.tests], verbosity=2)
