"""Reads what a timeline wrote, with nothing of the project: Python's json and XML parsers, and the
rules of the formats written out again.

    exports.py chrome FILE       what the trace has, as JSON; exit code 1 if a rule is broken
    exports.py flamegraph FILE   what the SVG has, as JSON; exit code 1 if a rule is broken
"""

import json
import sys
import xml.etree.ElementTree as ET


def chrome(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    required = {
        "X": {"name", "cat", "ts", "dur", "pid", "tid"},
        "M": {"name", "pid", "tid", "args"},
        "C": {"name", "ts", "pid", "args"},
        "b": {"name", "cat", "id", "ts", "pid", "tid"},
        "e": {"name", "cat", "id", "ts", "pid", "tid"},
        "s": {"name", "cat", "id", "ts", "pid", "tid"},
        "t": {"name", "cat", "id", "ts", "pid", "tid"},
        "f": {"name", "cat", "id", "ts", "pid", "tid"},
    }
    events = trace["traceEvents"]
    for event in events:
        missing = required[event["ph"]] - event.keys()
        assert not missing, (event, missing)
    # Whole nanoseconds: the file has all digits.
    ns = lambda micros: round(micros * 1000)
    slices = {}
    for event in (e for e in events if e["ph"] == "X"):
        slices.setdefault(event["tid"], []).append(
            (ns(event["ts"]), ns(event["ts"]) + ns(event["dur"]), event["name"])
        )
    named = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert slices.keys() <= named, (slices.keys(), named)
    deepest = 0
    for thread in slices.values():
        open_ends = []
        # A viewer sorts by start and takes the longer slice for the outer one.
        for start, end, name in sorted(thread, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (name, start, end, open_ends)
            open_ends.append(end)
            deepest = max(deepest, len(open_ends))
    flows = {}
    for event in events:
        if event["ph"] in "stf":
            flows.setdefault(event["id"], []).append(event)
            inside = [s for s in slices[event["tid"]] if s[0] <= ns(event["ts"]) <= s[1]]
            assert inside, event
    for flow in flows.values():
        kinds = "".join(event["ph"] for event in flow)
        assert kinds == "s" + "t" * (len(kinds) - 2) + "f", kinds
        assert all(a["ts"] <= b["ts"] for a, b in zip(flow, flow[1:]))
    pairs = {}
    for event in events:
        if event["ph"] in "be":
            pairs.setdefault((event["cat"], event["id"]), []).append(event["ph"])
    assert all(pair == ["b", "e"] for pair in pairs.values()), pairs
    counter = [(ns(e["ts"]), e["args"]["threads"]) for e in events if e["ph"] == "C"]
    assert counter == sorted(counter, key=lambda c: c[0])
    return {
        "slices": [[t, *s] for t, thread in sorted(slices.items()) for s in thread],
        "names": {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"},
        "pairs": len(pairs),
        "flows": {str(k): len(v) for k, v in flows.items()},
        "counter": counter,
        "deepest": deepest,
        "other": trace["otherData"],
    }


def flamegraph(path):
    svg = ET.parse(path).getroot()
    space = {"s": "http://www.w3.org/2000/svg"}
    assert svg.tag == "{http://www.w3.org/2000/svg}svg", svg.tag
    text = open(path, encoding="utf-8").read()
    # Self-contained: nothing is loaded, nothing is run.
    assert "href" not in text and "<script" not in text and "url(" not in text
    frames = []
    for group in svg.findall("s:g", space):
        rect = group.find("s:rect", space)
        x, y, width = (float(rect.get(a)) for a in ("x", "y", "width"))
        frames.append({"title": group.find("s:title", space).text, "x": x, "y": y, "width": width})
    width, height = float(svg.get("width")), float(svg.get("height"))
    rows = {}
    for frame in frames:
        assert 0 <= frame["x"] and frame["x"] + frame["width"] <= width + 0.01, frame
        assert frame["y"] + 18 <= height, frame
        rows.setdefault(frame["y"], []).append(frame)
    for y, row in rows.items():
        row.sort(key=lambda f: f["x"])
        for a, b in zip(row, row[1:]):
            assert a["x"] + a["width"] <= b["x"] + 0.01, (a, b)
        above = rows.get(y - 18)
        for frame in row if above else []:
            assert any(
                p["x"] - 0.01 <= frame["x"] and frame["x"] + frame["width"] <= p["x"] + p["width"] + 0.01
                for p in above
            ), frame
    return {"frames": frames}


if __name__ == "__main__":
    print(json.dumps({"chrome": chrome, "flamegraph": flamegraph}[sys.argv[1]](sys.argv[2])))
