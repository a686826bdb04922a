"""`rondo serve` as a child process, and what can be seen of it from outside. Needs nothing but Python."""
import atexit
import os
import re
import signal
import subprocess
import urllib.request

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


class ServerProcess:
    """Listens on a free port of its own. Whoever starts one ends it, by `stop` or `kill`; else it ends with Python."""

    def __init__(self, program, *settings, drain_s=1, model=None, log=None):
        flags = [flag for setting in settings for flag in ("--set", setting)]
        if model is not None:
            flags += ["--model", model]
        self.process = subprocess.Popen([program, "serve", "--port", "0", "--quiet", "--drain-s", str(drain_s), *flags],
                                        stdout=subprocess.PIPE, stderr=log, text=True)
        atexit.register(self.process.kill)
        found = re.search(r":(\d+)/", self.process.stdout.readline())
        if found is None:
            raise SystemExit(f"{program} did not start: it must print its address (status {self.process.wait()})")
        self.port = int(found.group(1))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metrics(self):
        """Values by name without `rondo:`; request_success_total has name:reason."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.findall(r"^rondo:(\w+)\{([^}]*)\} (\S+)$", text, re.M)
        reason = re.compile(r'reason="(\w+)"')
        return {name + (":" + reason.search(labels).group(1) if "reason" in labels else ""): float(value)
                for name, labels, value in found if "le=" not in labels}
