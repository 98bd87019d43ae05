"""Checks a trace against the rules of the Trace Event Format, as published by Chrome, with nothing of the
project (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). Where Perfetto's importer
is stricter than the format, its rule is taken, and says so.

    trace_events.py FILE     what the trace has, as JSON; exit code 1 if a rule is broken
    trace_events.py --self-test   breaks a good trace in every way that is checked for
"""

import copy
import json
import math
import sys

# Metadata events, and the argument that each must have.
METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
PHASES = set("XBEiICbnestfM")


class Broken(Exception):
    pass


def rule(holds, text, *what):
    if not holds:
        raise Broken(text + "".join(f"\n    {w}" for w in what))


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def load(text):
    def once(pairs):
        members = dict(pairs)
        rule(len(members) == len(pairs), "a member is there twice", pairs)
        return members

    def constant(name):
        raise Broken(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=once, parse_constant=constant)


def ns(event, member="ts"):
    """Whole nanoseconds: the file has all digits."""
    return round(event[member] * 1000)


def fields(event):
    """What each event must have by itself."""
    phase = event.get("ph")
    rule(isinstance(phase, str) and phase in PHASES, "no such phase", event)
    rule(isinstance(event.get("name"), str) and event["name"], "no name", event)
    rule(isinstance(event.get("pid"), int), "no process", event)
    rule(isinstance(event.get("tid"), int), "no thread", event)
    args = event.get("args", {})
    rule(isinstance(args, dict), "args is no object", event)
    if phase == "M":
        rule(event["name"] in METADATA, "no such metadata", event)
        key, kind = METADATA[event["name"]]
        rule(isinstance(args.get(key), kind), f"metadata without {key}", event)
        return
    rule(number(event.get("ts")) and event["ts"] >= 0, "no time", event)
    if phase != "C":
        rule(isinstance(event.get("cat"), str), "no category", event)
    if phase == "X":
        rule(number(event.get("dur")) and event["dur"] >= 0, "no duration", event)
    if phase == "C":
        rule(args and all(number(v) for v in args.values()), "a counter counts numbers", event)
    if phase in "bnestf":
        rule(isinstance(event.get("id"), (int, str)), "no id", event)
    if phase == "f":
        rule(event.get("bp") in (None, "e"), "bp is e, or not there", event)


def nest(events):
    """Slices by thread, as (start, end, name); those of one thread nest."""
    slices, begun = {}, {}
    for event in events:
        thread = event["pid"], event["tid"]
        if event["ph"] == "X":
            start = ns(event)
            slices.setdefault(thread, []).append((start, start + ns(event, "dur"), event["name"]))
        elif event["ph"] == "B":
            begun.setdefault(thread, []).append(event)
        elif event["ph"] == "E":
            rule(begun.get(thread), "an end without a begin", event)
            first = begun[thread].pop()
            rule(first["name"] == event["name"], "an end of another slice", first, event)
            slices.setdefault(thread, []).append((ns(first), ns(event), event["name"]))
    rule(not any(begun.values()), "a begin without an end", begun)
    deepest = 0
    for thread in slices.values():
        open_ends = []
        # A viewer sorts by start and takes the longer slice for the outer one.
        for start, end, name in sorted(thread, key=lambda s: (s[0], -s[1])):
            rule(start <= end, "it ends before it begins", name)
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            rule(not open_ends or end <= open_ends[-1], "slices of one thread overlap", name, start, end)
            open_ends.append(end)
            deepest = max(deepest, len(open_ends))
    return slices, deepest


def flows(events, slices):
    """Arrows: begin, steps, end, in time, each bound to a slice of its thread."""
    found = {}
    for event in events:
        if event["ph"] in "stf":
            # Perfetto joins arrows by these three.
            found.setdefault((event["id"], event["name"], event["cat"]), []).append(event)
            around = [s for s in slices.get((event["pid"], event["tid"]), []) if s[0] <= ns(event) <= s[1]]
            # An end without bp binds to the next slice; ours say that they mean the one around.
            rule(event["ph"] != "f" or event.get("bp") == "e", "the end binds to whatever comes next", event)
            rule(around, "an arrow outside of slices", event)
    ids = [id for id, _, _ in found]
    rule(len(ids) == len(set(ids)), "one id for arrows of several names", ids)
    for flow in found.values():
        kinds = "".join(event["ph"] for event in flow)
        rule(kinds == "s" + "t" * (len(kinds) - 2) + "f", "not from begin to end", kinds)
        rule(all(a["ts"] <= b["ts"] for a, b in zip(flow, flow[1:])), "an arrow back in time", flow)
    return {str(id): len(flow) for (id, _, _), flow in found.items()}


