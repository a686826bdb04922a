#!/usr/bin/python3
"""Errors of logits beside llama.cpp's, on the same files and the same tokens: both against tools/reference.py, which
computes in float64 with the weights as they are dequantized, so that only the engines' own rounding is left.

  bench/logits_peer.py [--only NAME,NAME] [--threads N] [--no-save]

The llama-mha shape has random weights of every type; of the demo model, which was trained, perplexity is told too.
Rondo computes each text in one chunk, and once more token by token; llama-server computes each prompt that ends in a row
that is compared, and tells the log-probabilities of all tokens that could follow. KV is float32 on both sides, so that
weights are what is compared. Ratios of errors hang on chance, so each has an interval that holds 95% of its values on
texts drawn anew from these. Needs root (tools/peer.sh) and 6 GB in MODELS_DIR. Writes
build/measurements/logits-peer-DATE.md and .json. Ends with 1 where Rondo's error is above llama.cpp's: where a ratio's
interval lies above 1, of one chunk or token by token.
"""
import argparse
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from peer_setup import (MHA, MODELS, PROGRAMS, REPOSITORY, TOOLS, Progress, commit, machine_name, make_model, need_free,
                        quantize, run, save, set_up_peer)

sys.path[:0] = [TOOLS, os.path.join(TOOLS, "demo_model")]
CONTEXT = 128  # tokens of a text
TEXTS = {"llama-mha": 4, "demo": 12}  # with fewer, chance moves the ratios by more than 5%
DRAWS = 2000
ROWS = {"llama-mha": range(47, CONTEXT - 1, 10), "demo": range(63, CONTEXT - 1)}  # of a text, that are compared
PORT = 18921
TYPES = {"llama-mha": ["bf16", "f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q4_k", "q5_k", "q6_k",
                       "iq4_nl", "iq4_xs"],
         "demo": ["bf16", "f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]}
FILE_NAMES = {"q4_k": "q4_k_s", "q5_k": "q5_k_s"}  # as llama-quantize calls them


def make_demo():
    """The demo model as GGUF."""
    from make_model import gguf_metadata, gguf_tensors
    from model_files import read_folder, write_gguf
    folder = os.path.join(REPOSITORY, "examples/demo_model")
    path = os.path.join(MODELS, "demo", "model.gguf")
    if os.path.exists(path):
        return
    config, tensors = read_folder(folder)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)["model"]
    tokens = [text for text, _ in sorted(tokenizer["vocab"].items(), key=lambda one: one[1])]
    config["bos_token_id"] = config["eos_token_id"]
    metadata = gguf_metadata(config, "demo", "bf16", tokens, tokenizer["merges"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_gguf(path, metadata, gguf_tensors(config, tensors), "bf16")


def texts_of(model):
    """Ids of the texts: any for random weights, dialogues for those that were trained on them."""
    if model == "demo":
        import roundtalk
        ids = []
        for seed in range(9_000_000, 9_000_000 + TEXTS[model]):
            text = roundtalk.render(roundtalk.dialogue(seed, 8))
            ids.append(json.loads(run([os.path.join(PROGRAMS, "rondo"), "tokenize", "--text", text, "--json"]))["ids"])
        return [one[:CONTEXT] for one in ids]
    draw = random.Random(11)
    return [[draw.randrange(256) for _ in range(CONTEXT)] for _ in range(TEXTS[model])]


def quantized(model, kind):
    """The file's path here and as llama.cpp sees it; made when it is not there."""
    folder = "mha" if model == "llama-mha" else "demo"
    name = "model.gguf" if kind == "bf16" else f"{kind}.gguf"
    quantize(os.path.join(MODELS, folder, "model.gguf"), os.path.join(MODELS, folder, name), FILE_NAMES.get(kind, kind))
    return os.path.join(MODELS, folder, name), f"/models/{folder}/{name}"


def of_peer(peer_path, tokens, rows, threads):
    """llama-server's log-probabilities [texts, rows, vocabulary]."""
    import numpy as np
    command = [os.path.join(TOOLS, "peer.sh"), "run", "llama-server", "-m", peer_path, "--port", str(PORT),
               "-c", "1024", "-np", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", str(threads),
               "-tb", str(threads)]
    need_free(PORT)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        found = [[ask_peer(server, list(map(int, ids[:row + 1]))) for row in rows] for ids in tokens]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    return np.array(found)


def ask_peer(server, prompt):
    body = {"prompt": prompt, "n_predict": 1, "n_probs": 1_000_000, "temperature": 0, "cache_prompt": False}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    for _ in range(240):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                told = json.load(answer)["completion_probabilities"][0]["top_logprobs"]
            row = [0.0] * len(told)
            for one in told:
                row[one["id"]] = one["logprob"]
            return row
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None:
                raise SystemExit(f"llama-server ended with status {server.returncode}") from None
            time.sleep(0.5)  # still loading
    raise SystemExit(f"llama-server does not answer at port {PORT}")


def of_rondo(path, tokens, rows, chunk, threads):
    import numpy as np
    out = os.path.join(MODELS, "rondo.npy")
    logits = []
    for ids in tokens:
        run([os.path.join(PROGRAMS, "rondo"), "score", "--model", path, "--tokens", ",".join(map(str, ids)),
             "--kv", "f32", "--chunk", str(chunk), "--threads", str(threads), "--logits", out])
        logits.append(np.load(out))
    os.remove(out)
    return log_softmax(np.stack(logits), rows)


def log_softmax(logits, rows):
    import numpy as np
    logits = logits.astype(np.float64)[:, list(rows)]
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def errors(found, reference, following):
    """Root mean square of the log-probabilities' error, KL of the reference to what was found, perplexity."""
    import numpy as np
    chosen = np.take_along_axis(found, following[..., None], axis=-1)
    return {"rms": float(np.sqrt(np.mean((found - reference) ** 2))),
            "kl": float(np.mean(np.sum(np.exp(reference) * (reference - found), axis=-1))),
            "perplexity": float(np.exp(-chosen.mean()))}


def ratio_of(ours, theirs, reference):
    """Our error over theirs, and the interval that holds 95% of it on texts drawn anew from these."""
    import numpy as np
    squares = [np.mean((one - reference) ** 2, axis=(1, 2)) for one in (ours, theirs)]  # by text
    drawn = np.random.default_rng(1).integers(0, len(reference), (DRAWS, len(reference)))
    ratios = np.sqrt(squares[0][drawn].sum(axis=1) / squares[1][drawn].sum(axis=1))
    return [float(np.sqrt(squares[0].sum() / squares[1].sum())), *map(float, np.quantile(ratios, [0.025, 0.975]))]


def measure(model, kind, threads):
    import numpy as np
    from gguf_files import read_gguf_model
    from reference import Model
    path, peer_path = quantized(model, kind)
    tokens, rows = np.array(texts_of(model)), ROWS[model]
    exact = Model(*read_gguf_model(path))
    reference = log_softmax(np.stack([exact.logits(list(ids)) for ids in tokens]), rows)
    bulk, single = (of_rondo(path, tokens, rows, chunk, threads) for chunk in (CONTEXT, 1))
    theirs = of_peer(peer_path, tokens, rows, threads)
    following = tokens[:, [row + 1 for row in rows]]
    every = {"reference": reference, "rondo": bulk, "rondo by token": single, "llama.cpp": theirs}
    result = {name: errors(found, reference, following) for name, found in every.items()}
    result["ratio"] = ratio_of(bulk, theirs, reference)
    result["ratio by token"] = ratio_of(single, theirs, reference)
    result["bulk beside single"] = float(np.sqrt(np.mean((bulk - single) ** 2)))
    return result


def interval(ratio):
    return "{:.2f} ({:.2f} to {:.2f})".format(*ratio)


def row(model, kind, result):
    ours, single, theirs = result["rondo"], result["rondo by token"], result["llama.cpp"]
    perplexity = "–" if model != "demo" else (f"{result['reference']['perplexity']:.4f}, {ours['perplexity']:.4f}, "
                                              f"{theirs['perplexity']:.4f}")
    return (f"| {model}, {kind} | {ours['rms']:.2e} | {single['rms']:.2e} | {theirs['rms']:.2e} | "
            f"{interval(result['ratio'])} | {interval(result['ratio by token'])} | {ours['kl']:.1e} | {theirs['kl']:.1e} | "
            f"{result['bulk beside single']:.1e} | {perplexity} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="MODEL/TYPE, separated by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-save", action="store_true", help="print the table only")
    args = parser.parse_args()
    every = [(model, kind) for model, kinds in TYPES.items() for kind in kinds]
    chosen = [one for one in every if not args.only or "/".join(one) in args.only.split(",")]
    if not chosen:
        parser.error(f"--only {args.only}: none of {', '.join('/'.join(one) for one in every)}")
    progress = Progress(1 + len(chosen))
    progress.step("setting up llama.cpp and the models")
    version = set_up_peer()
    make_model(MHA, "bf16")
    make_demo()
    results = {}
    for model, kind in chosen:
        progress.step(f"{model}, {kind}")
        results[f"{model}/{kind}"] = measure(model, kind, args.threads)
    today = datetime.date.today().isoformat()
    text = "\n".join([
        f"# Errors of logits: Rondo and llama.cpp, {today}", "",
        f"{machine_name()}; {version}; Rondo {commit()}. Against float64 with the dequantized weights; KV in float32;",
        f"rows of {TEXTS['llama-mha']} texts (demo: {TEXTS['demo']}) of {CONTEXT} tokens. Log-probabilities: root mean",
        "square of the error, and KL. Ratios have the interval that holds 95% of them on texts drawn anew.",
        "",
        "| model, weights | Rondo | by token | llama.cpp | ratio | by token | KL, Rondo | llama.cpp | one chunk beside by token |"
        " perplexity: float64, Rondo, llama.cpp |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(*name.split("/"), result) for name, result in results.items()), ""])
    print(text)
    if not args.no_save:
        save(f"logits-peer-{today}", text, results)
    worse = [name for name, one in results.items() if max(one["ratio"][1], one["ratio by token"][1]) > 1.0]
    if worse:
        raise SystemExit(f"Rondo's error is above llama.cpp's: {', '.join(worse)}")


if __name__ == "__main__":
    main()
