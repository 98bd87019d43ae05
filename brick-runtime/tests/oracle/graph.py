"""Reads a graph's DOT with a parser of its own and finds the longest chain in another way: by walking
every node's begin and end recursively.

    graph.py FILE    {"length", "slack", "labels", "kinds"} as JSON; exit code 1 for what is no DOT
"""

import functools
import json
import re
import sys

sys.setrecursionlimit(100_000)
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(->)|([A-Za-z_][A-Za-z_0-9]*|-?\d+(?:\.\d+)?)|([{}\[\];=,]))', re.S)


def tokens(text):
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match, f"no token at {text[at:at + 40]!r}"
        yield match.group().strip()
        at = match.end()


def parse(text):
    """The part of the DOT grammar that has no subgraphs and no ports."""
    stream = list(tokens(text))
    take = lambda: stream.pop(0)
    assert take() == "digraph"
    take()
    assert take() == "{"
    nodes, edges = {}, []
    while stream[0] != "}":
        name = take()
        target = None
        if stream[0] == "->":
            take()
            target = take()
        attributes = {}
        if stream[0] == "[":
            take()
            while stream[0] != "]":
                key = take()
                assert take() == "="
                attributes[key] = take()
                if stream[0] in ",;":
                    take()
            take()
        if stream[0] == ";":
            take()
        if target is not None:
            edges.append((name, target, attributes["kind"]))
        elif name not in ("node", "edge", "graph"):
            assert name not in nodes
            nodes[name] = attributes
    take()
    assert not stream, stream
    return nodes, edges


def main(path):
    nodes, edges = parse(open(path, encoding="utf-8").read())
    assert all(a in nodes and b in nodes for a, b, _ in edges)
    arcs = {}
    arc = lambda a, b: arcs.setdefault(a, []).append(b)
    for name in nodes:
        arc((name, "begin"), (name, "end"))
    for a, b, kind in edges:
        if kind == "contains":
            arc((a, "begin"), (b, "begin"))
            arc((b, "end"), (a, "end"))
        elif kind == "launches":
            arc((a, "begin"), (b, "begin"))
        else:
            assert kind in ("depends", "transfers"), kind
            arc((a, "end"), (b, "begin"))
    back = {}
    for a, targets in arcs.items():
        for b in targets:
            back.setdefault(b, []).append(a)
    weight = lambda p: int(nodes[p[0]]["own_ns"]) if p[1] == "end" else 0

    @functools.cache
    def until(point):
        return weight(point) + max((until(p) for p in back.get(point, [])), default=0)

    @functools.cache
    def since(point):
        return max((weight(p) + since(p) for p in arcs.get(point, [])), default=0)

    length = max((until((n, "end")) for n in nodes), default=0)
    slack = {n: length - until((n, "end")) - since((n, "end")) for n in nodes}
    for name, attributes in nodes.items():
        assert slack[name] == int(attributes["slack_ns"]), (name, slack[name], attributes)
    return {
        "length": length,
        "red": sum(a["color"] == "red" for a in nodes.values()),
        "slack": [slack[n] for n in nodes],
        "labels": [json.loads(a["label"]) for a in nodes.values()],
        "kinds": [a["kind"] for a in nodes.values()],
        "edges": [[a, b, kind] for a, b, kind in edges],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
