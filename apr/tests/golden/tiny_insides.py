#!/usr/bin/env python3
"""Makes tiny_insides.json: what there is to see inside the tiny models, in 64-bit floats.

usage: pip install gguf numpy; apr/tests/golden/tiny_insides.py > apr/tests/golden/tiny_insides.json

From the forward pass of tiny_f64.py, with formulas of its own for attention (top positions, entropy,
tail mass, sink, recency of the last token), the logit lens (logit and rank after each layer, the layer
that decides), the norms of keys and values, and statistics of each layer's output.
"""

import json
import sys

import numpy as np
from tiny_f64 import HERE, MODELS, Model

TOP = 3
RECENT = 4


def attention(weights, window):
    """weights [heads, positions] of the last token."""
    report = []
    for row in weights:
        order = np.argsort(-row, kind="stable")[:TOP]
        some = row[row > 0]
        sees_all = len(row) <= window
        report.append(
            {
                "positions": int(min(len(row), window)),
                "top": [[int(i), row[i]] for i in order],
                "entropy_nats": float(np.sum(some * np.log(1 / some))),
                "tail_mass": 1 - row[order].sum(),
                "sink_share": row[0] if sees_all else None,
                "recent_share": row[-RECENT:].sum(),
            }
        )
    return report


def lens(model, token):
    after = [model.head(x[-1]) for x in model.stream]
    ranks = [int(np.count_nonzero(logits > logits[token])) + 1 for logits in after]
    held = [layer for layer in range(len(ranks)) if set(ranks[layer:]) == {1}]
    return {
        "token": token,
        "logits": [logits[token] for logits in after],
        "ranks": ranks,
        "deciding_layer": held[0] if held else None,
    }


def norms(rows):
    lengths = np.linalg.norm(rows, axis=-1)
    return [lengths.mean(), lengths.min(), lengths.max()]


def inside(model, tokens):
    final = model.logits(tokens)
    chosen = int(np.argmax(final))
    report = {"prompt_tokens": tokens, "chosen": chosen, "layers": []}
    for layer, (attended, x) in enumerate(zip(model.attended, model.stream)):
        local = model.arch == "gemma3" and layer % 6 < 5
        window = model.key("attention.sliding_window") if local else np.inf
        report["layers"].append(
            {
                "window": int(window) if local else None,
                "attention": attention(attended["weights"][:, -1], window),
                "k_norms": norms(attended["k"]),
                "v_norms": norms(attended["v"]),
                "output": [x.min(), x.max(), x.mean(), x.std()],
            }
        )
    report["lens"] = [lens(model, token) for token in (chosen, 1, 337)]
    return report


def rounded(value):
    if isinstance(value, float):
        return round(float(value), 7)
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def main():
    report = {"top": TOP, "recent": RECENT}
    for name, path in MODELS.items():
        model = Model(path)
        golden = json.loads((HERE / f"{name}.llama_cpp.json").read_text())
        prompts = {p["prompt"]: p["prompt_tokens"] for p in golden["prompts"]}
        wanted = ["hello world", "LONG"]
        report[name] = [{"prompt": p, **inside(model, prompts[p])} for p in wanted]
        print(name, file=sys.stderr)
    json.dump(rounded(report), sys.stdout)
    print()


main()
