"""llama.cpp's part of tests/peers/llama_cpp: one process, one model, one number of threads.

usage: llama_cpp_side.py MODEL THREADS PROMPT DECODE CONTEXT        prints one JSON object

As llama-bench measures, through the C API: BOS where the vocabulary begins texts with it, then random
tokens; one whole prompt and one single token before, not counted. Loading comes last, page cache warm.
Memory is what the process had resident at most until then, less what it had before the model was
loaded: Python itself is not llama.cpp's.
"""

import ctypes
import json
import random
import sys
import time

import llama_cpp as lib


def resident(key):
    """MB, from /proc/self/status."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(key))
    return int(line.split()[1]) * 1024 / 1e6


@lib.llama_log_callback
def silent(level, text, data):
    pass


class Session:
    def __init__(self, path, threads, context):
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp can't load {path}")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, 512, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit("llama.cpp has no context")
        self.vocab = lib.llama_model_get_vocab(self.model)

    def tokens(self, n):
        draw = random.Random(0)
        n_vocab = lib.llama_vocab_n_tokens(self.vocab)
        tokens = [draw.randrange(n_vocab) for _ in range(n)]
        if n and lib.llama_vocab_get_add_bos(self.vocab):
            tokens[0] = lib.llama_vocab_bos(self.vocab)
        return tokens

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def feed(self, tokens):
        array = (lib.llama_token * len(tokens))(*tokens)
        code = lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(tokens)))
        lib.llama_synchronize(self.context)
        if code != 0:
            sys.exit(f"llama_decode: {code}")

    def free(self):
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)


def built_with():
    """What of CPU and libraries the build uses: `CPU : AVX2 = 1 | AVX512 = 1 | … |`."""
    parts = lib.llama_print_system_info().decode().rpartition(" : ")[2].split("|")
    pairs = (part.split("=") for part in parts if "=" in part)
    return [name.strip() for name, on in pairs if int(on)]


def load(path, threads, context):
    """A session that has read one token, and the milliseconds that took."""
    start = time.perf_counter()
    session = Session(path, threads, context)
    session.feed(session.tokens(1))
    return session, (time.perf_counter() - start) * 1e3


def rate(session, tokens, at_a_time):
    """Tokens per second."""
    parts = [tokens[i : i + at_a_time] for i in range(0, len(tokens), at_a_time)]
    session.clear()
    start = time.perf_counter()
    for part in parts:
        session.feed(part)
    return len(tokens) / (time.perf_counter() - start)


def main(path, threads, prompt, decode, context):
    lib.llama_log_set(silent, ctypes.c_void_p())
    lib.llama_backend_init()
    before = resident("VmRSS:")
    session, _ = load(path, threads, context)
    rate(session, session.tokens(prompt), 512)
    rate(session, session.tokens(1), 1)
    report = {
        "prompt": rate(session, session.tokens(prompt), 512),
        "decode": rate(session, session.tokens(decode), 1),
        "rss": resident("VmHWM:") - before,
        "system": built_with(),
    }
    session.free()
    report["load"] = load(path, threads, context)[1]
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
