"""Checks a trace's statistics against numpy, on the values beside it.

usage: trace_stats.py TRACE.json     prints how many tensors agree; exit code 1 if one does not
"""

import json
import pathlib
import struct
import sys

import numpy as np

trace_path = pathlib.Path(sys.argv[1])
trace = json.loads(trace_path.read_text())
file = trace["payload"]["file"]
header, data = {}, b""
if file is not None:
    raw = (trace_path.parent / file).read_bytes()
    (header_len,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + header_len])
    data = raw[8 + header_len :]

seen = 0
for line in trace["tensors"]:
    where = f"layer{line['layer']}." if line["layer"] is not None else ""
    name = f"pass{line['pass']}.{where}{line['tensor']}"
    if file is None:
        # "NaN" and "inf" are texts that float() reads.
        values = np.array([float(v) for v in line["values"]], "<f4").reshape(line["shape"])
    else:
        assert "values" not in line, name
        entry = header.pop(name)
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32" and entry["shape"] == line["shape"], (name, entry)
        values = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    finite = values[np.isfinite(values)].astype(np.float64)
    expected = {
        "min": finite.min(),
        "max": finite.max(),
        "mean": finite.mean(),
        "std": finite.std(),
        "nan_count": int(np.isnan(values).sum()),
        "inf_count": int(np.isinf(values).sum()),
    }
    scale = np.abs(finite).max()
    for key, value in expected.items():
        off = abs(line["stats"][key] - value)
        assert off <= 1e-6 * scale, (name, key, line["stats"][key], value)
    assert np.array_equal(values.ravel()[:4], np.float32(line["first_values"])), name
    seen += 1
assert not header, f"values without statistics: {sorted(header)[:3]}"
assert file is None or end == len(data), "values after the last tensor"
try:
    from safetensors.numpy import load_file
except ImportError:
    pass
else:
    assert file is None or len(load_file(trace_path.parent / file)) == seen
print(seen)
