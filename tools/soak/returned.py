"""What comes back from the disk is what the pool had: the same turn, asked of the same keys, gives the same bits."""
import random

from http_client import ask
from talk import Talk, Wrong

CONVERSATIONS = 6
ROUNDS = 3
ANSWER_TOKENS = 24
WORDS = "the red box code lamp of is old 4817 Oslo tea dog".split()


class Returned(Talk):
    """Without other clients. Each turn is asked of the undisturbed server too, whose pool has all that went before. The
    last one is asked behind a put_away, or with its history in the pool; then it is taken back, and asked again behind
    a restart."""

    def __init__(self, phase):
        super().__init__(phase, 0)
        self.random = random.Random(f"returned {phase.seed}")

    async def run(self):
        asked = [await self.converse(puts_away=number % 2 == 1) for number in range(CONVERSATIONS)]
        await self.phase.written()
        for self.id, _, _ in asked:
            await self.call("POST", f"/v1/sessions/{self.id}/rewind", {"round": ROUNDS})
        await self.phase.restart()
        for self.id, text, undisturbed in asked:
            self.hold_same(undisturbed, await self.turn(text), restores=True)
            await self.call("DELETE", f"/v1/sessions/{self.id}")

    async def converse(self, puts_away):
        """Its id, the text of its last turn, and the undisturbed server's answer to that."""
        self.begin()
        for number in range(ROUNDS + 1):
            text = " ".join(self.random.choices(WORDS, k=self.random.randrange(6, 14)))
            restores = puts_away and number == ROUNDS
            if restores:
                await self.phase.written()
                await self.call("POST", f"/v1/sessions/{self.id}/put_away")
            answer, undisturbed = await self.turn(text), await self.undisturbed_turn(text)
            self.hold_same(undisturbed, answer, restores)
        return self.id, text, undisturbed

    def body(self, text):
        return {"messages": [{"role": "user", "content": text}], "conversation": self.id, "temperature": 0,
                "max_tokens": ANSWER_TOKENS, "ignore_eos": True, "logprobs": True}

    async def turn(self, text):
        answer = await self.ask(self.body(text))
        self.log.append(f"{self.id}: {answer.cached_tokens} cached, {answer.restored_tokens} restored, "
                        f"{answer.recomputed_tokens} recomputed")
        return answer

    async def undisturbed_turn(self, text):
        body = self.body(text) | {"conversation": f"{self.id} of {self.phase.seed}"}
        return await ask(self.phase.oracle.server.port, body)

    def hold_same(self, undisturbed, answer, restores):
        """Where the disk would take longer, the history is computed, by other sums than an answer's steps."""
        if restores and answer.recomputed_tokens != undisturbed.recomputed_tokens:
            self.phase.figures["returned_not_worth"] += 1
            return
        if restores != (answer.restored_tokens > 0):
            raise Wrong(f"{answer.restored_tokens} tokens were restored of a history that "
                        f"{'was put away' if restores else 'is in the pool'}")
        for what in ("tokens", "logprobs"):
            must_be, found = (getattr(one.choices[0], what) for one in (undisturbed, answer))
            if must_be != found:
                at = next(at for at, pair in enumerate(zip(must_be, found)) if pair[0] != pair[1])
                raise Wrong(f"{what} differ from {at} on: {found[at]!r}; it must be {must_be[at]!r}")
        self.phase.figures["returned_same_bits"] += restores
