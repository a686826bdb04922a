"""One client's script: turns of a conversation, and what he does to it between and while they are answered."""
import contextlib
import math
import random
import time

from past import Past
from talk import Lost, Talk, Untraceable, Wrong
from tenants import SHARED, not_own

WORDS = ("the red box code lamp of is old 4817 Oslo What color where's He'll 12 Paris, dog who likes?! tea Noted "
         "Tim's").split()
MARK = "Wednesday copper striped glass"  # of all texts of scripts, in four tokens; nothing else says it
MESSAGE_TOKENS_MAX = 110  # of 30 words
OPENINGS = ["The code of the red box is 4817.", "Tim lives in Oslo. Suzi likes tea.", "Hello!"]
KINDS = {"stream": 26, "whole": 14, "leave": 22, "double": 8, "deadline": 5, "stop": 6, "resend": 8, "choices": 5,
         "slow": 3, "ids": 3}
CHANGES = {"none": 56, "rewind": 10, "fork": 8, "drop": 8, "delete": 5, "list": 4, "tokenize": 5, "put_away": 10,
           "warm": 6, "peek": 4}
CHANGES_OF_LONG = CHANGES | {"rewind": 1, "drop": 2, "delete": 1}  # so that some never become shorter
WITHOUT_ROUNDS = ("list", "tokenize", "peek")


