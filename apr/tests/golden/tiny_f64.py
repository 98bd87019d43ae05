#!/usr/bin/env python3
"""Makes tiny_f64.json: logits of the tiny models from a plain forward pass in 64-bit floats.

usage: pip install gguf numpy; apr/tests/golden/tiny_f64.py > apr/tests/golden/tiny_f64.json

Weights are dequantised by gguf-py; the rest is written here from the papers and llama.cpp's graphs.
The prompts are those of the *.llama_cpp.json files.
"""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, quants

HERE = Path(__file__).resolve().parent
MODELS = {
    "tiny-llama": HERE.parent.parent / "models" / "tiny-llama.gguf",
    "tiny-gemma3": HERE / "tiny-gemma3.gguf",
    "tiny-qwen2": HERE / "tiny-qwen2.gguf",
    "tiny-qwen3": HERE / "tiny-qwen3.gguf",
}


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = reader.fields
        self.arch = self.fields["general.architecture"].contents()
        self.tensors = {}
        for tensor in reader.tensors:
            shape = [int(n) for n in reversed(tensor.shape)]
            values = quants.dequantize(tensor.data, tensor.tensor_type)
            self.tensors[tensor.name] = values.astype(np.float64).reshape(shape)
        self.n_heads = self.key("attention.head_count")
        self.n_kv_heads = self.key("attention.head_count_kv")
        self.head_dim = self.key("attention.key_length", self.key("embedding_length") // self.n_heads)
        self.eps = self.key("attention.layer_norm_rms_epsilon")

    def key(self, name, default=None):
        field = self.fields.get(f"{self.arch}.{name}")
        return default if field is None else field.contents()

    def rope(self, x, base):
        """x is [n, heads, head_dim]; llama pairs neighbours, the others split halves."""
        n, half = len(x), self.head_dim // 2
        angles = np.outer(np.arange(n), base ** (-np.arange(half) / half))
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        out = np.empty_like(x)
        if self.arch == "llama":
            first, second = np.s_[..., 0::2], np.s_[..., 1::2]
        else:
            first, second = np.s_[..., :half], np.s_[..., half:]
        out[first] = x[first] * cos - x[second] * sin
        out[second] = x[first] * sin + x[second] * cos
        return out

    def attention(self, h, weight, base, window):
        def project(part, heads):
            y = h @ weight(f"{part}.weight").T
            bias = weight(f"{part}.bias")
            y = y if bias is None else y + bias
            y = y.reshape(len(h), heads, self.head_dim)
            norm = weight(f"{part}_norm.weight")
            return y if norm is None else rms_norm(y, norm, self.eps)

        q = self.rope(project("attn_q", self.n_heads), base)
        k = self.rope(project("attn_k", self.n_kv_heads), base)
        v = project("attn_v", self.n_kv_heads)
        group = self.n_heads // self.n_kv_heads
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.head_dim)
        distance = np.arange(len(h))[:, None] - np.arange(len(h))[None]
        seen = (distance >= 0) & (distance < window)
        scores = np.where(seen, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        self.attended.append({"q": q, "k": k[:, ::group], "v": v[:, ::group], "weights": p})
        heads = np.einsum("hij,jhd->ihd", p, v).reshape(len(h), -1)
        return heads @ weight("attn_output.weight").T

    def head(self, x):
        x = rms_norm(x, self.tensors["output_norm.weight"], self.eps)
        return self.tensors.get("output.weight", self.tensors["token_embd.weight"]) @ x

    def logits(self, tokens):
        """Logits after the last token; what each layer attends to and leaves is kept."""
        self.attended, self.stream = [], []
        gemma = self.arch == "gemma3"
        activation = gelu_tanh if gemma else silu
        x = self.tensors["token_embd.weight"][tokens]
        if gemma:
            x = x * np.sqrt(x.shape[1])
        for layer in range(self.key("block_count")):
            weight = lambda part: self.tensors.get(f"blk.{layer}.{part}")
            after = lambda y, part: y if weight(part) is None else rms_norm(y, weight(part), self.eps)
            local = gemma and layer % 6 < 5
            base = 1e4 if local else self.key("rope.freq_base", 1e4)
            window = self.key("attention.sliding_window") if local else np.inf
            h = rms_norm(x, weight("attn_norm.weight"), self.eps)
            x = x + after(self.attention(h, weight, base, window), "post_attention_norm.weight")
            h = rms_norm(x, weight("ffn_norm.weight"), self.eps)
            inner = activation(h @ weight("ffn_gate.weight").T) * (h @ weight("ffn_up.weight").T)
            x = x + after(inner @ weight("ffn_down.weight").T, "post_ffw_norm.weight")
            self.stream.append(x)
        return self.head(x[-1])


def main():
    report = {}
    for name, path in MODELS.items():
        model = Model(path)
        golden = json.loads((HERE / f"{name}.llama_cpp.json").read_text())
        prompts = {tuple(p["prompt_tokens"]): p for p in golden["prompts"]}
        report[name] = []
        for tokens, prompt in prompts.items():
            logits = model.logits(list(tokens))
            top = np.argsort(-logits)[:10]
            report[name].append(
                {
                    "prompt": prompt["prompt"],
                    "prompt_tokens": list(tokens),
                    "top10_f64": [[int(i), round(float(logits[i]), 6)] for i in top],
                }
            )
            theirs = prompt["top10_last_prompt_token"]
            off = max(abs(logits[i] - logit) for i, logit in theirs)
            print(f"{name} {prompt['prompt']!r}: {off:.4f} from llama.cpp", file=sys.stderr)
    text = json.dumps(report)
    print(text.replace(' {"prompt"', '\n  {"prompt"').replace('[{"prompt"', '[\n  {"prompt"'))


if __name__ == "__main__":
    main()
