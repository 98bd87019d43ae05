//! Work that is handed to other threads, as a graph: what launched it, and where both come together.

mod events;
#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use brick_runtime::BrickInfo;
use brick_runtime::graph::{Cause, EdgeKind, ExecutionGraph, NodeId};
use brick_runtime::timeline::{Event, EventKind, Timeline};
use events::{event, timeline};
use serde_json::json;

static GEMV: BrickInfo = BrickInfo::new("Gemv", "kernels::gemv", "gemv", "src/gemv.rs", 7);
static NORM: BrickInfo = BrickInfo::new("Norm", "kernels::norm", "norm", "src/norm.rs", 9);

fn launched(by: usize, event: Event) -> Event {
    Event {
        launched_by: Some(by),
        ..event
    }
}

/// A step in which a gemv of 100 hands two pieces to another thread, 60 and 20 long, and a third that goes
/// on after the gemv's end; then a norm of 30.
fn step() -> Timeline {
    use EventKind::{Brick, Span};
    timeline(vec![
        event(Span("step"), 0, (0, 140), None),
        event(Brick(&GEMV), 0, (10, 110), Some(0)),
        event(Brick(&NORM), 0, (110, 140), Some(0)),
        launched(1, event(Span("piece"), 1, (20, 80), None)),
        launched(1, event(Span("piece"), 1, (85, 105), None)),
        launched(1, event(Span("late"), 1, (106, 120), None)),
    ])
}

fn edges(graph: &ExecutionGraph, kind: EdgeKind) -> Vec<(String, String)> {
    let name = |id: NodeId| graph.node(id).label.clone();
    let edges = graph.edges().iter().filter(|edge| edge.kind == kind);
    edges.map(|edge| (name(edge.from), name(edge.to))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(a, b)| ((*a).into(), (*b).into()))
        .collect()
}

/// By hand. The pieces are one after the other on their thread: 60 + 20 while the gemv takes 100, so they
/// could end 20 later; the late one is waited for by nobody, and could take until the end: step (10) and norm
/// (30) after the gemv (100) make 140, and it ends 60 + 20 + 14 after the gemv's begin.
#[test]
fn a_call_launches_its_pieces_and_waits_for_them() {
    let graph = ExecutionGraph::of(&step());
    assert_eq!(
        edges(&graph, EdgeKind::Launches),
        pairs(&[("Gemv", "piece"), ("Gemv", "piece"), ("Gemv", "late")])
    );
    assert_eq!(
        edges(&graph, EdgeKind::Depends),
        pairs(&[
            ("Gemv", "join of Gemv"),
            ("join of Gemv", "Norm"),
            ("piece", "piece"),
            ("piece", "late"),
            ("piece", "join of Gemv"),
            ("piece", "join of Gemv"),
        ])
    );
    let kinds: Vec<_> = graph.nodes().map(|(_, node)| node.kind.name()).collect();
    assert_eq!(
        kinds,
        [
            "scope", "kernel", "sync", "kernel", "kernel", "kernel", "kernel"
        ]
    );
    let schedule = graph.schedule().unwrap();
    assert_eq!(schedule.length_ns, 140);
    assert_eq!(schedule.slack_ns, [0, 0, 0, 0, 20, 20, 140 - 94]);
    // Before its first piece the other thread did nothing that is known of; between them, too.
    let gaps = graph.gaps(1);
    assert!(gaps.iter().all(|gap| gap.cause == Cause::Unrecorded));
    assert_eq!(gaps.len(), 2);
}

/// Thread 1 had nothing to do until the gemv, which began at 20, gave it a piece; that the gemv went on
/// until 60 does not matter. And thread 0 was idle after the gemv, not after what it did meanwhile.
#[test]
fn a_thread_waits_for_the_begin_of_what_launches_its_work() {
    use EventKind::{Brick, Span};
    let timeline = timeline(vec![
        event(Brick(&GEMV), 0, (20, 60), None),
        event(Span("other"), 0, (25, 30), Some(0)),
        event(Brick(&NORM), 0, (65, 70), None),
        event(Brick(&NORM), 1, (0, 10), None),
        launched(0, event(Span("piece"), 1, (25, 55), None)),
        launched(4, event(Span("a piece's"), 0, (26, 28), Some(1))),
    ]);
    let graph = ExecutionGraph::of(&timeline);
    let told = |cause| match cause {
        Cause::Waits(id) => format!("waits for {}", graph.node(id).label),
        Cause::Inside(id) => format!("in {}", graph.node(id).label),
        Cause::Unrecorded => "unrecorded".to_owned(),
    };
    let gaps: Vec<_> = graph
        .gaps(1)
        .into_iter()
        .map(|gap| (gap.lane, gap.start_ns, gap.end_ns, told(gap.cause)))
        .collect();
    assert_eq!(
        gaps,
        [
            (0, 60, 65, "unrecorded".to_owned()),
            (1, 10, 25, "waits for Gemv".to_owned()),
        ]
    );
}

