"""An undisturbed server, asked for what another one answered: the same prompt, as ids, greedily."""
import collections
import struct
import subprocess
import tempfile

from http_client import ask, call

SAME_PARAMETERS = ("max_tokens", "stop", "ignore_eos", "stop_token_ids")
BORDER_TOKENS = 2  # of a history that is known, which are computed with the next prompt: its end has no keys yet


def root_mean_square_of_logits(program, model):
    """Of a text that the model knows."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        subprocess.run([program, "score", "--model", model, "--logits", file.name, "--text",
                        "<|user|>The code of the red box is 4817.<|end|><|assistant|>Noted.<|end|>"],
                       check=True, stdout=subprocess.DEVNULL)
        data = file.read()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    values = struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])
    return (sum(value * value for value in values) / len(values)) ** 0.5


class Broken(Exception):
    """The undisturbed server fails."""


class Oracle:
    """Tokens must be equal, or at the first difference a tie: the undisturbed server's own log-probabilities of the two
    are closer than the type's error allows (`logits_rms`), since either may be off by it."""

    def __init__(self, server, kind, logits_rms):
        self.server, self.kind = server, kind
        self.tie_max = 2 * kind.relative_error * logits_rms
        self.figures = collections.Counter()
        self.widest = collections.Counter()
        self.widest_tie = 0.0
        self.widest_logprob = 0.0

    async def encode(self, body):
        status, answer = await call(self.server.port, "POST", "/tokenize", body)
        if status != 200:
            raise Broken(f"the undisturbed server's /tokenize gave {status}: {answer}")
        return answer["ids"]

    async def answer(self, prompt, body, tops=0):
        wanted = {key: body[key] for key in SAME_PARAMETERS if key in body}
        answer = await ask(self.server.port, wanted | {"prompt": prompt, "temperature": 0, "logprobs": tops},
                           path="/v1/completions")
        if answer.outcome != "done":
            raise Broken(f"the undisturbed server answered {answer.status} {answer.message or answer.outcome}")
        return answer.choices[0]

    async def check(self, prompt, body, answer, history_tokens=0):
        """What is wrong with a whole answer to a prompt, whose first tokens are a history, or None."""
        if answer.prompt_tokens not in (-1, len(prompt)):
            return f"its prompt had {answer.prompt_tokens} tokens; it must have {len(prompt)}"
        expected = await self.answer(prompt, body, tops=20)
        new = len(prompt) - history_tokens + BORDER_TOKENS
        kept = history_tokens > 0 and answer.preemptions == 0 and 0 <= answer.recomputed_tokens <= new
        self.figures["kept_answers"] += kept
        self.figures["kept_restored"] += kept and answer.restored_tokens > 0
        for choice in answer.choices:
            self.figures["answers"] += 1
            self.figures["tokens"] += len(choice.tokens)
            if (wrong := self.difference(expected, choice, kept)) is not None:
                return wrong
        return None

    def difference(self, expected, choice, kept):
        pairs = list(zip(expected.tokens, choice.tokens))
        first = next((at for at, (one, other) in enumerate(pairs) if one != other), len(pairs))
        apart = max((abs(a - b) for a, b in zip(expected.logprobs[:first], choice.logprobs[:first])), default=0.0)
        self.widest_logprob = max(self.widest_logprob, apart)
        if kept:
            self.widest["kept"] = max(self.widest["kept"], apart)
            self.figures["kept_same_bits"] += apart == 0
        if apart > self.kind.logprob_apart_max:
            return f"log-probabilities are {apart:.2g} apart; at most {self.kind.logprob_apart_max:g} must be"
        if first < len(pairs):
            return self.tie(expected, choice, first, kept)
        if len(expected.tokens) != len(choice.tokens):
            return f"it has {len(choice.tokens)} tokens; it must have {len(expected.tokens)}"
        for what in ("text", "finish"):
            if getattr(expected, what) != getattr(choice, what):
                return f"its {what} is {getattr(choice, what)!r}; it must be {getattr(expected, what)!r}"
        return None

    def tie(self, expected, choice, at, kept):
        gap = expected.logprobs[at] - expected.tops[at].get(choice.tokens[at], float("-inf"))
        said = (f"token {at} of {len(choice.tokens)} is {choice.tokens[at]!r}; it must be {expected.tokens[at]!r}, "
                f"which leads by {gap:.3g}")
        if gap > self.tie_max:
            return said
        self.figures["near_ties"] += 1
        if kept:
            self.figures["kept_near_ties"] += 1
            self.widest["kept_tie"] = max(self.widest["kept_tie"], gap)
        self.widest_tie = max(self.widest_tie, gap)
        return None
