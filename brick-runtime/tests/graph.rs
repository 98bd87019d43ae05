//! Graphs worked out by hand.

mod events;

use brick_runtime::BrickInfo;
use brick_runtime::graph::{
    Bound, Cause, Ceilings, EdgeKind, ExecutionGraph, Node, NodeId, NodeKind,
};
use brick_runtime::timeline::{EventKind, Work};
use events::{event, timeline};

const KERNEL: NodeKind = NodeKind::Kernel {
    flops: Some(100),
    bytes: Some(50),
};

fn kernel(label: &str, ns: u64) -> Node {
    Node::new(KERNEL, label, ns)
}

fn labels(graph: &ExecutionGraph, ids: &[NodeId]) -> Vec<String> {
    ids.iter().map(|&id| graph.node(id).label.clone()).collect()
}

/// The edges by the numbers of their nodes.
fn edges(graph: &ExecutionGraph) -> Vec<(usize, usize, &'static str)> {
    let number = |id| graph.nodes().position(|(node, _)| node == id).unwrap();
    let edges = graph.edges().iter();
    edges
        .map(|edge| (number(edge.from), number(edge.to), edge.kind.name()))
        .collect()
}

/// a(3) → b(5) → d(2), a → c(1) → d: 10, and c may end 4 later.
#[test]
fn the_longest_chain_and_the_slack_beside_it() {
    let mut graph = ExecutionGraph::new();
    // The order of adding says nothing about the order of running.
    let [d, c, b, a] =
        [("d", 2), ("c", 1), ("b", 5), ("a", 3)].map(|(l, ns)| graph.add(kernel(l, ns)));
    for (from, to) in [(a, b), (b, d), (a, c), (c, d)] {
        graph.connect(from, to, EdgeKind::Depends);
    }
    let schedule = graph.schedule().unwrap();
    assert_eq!(schedule.length_ns, 10);
    assert_eq!(labels(&graph, &schedule.critical), ["a", "b", "d"]);
    assert_eq!(schedule.slack_ns, [0, 4, 0, 0]);
}

/// A layer of 10 itself that contains 30 and, beside that, 20; then 5: 45, not 10 + 30 + 40.
#[test]
fn a_parents_time_is_not_counted_twice() {
    let mut graph = ExecutionGraph::new();
    let layer = graph.add(Node::new(NodeKind::Layer(0), "layer", 10));
    let long = graph.add(kernel("long", 30));
    let short = graph.add(kernel("short", 20));
    let next = graph.add(kernel("next", 5));
    graph.connect(layer, long, EdgeKind::Contains);
    graph.connect(layer, short, EdgeKind::Contains);
    graph.connect(layer, next, EdgeKind::Depends);
    let schedule = graph.schedule().unwrap();
    assert_eq!(schedule.length_ns, 45);
    assert_eq!(
        labels(&graph, &schedule.critical),
        ["long", "layer", "next"]
    );
    assert_eq!(schedule.slack_ns, [0, 0, 10, 0]);
}

/// A call that launches a kernel of 100 and returns after 4, does 10 of its own, and waits: the kernel
/// does not wait for the call's end.
#[test]
fn a_launched_kernel_runs_beside_its_launch() {
    let mut graph = ExecutionGraph::new();
    let call = graph.add(Node::new(NodeKind::Brick, "call", 1));
    let launch = graph.add(Node::new(NodeKind::Brick, "launch", 4));
    let host = graph.add(kernel("host", 10));
    let sync = graph.add(Node::new(NodeKind::Sync, "sync", 2));
    let device = graph.add(kernel("device", 100).on(1));
    let copy = graph.add(Node::new(NodeKind::Transfer { bytes: 64 }, "copy", 7).on(1));
    for part in [launch, host, sync] {
        graph.connect(call, part, EdgeKind::Contains);
    }
    graph.connect(launch, host, EdgeKind::Depends);
    graph.connect(host, sync, EdgeKind::Depends);
    graph.connect(launch, device, EdgeKind::Launches);
    graph.connect(device, copy, EdgeKind::Transfers);
    graph.connect(copy, sync, EdgeKind::Depends);
    let schedule = graph.schedule().unwrap();
    assert_eq!(schedule.length_ns, 100 + 7 + 2 + 1);
    assert_eq!(
        labels(&graph, &schedule.critical),
        ["device", "copy", "sync", "call"]
    );
    assert_eq!(schedule.slack_ns[1..3], [93, 93]);
}

