"""What networkx finds in execution graphs: order, longest chain, slack, cycles.

    graph.py dot FILE...     reads DOT with pydot; per file {"length", "slack", "labels", "kinds", "edges", "red"}
                             as a JSON list; exit code 1 for what is no DOT, has a cycle, or says another
                             slack or critical path
    graph.py cycles FILE     a JSON list of {"nodes": count, "edges": [[from, to, kind]], "cycle": [node] or null};
                             exit code 1 unless "cycle" is one where there is one, and null where not

A node is two points, its begin and its end; its own time lies between them. How edges order points is
written down in the documentation of `EdgeKind`.
"""

import json
import sys

import networkx as nx


def points(own_ns, edges):
    """`own_ns` by node; `edges` as (from, to, kind)."""
    graph = nx.DiGraph()
    for node, own in own_ns.items():
        graph.add_edge((node, "begin"), (node, "end"), weight=own)
    for a, b, kind in edges:
        assert a in own_ns and b in own_ns, (a, b)
        if kind == "contains":
            arcs = [((a, "begin"), (b, "begin")), ((b, "end"), (a, "end"))]
        elif kind == "launches":
            arcs = [((a, "begin"), (b, "begin"))]
        else:
            assert kind in ("depends", "transfers"), kind
            arcs = [((a, "end"), (b, "begin"))]
        for arc in arcs:
            # What a node contains runs inside its begin and end, its own time after it; so the own time
            # is on every way into the end.
            graph.add_edge(*arc, weight=own_ns[arc[1][0]] if arc[1][1] == "end" else 0)
    return graph


def longest(graph, some):
    return nx.dag_longest_path_length(graph.subgraph(some), weight="weight")


def unquote(text):
    """A DOT string's escapes: pydot leaves them in."""
    assert text[0] == text[-1] == '"', text
    return json.loads(text)


def dot(path):
    import pydot

    (graph,) = pydot.graph_from_dot_file(path)
    assert graph.get_type() == "digraph" and not graph.get_subgraphs()
    nodes = {n.get_name(): n.get_attributes() for n in graph.get_nodes() if n.get_name() not in ("node", "edge", "graph")}
    edges = [(e.get_source(), e.get_destination(), e.get_attributes()["kind"]) for e in graph.get_edges()]
    own = {name: int(attributes["own_ns"]) for name, attributes in nodes.items()}
    arcs = points(own, edges)
    assert nx.is_directed_acyclic_graph(arcs), nx.find_cycle(arcs)
    length = nx.dag_longest_path_length(arcs, weight="weight")
    slack = {}
    for name in nodes:
        end = (name, "end")
        until = longest(arcs, nx.ancestors(arcs, end) | {end})
        since = longest(arcs, nx.descendants(arcs, end) | {end})
        slack[name] = length - until - since
        assert slack[name] == int(nodes[name]["slack_ns"]), (name, slack[name], nodes[name])
    # The red nodes are one chain, in time, that takes as long as the longest.
    order = {point: index for index, point in enumerate(nx.topological_sort(arcs))}
    red = sorted((n for n in nodes if nodes[n]["color"] == "red"), key=lambda n: order[n, "end"])
    assert sum(own[n] for n in red) == length, (red, length)
    for a, b in zip(red, red[1:]):
        assert nx.has_path(arcs, (a, "end"), (b, "end")), (a, b)
    return {
        "length": length,
        "red": len(red),
        "slack": [slack[n] for n in nodes],
        "labels": [unquote(a["label"]) for a in nodes.values()],
        "kinds": [a["kind"] for a in nodes.values()],
        "edges": [list(edge) for edge in edges],
    }


def cycles(path):
    found = 0
    for graph in json.load(open(path, encoding="utf-8")):
        arcs = points({n: 0 for n in range(graph["nodes"])}, map(tuple, graph["edges"]))
        named = graph["cycle"]
        assert nx.is_directed_acyclic_graph(arcs) == (named is None), graph
        if named is None:
            continue
        found += 1
        # A walk through the points of these nodes, in this order, that comes back to where it began.
        own = {n: [p for p in ((n, "begin"), (n, "end")) if p in arcs] for n in named}
        for a, b in zip(named, named[1:] + named[:1]):
            assert any(arcs.has_edge(p, q) for p in own[a] for q in own[b]), (a, b, graph)
        part = arcs.subgraph(p for ps in own.values() for p in ps)
        assert not nx.is_directed_acyclic_graph(part), graph
    return {"cycles": found}


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    print(json.dumps([dot(path) for path in paths] if what == "dot" else cycles(*paths)))
