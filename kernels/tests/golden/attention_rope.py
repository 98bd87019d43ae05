#!/usr/bin/env python3
"""Writes the golden files beside it: attention with and without a window, the weights of its last
token, RoPE in both pairings.

Everything in float64 numpy, from the formulas as papers print them, in whole-array form: no
loop, no running maximum, complex numbers for the rotation. Inputs are sines, so that nothing
depends on a generator's version. Usage: python3 attention_rope.py
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def sines(n, step, phase):
    return np.sin(step * np.arange(n) + phase).astype(np.float32)


def write(name, *arrays):
    data = b"".join(a.astype("<f4").tobytes() for a in arrays)
    (HERE / name).write_bytes(data)


def attention_weights(q, k, scale, window):
    """q [t, h, d] at the last t of the positions of k [p, g, d]; weights [h, t, p]."""
    t, h, _ = q.shape
    p, g, _ = k.shape
    k = np.repeat(k, h // g, axis=1)
    scores = np.einsum("thd,phd->htp", q, k) * scale
    pos_q = np.arange(p - t, p)[:, None]
    pos_k = np.arange(p)[None, :]
    masked = (pos_k > pos_q) | (pos_q - pos_k >= window)
    scores = np.where(masked, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(q, k, v, scale, window):
    """As above, times v [p, g, d]."""
    v = np.repeat(v, q.shape[1] // v.shape[1], axis=1)
    return np.einsum("htp,phd->thd", attention_weights(q, k, scale, window), v)


def rope(x, first_pos, base, freq_scale, factors, n_dims, split_halves):
    """x [t, h, d]; the first n_dims elements of each head as n_dims / 2 complex numbers."""
    half = n_dims // 2
    freq = base ** (-2.0 * np.arange(half) / n_dims) * freq_scale / factors
    turn = np.exp(1j * np.outer(first_pos + np.arange(x.shape[0]), freq))[:, None, :]
    out = x.copy()
    first, second = (slice(0, half), slice(half, n_dims)) if split_halves else (
        slice(0, n_dims, 2), slice(1, n_dims, 2))
    z = (x[..., first] + 1j * x[..., second]) * turn
    out[..., first], out[..., second] = z.real, z.imag
    return out


def main():
    # 150 positions, the queries of the last 90: tiles of any power of two end raggedly.
    t, p, h, g, d = 90, 150, 6, 2, 20
    q, k, v = sines(t * h * d, 0.37, 0.1), sines(p * g * d, 0.73, 0.2), sines(p * g * d, 1.1, 0.3)
    shaped = (q.reshape(t, h, d).astype(np.float64), k.reshape(p, g, d).astype(np.float64),
              v.reshape(p, g, d).astype(np.float64))
    full = attention(*shaped, 0.8, 10**9)
    windowed = attention(*shaped, 0.8, 37)
    write("attention.f32", q, k, v, full, windowed)
    all_seen = attention_weights(*shaped[:2], 0.8, 10**9)[:, -1]
    in_window = attention_weights(*shaped[:2], 0.8, 37)[:, -1, -37:]
    write("attention_weights.f32", all_seen, in_window)

    t, h, d, n_dims = 5, 3, 24, 16
    x = sines(t * h * d, 0.61, 0.4)
    factors = np.linspace(1.0, 8.0, n_dims // 2).astype(np.float32)
    shaped = x.reshape(t, h, d).astype(np.float64)
    args = (shaped, 1000, 10000.0, 0.25, factors.astype(np.float64), n_dims)
    write("rope.f32", x, factors, rope(*args, True), rope(*args, False))


if __name__ == "__main__":
    main()
