#!/usr/bin/env python3
"""Prints what quantisation costs in the golden vectors: mse, max |x - y|, cosine, SNR in dB.

Norms of numpy in float64, from the formulas. For the table in tests/insides.rs.
usage: pip install numpy; python3 errors.py
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def floats(name):
    return np.fromfile(HERE / name, dtype="<f4").astype(np.float64)


def show(name, x, y):
    noise = x - y
    mse = np.mean(noise**2)
    cosine = np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y))
    snr = 20 * np.log10(np.linalg.norm(x) / np.linalg.norm(noise))
    values = ", ".join(repr(float(v)) for v in [mse, np.abs(noise).max(), cosine, snr])
    print(f'("{name}", [{values}]),')


for kind in ["Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_K", "Q6_K", "Q8_0"]:
    show(kind, floats(f"{kind}.syn.src.f32"), floats(f"{kind}.syn.deq.f32"))
