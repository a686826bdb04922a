#!/usr/bin/python3
"""What a model attends to in a dialogue, in float64, straight from the papers' definitions and shared readings of them:
what `rondo inspect attention` is measured against (tests/fixtures/golden/attention.json).

  attention_figures.py MODEL --tokens 1,2,3 --prompt N --rounds 0,20,41 --question 43 --turns 12,31,N

MODEL is a Hugging Face folder. `--prompt` tokens are the prompt, those behind it the last answer. `--rounds` are the
tokens at which rounds begin, `--question` the one at which the last question's words do, `--turns` those at which the
model began to answer. It prints the figures as JSON.
"""
import argparse
import json

import numpy as np

from model_files import read_folder
from reference import Model

EPSILON = 1e-6


class LookingModel(Model):
    """Keeps the attention of all layers: weights[layer][head] is [n, n]."""

    def __init__(self, config, tensors):
        super().__init__(config, tensors)
        self.weights = {}

    def look(self, prefix, head, weights):
        layer = int(prefix.split(".")[2])
        self.weights.setdefault(layer, {})[head] = weights

    def attention_of(self, ids):
        self.weights = {}
        self.logits(ids)
        return np.array([[self.weights[layer][head] for head in sorted(self.weights[layer])]
                         for layer in sorted(self.weights)])  # [layers, heads, n, n]


def round_masses(weights, rows, rounds):
    """[layers, past rounds]: of these rows, mean over heads and rows."""
    return np.array([[weights[layer][:, rows, begin:end].sum() / (weights.shape[1] * len(rows))
                      for begin, end in zip(rounds, rounds[1:])] for layer in range(len(weights))])


def initial_recent(weights, prompt):
    """Krul: of the last tenth of the prompt's rows, on its first and last tenth of keys."""
    edge = max(1, prompt // 10)
    rows = weights[:, :, prompt - edge:prompt, :prompt]
    keys = np.arange(prompt)
    at_edges = (keys < edge) | (keys >= prompt - edge)
    return rows[..., at_edges].sum(axis=-1).mean(axis=(1, 2))


def distances(weights, prompt):
    """Krul: Euclidean, by head over all entries of the prompt's rows, then the mean over heads."""
    flat = weights[:, :, :prompt, :prompt].reshape(len(weights), weights.shape[1], -1)
    return np.array([[np.linalg.norm(a - b, axis=-1).mean() for b in flat] for a in flat])


def divergences(masses):
    """Round Attention, appendix B: D_i, of the last row's masses."""
    shares = masses / masses.sum(axis=1, keepdims=True)

    def kl(p, q):
        return float((p * np.log((p + EPSILON) / (q + EPSILON))).sum())

    return [np.mean([kl(shares[i], shares[j]) for j in range(i + 1, len(shares))]) for i in range(len(shares) - 1)]


def ranks(values):
    return np.array([(values < value).sum() + ((values == value).sum() - 1) / 2 for value in values])


def rank_correlation(a, b):
    a, b = ranks(a) - (len(a) - 1) / 2, ranks(b) - (len(b) - 1) / 2
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def top_rounds(masses):
    count = max(1, int(np.ceil(len(masses) / 10)))
    return set(np.argsort(-masses, kind="stable")[:count].tolist())


def top_lines(block):
    """LoopServe §3.1: block [rows, n] holds the last rows of n; the chosen lines as sets, and the share they hold."""
    rows, n = block.shape
    sums = {("column", c): block[:, c].sum() for c in range(n)}
    row_keys = np.arange(n - rows, n)
    for distance in range(n):
        seen = row_keys >= distance
        sums[("diagonal", distance)] = block[np.arange(rows)[seen], row_keys[seen] - distance].sum()
    chosen = sorted(sums, key=sums.get, reverse=True)[:-(-2 * n // 10)]
    covered = np.zeros_like(block, bool)
    for kind, at in chosen:
        if kind == "column":
            covered[:, at] = True
        else:
            seen = row_keys >= at
            covered[np.arange(rows)[seen], row_keys[seen] - at] = True
    return set(chosen), block[covered].sum() / block.sum()


def line_figures(weights, turns):
    """By layer: the share that a tenth of the lines holds, and how far a turn's are those of the turn before."""
    shares, overlaps = [], []
    for layer in weights:
        layer_shares, layer_overlaps = [], []
        for head in layer:
            before, begin = None, 0
            for end in turns:
                chosen, share = top_lines(head[begin:end, :end])
                layer_shares.append(share)
                if before is not None:
                    known = {line for line in chosen if line[1] < begin}
                    if known | before:
                        layer_overlaps.append(len(known & before) / len(known | before))
                before, begin = chosen, end
        shares.append(np.mean(layer_shares))
        overlaps.append(np.mean(layer_overlaps) if layer_overlaps else None)
    return shares, overlaps


def pairs(scores, distance, gamma, layer_ratio):
    """Krul, Algorithm 1; layers from 1."""
    may = [i for i, score in enumerate(scores) if score >= gamma]
    chosen, taken = [], set()
    for i, j in sorted(((i, j) for i in may for j in may if i < j), key=lambda pair: distance[pair]):
        if len(taken) >= layer_ratio * len(scores):
            break
        if i in taken or j in taken:
            continue
        taken |= {i, j}
        chosen.append([i + 1, j + 1])
    return sorted(chosen)


def figures(model, ids, prompt, rounds, question_begin, turns, gamma=0.5, layer_ratio=0.5):
    weights = model.attention_of(ids)
    question = round_masses(weights, range(question_begin, prompt), rounds)
    last_row = round_masses(weights, [prompt - 1], rounds)
    scores, distance = initial_recent(weights, prompt), distances(weights, prompt)
    shares, overlaps = line_figures(weights, turns)
    out = {"initial_recent": scores, "distances": distance, "pairs": pairs(scores, distance, gamma, layer_ratio),
           "question_masses": question, "last_row_masses": last_row, "divergences": divergences(last_row),
           "top_share": [sum(row[m] for m in top_rounds(row)) / row.sum() for row in question],
           "top_rounds": [sorted(m + 1 for m in top_rounds(row)) for row in question],
           "line_share": shares, "line_overlap": overlaps}
    if prompt < len(ids):
        answer = round_masses(weights, range(prompt, len(ids)), rounds)
        out["answer_masses"] = answer
        out["rank_correlation"] = [rank_correlation(q, a) for q, a in zip(question, answer)]
    return out


def plain(value, digits=9):
    """Numpy's numbers and arrays as JSON has them, with so many digits."""
    if isinstance(value, dict):
        return {key: plain(each, digits) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each, digits) for each in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}")
    return value


def main():
    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=numbers, required=True)
    parser.add_argument("--prompt", type=int, required=True)
    parser.add_argument("--rounds", type=numbers, required=True)
    parser.add_argument("--question", type=int, required=True)
    parser.add_argument("--turns", type=numbers, required=True)
    args = parser.parse_args()
    model = LookingModel(*read_folder(args.model))
    print(json.dumps(plain(figures(model, args.tokens, args.prompt, args.rounds, args.question, args.turns))))


if __name__ == "__main__":
    main()
