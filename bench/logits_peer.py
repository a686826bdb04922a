#!/usr/bin/python3
"""Errors of logits beside llama.cpp's, on the same files and the same tokens: both against tools/reference.py, which
computes in float64 with the weights as they are dequantized, so that only the engines' own rounding is left.

  bench/logits_peer.py [--only NAME,NAME] [--threads N] [--no-save]

The llama-mha shape has random weights of every type; of the demo model, which was trained, perplexity is told too. Rondo
computes each text in one chunk, and once more token by token. KV is float32 on both sides, so that weights are what is
compared. llama.cpp writes its log-probabilities with 16 bits each; a row of theirs ends 16 below its greatest. Needs root
(tools/peer.sh) and 6 GB in MODELS_DIR. Writes build/measurements/logits-peer-DATE.md and .json; ends with 1 where
Rondo's error is above llama.cpp's by more than 5%.
"""
import argparse
import datetime
import json
import os
import random
import sys

from peer_setup import (MHA, MODELS, PROGRAMS, REPOSITORY, TOOLS, Progress, commit, in_peer, machine_name, make_model, run,
                        save, set_up_peer)

sys.path[:0] = [TOOLS, os.path.join(TOOLS, "demo_model")]
CONTEXT = 128  # tokens of a text; llama-perplexity tells of its second half
TEXTS = 2
CLIP = 15.0  # below a row's greatest log-probability: what llama.cpp's file cannot hold
ALLOWED = 1.05
TYPES = {"llama-mha": ["bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q4_k", "q5_k", "q6_k",
                       "iq4_nl", "iq4_xs"],
         "demo": ["bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]}
FILE_NAMES = {"q4_k": "q4_k_s", "q5_k": "q5_k_s"}  # as llama-quantize calls them


def make_demo():
    """The demo model as GGUF. Its marks are tokens of a user's own, which llama.cpp finds in plain text."""
    from make_model import gguf_metadata, gguf_tensors
    from model_files import read_folder, write_gguf
    folder = os.path.join(REPOSITORY, "examples/demo_model")
    path = os.path.join(MODELS, "demo", "model.gguf")
    if os.path.exists(path):
        return
    config, tensors = read_folder(folder)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokens = [text for text, _ in sorted(tokenizer["model"]["vocab"].items(), key=lambda one: one[1])]
    marks = {one["id"] for one in tokenizer["added_tokens"]}
    metadata = gguf_metadata(config | {"bos_token_id": config["eos_token_id"]}, "demo", "bf16", tokens,
                             tokenizer["model"]["merges"])
    metadata["tokenizer.ggml.token_type"] = [4 if i in marks else 1 for i in range(len(tokens))]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_gguf(path, metadata, gguf_tensors(config, tensors), "bf16")


def text_of(model):
    """More than both texts need: letters for random weights, dialogues for those that were trained on them."""
    if model == "demo":
        import roundtalk
        return "".join(roundtalk.render(roundtalk.dialogue(seed, 6)) for seed in range(9_000_000, 9_000_012))
    draw = random.Random(11)
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz .,;0123456789", k=8 * CONTEXT * TEXTS))


def quantized(model, kind):
    """The file's path here and as llama.cpp sees it; made when it is not there."""
    folder = "mha" if model == "llama-mha" else "demo"
    name = "model.gguf" if kind == "bf16" else f"{kind}.gguf"
    if not os.path.exists(os.path.join(MODELS, folder, name)):
        in_peer("llama-quantize", "--pure", f"/models/{folder}/model.gguf", f"/models/{folder}/{name}",
                FILE_NAMES.get(kind, kind))
    return os.path.join(MODELS, folder, name), f"/models/{folder}/{name}"


def of_peer(model, peer_path, threads):
    """Tokens [TEXTS][CONTEXT], and llama.cpp's log-probabilities [TEXTS][rows][vocabulary] of the second halves."""
    import numpy as np
    with open(os.path.join(MODELS, "text.txt"), "w", encoding="utf-8") as file:
        file.write(text_of(model))
    out = os.path.join(MODELS, "peer.logits")
    in_peer("llama-perplexity", "-m", peer_path, "-f", "/models/text.txt", "-c", str(CONTEXT), "-b", str(CONTEXT),
            "--chunks", str(TEXTS), "-t", str(threads), "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--no-warmup",
            "--save-all-logits", "/models/peer.logits")
    data = np.fromfile(out, np.uint8)
    os.remove(out)
    if data[:8].tobytes() != b"_logits_":
        raise SystemExit("llama-perplexity wrote another format than is known here")
    context, vocabulary, texts = data[8:20].view(np.int32)
    tokens = data[20:20 + 4 * texts * context].view(np.int32).reshape(texts, context)
    rows = context - 1 - context // 2
    body = data[20 + 4 * texts * context:].view(np.uint16).reshape(texts, rows, -1)
    head = np.ascontiguousarray(body[..., :4]).view(np.float32).astype(np.float64)
    codes = body[..., 4:4 + vocabulary].astype(np.float64)
    return tokens, codes * head[..., :1] + head[..., 1:2]


def of_rondo(path, tokens, chunk, threads):
    import numpy as np
    out = os.path.join(MODELS, "rondo.npy")
    logits = []
    for ids in tokens:
        run([os.path.join(PROGRAMS, "rondo"), "score", "--model", path, "--tokens", ",".join(map(str, ids)), "--kv", "f32",
             "--chunk", str(chunk), "--threads", str(threads), "--logits", out])
        logits.append(np.load(out))
    os.remove(out)
    return log_softmax(np.stack(logits))


def log_softmax(logits):
    import numpy as np
    logits = logits.astype(np.float64)[:, CONTEXT // 2:CONTEXT - 1]
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def errors(found, reference, tokens):
    """Root mean square of the log-probabilities' error, KL of the reference to what was found, perplexity."""
    import numpy as np
    held = reference > reference.max(axis=-1, keepdims=True) - CLIP
    rms = float(np.sqrt(np.mean((found - reference)[held] ** 2)))
    kl = float(np.mean(np.sum(np.exp(reference) * (reference - found) * held, axis=-1)))
    next_ids = tokens[:, CONTEXT // 2 + 1:]
    chosen = np.take_along_axis(found, next_ids[..., None].astype(np.int64), axis=-1)
    return {"rms": rms, "kl": kl, "perplexity": float(np.exp(-chosen.mean()))}


def measure(model, kind, threads):
    import numpy as np
    from gguf_files import read_gguf_model
    from reference import Model
    path, peer_path = quantized(model, kind)
    tokens, theirs = of_peer(model, peer_path, threads)
    exact = Model(*read_gguf_model(path))
    reference = log_softmax(np.stack([exact.logits(list(ids)) for ids in tokens]))
    bulk, single = (of_rondo(path, tokens, chunk, threads) for chunk in (CONTEXT, 1))
    result = {name: errors(found, reference, tokens)
              for name, found in (("reference", reference), ("rondo", bulk), ("rondo by token", single), ("llama.cpp", theirs))}
    result["bulk beside single"] = float(np.sqrt(np.mean((bulk - single) ** 2)))
    return result


def row(model, kind, result):
    ours, single, theirs = result["rondo"], result["rondo by token"], result["llama.cpp"]
    perplexity = "–" if model != "demo" else (f"{result['reference']['perplexity']:.4f}, {ours['perplexity']:.4f}, "
                                              f"{theirs['perplexity']:.4f}")
    return (f"| {model}, {kind} | {ours['rms']:.2e} | {single['rms']:.2e} | {theirs['rms']:.2e} | "
            f"{ours['rms'] / theirs['rms']:.2f} | {ours['kl']:.1e} | {theirs['kl']:.1e} | "
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
        f"{TEXTS} texts of {CONTEXT} tokens, the second half of each. Log-probabilities: root mean square of the error, and KL.",
        "", "| model, weights | Rondo | by token | llama.cpp | ratio | KL, Rondo | llama.cpp | one chunk beside by token |"
        " perplexity: float64, Rondo, llama.cpp |",
        "|---|---|---|---|---|---|---|---|---|",
        *(row(*name.split("/"), result) for name, result in results.items()), ""])
    print(text)
    if not args.no_save:
        save(f"logits-peer-{today}", text, results)
    worse = [name for name, one in results.items() if one["rondo"]["rms"] > ALLOWED * one["llama.cpp"]["rms"]]
    if worse:
        raise SystemExit(f"Rondo's error is above llama.cpp's: {', '.join(worse)}")


if __name__ == "__main__":
    main()
