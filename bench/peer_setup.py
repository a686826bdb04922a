"""What the comparisons with llama.cpp share: where programs and models lie, how they are made, and where tables go."""
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TOOLS = os.path.join(REPOSITORY, "tools")
PROGRAMS = os.environ.get("PROGRAMS_DIR", os.path.join(REPOSITORY, "build/bin"))
MODELS = os.environ.get("MODELS_DIR", "/tmp/models")
PEER_ROOT = os.path.join(os.environ.get("PEER_DIR", "/tmp/peer"), "sid")
RESULTS = os.path.join(REPOSITORY, "build/measurements")

# Bytes that a weight takes in the file.
BYTES_PER_WEIGHT = {"bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32, "q4_k": 144 / 256, "q6_k": 210 / 256}


@dataclass(frozen=True)
class Shape:
    """A model of random weights, as tools/make_model.py makes it, and the folder it lies in."""
    name: str
    folder: str
    options: tuple = ()

    def file(self, weights):
        return "model.gguf" if weights == "bf16" else f"{weights}.gguf"

    def path(self, weights):
        return os.path.join(MODELS, self.folder, self.file(weights))

    def peer_path(self, weights):
        """The same file, as programs in the peer's root see it."""
        return f"/models/{self.folder}/{self.file(weights)}"

    def config(self):
        with open(os.path.join(MODELS, self.folder, "config.json"), encoding="utf-8") as file:
            return json.load(file)


QWEN = Shape("qwen2-0.5b", "qwen05")
LLAMA = Shape("llama-1b", "llama1b")
MHA = Shape("llama-mha", "mha", ("--ctx", "40960"))


class Progress:
    """One line that is written over on a terminal; one line a step elsewhere."""

    def __init__(self, steps):
        self.steps, self.done = steps, 0

    def step(self, what):
        self.done += 1
        line = f"[{self.done}/{self.steps}] {what}"
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K" + line + ("\n" if self.done == self.steps else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def run(command, environment=None):
    env = os.environ | (environment or {})
    out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=env)
    if out.returncode != 0:
        lines = out.stderr.strip().splitlines() or ["no message"]
        raise SystemExit(f"{' '.join(command)}: status {out.returncode}: {lines[-1]}")
    return out.stdout


def in_peer(*command, environment=None):
    return run([os.path.join(TOOLS, "peer.sh"), "run", *command], environment)


def set_up_peer():
    """Installs llama.cpp, once; tells its version."""
    lines = run([os.path.join(TOOLS, "peer.sh"), "setup"]).splitlines()
    return ", ".join(" ".join(line.split("\t")) for line in lines)


def need_free(port):
    """Whoever listens there already would answer in place of the server that is to be measured."""
    with socket.socket() as other:
        if other.connect_ex(("127.0.0.1", port)) == 0:
            raise SystemExit(f"port {port} must be free: a server of another run may listen there")


def quantize(whole, path, kind):
    """One file of MODELS from another, by llama.cpp, unless it is there. What ends early leaves no part of it there."""
    if os.path.exists(path):
        return
    unfinished = path + ".unfinished"
    in_peer("llama-quantize", "--pure", *("/models" + name[len(MODELS):] for name in (whole, unfinished)), kind)
    os.rename(unfinished, path)


def make_model(shape, weights):
    """Writes the file, unless it is there; its bf16 first, from which llama.cpp makes the others."""
    if not os.path.exists(shape.path("bf16")):
        run([os.path.join(TOOLS, "make_model.py"), os.path.join(MODELS, shape.folder), "--shape", shape.name, "--dtype",
             "bf16", *shape.options])
    quantize(shape.path("bf16"), shape.path(weights), weights)


def machine_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown processor")


def commit():
    return run(["git", "describe", "--always", "--dirty"]).strip()


def save(name, text, figures):
    """Writes NAME.md and NAME.json to build/measurements; what is worth keeping goes into docs/performance.md by hand."""
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, name)
    with open(path + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=1)
    print(f"written: {os.path.relpath(path, REPOSITORY)}.md and .json", file=sys.stderr)
