"""Clients who leave, one after the other, each at a random moment of a state of his turn; and what is left of them."""
import asyncio
import collections
import math
import random
import time

from abort_states import STATES, Figures, state_hit
from ballast import Ballast
from http_client import ask, call, hang_up, head_and_body
from known_conversation import KnownConversation

POOL_TOKENS, STORE_MIB = 4096, 4096
BATCH_MAX = 4
WRITING = ("storing", "putting away")  # told by what is written, so nobody else may write
BASES = 5  # conversations whose history comes back from the disk
HISTORY_WORDS, PROMPT_WORDS, NEW_WORDS = 420, 250, 50
ANSWER_TOKENS = 40
IN_A_ROW = 25  # aborts of one state
CHECKED_EVERY = 10  # of those who leave, one comes back and is answered
WARM_UP = 2  # rows of aborts of each state: what takes memory once is no leak
QUIET_S, LEFT_S = 90, 0.03  # by then a turn is gone; one that never began is told by that
DURABLE_S = 2  # by then a write that has begun has ended, on a busy machine too
WORDS = "the red box code lamp of is old 4817 Oslo What color where's tea Noted dog likes 12 Paris".split()


def settings(store, token_bytes):
    """For a model whose keys and values take so many bytes a token."""
    pool_mib = math.ceil(POOL_TOKENS * token_bytes / 2**20)
    return ("memory.kv_dtype=f32", f"memory.device_kv_mib={pool_mib}", f"memory.disk.path={store}",
            f"memory.disk.kv_mib={STORE_MIB}", "memory.disk.free_mib=0", "memory.disk.min_tokens=16",
            f"pipeline.decode.batch_max={BATCH_MAX}")


