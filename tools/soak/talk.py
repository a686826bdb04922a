"""A conversation with the server under test, and what it must hold: asked of that server after each turn, and held
against what is known and what an undisturbed server answers."""
import asyncio
import math
import time

from http_client import HANG_S, Answer, Choice, ask, call
from known_conversation import KnownConversation
from past import Past, told
from tenants import SHARED


class Lost(Exception):
    """The server was killed: what it remembered is gone."""


class Untraceable(Exception):
    """An answer that nobody saw, which may differ by a tie."""


class Wrong(Exception):
    """Something did not hold."""


def users(messages):
    """What was asked, as the server lists it."""
    return "\n".join(one["content"] for one in messages if one["role"] == "user")


def split_history(messages):
    """A system prompt, rounds of (what was asked, the answer), and what is asked now."""
    system, messages = ("", messages)
    if messages[0]["role"] == "system":
        system, messages = messages[0]["content"], messages[1:]
    brought, asked = [], []
    for one in messages:
        if one["role"] == "assistant" and asked:
            brought.append((asked, one["content"]))
            asked = []
        else:
            asked = [*asked, one]
    return system, brought, asked


class Asked:
    """A turn that was asked for; whether it became part of the conversation is not known yet."""

    def __init__(self, messages, body):
        self.user, self.messages, self.body = users(messages), messages, body
        self.answer = Answer(choices=[Choice()])  # nothing was heard yet
        self.sent, self.ended = None, math.inf


