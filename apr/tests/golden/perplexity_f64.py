#!/usr/bin/env python3
"""Makes perplexity_f64.json: perplexities from a plain forward pass in 64-bit floats.

usage: pip install gguf numpy llama-cpp-python
       apr/tests/golden/perplexity_f64.py GEMMA > apr/tests/golden/perplexity_f64.json

Of perplexity.txt under the tiny models, and of the first two chunks of the GNU General Public License,
version 3 (as Debian has it), under the Gemma file that tests/fetch-models fetches.

llama.cpp makes the tokens, the forward pass of tiny_f64.py the logits; what follows from them is
written here from the definition that llama.cpp's llama-perplexity documents: the text without its
last line break is cut into chunks, BOS takes the place of each chunk's first token where the vocabulary
begins texts with it (all of these do; tiny-llama is there once as if it did not), and the second half of
each chunk is scored.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from llama_cpp import Llama
from tiny_f64 import HERE, MODELS, Model

LICENCE = Path("/usr/share/common-licenses/GPL-3")


def chunk_nll(model, chunk):
    """Negative log-likelihoods of the second half, in nats."""
    model.logits(chunk)
    nll = []
    for i in range(len(chunk) // 2, len(chunk) - 1):
        logits = model.head(model.stream[-1][i])
        nll.append(np.log(np.exp(logits).sum()) - logits[chunk[i + 1]])
    return nll


def measure(path, file, ctx, n_chunks=None, adds_bos=True):
    text = file.read_bytes()
    vocab = Llama(str(path), vocab_only=True, verbose=False)
    tokens = vocab.tokenize(text.removesuffix(b"\n"), add_bos=adds_bos, special=False)
    model, nll, running = Model(path), [], []
    for start in range(0, len(tokens) - ctx + 1, ctx)[:n_chunks]:
        chunk = tokens[start : start + ctx]
        if adds_bos:
            chunk[0] = vocab.token_bos()
        nll += chunk_nll(model, chunk)
        running.append(float(np.exp(np.mean(nll))))
    error = np.std(nll) / np.sqrt(len(nll) - 1) * running[-1]
    print(f"{path.name}: {running[-1]:.4f} ± {error:.4f}", file=sys.stderr)
    return {
        "sha256": hashlib.sha256(text).hexdigest(),
        "ctx": ctx,
        "tokens": len(tokens),
        "scored_tokens": len(nll),
        "perplexity": running[-1],
        "standard_error": float(error),
        "chunks": running,
    }


def main(gemma):
    text = HERE / "perplexity.txt"
    report = {name: measure(path, text, 48) for name, path in MODELS.items()}
    report["tiny-llama without BOS"] = measure(MODELS["tiny-llama"], text, 48, adds_bos=False)
    report["gemma3-270m"] = measure(Path(gemma), LICENCE, 512, 2)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
