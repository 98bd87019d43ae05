//! Random graphs against networkx: the longest chain, the slack of every node, and cycles.

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use std::path::{Path, PathBuf};

use brick_runtime::graph::{EdgeKind, ExecutionGraph, GraphError, Node, NodeId, NodeKind};
use serde_json::{Value, json};

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }

    /// Nodes by their number, in containers that may be in containers, with edges of all kinds that go
    /// `back` now and then.
    fn graph(&mut self, back: bool) -> ExecutionGraph {
        let mut graph = ExecutionGraph::new();
        let count = 1 + self.below(50);
        let kernel = NodeKind::Kernel {
            flops: None,
            bytes: None,
        };
        let ids: Vec<NodeId> = (0..count)
            .map(|n| graph.add(Node::new(kernel, n.to_string(), self.below(1000) as u64)))
            .collect();
        // Of nodes with no order of time, so that the order of adding says nothing.
        let mut parents: Vec<Option<usize>> = vec![None; count];
        for child in 1..count {
            if self.below(2) == 0 {
                let parent = self.below(child);
                parents[child] = Some(parent);
                graph.connect(ids[parent], ids[child], EdgeKind::Contains);
            }
        }
        let kinds = [EdgeKind::Launches, EdgeKind::Depends, EdgeKind::Transfers];
        for _ in 0..self.below(2 * count) {
            let (a, b) = (self.below(count), self.below(count));
            // Among the parts of one thing, in an order that is not that of adding: no cycle.
            let rank = |n: usize| (n % 2, n);
            let forward = parents[a] == parents[b] && rank(a) < rank(b);
            if forward || back && self.below(8) == 0 {
                graph.connect(ids[a], ids[b], kinds[self.below(3)]);
            }
        }
        graph
    }
}

fn written(graph: &ExecutionGraph, dir: &Path, name: usize) -> PathBuf {
    let path = dir.join(format!("{name}.dot"));
    let mut out = Vec::new();
    graph.write_dot(&mut out).unwrap();
    std::fs::write(&path, out).unwrap();
    path
}

/// What networkx finds in what pydot reads of them.
fn read(graphs: &[ExecutionGraph]) -> Option<Value> {
    let python = oracles::python()?;
    let dir = tempfile::tempdir().unwrap();
    let files = graphs.iter().enumerate();
    let files = files.map(|(n, graph)| written(graph, dir.path(), n));
    Some(oracles::answer(
        oracles::oracle(&python, "graph.py").arg("dot").args(files),
    ))
}

#[test]
fn chains_and_slack_are_those_of_networkx() {
    let mut random = Random(7);
    let graphs: Vec<_> = (0..50).map(|_| random.graph(false)).collect();
    let Some(read) = read(&graphs) else {
        return;
    };
    for (number, graph) in graphs.iter().enumerate() {
        let (schedule, read) = (graph.schedule().unwrap(), &read[number]);
        assert_eq!(read["length"], schedule.length_ns, "graph {number}");
        assert_eq!(read["slack"], json!(schedule.slack_ns), "graph {number}");
        assert_eq!(read["red"], schedule.critical.len(), "graph {number}");
    }
}

/// A cycle is found where there is one, and what is named as one is one.
#[test]
fn cycles_are_those_of_networkx() {
    let mut random = Random(8);
    let mut cyclic = 0;
    let told: Vec<Value> = (0..300)
        .map(|_| {
            let graph = random.graph(true);
            let number = |id: NodeId| graph.node(id).label.parse::<usize>().unwrap();
            let edges = graph.edges().iter();
            let edges: Vec<_> = edges
                .map(|e| json!([number(e.from), number(e.to), e.kind.name()]))
                .collect();
            let cycle = match graph.schedule() {
                Ok(_) => None,
                Err(GraphError::Cycle(labels)) => {
                    cyclic += 1;
                    let numbers = labels.iter().map(|label| label.parse::<usize>().unwrap());
                    Some(numbers.collect::<Vec<_>>())
                }
                Err(other) => panic!("{other}"),
            };
            json!({"nodes": graph.nodes().count(), "edges": edges, "cycle": cycle})
        })
        .collect();
    assert!((50..250).contains(&cyclic), "{cyclic} of 300");
    let Some(python) = oracles::python() else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &told).unwrap();
    let read = oracles::answer(
        oracles::oracle(&python, "graph.py")
            .arg("cycles")
            .arg(file.path()),
    );
    assert_eq!(read["cycles"], cyclic);
}

#[test]
fn dot_is_read_by_another_parser() {
    let mut graph = ExecutionGraph::new();
    let kernel = NodeKind::Kernel {
        flops: Some(100),
        bytes: Some(50),
    };
    let odd = graph.add(Node::new(kernel, "a \"quoted\" \\ name; -> [x=1]", 1500));
    let copy = graph.add(Node::new(NodeKind::Transfer { bytes: 9 }, "copy\n", 0));
    graph.connect(odd, copy, EdgeKind::Transfers);
    // Graphviz itself, where there is one.
    let dir = tempfile::tempdir().unwrap();
    let path = written(&graph, dir.path(), 0);
    match std::process::Command::new("dot")
        .arg("-Tplain")
        .arg(path)
        .output()
    {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(_) => eprintln!("skipped: no graphviz"),
    }
    let Some(read) = read(&[graph]) else {
        return;
    };
    assert_eq!(
        read[0]["labels"],
        json!([
            "a \"quoted\" \\ name; -> [x=1]\n1.500 µs\n2.000 flop/byte",
            "copy\n\n0.000 µs\n9 bytes"
        ])
    );
    assert_eq!(read[0]["kinds"], json!(["kernel", "transfer"]));
    assert_eq!(read[0]["edges"], json!([["n0", "n1", "transfers"]]));
}