#[test]
fn a_step_has_what_it_launched_in_it() {
    let mut timeline = step();
    // Another step before it, whose work does not belong here.
    timeline
        .events
        .push(event(EventKind::Span("piece"), 2, (0, 5), None));
    let graph = ExecutionGraph::inside(&timeline, 0);
    assert_eq!(graph.nodes().count(), 7);
    let gemv = ExecutionGraph::inside(&timeline, 1);
    let labels: Vec<_> = gemv.nodes().map(|(_, node)| node.label.as_str()).collect();
    assert_eq!(labels, ["Gemv", "join of Gemv", "piece", "piece", "late"]);
}

/// An arrow for each piece, from the gemv's begin; the format's rules hold.
#[test]
fn perfetto_gets_an_arrow_to_each_piece() {
    let Some(python) = oracles::plain_python() else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    step().write_chrome("step", &mut file.as_file()).unwrap();
    let read = oracles::answer(oracles::oracle(&python, "trace_events.py").arg(file.path()));
    assert_eq!(
        read["flows"],
        json!({"launch 3": 2, "launch 4": 2, "launch 5": 2})
    );
}

/// A rayon scope as it is recorded: whatever the threads did, the graph has no cycle, no chain in it
/// is longer than the step took, and networkx agrees.
#[cfg(feature = "visualization")]
#[test]
#[cfg_attr(miri, ignore = "rayon's deque does what Miri refuses")]
fn a_recorded_run_on_a_pool() {
    use brick_runtime::timeline::{Limits, Recording, handover, span_scope};
    use rayon::prelude::*;

    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let recording = Recording::start(Limits::default()).unwrap();
    pool.install(|| {
        for _ in 0..3 {
            let _step = span_scope("step");
            {
                let _gemv = span_scope("gemv");
                let work = handover();
                (0..24).into_par_iter().for_each(|_| {
                    let _piece = work.task("piece");
                    let begin = std::time::Instant::now();
                    while begin.elapsed().as_micros() < 200 {}
                });
            }
            let _norm = span_scope("norm");
        }
    });
    let timeline = recording.stop();
    let named = |name: &'static str| {
        let events = timeline.events.iter().enumerate();
        events.filter(move |(_, event)| event.kind == EventKind::Span(name))
    };
    let pieces = named("piece").count();
    assert_eq!(
        named("piece")
            .filter(|(_, e)| e.launched_by.is_some())
            .count(),
        pieces
    );
    let graph = ExecutionGraph::of(&timeline);
    let launched = edges(&graph, EdgeKind::Launches);
    assert_eq!(launched, pairs(&[("gemv", "piece")].repeat(pieces)));
    let waited = edges(&graph, EdgeKind::Depends);
    let waited = |from: &str, to: &str| waited.iter().filter(|(a, b)| a == from && b == to).count();
    assert_eq!(waited("piece", "join of gemv"), pieces);
    let syncs = waited("gemv", "join of gemv");
    assert_eq!(waited("join of gemv", "norm"), syncs);
    // With cores to spare; on one core the caller may have done all of it.
    assert!(
        syncs <= 3 && (syncs > 0) == (pieces > 0),
        "{syncs}, {pieces}"
    );
    for (step, event) in named("step") {
        let graph = ExecutionGraph::inside(&timeline, step);
        assert!(graph.schedule().unwrap().length_ns <= event.duration_ns());
    }
    let Some(python) = oracles::python() else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    graph.write_dot(&mut file.as_file()).unwrap();
    let mut command = oracles::oracle(&python, "graph.py");
    let read = oracles::answer(command.arg("dot").arg(file.path()));
    assert_eq!(read[0]["length"], graph.schedule().unwrap().length_ns);
}