def pairs(events):
    """Asynchronous slices: each begin has its end, of the same category, id and name."""
    found = {}
    for event in (e for e in events if e["ph"] in "be"):
        found.setdefault((event["cat"], event["id"], event["name"]), []).append(event)
    for pair in found.values():
        rule([e["ph"] for e in pair] == ["b", "e"], "not a begin and its end", pair)
        rule(pair[0]["ts"] <= pair[1]["ts"], "it ends before it begins", pair)
    return len(found)


def counters(events):
    """By name: (time, value) of its one series, in time."""
    found = {}
    for event in (e for e in events if e["ph"] == "C"):
        rule(len(event["args"]) == 1, "several series under one name", event)
        (value,) = event["args"].values()
        found.setdefault(event["name"], []).append((ns(event), value))
    for series in found.values():
        times = [time for time, _ in series]
        rule(all(a < b for a, b in zip(times, times[1:])), "a counter with two values at one time", times)
    return found


def check(trace):
    rule(isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list), "no traceEvents")
    rule(trace.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit is ms or ns")
    events = trace["traceEvents"]
    for event in events:
        fields(event)
    slices, deepest = nest(events)
    meta = [e for e in events if e["ph"] == "M"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta if e["name"] == "thread_name"}
    rule(slices.keys() <= named.keys(), "a thread without a name", slices.keys(), named)
    said = [(e["pid"], e["tid"], e["name"]) for e in meta]
    rule(len(said) == len(set(said)), "metadata that is there twice", said)
    processes = {e["pid"] for e in events}
    rule(len(processes) == 1 and any(e["name"] == "process_name" for e in meta), "one process, named", processes)
    # Of one thread in the order of their begin: a viewer may stream.
    for thread in slices.values():
        rule(all(a[0] <= b[0] for a, b in zip(thread, thread[1:])), "slices out of order", thread)
    return {
        "slices": [[tid, *s] for (_, tid), thread in sorted(slices.items()) for s in thread],
        "names": {tid: name for (_, tid), name in named.items()},
        "pairs": pairs(events),
        "flows": flows(events, slices),
        "counters": counters(events),
        "deepest": deepest,
        "other": trace.get("otherData"),
    }


def self_test():
    slice = lambda name, ts, dur, **more: {"name": name, "cat": "c", "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": 1, **more}
    flow = lambda ph, ts, **more: {"name": "flow", "cat": "c", "ph": ph, "id": 7, "ts": ts, "pid": 1, "tid": 1, **more}
    good = {
        "displayTimeUnit": "ns",
        "traceEvents": [
            {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "p"}},
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "t"}},
            slice("outer", 0, 10),
            slice("inner", 2, 3.5),
            flow("s", 2),
            flow("t", 3),
            flow("f", 9, bp="e"),
            {"name": "b", "cat": "c", "ph": "b", "id": 1, "ts": 1, "pid": 1, "tid": 1},
            {"name": "b", "cat": "c", "ph": "e", "id": 1, "ts": 20, "pid": 1, "tid": 1},
            {"name": "n", "ph": "C", "ts": 1, "pid": 1, "tid": 0, "args": {"n": 1}},
            {"name": "n", "ph": "C", "ts": 2, "pid": 1, "tid": 0, "args": {"n": 2}},
        ],
    }
    check(good)
    ways = [
        (3, {"dur": 9}), (3, {"dur": -1}), (3, {"ts": "2"}), (3, {"tid": 9}), (3, {"name": ""}), (3, {"ph": "Q"}),
        (3, {"cat": None}), (3, {"pid": 2}), (2, {"ts": 2.5, "dur": 1}), (1, {"args": {}}), (1, {"name": "thread"}),
        (4, {"ts": 11}), (4, {"id": None}), (5, {"ts": 9.5}), (5, {"name": "other"}), (6, {"bp": None}),
        (6, {"ph": "t"}), (7, {"id": 2}), (8, {"ts": 0}), (9, {"args": {"n": "1"}}), (9, {"args": {}}), (10, {"ts": 1}),
    ]  # fmt: skip
    for index, change in ways:
        bad = copy.deepcopy(good)
        bad["traceEvents"][index].update(change)
        try:
            check(bad)
        except Broken:
            continue
        sys.exit(f"not found out: {index} {change}")
    for text in ('{"a":1,"a":2}', '{"a":NaN}'):
        try:
            load(text)
        except Broken:
            continue
        sys.exit(f"not found out: {text}")
    return {"broken": len(ways) + 2}


if __name__ == "__main__":
    try:
        if sys.argv[1] == "--self-test":
            print(json.dumps(self_test()))
        else:
            print(json.dumps(check(load(open(sys.argv[1], encoding="utf-8").read()))))
    except Broken as broken:
        sys.exit(f"broken: {broken}")
