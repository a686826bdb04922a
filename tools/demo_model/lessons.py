"""What the demo model is trained on: dialogues of roundtalk, mixed, encoded, packed, with their evidence marked.

Batch number i of a seed is always the same, whatever came before it: so a training goes on exactly where it stopped.
"""
import random
import re

import numpy as np
import torch

from native import Pack
from roundtalk import SMALL_TALK, dialogue

QUESTION = re.compile(
    r"(?:^|(?<=[.] ))(?:(?:What|Where|When)\b[^?.]*\?|Repeat the (?:last|first) \d+ things I told you\.)")
# How often a task is asked in a mixed dialogue. roundtalk's own mix asks for lists less and chats as much.
MIXED = (["recall"] * 8 + ["local"] * 2 + ["list"] * 5 + ["again"] * 2 + ["unknown"] * 2 + ["chat"] + ["tell"])
PINNED = ["recall"] * 3 + ["local"] * 2 + ["list"] * 5 + ["again"] * 2 + ["unknown"] * 2
PLACES = ["begin", "middle", "end"]
# Until so many tokens: the most rounds of a usual dialogue, of a long one, and the share of batches that begin with a
# long one. A dialogue of 32 rounds has some 2,000 tokens, one of lists 3,000; what passes the context is left out.
# 80.95 M are the 34 M at which the training of the model that ships, stretched by .42, came to the last stage.
STAGES = [(2e6, 3, 4, .2), (6e6, 6, 8, .2), (14e6, 10, 14, .2), (30e6, 18, 24, .2), (55e6, 28, 40, .2),
          (80.95e6, 36, 90, .2), (float("inf"), 48, 90, .8)]
WORDS = 0.02  # what a token of the users' words weighs, beside 1 of an answer's
PINNED_SHARE = 0.33  # of dialogues, whose rounds all ask for one task
GREETED = 0.15  # of dialogues begin with small talk: roundtalk's own never do


def stage(tokens):
    return next(tuple(most) for until, *most in STAGES if tokens < until)