#[test]
fn a_cycle_is_an_error_that_names_it() {
    let mut graph = ExecutionGraph::new();
    let [a, b, c, after] = ["a", "b", "c", "after"].map(|l| graph.add(kernel(l, 1)));
    graph.connect(a, b, EdgeKind::Depends);
    graph.connect(b, c, EdgeKind::Transfers);
    graph.connect(c, b, EdgeKind::Launches);
    graph.connect(c, after, EdgeKind::Depends);
    let told = graph.schedule().unwrap_err().to_string();
    assert!(
        matches!(
            told.as_str(),
            "a cycle: b before c before b" | "a cycle: c before b before c"
        ),
        "{told}"
    );
    let error = graph.write_dot(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    let mut own = ExecutionGraph::new();
    let node = own.add(kernel("itself", 1));
    own.connect(node, node, EdgeKind::Contains);
    assert_eq!(
        own.schedule().unwrap_err().to_string(),
        "a cycle: itself before itself"
    );
}

/// 1e9 flop/s at most, 1e9 byte/s: 100 flops of 50 bytes in 200 ns are half of what there is.
#[test]
fn a_kernel_under_its_roof() {
    let mut graph = ExecutionGraph::new();
    let id = graph.add(kernel("gemv", 200));
    let slow_memory = Ceilings {
        flops_per_s: 1e9,
        bytes_per_s: 0.25e9,
        cache_bytes_per_s: None,
    };
    let roofline = graph.roofline(id, slow_memory).unwrap();
    assert_eq!((roofline.intensity, roofline.bound), (2.0, Bound::Memory));
    assert_eq!(
        (
            roofline.achieved_flops_per_s,
            roofline.attainable_flops_per_s
        ),
        (0.5e9, 0.5e9)
    );
    assert_eq!(roofline.distance().value(), Some(0.0));
    let fast_memory = Ceilings {
        flops_per_s: 1e9,
        bytes_per_s: 1e9,
        cache_bytes_per_s: None,
    };
    let roofline = graph.roofline(id, fast_memory).unwrap();
    assert_eq!(
        (roofline.bound, roofline.distance().value()),
        (Bound::Compute, Some(0.5))
    );

    let undeclared = NodeKind::Kernel {
        flops: None,
        bytes: Some(1),
    };
    let unknown = graph.add(Node::new(undeclared, "unknown", 5));
    assert_eq!(
        graph.roofline(unknown, fast_memory).unwrap_err(),
        "it declares no flops"
    );
    assert_eq!(undeclared.arithmetic_intensity(), None);
    let layer = graph.add(Node::new(NodeKind::Layer(1), "layer", 5));
    assert_eq!(
        graph.roofline(layer, fast_memory).unwrap_err(),
        "not a kernel"
    );
}

/// 2 flop/byte. Memory of 0.125 GB/s gives 0.25 GFLOP/s; the kernel makes 0.5 of them, so that its bytes
/// were in the cache, which gives 0.4 GB/s, so 0.8 GFLOP/s: 62.5 % of that. A cache of 0.5 GB/s gives as
/// much as can be computed.
#[test]
fn a_kernel_that_is_faster_than_memory_is_under_the_caches_roof() {
    let mut graph = ExecutionGraph::new();
    let id = graph.add(kernel("gemv", 200));
    let with_cache = |cache| Ceilings {
        flops_per_s: 1e9,
        bytes_per_s: 0.125e9,
        cache_bytes_per_s: cache,
    };
    let at = |ceilings| {
        let roofline = graph.roofline(id, ceilings).unwrap();
        (roofline.bound, roofline.share().value())
    };
    assert_eq!(at(with_cache(None)), (Bound::Memory, Some(2.0)));
    assert_eq!(at(with_cache(Some(0.4e9))), (Bound::Cache, Some(0.625)));
    assert_eq!(at(with_cache(Some(0.5e9))), (Bound::Compute, Some(0.5)));

    let graph = graph.under(with_cache(Some(0.4e9)));
    let mut text = Vec::new();
    graph.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        "ceilings: memory 0.1 GB/s, cache 0.4 GB/s, compute 1.0 GFLOP/s (measured)",
        "      own µs      slack µs   flop/byte       % of roof",
        "       0.200         0.000       2.000    62.5 cache    * gemv [kernel]",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let mut dot = Vec::new();
    graph.write_dot(&mut dot).unwrap();
    let dot = String::from_utf8(dot).unwrap();
    assert!(dot.contains("\\n62.5 % of the cache roof\""), "{dot}");
    assert!(dot.contains("roof=cache, percent_of_roof=62.500]"), "{dot}");
}

/// Lane 0 prepares (0–10), lane 1 waits for it until 10, then computes until 30; lane 0 waits for
/// that in a sync; then code of the step runs until 45; and before the last kernel there is nothing.
#[test]
fn gaps_and_what_they_wait_for() {
    let mut graph = ExecutionGraph::new();
    let step = graph.add(Node::new(NodeKind::Scope, "step", 0).at(0, 60));
    let prepare = graph.add(kernel("prepare", 10).at(0, 10));
    let early = graph.add(kernel("early", 4).at(0, 4).on(1));
    let device = graph.add(kernel("device", 20).at(10, 30).on(1));
    let use_it = graph.add(kernel("use", 5).at(30, 35));
    let later = graph.add(kernel("later", 5).at(45, 50));
    let last = graph.add(kernel("last", 5).at(70, 75));
    for part in [prepare, use_it, later] {
        graph.connect(step, part, EdgeKind::Contains);
    }
    graph.connect(prepare, device, EdgeKind::Transfers);
    graph.connect(device, use_it, EdgeKind::Depends);
    graph.connect(use_it, later, EdgeKind::Depends);
    let gaps: Vec<_> = graph
        .gaps(1)
        .iter()
        .map(|g| (g.lane, g.start_ns, g.end_ns, g.cause))
        .collect();
    assert_eq!(
        gaps,
        [
            (0, 10, 30, Cause::Waits(device)),
            (0, 35, 45, Cause::Inside(step)),
            (0, 50, 70, Cause::Unrecorded),
            (1, 4, 10, Cause::Waits(prepare)),
        ]
    );
    assert_eq!(graph.gaps(11).len(), 2);
    assert_eq!((graph.node(early).lane, graph.node(last).lane), (1, 0));
}

static GEMV: BrickInfo = BrickInfo::new("Gemv", "kernels::gemv", "gemv", "src/gemv.rs", 7);
static BLOCK: BrickInfo = BrickInfo::new("Block", "kernels::block", "block", "src/block.rs", 9);

/// A layer with a block of two kernels, and an async call that goes from one thread to the other.
#[test]
fn a_timeline_becomes_a_graph() {
    use EventKind::{Brick, Layer, Poll};
    let mut events = vec![
        event(Layer(4), 0, (0, 100), None),
        event(Brick(&BLOCK), 0, (10, 90), Some(0)),
        event(Brick(&GEMV), 0, (20, 40), Some(1)),
        event(Brick(&GEMV), 0, (50, 85), Some(1)),
        event(Poll(&GEMV), 0, (100, 130), None),
        event(Poll(&GEMV), 1, (140, 200), None),
    ];
    for event in &mut events {
        event.work = Work {
            flops: Some(8),
            bytes: Some(2),
            ..Work::default()
        };
    }
    events[4].call = Some(1);
    events[5].call = Some(1);
    let timeline = timeline(events);
    let graph = ExecutionGraph::of(&timeline);
    let told: Vec<_> = graph
        .nodes()
        .map(|(_, n)| (n.label.as_str(), n.kind.name(), n.own_ns))
        .collect();
    assert_eq!(
        told,
        [
            ("layer 4", "layer", 20),
            ("Block", "brick", 25),
            ("Gemv", "kernel", 20),
            ("Gemv", "kernel", 35),
            ("Gemv", "kernel", 30),
            ("Gemv", "kernel", 60),
        ]
    );
    assert_eq!(
        edges(&graph),
        [
            (0, 1, "contains"),
            (1, 2, "contains"),
            (1, 3, "contains"),
            (2, 3, "depends"),
            (0, 4, "depends"),
            (4, 5, "depends"),
        ]
    );
    // All of thread 0 and then the other: 100 + 30 + 60.
    assert_eq!(graph.schedule().unwrap().length_ns, 190);
    let causes: Vec<_> = graph
        .gaps(1)
        .iter()
        .map(|gap| (gap.start_ns, gap.cause))
        .collect();
    let ids: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
    assert_eq!(
        causes,
        [(40, Cause::Inside(ids[1])), (85, Cause::Unrecorded)]
    );

    let block = ExecutionGraph::inside(&timeline, 1);
    assert_eq!(block.nodes().count(), 3);
    assert_eq!(block.schedule().unwrap().length_ns, 80);
    let mut text = Vec::new();
    block.write_text(&mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "3 nodes, 3 edges\n\
         own times together 0.080 µs (measured)\n\
         critical path 0.080 µs (derived from own times and edges)\n\
         \n\
         on the critical path:\n\
         \u{20}       0.055 µs        2 times  Gemv\n\
         \u{20}       0.025 µs        1 times  Block\n\
         \n\
         nothing computed on a lane:\n\
         \u{20}       0.010 µs        1 times  in Block\n\
         \n\
         \u{20}     own µs      slack µs   flop/byte\n\
         \u{20}      0.025         0.000           –  * Block [brick]\n\
         \u{20}      0.020         0.000       4.000    * Gemv [kernel]\n\
         \u{20}      0.035         0.000       4.000    * Gemv [kernel]\n"
    );
}
