"""A phase: many scripts at once against a server with a pool too small for them, which is frozen, killed and ended."""
import asyncio
import collections
import contextlib
import random
import time

from http_client import ask, call
from resender import Resender
from returned import Returned
from script import MARK, Script
from talk import Wrong
from tenants import Ledger

DRAIN_S = 2
CHUNK_ROWS = 513  # rows of a prompt are computed by at most 512
POOL_LEFT_TOKENS = 32  # two blocks: the answer's, and a block that is begun
QUIET_S = 90  # by then a server without clients must be idle
KILLED_WITHIN_S = 30  # also where few turns are answered
GONE = ("num_requests_running", "num_requests_waiting", "kv_blocks_in_turns", "conversations", "store_conversations",
        "store_queue")
SHARES = {"records": "store_records", "conversations": "store_conversations",
          "prompt_tokens_asked": "store_prompt_tokens_asked_total",
          "prompt_tokens_restored": "store_prompt_tokens_restored_total"}  # of GET /v1/store: their sum in /metrics
SEGMENT_HEADS_BYTES = 64 * 4096
RESENDERS_EVERY = 5  # groups of scripts


class Phase:
    """`start` gives a new ServerProcess, `oracle` is of the undisturbed server. `report` is told of progress. With a
    `store` (StoreFolder) the server is started anew now and then, and conversations go on; also after a kill."""

    def __init__(self, start, oracle, vocabulary, seed, sizes, plant, report, tenants, store=None):
        self.store, self.stored, self.tenants = store, store is not None, tenants
        self.asking = 0  # requests under way
        self.restarting = None
        self.may_ask = asyncio.Event()
        self.may_ask.set()
        self.start, self.oracle, self.vocabulary = start, oracle, vocabulary
        self.seed, self.plant, self.report = seed, plant, report
        self.room_tokens, self.is_long = sizes.room_tokens, sizes.is_long
        self.conversation_max, self.answer_max = sizes.conversation_max, sizes.answer_max
        self.rounds_max = 0  # of any conversation
        self.random = random.Random(str(seed))
        self.figures = collections.Counter()
        self.ledger = Ledger(tenants, self.figures)
        self.failures = []
        self.warming = asyncio.Semaphore(16)
        self.generation = 0
        self.durable_at = None  # what clients had been told by then was on the disk before the kill
        self.up = asyncio.Event()
        self.server = start()
        self.up.set()
        self.preempted_before = 0  # by servers that were killed
        self.preempted = 0

    async def run(self, scripts, turns, clients):
        limit, done = asyncio.Semaphore(clients), 0

        async def one(script):
            nonlocal done
            async with limit:
                await self.play(script)
            done += 1
            self.report(f"{done} of {scripts} scripts, {self.preempted_before + self.preempted} preemptions, "
                        f"{len(self.failures)} failures")

        async def several(numbers):
            async with asyncio.TaskGroup() as tasks:
                for number in numbers:
                    resends = number // len(self.tenants) % RESENDERS_EVERY == RESENDERS_EVERY - 1
                    tasks.create_task(one((Resender if resends else Script)(self, number, turns)))

        warm = min(scripts // 5, clients)
        await several(range(warm))
        await self.warm_up()
        base = await self.quiet()
        if self.stored:
            await self.play(Returned(self))
        await self.disturbed(several, range(warm, scripts * 3 // 5))
        self.compare(base, await self.quiet())
        last = range(scripts * 3 // 5, scripts)
        killer = asyncio.create_task(self.kill_while_busy(len(last) * turns))
        await several(last)
        await killer
        await self.quiet()
        await self.restore_figures()
        await self.drain(clients)
        await self.look_at_files()

    async def warm_up(self):
        """What takes memory once is no leak: for each number of rows a product in bf16 may have code of its own."""
        if not self.oracle.kind.is_exact:
            await asyncio.gather(*(self.prompt_of(rows) for rows in range(1, min(self.conversation_max, CHUNK_ROWS))))

    async def prompt_of(self, rows):
        ids = self.random.choices(range(600), k=rows)
        async with self.warming:
            await self.ask_first({"prompt": ids, "max_tokens": 1}, path="/v1/completions")

    async def ask_first(self, body, **how):
        """By the first tenant."""
        return await ask(self.server.port, body, key=self.tenants[0].key, **how)

    @contextlib.asynccontextmanager
    async def at_work(self):
        """A request is under way: there is a server, which is not started anew meanwhile."""
        await self.may_ask.wait()
        await self.up.wait()
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1

    async def disturbed(self, several, numbers):
        disturbers = [asyncio.create_task(self.restart_now_and_then() if self.stored else self.freeze_now_and_then())]
        await several(numbers)
        for one in disturbers:
            one.cancel()
        for ended in await asyncio.gather(*disturbers, return_exceptions=True):
            if isinstance(ended, Exception):
                self.fail(f"what disturbs the server ended with {ended!r}")
        if self.restarting is not None:
            await self.restarting
        self.may_ask.set()

    async def play(self, script):
        try:
            await script.run()
        except Wrong as wrong:
            self.fail(f"{type(script).__name__.lower()} {script.number} of {script.tenant.name}: {wrong}", script.log)

    def fail(self, what, log=()):
        self.failures.append({"what": what, "log": list(log)})

    def count(self, answer):
        self.figures[answer.outcome] += 1

    def planted(self, answer):
        """A fault that the harness must see, in one answer."""
        if self.plant is None or answer.outcome != "done" or not answer.choices[0].tokens:
            return answer
        fault, self.plant = self.plant, None
        if fault == "token":
            choice = answer.choices[0]
            choice.tokens[-1] = "," if choice.tokens[-1] != "," else "."
        elif fault == "prompt":
            answer.prompt_tokens += 1
        elif fault == "lost_end":
            answer.outcome, answer.terminals = "cut", 0
        elif fault == "second_end":
            answer.terminals += 1
        else:  # in all answers, or elsewhere
            self.plant = fault
            answer.cached_tokens += 16 * (fault == "found")
            if fault == "bits" and answer.choices[0].logprobs:
                answer.choices[0].logprobs[-1] -= 1e-9
        return answer

    # What is done to the server.

    async def freeze_now_and_then(self):
        frozen = self.server
        try:
            while True:
                await asyncio.sleep(self.random.uniform(3, 12))
                frozen.freeze()
                self.figures["frozen"] += 1
                await asyncio.sleep(self.random.uniform(0.5, 3))
                frozen.thaw()
        finally:
            frozen.thaw()

    async def restart_now_and_then(self):
        """In good order, between requests: every conversation is there again, with its KV."""
        while True:
            await asyncio.sleep(self.random.uniform(3, 8))
            self.may_ask.clear()
            while self.asking > 0:
                await asyncio.sleep(0.01)
            self.restarting = asyncio.ensure_future(self.restart())
            await asyncio.shield(self.restarting)
            self.may_ask.set()

    async def restart(self):
        await self.restore_figures()
        await self.metrics()
        self.preempted_before += self.preempted
        self.preempted = 0
        await asyncio.to_thread(self.server.stop)
        await self.look_at_files()
        self.server = await asyncio.to_thread(self.start)
        self.figures["restarted"] += 1

    async def restore_figures(self):
        """What the server that is there has read back; told once, before it goes."""
        if not self.stored:
            return
        now = await asyncio.to_thread(self.server.metrics)
        for name in ("restored", "failed"):
            self.figures[name + "_tokens"] += int(now[f"store_prompt_tokens_{name}_total"])
        self.figures["damaged_records"] += int(now["store_records_damaged_total"])

    async def kill_while_busy(self, turns):
        """Once some of so many turns are answered. With a store conversations then go on; without one each script
        begins anew with what it knows."""
        end = time.monotonic() + KILLED_WITHIN_S
        enough = self.figures["done"] + self.random.uniform(0.05, 0.3) * turns
        while self.figures["done"] < enough and time.monotonic() < end:
            await asyncio.sleep(0.05)
        if self.stored:
            self.durable_at = await self.durable()
            await asyncio.sleep(self.random.uniform(0, 0.5))
        await self.restore_figures()
        await self.metrics()
        self.generation += 1
        self.up.clear()
        self.server.kill()
        self.figures["killed"] += 1
        self.preempted_before += self.preempted
        self.preempted = 0
        try:
            await self.look_at_files()
            self.server = await asyncio.to_thread(self.start)
            await self.deleted_stay_so()
        finally:
            self.up.set()  # scripts wait for it, whatever became of the server

    async def durable(self):
        """The moment before. A session tells the store of a round before it tells the client of its end. The store
        answers the first question behind that, and the second one behind the commit."""
        moment = time.monotonic()
        for _ in range(2):
            status, use = await call(self.server.port, "GET", "/v1/store", key=self.tenants[0].key)
            if status != 200:
                self.fail(f"GET /v1/store gave {status} {use}")
        return moment

    async def deleted_stay_so(self):
        """What was deleted before the kill is not there after it."""
        if not self.stored:
            return
        for tenant in self.tenants:
            back = tenant.gone.intersection(await self.listed(tenant))
            if back:
                self.fail(f"conversations that {tenant.name} has deleted are there after a kill: {sorted(back)}")

    async def look_at_files(self):
        """While there is no server. In a plain store what scripts say must be found, so that looking finds it."""
        if not self.stored:
            return
        shown = await asyncio.to_thread(self.store.shows, await self.vocabulary.encode({"text": " " + MARK}))
        if not self.store.is_sealed:
            self.figures["shown_by_plain_files"] += len(shown)
        elif shown:
            self.fail(f"files of a sealed store show {', '.join(shown)}")

    async def drain(self, clients):
        """SIGTERM under load: each answer has one terminal event, and the server ends in time."""
        body = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": self.conversation_max - 50,
                "temperature": 0, "ignore_eos": True}
        asked = [asyncio.create_task(self.ask_first(body | {"stream": number % 3 > 0}))
                 for number in range(clients * 2)]
        while (await self.metrics())["num_requests_running"] == 0:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        self.server.process.terminate()
        try:
            status = await asyncio.to_thread(self.server.process.wait, DRAIN_S + 30)
        except Exception:
            self.server.kill()
            status = "none within 30 s of it"
        took = time.monotonic() - began
        answers = await asyncio.gather(*asked)
        ended = collections.Counter(answer.outcome for answer in answers)
        self.figures.update({f"drained_{outcome}": count for outcome, count in ended.items()})
        wrong = [answer.problem() for answer in answers if answer.problem() is not None]
        if wrong:
            self.fail(f"after SIGTERM {len(wrong)} of {len(answers)} answers had no one terminal event: {wrong[0]}")
        if status != 0 or took > DRAIN_S + 1:
            self.fail(f"after SIGTERM the server ended with {status} after {took:.1f} s; 0 in {DRAIN_S + 1} s must be")

    # What the server holds.

    async def metrics(self):
        now = await asyncio.to_thread(self.server.metrics)
        self.preempted = int(now["num_preemptions_total"])
        return now

    async def quiet(self):
        """Without clients nothing runs, waits or holds a block, and no conversation is left."""
        if self.stored:
            await self.compare_shares()
        for tenant in self.tenants:
            await self.delete_all(tenant)
        end, left = time.monotonic() + QUIET_S, {"something": 1}
        while left and time.monotonic() < end:
            await asyncio.sleep(0.2)
            now = await self.metrics()
            left = {name: now[name] for name in GONE if now.get(name, 0) != 0}
            if now["connections"] > 1:  # the one that asks
                left["connections"] = now["connections"]
        if self.plant == "blocks":
            left["kv_blocks_in_turns"] = 1
        if left:
            self.fail(f"without clients the server still has {left}")
        await self.fill_pool()
        await asyncio.sleep(0.5)  # the connections that asked are gone
        return {"fds": self.server.descriptors(), "rss_mib": round(self.server.rss_mib(), 1)}

    async def listed(self, tenant):
        """Ids of its conversations."""
        ids, path = [], "/v1/sessions?limit=100"
        while True:
            _, page = await call(self.server.port, "GET", path, key=tenant.key)
            ids += [one["id"] for one in page["data"]]
            if not page.get("has_more"):
                return ids
            path = f"/v1/sessions?limit=100&after={page['last_id']}"

    async def delete_all(self, tenant):
        """What scripts that failed have left, and requests whose client left before they were read."""
        while True:
            _, listed = await call(self.server.port, "GET", "/v1/sessions", key=tenant.key)
            if not listed["data"]:
                return
            for session in listed["data"]:
                await call(self.server.port, "DELETE", "/v1/sessions/" + session["id"], key=tenant.key)

    async def compare_shares(self):
        """What the tenants are told of the store must be all there is, each part told once. The bytes of all have the
        heads of segments too, which are nobody's."""
        end, told, there = time.monotonic() + QUIET_S, {}, {"something": 1}
        while told != there and time.monotonic() < end:
            await asyncio.sleep(0.2)
            told = collections.Counter()
            for tenant in self.tenants:
                _, own = await call(self.server.port, "GET", "/v1/store", key=tenant.key)
                told.update({name: own[name] for name in (*SHARES, "bytes")})
            now = await self.metrics()
            there = {name: int(now[metric]) for name, metric in SHARES.items()} | {"bytes": told["bytes"]}
            if not told["bytes"] <= now["store_bytes"] <= told["bytes"] + SEGMENT_HEADS_BYTES:
                there["bytes"] = int(now["store_bytes"])
        if told != there:
            self.fail(f"the tenants are told of {dict(told)} in the store; together it must be {there}")

    async def written(self):
        """All that turns have computed is on the disk."""
        before, now = None, await self.metrics()
        while now["store_queue"] > 0 or now["store_written_bytes_total"] != before:
            before = now["store_written_bytes_total"]
            await asyncio.sleep(0.2)
            now = await self.metrics()

    async def fill_pool(self):
        """A prompt as long as the pool: a block that anybody still holds, the prefix cache's own too, is missing."""
        ids = self.random.choices(range(600), k=self.room_tokens - POOL_LEFT_TOKENS)
        answer = await self.ask_first({"prompt": ids, "max_tokens": 1}, path="/v1/completions")
        if answer.outcome != "done":
            self.fail(f"a prompt of {len(ids)} tokens got {answer.message or answer.problem()}; it must be answered")

    def compare(self, before, after):
        for name in before:
            self.figures.update({f"{name}_before": before[name], f"{name}_after": after[name]})
        files = 64 if self.stored else 0  # of the store's manifest, and segments
        if after["fds"] > before["fds"] + files:
            self.fail(f"{after['fds']} descriptors without clients; {before['fds'] + files} may be")
        if after["rss_mib"] > before["rss_mib"] * 1.1 + 8:
            self.fail(f"{after['rss_mib']} MiB without clients after {before['rss_mib']}; a tenth and 8 more may be")