def draw(rng, most, easy, pinned):
    """One dialogue: of one task alone, or mixed as roundtalk's, or mixed and short of words."""
    rounds = rng.randint(1, most) if rng.random() < 0.6 else rng.randint((most + 1) // 2, most)
    style, seed = rng.random(), rng.getrandbits(48)
    if easy:
        return dialogue(seed, rounds, facts_per_round=(1, 2), filler=(0, 1), kinds=MIXED)
    if style < (1 - pinned) / 2:
        return dialogue(seed, rounds, kinds=MIXED if rng.random() < 0.5 else None)
    if style < 1 - pinned:
        return dialogue(seed, rounds, facts_per_round=(1, rng.choice([1, 2, 4])), filler=(0, rng.choice([0, 1, 2])),
                        kinds=MIXED)
    where = rng.choice(PLACES) if rng.random() < 0.7 else None
    return dialogue(seed, rounds, kinds=[rng.choice(PINNED)], where=where)


def greeted(rng, rounds):
    """The dialogue behind a round of small talk."""
    said, reply = rng.choice(SMALL_TALK)
    first = (rng.choice(said), reply, {"kind": "chat", "where": "middle", "evidence": []})
    return [first] + [(user, answer, {**meta, "evidence": [j + 1 if j >= 0 else j for j in meta["evidence"]]})
                      for user, answer, meta in rounds]


class Encoded:
    """Token ids of a dialogue (as many rounds as fit), and of each round: where it begins, where its answer does, from
    where the question is known, which earlier rounds hold the evidence."""

    def __init__(self, tokenizer, rounds, answer_last=True, tokens_max=None):
        begin_user, begin_answer = tokenizer.ids["<|user|>"], tokenizer.ids["<|assistant|>"]
        end = tokenizer.ids["<|end|>"]
        self.ids, self.rounds = [], []
        for i, (user, reply, meta) in enumerate(rounds):
            start, ids = len(self.ids), tokenizer.encode(user)
            asked = QUESTION.search(user)
            known = start + len(tokenizer.encode(user[:asked.end()])) - 1 if asked else None
            self.ids += [begin_user, *ids, end, begin_answer]
            answer = len(self.ids)
            if answer_last or i + 1 < len(rounds):
                self.ids += [*tokenizer.encode(reply), end]
            if tokens_max and len(self.ids) > tokens_max:
                del self.ids[start:]
                break
            past = [j for j in meta["evidence"] if 0 <= j < i]
            self.rounds.append({"start": start, "answer": answer, "end": len(self.ids), "known": known, "past": past,
                                "here": i in meta["evidence"], "kind": meta["kind"], "where": meta["where"]})


class Batch:
    """Packed dialogues: ids, the Pack, the weight of each next token. `asking` are rows of questions' rounds, `knowing`
    those that know what is asked, where all evidence stands in earlier rounds: each question's weigh 1 together, of
    `knowing` the last, from which the answer begins, twice as much as another."""

    def __init__(self, encoded, shape, limit=None, words=WORDS):
        starts, ids, weights = [0], [], []
        past_ends, mask_at, evidence, knowing, asking, last_rows, masked = [], [], [], [], [], [], 0
        round_of, asked = [], []
        for one in encoded:
            count = len(one.ids) if limit is None else min(len(one.ids), limit - len(ids))
            weight, ends, at, know, ask = ([words] * len(one.ids), [0] * len(one.ids), [-1] * len(one.ids),
                                           [0.0] * len(one.ids), [0.0] * len(one.ids))
            for index, part in enumerate(one.rounds):
                start, answer = part["start"], part["answer"]
                round_of += [index] * max(0, min(part["end"], count) - start)
                # A row's weight is that of the token after it.
                weight[answer - 1:part["end"] - 1] = [1.0] * (part["end"] - answer)
                if start == 0 or start >= count:
                    continue
                mask = np.zeros(start, np.float32)
                for j in part["past"]:
                    mask[one.rounds[j]["start"]:one.rounds[j]["end"]] = 1
                asked.append((len(ids) + start, len(ids) + min(answer, count), part["past"]))
                at[start:answer] = [masked] * (answer - start)
                masked += start
                evidence.append(mask)
                ends[start:answer] = [start] * (answer - start)
                ask[start:answer] = [1 / (answer - start)] * (answer - start)
                if part["past"] and part["known"] is not None and not part["here"]:
                    rows = answer - part["known"]
                    know[part["known"]:answer] = [1 / (rows + 1)] * (rows - 1) + [2 / (rows + 1)]
                    if answer <= count:
                        last_rows.append(len(ids) + answer - 1)
            weight[-1] = 0.0
            if count < len(one.ids):
                weight[count - 1] = 0.0
            ids += one.ids[:count]
            weights += weight[:count]
            past_ends += ends[:count]
            mask_at += at[:count]
            knowing += know[:count]
            asking += ask[:count]
            starts.append(len(ids))
        self.ids = torch.tensor(ids)
        self.weights, self.knowing, self.asking = torch.tensor(weights), torch.tensor(knowing), torch.tensor(asking)
        self.last_rows = torch.tensor(last_rows, dtype=torch.int64)
        self.pack = Pack(starts, shape.heads, shape.kv_heads, shape.theta)
        self.pack.past_ends, self.pack.mask_at = torch.tensor(past_ends), torch.tensor(mask_at)
        self.pack.round_of, self.pack.asked = torch.tensor(round_of), asked
        self.pack.evidence = torch.from_numpy(np.concatenate(evidence)) if evidence else torch.zeros(1)


def batch(tokenizer, shape, seed, number, tokens_seen, tokens, stretch=1.0, words=WORDS, pinned=PINNED_SHARE):
    """Batch `number` and what draws its sample of users' words: exactly `tokens` tokens, the last dialogue cut.
    `stretch` lengthens the curriculum."""
    rng = random.Random(f"{seed}:{number}")
    usual, long, share = stage(tokens_seen / stretch)
    encoded, total = [], 0
    while total < tokens:
        is_long = total == 0 and rng.random() < share
        left = (tokens - total) // 60  # what does not fit is seldom begun
        most = long if is_long else max(1, min(usual, left))
        talk = draw(rng, most, usual <= 3, pinned)
        if rng.random() < GREETED:
            talk = greeted(rng, talk)
        one = Encoded(tokenizer, talk, tokens_max=shape.context)
        encoded.append(one)
        total += len(one.ids)
    return Batch(encoded, shape, tokens, words), rng