class Aborts:
    """`server` has the deep model, of so many layers, and these settings. `oracle` is of the undisturbed f32 model's,
    which answers the same."""

    def __init__(self, server, layers, oracle, vocabulary, seed, report):
        self.server, self.layers, self.oracle = server, layers, oracle
        self.vocabulary, self.report = vocabulary, report
        self.random = random.Random(f"aborts {seed}")
        self.hits = {state: collections.Counter() for state in STATES}
        self.figures, self.failures, self.names = collections.Counter(), [], 0
        self.filling = self.random.choices(range(600), k=POOL_TOKENS - 32)
        self.layer_s = 0.0

    async def run(self, count):
        await self.fill_pool()
        self.nothing = await self.held()
        self.bases = [await self.begin(HISTORY_WORDS) for _ in range(BASES)]
        await self.measure()
        for state in STATES * WARM_UP:
            await self.row(state, IN_A_ROW)
        self.hits = {state: collections.Counter() for state in STATES}
        await self.fill_pool()
        before = self.server.rss_mib(), self.server.descriptors()
        rows = [state for state in STATES for _ in range(-(-count // len(STATES) // IN_A_ROW))]
        self.random.shuffle(rows)
        for number, state in enumerate(rows):
            await self.row(state, min(IN_A_ROW, count - number * IN_A_ROW))
            self.report(f"{(number + 1) * IN_A_ROW} aborts, {len(self.failures)} failures")
        for conversation in self.bases:
            await self.call("DELETE", "", conversation)
        await self.nothing_left(before)

    # One row of aborts in a state.

    async def row(self, state, count):
        beside = BATCH_MAX if state == "queued" else 0 if state in WRITING else self.random.randrange(2)
        async with Ballast(self.server, beside) as ballast:
            for _ in range(count):
                await getattr(self, state.replace(" ", "_"))(state, ballast)

    async def queued(self, state, ballast):
        await ballast.ready()
        await self.turn_left(state, ballast, self.random.choice(self.bases), self.random.uniform(0, 0.03))

    async def restoring(self, state, ballast):
        await self.restored(state, ballast, 0, 3 * self.layer_s)

    async def gated(self, state, ballast):
        await self.restored(state, ballast, 2 * self.layer_s, self.restore_s)

    async def restored(self, state, ballast, from_s, to_s):
        base = self.random.choice(self.bases)
        await self.call("POST", "/put_away", base)
        await self.turn_left(state, ballast, base, self.random.uniform(from_s, to_s), warms=self.random.random() < 0.2)

    async def prefill(self, state, ballast):
        conversation = self.new()
        await self.turn_left(state, ballast, conversation, self.random.uniform(0, 1.1 * self.prefill_s), PROMPT_WORDS)
        await self.call("DELETE", "", conversation, wanted=(200, 404))

    async def decode(self, state, ballast):
        await self.turn_left(state, ballast, self.random.choice(self.bases), 0, events=self.random.randrange(2, 30))

    async def storing(self, state, _):
        """He leaves, and half of the time has his conversation deleted, as soon as he has his answer."""
        conversation = self.new()
        body = self.body(conversation, NEW_WORDS, 4) | {"stream": False}
        del body["stream_options"]
        reader, writer = await self.send(body)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            self.fail(f"an answer began with {head}; it must be 200")
        await self.away(state, conversation, writer)

    async def putting_away(self, state, _):
        conversation = self.new()
        await ask(self.server.port, self.body(conversation, NEW_WORDS, 4))
        _, writer = await self.send({}, f"/v1/sessions/{conversation.id}/put_away")
        await self.away(state, conversation, writer)

    async def away(self, state, conversation, writer):
        """What is written after he has left was not written before."""
        time.sleep(self.random.uniform(0, 0.003))
        before = Figures(await self.metrics())
        hang_up(writer, self.random.random() < 0.5)
        if self.random.random() < 0.5:
            await self.call("DELETE", "", conversation)
        await self.settled(0)
        await self.copied()
        after = Figures(await self.metrics())
        self.hits[state][state if after.written_bytes > before.written_bytes else "over"] += 1
        await self.call("DELETE", "", conversation, wanted=(200, 404))

    async def turn_left(self, state, ballast, conversation, moment_s, words=NEW_WORDS, events=0, warms=False):
        before = Figures(await self.metrics())
        body = self.body(conversation, words, ANSWER_TOKENS)
        path = f"/v1/sessions/{conversation.id}/warm" if warms else "/v1/chat/completions"
        reader, writer = await self.send({} if warms else body, path)
        for _ in range(events):
            await reader.readuntil(b"\n\n")
        time.sleep(moment_s)  # exactly so long
        hang_up(writer, self.random.random() < 0.5)
        after = await self.settled(ballast.running, before)
        self.hits[state][state_hit(before, after, self.layer_s, ballast.running == 0)] += 1
        if self.random.randrange(CHECKED_EVERY) == 0 and ballast.running < BATCH_MAX:
            await self.answered(conversation, body)
        if conversation.rounds:
            await self.rewind(conversation)

    # What the server is asked.

    def new(self):
        conversation = KnownConversation(self.vocabulary)
        self.names += 1
        conversation.id = f"a{self.names}"
        return conversation

    def text(self, words):
        return " ".join(self.random.choices(WORDS, k=words))

    def body(self, conversation, words, tokens):
        return {"messages": [{"role": "user", "content": self.text(words)}], "conversation": conversation.id,
                "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "logprobs": True, "stream": True,
                "stream_options": {"include_usage": True}}

    async def send(self, body, path="/v1/chat/completions"):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(head_and_body("POST", path, body))
        await writer.drain()
        return reader, writer

    async def begin(self, words):
        """A conversation of one round that is on the disk."""
        conversation = self.new()
        body = self.body(conversation, words, ANSWER_TOKENS)
        answer = await self.answered(conversation, body)
        choice, messages = answer.choices[0], body["messages"]
        ids = [self.vocabulary.id_of[spelled] for spelled in choice.spelled]
        await conversation.add(messages[0]["content"], messages, ids, choice.text, len(ids))
        await self.written()
        return conversation

    async def answered(self, conversation, body):
        """The same turn by a client who stays; he gets the undisturbed answer, whatever there is of the other."""
        if conversation.rounds:
            await self.rewind(conversation)
        else:
            await self.call("DELETE", "", conversation, wanted=(200, 404))
        answer = await ask(self.server.port, body)
        wrong = answer.problem() or (answer.message if answer.outcome == "error" else None)
        prompt = await conversation.prompt(body["messages"])
        wrong = wrong or await self.oracle.check(prompt, body, answer)
        if wrong:
            self.fail(wrong, [f"{conversation.id}: {body}"])
        return answer

    async def rewind(self, conversation):
        """To the one round that it has; while the turn still leaves, that is refused."""
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            status, told = await self.call("POST", "/rewind", conversation, {"round": 1}, (200, 400, 404))
            if "under way" not in str(told):
                return
            await asyncio.sleep(0.002)
        self.fail(f"{conversation.id} has a turn under way {QUIET_S} s after its client left")

    async def call(self, method, verb, conversation, body=None, wanted=(200,)):
        status, told = await call(self.server.port, method, f"/v1/sessions/{conversation.id}{verb}", body)
        if status not in wanted:
            self.fail(f"{method} {conversation.id}{verb} gave {status} {told}")
        return status, told

    async def measure(self):
        """How long a history takes to come back, and a prompt to be computed: of clients who stay."""
        restores, prefills = [], []
        for base in self.bases:
            await self.call("POST", "/put_away", base)
            began = await self.metrics()
            await self.answered(base, self.body(base, NEW_WORDS, 1))
            now = await self.metrics()
            restores.append(now["store_restore_seconds_total"] - began["store_restore_seconds_total"])
            conversation = self.new()
            began = time.monotonic()
            await self.answered(conversation, self.body(conversation, PROMPT_WORDS, 1))
            prefills.append(time.monotonic() - began)
            await self.call("DELETE", "", conversation)
            await self.rewind(base)
        self.restore_s, self.prefill_s = sorted(restores)[BASES // 2], sorted(prefills)[BASES // 2]
        self.layer_s = self.restore_s / self.layers
        self.figures["restore_us"], self.figures["prefill_us"] = int(self.restore_s * 1e6), int(self.prefill_s * 1e6)
        if self.restore_s == 0:
            self.fail("no history came back from the disk")

    def fail(self, what, log=()):
        self.failures.append({"what": what, "log": list(log)})

    # What the server holds.

    async def metrics(self):
        return await asyncio.to_thread(self.server.metrics)

    async def settled(self, running, before=None):
        """The turn has left; or, if none has ended, none has come for a moment."""
        end, quiet_since = time.monotonic() + QUIET_S, None
        while time.monotonic() < end:
            now = await self.metrics()
            found = Figures(now)
            is_quiet = (now["num_requests_running"] <= running and now["num_requests_waiting"] == 0 and
                        now["connections"] <= running + 1)
            if not is_quiet:
                quiet_since = None
            elif before is None or found.ended(before) > 0:
                return found
            elif quiet_since is not None and time.monotonic() - quiet_since > LEFT_S:
                return found
            else:
                quiet_since = quiet_since or time.monotonic()
            await asyncio.sleep(0.001)
        self.fail(f"{QUIET_S} s after a client left, the server still has {now}")
        return found

    async def copied(self):
        while (await self.metrics())["store_queue"] > 0:
            await asyncio.sleep(0.002)

    async def written(self):
        """All that has been computed may be found on the disk."""
        now, before = await self.metrics(), None
        while now["store_queue"] > 0 or now["store_records"] != before:
            before = now["store_records"]
            await asyncio.sleep(DURABLE_S)
            now = await self.metrics()

    async def held(self):
        """What no client's turn or conversation holds any more."""
        now = await self.metrics()
        names = ("num_requests_running", "num_requests_waiting", "kv_blocks_in_turns", "conversations",
                 "store_conversations", "store_queue", "store_records", "connections")
        _, store = await call(self.server.port, "GET", "/v1/store")
        return {name: now[name] for name in names} | {"/v1/store": (store["conversations"], store["records"])}

    async def nothing_left(self, before):
        end, now = time.monotonic() + QUIET_S, None
        while now != self.nothing and time.monotonic() < end:
            await asyncio.sleep(0.2)
            now = await self.held()
        if now != self.nothing:
            self.fail(f"without clients the server has {now}; it must be {self.nothing}")
        await self.fill_pool()
        await asyncio.sleep(0.5)
        rss_mib, descriptors = self.server.rss_mib(), self.server.descriptors()
        self.figures.update({"rss_mib_before": round(before[0], 1), "rss_mib_after": round(rss_mib, 1),
                             "fds_before": before[1], "fds_after": descriptors})
        if rss_mib > before[0] * 1.1 + 8:
            self.fail(f"{rss_mib:.1f} MiB after {before[0]:.1f}; a tenth and 8 more may be")
        if descriptors > before[1] + 64:  # of the store's manifest, and segments
            self.fail(f"{descriptors} descriptors after {before[1]}; 64 more may be")

    async def fill_pool(self):
        """A prompt as long as the pool, always the same: a block that anybody still holds is missing."""
        answer = await ask(self.server.port, {"prompt": self.filling, "max_tokens": 1}, path="/v1/completions")
        if answer.outcome != "done":
            self.fail(f"a prompt of {len(self.filling)} tokens got {answer.message}")
        await self.written()