class Talk:
    """`phase` has the server. A conversation that is begun anew (`begin`) has another id."""

    def __init__(self, phase, number):
        self.phase, self.number = phase, number
        self.group, place = divmod(number, len(phase.tenants))  # as many scripts that say the same
        self.tenant = phase.tenants[place]
        self.log = []
        self.named, self.id = 0, None
        self.begin()

    def name(self):
        """Every second group's tenants give their conversations the same names."""
        self.named += 1
        if self.group % 2 == 1:
            return f"{SHARED}.s{self.group}.{self.named}"
        return f"{self.tenant.name}.s{self.group}.{self.named}"

    def begin(self):
        self.tenant.live.discard(self.id)
        self.id = self.name()
        self.known = KnownConversation(self.phase.vocabulary)
        self.past = Past()
        self.open = []  # Asked
        self.begun = False
        self.generation = self.phase.generation

    # What is said to the server.

    def is_lost(self):
        return self.phase.generation != self.generation

    def stop_if_lost(self):
        if self.is_lost():
            raise Lost

    async def call(self, method, path, body=None, wanted=(200,)):
        self.stop_if_lost()
        try:
            async with self.phase.at_work():
                self.stop_if_lost()
                status, answer = await call(self.phase.server.port, method, path, body, self.tenant.key)
        except (OSError, EOFError) as error:
            self.stop_if_lost()
            raise Wrong(f"{method} {path}: {error!r}") from error
        except asyncio.TimeoutError as error:
            raise Wrong(f"{method} {path} hung") from error
        self.stop_if_lost()
        if status not in wanted:
            raise Wrong(f"{method} {path} gave {status} {answer}; it must give {wanted}")
        return status, answer

    async def ask(self, body, **how):
        answer = await self.exchange(body, **how)
        self.check_end(answer, body)
        return answer

    async def exchange(self, body, **how):
        """Where the server is killed meanwhile the answer is what was heard of it."""
        self.stop_if_lost()
        async with self.phase.at_work():
            self.stop_if_lost()
            return self.phase.planted(await ask(self.phase.server.port, body, key=self.tenant.key, **how))

    def check_end(self, answer, body):
        self.stop_if_lost()
        self.phase.count(answer)
        problem = answer.problem()
        if problem is None and answer.outcome == "error" and not (answer.code == "timeout" and "deadline_s" in body):
            problem = f"{answer.status} {answer.code}: {answer.message}"
        if problem is not None:
            raise Wrong(problem)

    async def said(self, body, **how):
        asked = Asked(body["messages"], body)
        self.open.append(asked)
        asked.sent = self.sends()
        asked.answer = await self.exchange(body, **how)
        asked.ended = time.monotonic()
        self.check_end(asked.answer, body)

    @staticmethod
    async def both(one, other):
        """Both are over before a fault of either is told: neither goes on beside what comes next."""
        ended = await asyncio.gather(one, other, return_exceptions=True)
        faults = [fault for fault in ended if isinstance(fault, BaseException)]
        if faults:
            raise min(faults, key=lambda fault: isinstance(fault, Lost))

    def sends(self):
        """A prompt of this conversation. Which turn it begins with is not known until all that were asked are over."""
        known = self.known.history()
        beginnings = [known] if self.known.rounds else [known + asked.messages for asked in self.open]
        return max(self.phase.ledger.asked(self.tenant, messages) for messages in beginnings)

    async def when_idle(self, method, path, body):
        """A turn whose client left may be under way still; then a conversation cannot be changed."""
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            status, answer = await self.call(method, path, body, wanted=(200, 400, 404))
            if "under way" not in str(answer):
                return status, answer
            await asyncio.sleep(0.01)
        raise Wrong(f"a turn is under way {HANG_S} s after its client left")

    # What the conversation must hold.

    async def settle(self):
        """Nothing is under way in it, and all of it is known."""
        if not self.open:
            return
        for pause_s in (0.2, 0):  # for a request that its client left before it was read
            await self.when_idle("POST", f"/v1/sessions/{self.id}/rewind", {"round": 100000})  # there is no such round
            await asyncio.sleep(pause_s)
        await self.learn()

    async def done_when_idle(self, method, path, body):
        status, answer = await self.when_idle(method, path, body)
        if status != 200:
            raise Wrong(f"{method} {path} {body} gave {status} {answer}")
        return answer

    async def learn(self):
        rounds = await self.listed()
        self.compare(rounds)
        await self.take(rounds, heard_until=math.inf)

    async def is_kept(self):
        """After a kill. What was on the disk for certain is there, in order. What came later may be missing; but no
        round and no change is there in part. False: nothing is there, and nothing had to be."""
        rounds, durable_at, known = await self.listed(), self.phase.durable_at, len(self.known.rounds)
        if self.phase.plant == "lost_round":
            rounds = rounds[:-1]
        held = self.past.found([(one["user"], one["assistant"]) for one in rounds], durable_at)
        if held is None:
            states = [told(state) for state in self.past.since(durable_at)]
            raise Wrong(f"after a kill the conversation holds {rounds}; it must begin with one of {states}")
        self.known.rounds = held
        await self.take(rounds, heard_until=durable_at)
        self.open = []
        self.phase.figures["outlived"] += bool(rounds)
        self.phase.figures["outlived_rounds"] += len(rounds)
        self.phase.figures["young_rounds_lost"] += max(known - len(rounds), 0)
        return bool(rounds)

    async def listed(self):
        status, conversation = await self.call("GET", f"/v1/sessions/{self.id}", wanted=(200, 404))
        return conversation["rounds"] if status == 200 else []

    async def take(self, rounds, heard_until):
        """Each round beyond those known is one that was asked for. None is missing whose end its client had heard by
        then."""
        if not self.known.rounds:
            await self.take_history(rounds)
        for one in rounds[len(self.known.rounds):]:
            asked = [asked for asked in self.open if asked.user == one["user"]]
            if not asked:
                raise Wrong(f"round {one} was not asked for")
            await self.add(one, asked)
        missing = [asked for asked in self.open if asked.answer.outcome == "done" and asked.ended <= heard_until]
        if missing:
            raise Wrong(f"the round of {missing[0].user!r} is missing")

    async def shorten(self, verb, body, left):
        """Rounds go, and these are left. A kill may come before that or behind it."""
        self.past.add(math.inf, left)
        await self.done_when_idle("POST", f"/v1/sessions/{self.id}/{verb}", body)
        self.known.rounds = left
        self.past.add(time.monotonic(), left)

    async def take_history(self, rounds):
        """Where the first turn of all brought a history along, that is rounds of its own before its own round."""
        for asked in self.open:
            system, brought, rest = split_history(asked.messages)
            held = [(one["user"], one["assistant"]) for one in rounds[:len(brought)]]
            if not brought or len(rounds) == len(brought) or held != [(users(said), text) for said, text in brought]:
                continue
            if system:
                await self.known.set_system(system)
            for (said, text), one in zip(brought, rounds):
                ids = await self.known.vocabulary.encode({"text": text}) if text else []
                await self.known.add(one["user"], said, ids, text, one["tokens"])
            asked.messages, asked.user = rest, users(rest)
            return

    def compare(self, rounds):
        known = told(self.known.rounds)
        found = [(one["user"], one["assistant"]) for one in rounds[:len(known)]]
        if known != found:
            raise Wrong(f"the conversation holds {found}; it must hold {known}")

    async def add(self, one, candidates):
        prompt = await self.known.prompt(candidates[0].messages)
        # The same turn sent twice: whose prompt was the shorter one went first.
        asked = min(candidates, key=lambda asked: (asked.answer.outcome != "done", asked.answer.prompt_tokens))
        self.open.remove(asked)
        if asked.answer.outcome == "done":
            history_tokens = await self.known.tokens()
            self.hold(await self.phase.oracle.check(prompt, asked.body, asked.answer, history_tokens), prompt,
                      asked.body)
            self.hold(self.phase.ledger.wrong(self.tenant, self.known.history() + asked.messages, asked.sent,
                                              asked.answer, len(self.known.preamble)), prompt, asked.body)
            choice = asked.answer.choices[0]
            ids = [self.phase.vocabulary.id_of[spelled] for spelled in choice.spelled]
            text = choice.text
        elif not one["assistant"].startswith(seen := asked.answer.choices[0].text):
            raise Wrong(f"round {one} must begin with what its client saw: {seen!r}")
        elif asked.answer.outcome == "cut":
            ids, text = await self.unheard(one, prompt, asked)
        else:
            ids, text = await self.cut(one, prompt, asked)
        if text != one["assistant"]:
            raise Wrong(f"round {one} must have the answer {text!r}")
        await self.known.add(one["user"], asked.messages, ids, text, one["tokens"])
        heard = asked.ended if asked.answer.outcome == "done" else time.monotonic()
        self.past.add(heard, self.known.rounds)
        self.tenant.live.add(self.id)

    async def unheard(self, one, prompt, asked):
        """The kill kept the end of this turn from its client. It was over, for no other turn is a round: whole."""
        self.phase.figures["unheard_rounds"] += 1
        expected = await self.phase.oracle.answer(prompt, asked.body)
        ids = [self.phase.vocabulary.id_shown_as(token) for token in expected.tokens]
        if None in ids or (expected.text != one["assistant"] and not self.phase.oracle.kind.is_exact):
            raise Untraceable
        return ids, expected.text

    async def cut(self, one, prompt, asked):
        """Of a turn whose client left, the server says how many ids it told and what they spell."""
        told = one["tokens"] + sum(known.tokens for known in self.known.rounds) - len(prompt)
        self.phase.figures["cut_rounds"] += 1
        if not 0 < told <= asked.body["max_tokens"]:
            raise Wrong(f"round {one} has {told} ids behind its prompt of {len(prompt)}; "
                        f"1 to {asked.body['max_tokens']} must be")
        expected = await self.phase.oracle.answer(prompt, asked.body | {"max_tokens": told})
        ids = [self.phase.vocabulary.id_shown_as(token) for token in expected.tokens]
        text = one["assistant"]
        spelled = self.phase.vocabulary.text([id for id in ids if id is not None])
        if None not in ids and spelled.startswith(text) and len(spelled) <= len(text) + 1:  # one held back at most
            return ids, text
        if not self.phase.oracle.kind.is_exact:
            raise Untraceable
        raise Wrong(f"round {one} must spell {spelled!r}, the {told} ids that follow its prompt of {len(prompt)}")

    def hold(self, wrong, prompt, body):
        if wrong is not None:
            self.log.append(f"then, with prompt {prompt}, {body}")
            raise Wrong(wrong)
