"""Clients who have tools called and chain responses, leave in the middle, delete what others go on with, all at once."""
import collections
import http.client
import json
import os
import random
import shutil
import tempfile
import threading
import time

from server_process import REPOSITORY, ServerProcess

ARGUMENTS = {"type": "object",
             "properties": {"zone": {"enum": ["CET", "UTC"]}, "n": {"type": "integer", "minimum": 1, "maximum": 9}},
             "required": ["zone", "n"], "additionalProperties": False}
CLOCK = {"name": "clock", "parameters": ARGUMENTS}


def calling_model():
    """The demo model with a template that writes calls, in a folder of its own."""
    demo, folder = os.path.join(REPOSITORY, "examples/demo_model"), tempfile.mkdtemp(prefix="rondo-calling-")
    for name in os.listdir(demo):
        os.symlink(os.path.join(demo, name), os.path.join(folder, name))
    shutil.copy(os.path.join(REPOSITORY, "tests/fixtures/demo_tools.jinja"), os.path.join(folder, "chat_template.jinja"))
    return folder


class Client:
    """One of several; what it did is counted, and what did not hold is told."""

    def __init__(self, port, seed, kept):
        self.port, self.kept, self.random = port, kept, random.Random(seed)
        self.counts, self.wrong = collections.Counter(), []

    def ask(self, method, path, body=None, leaves_behind=None):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            client.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            answer = client.getresponse()
            self.counts[f"status_{answer.status}"] += 1
            if answer.status >= 500:
                self.wrong.append(f"{path} was answered with {answer.status}")
            return answer.status, answer.read(leaves_behind) if leaves_behind else answer.read()
        finally:
            client.close()

    def check(self, arguments):
        given = json.loads(arguments)
        if set(given) != {"zone", "n"} or given["zone"] not in ("CET", "UTC") or not 1 <= given["n"] <= 9:
            self.wrong.append(f"arguments {arguments}")
        self.counts["calls"] += 1

    def chat(self, leaves):
        body = {"messages": [{"role": "user", "content": f"Time {self.random.randrange(99)}?"}], "stream": leaves,
                "tools": [{"type": "function", "function": CLOCK}], "tool_choice": "required", "n": self.random.choice([1, 1, 3]),
                "parallel_tool_calls": self.random.random() < 0.5, "max_tokens": self.random.choice([5, 40, 400]), "temperature": 2}
        status, answer = self.ask("POST", "/v1/chat/completions", body, self.random.randrange(1, 3000) if leaves else None)
        for choice in json.loads(answer)["choices"] if status == 200 and not leaves else []:
            calls = choice["message"].get("tool_calls", [])
            for call in calls if choice["finish_reason"] == "tool_calls" else calls[:-1]:
                self.check(call["function"]["arguments"])

    def respond(self, leaves):
        body = {"input": "Time?", "tools": [{"type": "function", **CLOCK}], "parallel_tool_calls": False,
                "tool_choice": self.random.choice(["auto", "required", "none"]), "max_output_tokens": 200, "stream": leaves, "store": self.random.random() < 0.8}
        if self.kept and self.random.random() < 0.8:
            body["previous_response_id"] = self.random.choice(self.kept[-20:])
        status, answer = self.ask("POST", "/v1/responses", body, self.random.randrange(1, 4000) if leaves else None)
        if status != 200 or leaves:
            return
        response = json.loads(answer)
        for item in response["output"]:
            if item["type"] == "function_call" and item["status"] == "completed":
                self.check(item["arguments"])
        if response["store"]:
            self.kept.append(response["id"])

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kind = self.random.randrange(5)
            if kind < 2:
                self.chat(leaves=kind == 1)
            elif kind < 4:
                self.respond(leaves=kind == 3)
            elif self.kept:
                self.ask("DELETE", "/v1/responses/" + self.random.choice(self.kept[-20:]))


def calls(program, seconds=20, clients=12):
    """Figures, and whether everything held: valid arguments, no error of the server's, nothing under way at the end."""
    folder, kept = calling_model(), []
    server = ServerProcess(program, "memory.device_kv_mib=24", "server.conversations_max=40", model=folder)
    try:
        all_clients = [Client(server.port, seed, kept) for seed in range(clients)]
        threads = [threading.Thread(target=client.run, args=(seconds,)) for client in all_clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)
        now = server.metrics()
        figures = dict(sorted(sum((client.counts for client in all_clients), collections.Counter()).items()))
        wrong = [what for client in all_clients for what in client.wrong]
        figures |= {"wrong": wrong[:3], "under_way": now["num_requests_running"] + now["num_requests_waiting"]}
        return figures, not wrong and figures["under_way"] == 0 and figures.get("calls", 0) > 0 and server.process.poll() is None
    finally:
        server.stop()
        shutil.rmtree(folder)
