"""A phase beside clients who hold on: idle connections, requests sent byte by byte, answers read a byte a second."""
import asyncio
import contextlib
import resource
import time

from abuse import drip_one, slow_reader
from http_client import head_and_body, read_head
from phase import Phase

IDLE = 10_000
DRIPS = 500
SLOW_READERS = 32
IDLE_S = 70  # the server closes an idle connection after 75 s, and none before


class Edges(Phase):
    """Its server has no keys."""

    async def warm_up(self):
        await super().warm_up()
        for _, writer in await self.open_idle("127.0.0.2"):
            writer.close()

    async def disturbed(self, several, numbers):
        opened = time.monotonic()
        idle = await self.open_idle("127.0.0.3")
        closed = []
        others = [asyncio.create_task(drip_one(self.server.port, 20, closed)) for _ in range(DRIPS)]
        others += [asyncio.create_task(slow_reader(self.server.port, 60)) for _ in range(SLOW_READERS)]
        before = len(self.failures)
        await several(numbers)
        self.figures.update({"idle_connections": len(idle), "slow_readers": SLOW_READERS,
                             "failures_beside_them": len(self.failures) - before})
        early = sum(reader.at_eof() for reader, _ in idle)
        if early and time.monotonic() - opened < IDLE_S:
            self.fail(f"{early} of {len(idle)} idle connections were closed within {IDLE_S} s")
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*others)
        self.figures["drips_closed"] = len(closed)
        if len(closed) != DRIPS:
            self.fail(f"{len(closed)} of {DRIPS} requests that came byte by byte were closed; all must be")

    async def open_idle(self, source):
        """From an address of their own: a client has 28,000 ports for a server, and each waits a minute when closed."""
        idle = []
        for _ in range(0, min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2000), 100):
            idle += await asyncio.gather(*(self.idle_connection(source) for _ in range(100)))
        return idle

    async def idle_connection(self, source):
        """One that has been served, and may be used again."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, local_addr=(source, 0))
        writer.write(head_and_body("GET", "/v1/models", None))
        with contextlib.suppress(asyncio.IncompleteReadError):
            _, headers = await read_head(reader)
            await reader.readexactly(int(headers["content-length"]))
        return reader, writer