class Script(Talk):
    def __init__(self, phase, number, turns):
        super().__init__(phase, number)
        self.turns = turns
        self.random = random.Random(f"{phase.seed} {self.group}")
        self.again = []  # history that a new conversation begins with
        self.goes_on = False  # for the first time after a kill

    async def run(self):
        turn = 0
        while turn < self.turns:
            try:
                if self.is_lost():
                    await self.come_back()
                else:
                    await self.change()
                await self.turn(turn)
                turn += 1
            except Untraceable:
                self.phase.figures["untraceable"] += 1
                id = self.id
                with contextlib.suppress(Lost):
                    await self.delete()
                if self.id == id:  # it cannot go on, whatever the server still has of it
                    self.begin()
            except Lost:
                self.log.append("lost")
        with contextlib.suppress(Lost):
            await self.delete()

    async def come_back(self):
        """To a server that was killed. What it has kept goes on; else a new conversation begins with all that was
        said."""
        await self.phase.up.wait()
        self.generation, history = self.phase.generation, self.known.history()
        self.goes_on = self.phase.stored and await self.is_kept()
        if not self.goes_on:
            self.begin()
            self.again = history

    def text(self):
        count = self.random.choice([2, 6, 12, 30])
        return " ".join(self.random.choices(WORDS, k=count)) + f" {MARK} {self.group}.{len(self.log)}"

    def body(self, messages):
        longest = self.random.choice([4, 40, self.phase.answer_max, self.phase.answer_max])
        body = {"messages": messages, "max_tokens": longest, "temperature": 0, "logprobs": True,
                "stream": True, "stream_options": {"include_usage": True}}
        if self.random.random() < 0.85:
            body["ignore_eos"] = True
        if self.random.random() < 0.2:
            body["method"] = "dense"
        return body

    @staticmethod
    def unstreamed(body):
        return {key: value for key, value in body.items() if not key.startswith("stream")}

    # Turns.

    async def turn(self, turn):
        text = self.random.choice(OPENINGS) if turn == 0 and self.random.random() < 0.5 else self.text()
        messages = [*self.again, {"role": "user", "content": text}]
        prompt = await self.known.prompt(messages)
        if len(prompt) + 2 * (MESSAGE_TOKENS_MAX + self.phase.answer_max) > self.phase.conversation_max:
            await self.delete()
            self.again = []
            self.begin()
            messages = messages[-1:]
        body = self.body(messages)
        kind = self.random.choices(list(KINDS), KINDS.values())[0]
        if self.goes_on:
            kind = "stream"
        self.log.append(f"{kind} {text!r} {body['max_tokens']}")
        if kind in ("resend", "choices", "ids"):
            return await getattr(self, kind)(body)
        if not self.begun and self.random.random() < 0.2 and not self.again:
            await self.call("POST", "/v1/sessions", {"id": self.id, "system": "Be brief."})
            await self.known.set_system("Be brief.")
        body["conversation"] = self.id
        if self.known.rounds and (self.goes_on or self.random.random() < 0.3):
            body["continue"] = True
        self.begun, self.again = True, []
        await getattr(self, kind)(body)
        await self.learn()
        self.phase.figures["went_on"] += self.goes_on and "continue" in body
        self.goes_on = False
        self.phase.rounds_max = max(self.phase.rounds_max, len(self.known.rounds))

    async def stream(self, body):
        await self.said(body)

    async def slow(self, body):
        await self.said(body, pause_s=0.02)

    async def whole(self, body):
        await self.said(self.unstreamed(body))

    async def leave(self, body):
        body["max_tokens"] = self.phase.answer_max
        events = self.random.choice([0, 1, 2, self.random.randrange(1, 40)])
        await self.said(body, leave=(events, self.random.choice(["close", "reset"])))
        if self.random.random() < 0.5:  # another one is asked for while that one still leaves
            self.log.append("and at once")
            await self.said(self.body([{"role": "user", "content": self.text()}]) | {"conversation": self.id})

    async def double(self, body):
        other = body
        if self.random.random() < 0.5:
            other = self.body([{"role": "user", "content": self.text()}]) | {"conversation": self.id}
        await self.both(self.said(body), self.said(self.unstreamed(other)))

    async def deadline(self, body):
        body["deadline_s"] = self.random.choice([0.01, 0.05, 0.3])
        await self.said(body)

    async def stop(self, body):
        body["stop"] = self.random.sample(["code", "er", "7", "ted.", " of", "e b"], k=2)
        await self.said(body)

    # Requests without a conversation on the server.

    async def unnamed(self, body, prompt, messages, history_tokens=0, **how):
        sent = self.phase.ledger.asked(self.tenant, messages)
        answer = await self.ask(body, **how)
        if answer.outcome == "done":
            self.hold(await self.phase.oracle.check(prompt, body, answer, history_tokens), prompt, body)
            self.hold(self.phase.ledger.wrong(self.tenant, messages, sent, answer, len(self.known.preamble)), prompt,
                      body)
        return answer

    async def resend(self, body):
        body["messages"] = self.known.history() + body["messages"]
        await self.unnamed(body, await self.phase.vocabulary.encode({"messages": body["messages"]}), body["messages"])

    async def choices(self, body):
        body["n"] = self.random.randrange(2, 5)
        await self.unnamed(body, await self.phase.vocabulary.encode({"messages": body["messages"]}), body["messages"])

    async def ids(self, body):
        messages = body.pop("messages")
        prompt = await self.known.prompt(messages)
        body = self.unstreamed(body) | {"prompt": prompt, "logprobs": 1}
        await self.unnamed(body, prompt, self.known.history() + messages, await self.known.tokens(),
                           path="/v1/completions")

    # Changes between turns.

    async def change(self):
        changes = CHANGES_OF_LONG if self.phase.is_long else CHANGES
        kind = self.random.choices(list(changes), changes.values())[0]
        if kind == "none" or (kind not in WITHOUT_ROUNDS and not self.known.rounds):
            return
        self.log.append(kind)
        await getattr(self, kind)()

    async def rewind(self):
        round_number = self.random.randrange(len(self.known.rounds))
        self.log[-1] += f" {round_number}"
        await self.settle()
        await self.shorten("rewind", {"round": round_number}, self.known.rounds[:round_number])

    async def drop(self):
        count = len(self.known.rounds)
        rounds = self.random.sample(range(count), k=self.random.randrange(1, count + 1))
        self.log[-1] += f" {rounds}"
        await self.settle()
        await self.shorten("drop", {"rounds": rounds}, await self.known.without(rounds))

    async def fork(self):
        await self.settle()
        fork = self.name()
        _, told = await self.call("POST", f"/v1/sessions/{self.id}/fork", {"id": fork})
        self.compare(told["rounds"])
        if self.random.random() < 0.5:
            self.id, fork, self.open, self.past = fork, self.id, [], Past()
            self.past.add(time.monotonic(), self.known.rounds)
            self.tenant.live -= {fork}
            self.tenant.live |= {self.id}
        await self.call("DELETE", f"/v1/sessions/{fork}")
        self.tenant.gone.add(fork)

    async def delete(self):
        """It may never have been begun: its client left before the request was read."""
        if not self.begun:
            return
        self.past.add(math.inf, [])
        await self.call("DELETE", f"/v1/sessions/{self.id}", wanted=(200, 404))
        self.tenant.live.discard(self.id)
        if not self.open:  # else a turn that nobody has read yet may begin it anew
            self.tenant.gone.add(self.id)
        self.again = self.known.history() if self.random.random() < 0.5 else []
        self.begin()

    async def list(self):
        """Page by page, while others come and go; this one has been there all the time."""
        path, found = "/v1/sessions?limit=10", False
        while True:
            _, page = await self.call("GET", path)
            if self.tenant.key is not None and (wrong := not_own(self.tenant, [one["id"] for one in page["data"]])):
                raise Wrong(f"{self.tenant.name}'s list of conversations has {wrong[0]}, which is another tenant's")
            found = found or any(one["id"] == self.id for one in page["data"])
            if not page.get("has_more"):
                break
            path = f"/v1/sessions?limit=10&after={page['last_id']}"
        if self.known.rounds and not found:
            raise Wrong(f"{self.id} is on no page of /v1/sessions")

    async def put_away(self):
        """Half of the time a turn comes meanwhile; whichever the server hears of first, all is answered."""
        if not self.phase.stored:
            return
        await self.settle()
        path, is_alone = f"/v1/sessions/{self.id}/put_away", self.random.random() < 0.5
        longest = await self.known.tokens() + MESSAGE_TOKENS_MAX + self.phase.answer_max
        if is_alone or longest > self.phase.conversation_max:
            told = await self.done_when_idle("POST", path, {})
            self.log[-1] += f" {told['put_away_tokens']}"
            self.phase.figures["put_away_tokens"] += told["put_away_tokens"]
            return
        self.log[-1] += " and at once"
        body = self.body([{"role": "user", "content": self.text()}]) | {"conversation": self.id}
        await self.both(self.call("POST", path, wanted=(200, 400)), self.said(body))
        await self.learn()

    async def warm(self):
        await self.settle()
        self.sends()
        status, told = await self.when_idle("POST", f"/v1/sessions/{self.id}/warm", {})
        if status != 200:
            if "no rounds that could be warmed" not in str(told):
                raise Wrong(f"/warm gave {status} {told}")
            self.phase.figures["not_warmed"] += 1  # all rounds were brought along, or stood behind one that was dropped
            return
        self.phase.figures["warmed"] += 1
        self.phase.figures["warmed_by_restoring"] += told["restored_tokens"] > 0
        known = await self.known.tokens()
        if not 0 < told["tokens"] <= known:
            raise Wrong(f"{told} is warm; it must be at most {known} tokens")
        if told["cached_tokens"] + told["restored_tokens"] + told["recomputed_tokens"] != told["tokens"]:
            raise Wrong(f"{told} is warm; its parts must give its tokens")

    async def peek(self):
        """At a conversation of another tenant's, by all that can be asked of one."""
        ids = [id for tenant in self.phase.tenants if (tenant is self.tenant) == (self.phase.plant == "foreign")
               for id in sorted(tenant.live) if not id.startswith(SHARED)]
        if not ids:
            return
        id = random.choice(ids)  # not of the script: it depends on what others do
        body = self.body([{"role": "user", "content": self.text()}]) | {"conversation": id, "continue": True}
        path, fork = f"/v1/sessions/{id}", {"id": self.name()}
        for method, verb, said in (("GET", "", None), ("POST", "/fork", fork), ("POST", "/rewind", {"round": 0}),
                                   ("POST", "/drop", {"rounds": [0]}), ("POST", "/warm", None),
                                   ("POST", "", {"title": "x"}), ("DELETE", "", None)):
            await self.call(method, path + verb, said, wanted=(404,))
        if self.phase.stored:
            await self.call("POST", path + "/put_away", wanted=(404,))
        await self.call("POST", "/v1/chat/completions", self.unstreamed(body), wanted=(404,))
        self.phase.figures["peeks"] += any(id in tenant.live for tenant in self.phase.tenants)  # still

    async def tokenize(self):
        text = " ".join(self.random.choices(WORDS, k=200))
        _, told = await self.call("POST", "/tokenize", {"text": text})
        self.hold(None if told["ids"] == await self.phase.oracle.encode({"text": text}) else "its ids differ", [], text)
