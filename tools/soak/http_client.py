"""One request to a server of ours: an answer read event by event, and what is wrong with how it came."""
import asyncio
import dataclasses
import json
import socket
import struct

HANG_S = 180  # a request that takes longer hangs: nothing here takes a tenth of it


@dataclasses.dataclass
class Choice:
    text: str = ""
    tokens: list = dataclasses.field(default_factory=list)  # as JSON shows them; bytes that are no UTF-8 look alike
    spelled: list = dataclasses.field(default_factory=list)  # the bytes of each; chat only
    logprobs: list = dataclasses.field(default_factory=list)
    tops: list = dataclasses.field(default_factory=list)  # completions only: token -> logprob
    finish: str = ""
    finishes: int = 0

    def add(self, choice):
        self.text += choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        logprobs = choice.get("logprobs") or {}
        for entry in logprobs.get("content") or []:
            self.tokens.append(entry["token"])
            self.spelled.append(bytes(entry["bytes"]))
            self.logprobs.append(entry["logprob"])
        self.tokens += logprobs.get("tokens") or []
        self.logprobs += logprobs.get("token_logprobs") or []
        self.tops += logprobs.get("top_logprobs") or []
        if choice.get("finish_reason") is not None:
            self.finish = choice["finish_reason"]
            self.finishes += 1


@dataclasses.dataclass
class Answer:
    """`outcome`: done, error (also by an event of a stream), left (by us), cut (no terminal event) or hung."""
    outcome: str = "cut"
    status: int = 0
    choices: list = dataclasses.field(default_factory=list)
    prompt_tokens: int = -1
    cached_tokens: int = 0
    restored_tokens: int = 0
    recomputed_tokens: int = -1
    broken: str = ""  # what the connection ended with, where that was no orderly end
    preemptions: int = 0
    code: str = ""
    message: str = ""
    terminals: int = 0
    events: int = 0

    def take(self, body):
        """A whole body or one event's."""
        if "error" in body:
            self.outcome, self.code, self.message = "error", str(body["error"]["code"]), body["error"]["message"]
            return
        for choice in body.get("choices", []):
            self.choices[choice["index"]].add(choice)
        if usage := body.get("usage"):
            self.prompt_tokens = usage["prompt_tokens"]
            came = usage["prompt_tokens_details"]
            self.cached_tokens, self.restored_tokens = came["cached_tokens"], came["restored_tokens"]
            self.recomputed_tokens = came["recomputed_tokens"]
        self.preemptions += body.get("timings", {}).get("preemptions", 0)

    def event(self, data):
        self.events += 1
        if data == b"[DONE]":
            self.terminals += 1
            self.outcome = "done"
            return
        body = json.loads(data)
        self.terminals += "error" in body
        self.take(body)

    def problem(self):
        """What no server may do, or None."""
        if self.outcome == "hung":
            return f"no end after {HANG_S} s"
        if self.outcome == "cut":
            return "the connection ended without a terminal event" + (f": {self.broken}" if self.broken else "")
        if self.outcome != "left" and self.terminals != 1:
            return f"{self.terminals} terminal events"
        if self.outcome == "done" and any(choice.finishes != 1 for choice in self.choices):
            return f"finish reasons by choice: {[choice.finishes for choice in self.choices]}; each must have one"
        return None


def head_and_body(method, path, body, key=None):
    data = b"" if body is None else json.dumps(body).encode()
    who = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{who}Content-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


async def read_head(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:] if ": " in line)


async def chunks(reader):
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        chunk = (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return
        yield chunk


async def call(port, method, path, body=None, key=None):
    """Status and JSON of a plain request, with a tenant's key. A server that is gone is an OSError or EOFError."""
    async def exchange():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head_and_body(method, path, body, key))
            status, headers = await read_head(reader)
            data = await reader.readexactly(int(headers["content-length"]))
            return status, json.loads(data) if headers.get("content-type", "").startswith("application/json") else data
        finally:
            writer.close()
    return await asyncio.wait_for(exchange(), HANG_S)


async def ask(port, body, path="/v1/chat/completions", leave=None, pause_s=0.0, key=None):
    """`leave` = (events, "close" or "reset"): the client goes after so many events, before the first for 0. `pause_s`
    is taken between events. Whatever becomes of it, there is an Answer."""
    answer = Answer(choices=[Choice() for _ in range(body.get("n", 1))])
    try:
        request = head_and_body("POST", path, body, key)
        await asyncio.wait_for(exchange_answer(answer, port, request, leave, pause_s), HANG_S)
    except asyncio.TimeoutError:
        answer.outcome = "hung"
    except (OSError, asyncio.IncompleteReadError) as error:
        answer.broken = repr(error)  # what has come until then says how it ended
    return answer


def hang_up(writer, reset):
    """By FIN, or by reset."""
    if reset:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def exchange_answer(answer, port, request, leave, pause_s):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        if leave is not None and leave[0] == 0:
            answer.outcome = "left"
            return
        answer.status, headers = await read_head(reader)
        if "chunked" not in headers.get("transfer-encoding", ""):
            data = json.loads(await reader.readexactly(int(headers["content-length"])))
            answer.outcome = "done" if answer.status == 200 else "error"
            answer.terminals = 1
            answer.take(data)
            return
        rest = b""
        async for chunk in chunks(reader):
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                answer.event(event.removeprefix(b"data: "))
                if leave is not None and answer.events >= leave[0] and answer.terminals == 0:
                    answer.outcome = "left"
                    return
                if pause_s:
                    await asyncio.sleep(pause_s)
    finally:
        hang_up(writer, reset=leave is not None and leave[1] == "reset" and answer.outcome == "left")
