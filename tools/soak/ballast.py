"""Long answers beside those that are tested, which hold places."""
import asyncio
import contextlib

from http_client import ask, call

TOKENS = 900


class Ballast:
    """Keeps so many answers running until it is left."""

    def __init__(self, server, running):
        self.server, self.running = server, running

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(self.answer_again(number)) for number in range(self.running)]
        await self.ready()
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for number in range(self.running):
            await self.delete(number)
        while (await asyncio.to_thread(self.server.metrics))["num_requests_running"] > 0:
            await asyncio.sleep(0.002)

    async def ready(self):
        while (await asyncio.to_thread(self.server.metrics))["num_requests_running"] < self.running:
            await asyncio.sleep(0.002)

    async def answer_again(self, number):
        while True:
            await ask(self.server.port, {"messages": [{"role": "user", "content": f"Hello {number}!"}], "stream": True,
                                         "max_tokens": TOKENS, "ignore_eos": True, "conversation": f"ballast-{number}"})
            await self.delete(number)

    async def delete(self, number):
        with contextlib.suppress(OSError, EOFError):
            await call(self.server.port, "DELETE", f"/v1/sessions/ballast-{number}")
