//! From a timeline.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{EdgeKind, ExecutionGraph, Node, NodeId, NodeKind};
use crate::timeline::{Event, EventKind, Timeline};

impl ExecutionGraph {
    /// Of everything in `timeline`. An event contains those whose parent it is; what follows on the
    /// same thread depends on what was before, and a poll on the call's poll before. An event launches
    /// the work that it [handed over](crate::timeline::handover()). Work that ended before what launched it
    /// is taken to have been waited for: the two meet in a sync, on which what follows depends.
    #[must_use]
    pub fn of(timeline: &Timeline) -> ExecutionGraph {
        ExecutionGraph::of_events(timeline, |_| true)
    }

    /// Of the event at `root` and all that is in it, on whichever thread: a single step of a long run.
    #[must_use]
    pub fn inside(timeline: &Timeline, root: usize) -> ExecutionGraph {
        let mut inside = vec![false; timeline.events.len()];
        let mut grows = true;
        // Threads come in the order of their first event: work may be before what handed it over.
        while std::mem::take(&mut grows) {
            for (index, event) in timeline.events.iter().enumerate() {
                let within = |other: Option<usize>| other.is_some_and(|other| inside[other]);
                let found = index == root || within(event.parent) || within(event.launched_by);
                grows |= found && !inside[index];
                inside[index] |= found;
            }
        }
        ExecutionGraph::of_events(timeline, |event| inside[event])
    }

    fn of_events(timeline: &Timeline, wanted: impl Fn(usize) -> bool) -> ExecutionGraph {
        let own = timeline.self_ns();
        let calls_others = calls_others(timeline);
        let joined = joined(timeline, &wanted);
        let mut graph = ExecutionGraph::new();
        let mut ids: Vec<Option<NodeId>> = vec![None; timeline.events.len()];
        let mut syncs: HashMap<usize, NodeId> = HashMap::new();
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
            let parent = parent.filter(|parent| {
                let span = graph.nodes[parent.0].span_ns;
                span.is_some_and(|(_, end)| event.end_ns <= end)
            });
            if let Some(parent) = parent {
                graph.connect(parent, id, EdgeKind::Contains);
            }
            let before = last.insert((event.thread, event.parent), index);
            if let Some((before, then)) = before.and_then(|b| Some((ids[b]?, b)))
                && timeline.events[then].end_ns <= event.start_ns
            {
                let before = syncs.get(&then).copied().unwrap_or(before);
                graph.connect(before, id, EdgeKind::Depends);
            }
            if joined.contains(&index) {
                syncs.insert(index, graph.add_sync(event, id, parent));
            }
        }
        graph.connect_polls(timeline, &ids);
        graph.connect_launches(timeline, &ids, &syncs);
        graph
    }

    /// Where the call `id` of `event` and what it launched come together: at its end. What the call waited
    /// is in its own time, so the sync has none.
    fn add_sync(&mut self, event: &Event, id: NodeId, parent: Option<NodeId>) -> NodeId {
        let sync = Node::new(NodeKind::Sync, format!("join of {}", label(event)), 0);
        let sync = self.add(sync.at(event.end_ns, event.end_ns).on(event.thread));
        self.connect(id, sync, EdgeKind::Depends);
        if let Some(parent) = parent {
            self.connect(parent, sync, EdgeKind::Contains);
        }
        sync
    }

    fn connect_launches(
        &mut self,
        timeline: &Timeline,
        ids: &[Option<NodeId>],
        syncs: &HashMap<usize, NodeId>,
    ) {
        for (index, event) in timeline.events.iter().enumerate() {
            let Some(by) = event.launched_by else {
                continue;
            };
            let (Some(id), Some(launcher)) = (ids[index], ids[by]) else {
                continue;
            };
            // Counters of two cores may differ by a little: nothing is launched by what began later.
            if timeline.events[by].start_ns <= event.start_ns {
                self.connect(launcher, id, EdgeKind::Launches);
            }
            if let Some(&sync) = syncs.get(&by).filter(|_| is_joined(timeline, event)) {
                self.connect(id, sync, EdgeKind::Depends);
            }
        }
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

/// Whether what launched `event` was there when it ended.
fn is_joined(timeline: &Timeline, event: &Event) -> bool {
    let launcher = event.launched_by.map(|by| &timeline.events[by]);
    launcher.is_some_and(|by| event.start_ns >= by.start_ns && event.end_ns <= by.end_ns)
}

/// The events that launched something which ended before them.
fn joined(timeline: &Timeline, wanted: &impl Fn(usize) -> bool) -> HashSet<usize> {
    let events = timeline.events.iter().enumerate();
    let joined = events.filter(|&(index, event)| wanted(index) && is_joined(timeline, event));
    joined.filter_map(|(_, event)| event.launched_by).collect()
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
        // Work that was handed over: what it does is in what the call that launched it declares.
        EventKind::Span(_) if event.launched_by.is_some() && !calls_others => NodeKind::Kernel {
            flops: None,
            bytes: None,
        },
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
