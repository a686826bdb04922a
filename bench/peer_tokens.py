#!/usr/bin/python3
"""Greedy tokens of small random models, four ways: llama.cpp, tools/reference.py (float64), and Rondo from the Hugging
Face folder and from the GGUF file of the same float32 weights. All must be equal; the seeds are such that every chosen
token leads the next best by far more than float32 errs.

Then the files that llama-quantize makes of one of them, of every type that it knows and Rondo reads, whole and split in
three. Here llama.cpp and Rondo round activations to int8, each in its own way: they must agree with the reference up to
the first token whose lead is below the error that such rounding makes of logits (LEAD_QUANTIZED). Rondo's logits of
the prompt must be within ERROR_QUANTIZED of the reference's, and those of the split file the same bits.

  bench/peer_tokens.py [--count 64] [--rondo build/bin/rondo | --no-rondo]      needs root, for tools/peer.sh
"""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TOOLS = os.path.join(REPOSITORY, "tools")
sys.path.insert(0, TOOLS)
try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("numpy is missing; tools/peer.sh setup installs it")
from peer_setup import need_free  # noqa: E402
from gguf_files import read_gguf_model, split_gguf  # noqa: E402
from model_files import read_folder  # noqa: E402
from reference import Model  # noqa: E402

PORT = 18917
MODELS = {
    "llama": "--shape odd --seed 8",
    "llama-rope-llama3": "--shape odd --rope llama3 --rope-factor 4 --rope-original 32",
    "llama-rope-linear": "--shape odd --rope linear --rope-factor 2.5",
    "mistral": "--shape odd --arch mistral --tied",
    "qwen2": "--shape tiny",
    "qwen2-gqa7": "--shape tiny --dim 448 --heads 7 --kv 1 --head-dim 64 --untied",
    "qwen3": "--shape tiny --arch qwen3 --heads 4 --kv 2 --head-dim 128",
}
# Weights larger than in the models for timing, so that logits lie apart.
COMMON = "--dtype f32 --std 0.12 --ctx 2048"
PROMPT = list(b"Hello, world!\nThe secret")
QUANTIZED_FROM = "--shape tiny --dim 256 --heads 4 --kv 2 --head-dim 64 --ffn 512 --layers 2 --untied"
QUANTIZED = ["Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "IQ4_NL", "IQ4_XS", "Q4_0", "Q4_1", "Q4_K_S", "Q4_K_M", "Q5_0",
             "Q5_1", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0"]
LEAD_QUANTIZED = 0.25
ERROR_QUANTIZED = 5e-2  # what rounding activations costs here: 3.3e-2 for Q8_0, as for all others


def peer_command(*command):
    return [os.path.join(TOOLS, "peer.sh"), "run", *command]


def peer_tokens(file, count):
    """What llama-server answers to the same ids, with its KV in float32. `file` lies in the folder of models."""
    need_free(PORT)
    server = subprocess.Popen(
        peer_command("llama-server", "-m", f"/models/tokens/{file}", "--port", str(PORT), "-c", "1024",
                     "-np", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "2"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    body = {"prompt": PROMPT, "n_predict": count, "temperature": 0, "ignore_eos": True, "return_tokens": True,
            "cache_prompt": False, "repeat_penalty": 1.0}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        for _ in range(120):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return json.load(answer)["tokens"]
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None:
                    raise SystemExit(f"llama-server ended with status {server.returncode} on {file}") from None
                time.sleep(0.5)  # still loading
        raise SystemExit(f"llama-server does not answer on port {PORT}")
    finally:
        server.terminate()
        server.wait()


def rondo_tokens(program, model, count):
    ids = ",".join(map(str, PROMPT))
    command = [program, "generate", "--model", model, "--tokens", ids, "--max-tokens", str(count), "--temperature", "0",
               "--kv", "f32", "--ignore-eos", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode != 0:
        raise SystemExit(f"{program} generate --model {model}: {out.stderr.strip()}")
    return json.loads(out.stdout)["ids"]


def agreement(tokens, expected):
    for i, (mine, theirs) in enumerate(zip(tokens, expected)):
        if mine != theirs:
            return f"differs at {i}"
    return "equal" if len(tokens) == len(expected) else f"{len(tokens)} tokens"


def agreement_by_lead(tokens, expected, leads):
    """How far two agree before the reference itself is undecided."""
    for i, (mine, theirs) in enumerate(zip(tokens, expected)):
        if mine != theirs:
            return f"equal for {i} tokens" if leads[i] < LEAD_QUANTIZED else f"differs at {i}, lead {leads[i]:.2f}"
    return "equal"


def greedy_leads(model, count):
    """The reference's tokens, and by how much each leads the next best."""
    answer, leads = [], []
    for _ in range(count):
        last = model.logits(PROMPT + answer)[-1]
        second, first = np.partition(last, -2)[-2:]
        leads.append(first - second)
        answer.append(int(last.argmax()))
    return answer, leads


def rondo_logits(program, model, out):
    ids = ",".join(map(str, PROMPT))
    command = [program, "score", "--model", model, "--tokens", ids, "--kv", "f32", "--logits", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program} score --model {model}: {done.stderr.strip()}")
    return np.load(out)


def compare_quantized(folder, rondo, count):
    """Whether all files of quantized types agree as the text above says."""
    base = os.path.join(folder, "quantized")
    subprocess.run([os.path.join(TOOLS, "make_model.py"), base, *QUANTIZED_FROM.split(), *COMMON.split()], check=True)
    failed = False
    for name in QUANTIZED:
        path = os.path.join(base, name + ".gguf")
        subprocess.run(peer_command("llama-quantize", "/models/tokens/quantized/model.gguf",
                                    f"/models/tokens/quantized/{name}.gguf", name),
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        model = Model(*read_gguf_model(path))
        expected, leads = greedy_leads(model, count)
        parts = split_gguf(path, os.path.join(base, name), 3)
        results = {"llama.cpp": peer_tokens(f"quantized/{name}.gguf", count),
                   "llama.cpp split": peer_tokens(f"quantized/{parts[0]}", count)}
        if rondo:
            results["rondo"] = rondo_tokens(rondo, path, count)
            results["rondo split"] = rondo_tokens(rondo, os.path.join(base, parts[1]), count)
            logits = rondo_logits(rondo, path, os.path.join(base, "logits.npy"))
            of_parts = rondo_logits(rondo, os.path.join(base, parts[2]), os.path.join(base, "logits.npy"))
            error = np.linalg.norm(logits - model.logits(PROMPT)) / np.linalg.norm(logits)
            failed |= error > ERROR_QUANTIZED or not np.array_equal(logits, of_parts)
            print(f"{name:18} logits: relative error {error:.1e}, of the split file "
                  f"{'the same' if np.array_equal(logits, of_parts) else 'OTHERS'}", flush=True)
        verdicts = {who: agreement_by_lead(tokens, expected, leads) for who, tokens in results.items()}
        failed |= any(not verdict.startswith("equal") for verdict in verdicts.values())
        text = ", ".join(f"{who} {verdict}" for who, verdict in verdicts.items())
        print(f"{name:18} {len(set(expected)):3} different tokens, smallest lead {min(leads):.1e}: {text}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--rondo", default=os.path.join(REPOSITORY, "build/bin/rondo"))
    parser.add_argument("--no-rondo", action="store_true", help="compare the peer with the reference only")
    args = parser.parse_args()
    subprocess.run([os.path.join(TOOLS, "peer.sh"), "setup"], check=True, stdout=subprocess.DEVNULL)
    folder = os.path.join(os.environ.get("MODELS_DIR", "/tmp/models"), "tokens")

    failed = False
    for name, options in MODELS.items():
        model = os.path.join(folder, name)
        subprocess.run([os.path.join(TOOLS, "make_model.py"), model, *options.split(), *COMMON.split()], check=True)
        expected, lead = Model(*read_folder(model)).greedy(PROMPT, args.count)
        results = {"llama.cpp": peer_tokens(f"{name}/model.gguf", args.count)}
        if not args.no_rondo:
            results["rondo folder"] = rondo_tokens(args.rondo, model, args.count)
            results["rondo gguf"] = rondo_tokens(args.rondo, os.path.join(model, "model.gguf"), args.count)
        verdicts = {who: agreement(tokens, expected) for who, tokens in results.items()}
        failed |= any(verdict != "equal" for verdict in verdicts.values())
        text = ", ".join(f"{who} {verdict}" for who, verdict in verdicts.items())
        print(f"{name:18} {len(set(expected)):3} different tokens, smallest lead {lead:.1e}: {text}", flush=True)
    failed |= compare_quantized(folder, None if args.no_rondo else args.rondo, args.count)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
