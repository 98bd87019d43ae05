//! From a timeline.

use std::collections::{BTreeMap, HashMap};

use super::{EdgeKind, ExecutionGraph, Node, NodeId, NodeKind};
use crate::timeline::{Event, EventKind, Timeline};

impl ExecutionGraph {
    /// Of everything in `timeline`. An event contains those whose parent it is; what follows on the
    /// same thread depends on what was before, and a poll on the call's poll before.
    #[must_use]
    pub fn of(timeline: &Timeline) -> ExecutionGraph {
        ExecutionGraph::of_events(timeline, |_| true)
    }

    /// Of the event at `root` and all that is in it: a single step of a long run.
    #[must_use]
    pub fn inside(timeline: &Timeline, root: usize) -> ExecutionGraph {
        let mut inside = vec![false; timeline.events.len()];
        for (index, event) in timeline.events.iter().enumerate() {
            inside[index] = index == root || event.parent.is_some_and(|parent| inside[parent]);
        }
        ExecutionGraph::of_events(timeline, |event| inside[event])
    }

    fn of_events(timeline: &Timeline, wanted: impl Fn(usize) -> bool) -> ExecutionGraph {
        let own = timeline.self_ns();
        let calls_others = calls_others(timeline);
        let mut graph = ExecutionGraph::new();
        let mut ids: Vec<Option<NodeId>> = vec![None; timeline.events.len()];
        // The last thing in each event, and on each thread outside of any.
        let mut last: HashMap<(usize, Option<usize>), usize> = HashMap::new();
        for (index, event) in timeline.events.iter().enumerate() {
            if !wanted(index) {
                continue;
            }
            let node = Node::new(kind(event, calls_others[index]), label(event), own[index]);
            let id = graph.add(node.at(event.start_ns, event.end_ns).on(event.thread));
            ids[index] = Some(id);
            let parent = event.parent.and_then(|parent| ids[parent]);
            // What outlives its parent is not part of it.
            if let Some(parent) = parent
                && graph.nodes[parent.0]
                    .span_ns
                    .is_some_and(|(_, end)| event.end_ns <= end)
            {
                graph.connect(parent, id, EdgeKind::Contains);
            }
            let before = last.insert((event.thread, event.parent), index);
            if let Some((before, then)) = before.and_then(|b| Some((ids[b]?, &timeline.events[b])))
                && then.end_ns <= event.start_ns
            {
                graph.connect(before, id, EdgeKind::Depends);
            }
        }
        graph.connect_polls(timeline, &ids);
        graph
    }

    fn connect_polls(&mut self, timeline: &Timeline, ids: &[Option<NodeId>]) {
        let mut calls: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, event) in timeline.events.iter().enumerate() {
            if let Some(call) = event.call {
                calls.entry(call).or_default().push(index);
            }
        }
        for polls in calls.values_mut() {
            polls.sort_by_key(|&poll| timeline.events[poll].start_ns);
            for two in polls.windows(2) {
                let elsewhere = timeline.events[two[0]].thread != timeline.events[two[1]].thread;
                if let (true, Some(from), Some(to)) = (elsewhere, ids[two[0]], ids[two[1]]) {
                    self.connect(from, to, EdgeKind::Depends);
                }
            }
        }
    }
}

/// Which events have a call or a poll in them.
fn calls_others(timeline: &Timeline) -> Vec<bool> {
    let mut calls = vec![false; timeline.events.len()];
    for (index, event) in timeline.events.iter().enumerate().rev() {
        let is_call = matches!(event.kind, EventKind::Brick(_) | EventKind::Poll(_));
        if let Some(parent) = event.parent {
            calls[parent] |= is_call || calls[index];
        }
    }
    calls
}

fn kind(event: &Event, calls_others: bool) -> NodeKind {
    match event.kind {
        EventKind::Brick(_) | EventKind::Poll(_) if calls_others => NodeKind::Brick,
        EventKind::Brick(_) | EventKind::Poll(_) => NodeKind::Kernel {
            flops: event.work.flops,
            bytes: event.work.bytes,
        },
        EventKind::Layer(layer) => NodeKind::Layer(layer),
        _ => NodeKind::Scope,
    }
}

fn label(event: &Event) -> String {
    match event.kind {
        EventKind::Layer(layer) => format!("layer {layer}"),
        EventKind::Token(position) => format!("token {position}"),
        kind => kind.to_string(),
    }
}
